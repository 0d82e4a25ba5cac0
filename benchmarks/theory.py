"""The numbers and figures of docs/theory.md: where the theorems' text holds, where it does not, and what does.

    python benchmarks/theory.py [--seeds 5] [--iterations 100] [--images docs/images]

Prints every number that docs/theory.md shows, in a few minutes. Truth is the list of all valid trajectories; runs of
Algorithm 1, their bounds and their figures are those of `xmen reproduce convergence`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import theory_numbers
from theory_factor import factors
from theory_plots import BLACK, BLUE, GREEN, ORANGE, RED, panels, save

import xmen as xm
from xmen.errors import GuaranteeWarning, UnboundedWarning
from xmen.experiments import convergence
from xmen.experiments.convergence import COMMON, SETTINGS, WEIGHTED, compare, slippery, straight
from xmen.experiments.notebook import Table
from xmen.methods.paper import DEFAULT_DELTA, effective_sample_size, self_normalised_shares, split_shares
from xmen.sampling import PawsPlan
from xmen.sampling.embedding import log_ratio
from xmen.sampling.paws import uniformity


def signs(images: Path) -> None:
    """Item 1: Algorithm 1 as printed, Q = exp(-theta . f) and g = E_D[f] - E_P[f], with theta read in three ways."""
    truth, eta, n_iter = straight(), 1.0, 60
    cost, mixed = np.zeros(2), np.zeros(2)
    as_cost, as_reward, mixture = [-truth.loss(cost)], [-truth.loss(cost)], [-truth.loss(cost)]
    for _ in range(n_iter):
        cost = cost - eta * (truth.demo_mean - truth.probabilities(-cost) @ truth.rows)
        mixed = mixed - eta * (truth.demo_mean - truth.probabilities(mixed) @ truth.rows)
        as_cost.append(-truth.loss(-cost))
        as_reward.append(-truth.loss(cost))
        mixture.append(-truth.loss(mixed))
    best = -truth.loss(truth.best)
    print(f"  mean log-likelihood after {n_iter} exact steps: theta a cost {as_cost[-1]:.4f} (best {best:.4f}),")
    print(f"  the same theta as a reward {as_reward[-1]:.4f}, exp(+R) inside the printed step {mixture[-1]:.2f};")
    print(f"  theta = 0: {as_cost[0]:.4f}")
    figure, (ax,) = panels(1, 5.4, 3.0)
    ax.plot(as_cost, color=GREEN, lw=2, label=r"cost: $P\propto e^{-\theta\cdot f}$ (ours, with $-\theta$)")
    ax.plot(
        as_reward, color=ORANGE, lw=1.6, ls="--", label=r"the same $\theta$ as a reward: $P\propto e^{+\theta\cdot f}$"
    )
    ax.plot(mixture, color=RED, lw=1.6, ls="-.", label=r"$e^{+\theta\cdot f}$ inside the printed step")
    ax.axhline(best, color=BLACK, lw=0.8, ls=":", label="best possible")
    ax.set(
        xlabel="iterations", ylabel="log-likelihood of a demonstration\n(nats, mean)", ylim=(-14, -3), xlim=(0, n_iter)
    )
    ax.legend(frameon=False, loc="lower right")
    save(figure, images / "theory_signs.png")


def bias_of_the_gradient(images: Path, repeats: int = 20_000) -> None:
    """Item 2: E[g] - grad L against M2, over exact draws from Q, so that nothing but the ratio is to blame."""
    truth = slippery()
    theta, rng = 0.5 * truth.best, np.random.default_rng(0)
    rows, centred, log_d = truth.rows, truth.rows - truth.demo_mean, truth.log_dynamics
    p, q = truth.probabilities(theta), np.exp(rows @ theta)
    q /= q.sum()
    spread = np.sqrt(p @ (rows - p @ rows) ** 2)
    estimators = {
        "split sample, as in the paper": (split_shares, rows, RED, "o"),
        "split sample, f from the demonstrations' mean": (split_shares, centred, ORANGE, "v"),
        "self-normalised": (self_normalised_shares, rows, BLUE, "s"),
    }
    sizes, found = [8, 32, 128, 512], {name: [] for name in estimators}
    print(f"  slippery grid at theta* / 2: {len(rows)} valid trajectories, log D spans {np.ptp(log_d):.1f} nats")
    for m2 in sizes:
        draws = rng.choice(len(rows), size=(repeats, 2 * m2), p=q)
        for name, (shares, f, _, _) in estimators.items():
            values = np.array([shares(log_d[i]) @ f[i] for i in draws]) / spread
            bias, error = values.mean(axis=0) - p @ f / spread, values.std(axis=0) / np.sqrt(repeats)
            found[name].append((np.linalg.norm(bias), np.linalg.norm(error)))
            print(f"  M2 = {m2}: {name}: bias {found[name][-1][0]:.4f} +- {found[name][-1][1]:.4f} deviations of f")
    ess = np.mean([effective_sample_size(log_d[rng.choice(len(rows), 16, p=q)]) for _ in range(2000)])
    print(f"  16 draws are worth {ess:.2f} independent ones")
    figure, (ax,) = panels(1, 5.4, 3.2)
    for name, (_, _, colour, marker) in estimators.items():
        mean, error = np.array(found[name]).T
        ax.errorbar(sizes, mean, 2 * error, color=colour, marker=marker, ms=5, label=name)
    first = found["split sample, as in the paper"][1][0] * sizes[1]
    ax.plot(sizes, first / np.array(sizes), color=BLACK, ls=":", label=r"proportional to $1/M_2$")
    ax.set(xscale="log", yscale="log", xlabel=r"$M_2$ (draws in each mean)", ylim=(3e-4, 300))
    ax.set_ylabel("size of the bias of $E_P[f]$\n(standard deviations of f)")
    ax.set_xticks(sizes, [str(m2) for m2 in sizes])
    ax.minorticks_off()
    ax.legend(frameon=False)
    save(figure, images / "theory_bias.png")


def largest_step(factor: float) -> float:
    """(2 - c^2) / c, what Theorem 4 allows in units of 1 / smoothness."""
    return max(0.0, 2.0 - factor**2) / factor


def constants(images: Path) -> None:
    """Item 3: the largest step against delta."""
    delta = np.linspace(1.0, 2**0.5, 200)
    figure, (ax,) = panels(1, 5.0, 3.0)
    for power, colour, line, name in (
        (1, BLUE, "-", r"no weights, $c=\delta$"),
        (2, RED, "--", r"weights, $c=\delta^2$"),
    ):
        ax.plot(delta, [largest_step(d**power) for d in delta], color=colour, ls=line, lw=1.8, label=name)
    ax.axhline(1.0, color=GREEN, lw=1.8, ls="-.", label="our theorem")
    ax.set(xlabel=r"$\delta$", ylabel=r"largest step $\eta$, times $\sigma_2^2$", xlim=(1, 2**0.5), ylim=(0, 1.08))
    ax.legend(frameon=False)
    save(figure, images / "theory_step.png")
    for d in (DEFAULT_DELTA, 1.05, 1.1, 1.18, 2**0.25, 1.35):
        print(
            f"  delta = {d:.4f}: step * sigma2^2 <= {largest_step(d**2):.3f} with weights, "
            f"{largest_step(d):.3f} without"
        )


def paws(images: Path) -> None:
    """Item 6: what PAWS guarantees by b, P and alpha."""
    pivots = np.unique(np.geomspace(2, 4096, 200).astype(int))
    figure, (left, right) = panels(2, 4.0, 3.0)
    for extra, colour, line in ((1, RED, "--"), (2, BLUE, "-"), (3, GREEN, "-.")):
        c = np.array([uniformity(int(pivot), extra, True) for pivot in pivots])
        first = int(pivots[np.argmax(c > 0)])
        print(f"  alpha = {extra}: void below P = {first} (1 / c = {1 / uniformity(first, extra, True):.2f} there)")
        inverse = np.divide(1.0, c, out=np.full(len(c), np.nan), where=c > 0)
        left.plot(pivots, inverse, color=colour, ls=line, lw=1.6, label=rf"$\alpha={extra}$, void below P = {first}")
    left.plot([8], [4.6], "x", color=RED, ms=8, mew=2)
    left.annotate("P = 8,\n" r"$\alpha=1$:" "\nvoid", (8, 4.6), xytext=(8.6, 3.85), color=RED, fontsize=8)
    left.set(xscale="log", ylim=(1, 5), xlabel="P", ylabel=r"$1/c$: how far from uniform", title="hashing alone")
    for bits, colour, line in ((1, RED, "--"), (2, ORANGE, "-"), (4, BLUE, "-"), (6, GREEN, "-.")):
        delta = [np.exp(log_ratio(bits)) / max(uniformity(int(pivot), 2, True), 1e-9) for pivot in pivots]
        right.plot(
            pivots, delta, color=colour, ls=line, lw=1.6, label=f"b = {bits}, at best {np.exp(log_ratio(bits)):.3f}"
        )
    right.axhline(2**0.5, color=BLACK, lw=0.8, ls=":", label=r"Theorem 4 needs $c<\sqrt{2}$")
    right.set(xscale="log", ylim=(1, 5), xlabel="P", ylabel=r"guaranteed $\delta$", title=r"with weights, $\alpha=2$")
    for ax in (left, right):
        ax.legend(frameon=False)
    save(figure, images / "theory_paws.png")
    for bits, pivot, extra in ((1, 4096, 4), (4, 32, 2), (4, 8, 1)):
        try:
            plan = PawsPlan(bits, pivot, extra, log_span=5.0, failure=0.01, n_hash=40, faithful=True)
            print(f"  b = {bits}, P = {pivot}, alpha = {extra}: delta = {plan.delta:.4f}")
        except xm.EngineError as error:
            print(f"  b = {bits}, P = {pivot}, alpha = {extra}: refused: {str(error)[:75]}...")
    xor_cd()


def xor_cd() -> None:
    """How far XOR-CD's parameters are off, exactly: their copies on the 5x5 grid, and their hashing of 5 bits."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from sampling.exact_hash import output, worst_factor
    from sampling.supports import SUPPORTS, paws_draws, uniform

    truth, plan = straight(), PawsPlan.xor_cd(0.01, 40)
    for scale in (1.0, 4.0):
        scores = scale * truth.rows @ truth.best
        p = np.exp(scores - np.logaddexp.reduce(scores))
        log_copies = plan.levels(float(scores.max())).log_copies(plan.levels(float(scores.max())).depth(scores))
        ratio = np.exp(log_copies - np.logaddexp.reduce(log_copies)) / p
        worst = max(ratio.max(), 1.0 / ratio.min())
        off = np.abs((ratio * p - p) @ truth.rows)
        print(
            f"  XOR-CD's copies at {scale:g} theta*: weights span {np.ptp(scores):.1f} nats, off by {worst:.3f}; "
            f"E[f] by {off}"
        )
    for name, bits in SUPPORTS.items():
        for k in (0, 1, 2):
            found = output(paws_draws(bits, plan.pivot), k + plan.extra, bits.shape[1])
            print(
                f"  P = 8, alpha = 1 on {name} ({len(bits)}), k = {k}: off by {worst_factor(found, uniform(bits)):.3f}"
            )


def letter(n_iter: int = 100, n_seeds: int = 40) -> None:
    """Algorithm 1 to the letter on the slippery grid with *exact* draws from Q: Theorem 3's own step, bound and means.

    Beside it f is counted from the demonstrations' mean, and then estimates are moved to the range of f, too.
    """
    problem, rng = slippery(), np.random.default_rng(0)
    rows, d, low, high = problem.rows, np.exp(problem.log_dynamics), problem.rows.min(axis=0), problem.rows.max(axis=0)
    for n in (8, 32, 64):
        setting = convergence.Setting(1.1, 16, n, letter=True)
        step, promised = convergence.constants(problem, 1.1)[2], convergence.theorem3(problem, setting, n_iter)[-1]
        for name, centred, clipped in (("letter", 0, 0), ("centred", 1, 0), ("clipped", 0, 1), ("both", 1, 1)):
            gaps, away = [], centred * problem.demo_mean
            for _ in range(n_seeds):
                theta, total = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
                for _ in range(n_iter):
                    q = np.exp(rows @ theta - (rows @ theta).max())
                    drawn = rng.choice(len(rows), size=n, p=q / q.sum())
                    first, second = drawn[: n // 2], drawn[n // 2 :]
                    mean = away + d[first] @ (rows[first] - away) / d[second].sum()
                    mean = np.clip(mean, low, high) if clipped else mean
                    chosen = problem.demo_rows[rng.integers(len(problem.demo_rows), size=16)].mean(axis=0)
                    theta = theta - step * (mean - chosen)
                    total = total + theta
                gaps.append(problem.gap(total / n_iter))
            above = int(np.sum(np.array(gaps) > promised))
            print(
                f"  2 M2 = {n}, {name}: mean gap {np.mean(gaps):.4f}, least {min(gaps):.4f}, worst {max(gaps):.3f}; "
                f"Theorem 3 promises {promised:.4f}: {above} of {n_seeds} seeds are above",
                flush=True,
            )


def converging(images: Path, n_iter: int, n_seeds: int) -> None:
    """Item 5: the runs of `xmen reproduce convergence`."""
    rows, common, below = SETTINGS, COMMON, WEIGHTED
    problem = straight()
    sigma1_squared, sigma2_squared, step_size = convergence.constants(problem, common.delta)
    plain = compare(problem, [one for row in rows for one in row], n_iter, n_seeds, 0)
    save(convergence.draw_gaps(plain, rows), images / "theory_convergence.png")
    best = problem.best
    print(f"  5x5 grid: {len(problem.rows)} valid trajectories; {n_seeds} seeds; at {common}:")
    print(f"  sigma1^2 = {sigma1_squared:.3f}, sigma2^2 = {sigma2_squared:.3f}, eta = {step_size:.3f}")
    print(f"  |theta*|^2 = {best @ best:.2f}, L(0) - L* = {problem.gap(0 * best):.3f}")
    curve = plain[common]
    for k in (10, 50, n_iter):
        print(
            f"  K = {k}: gap {curve.mean[k - 1]:.4f}, worst {curve.gaps[:, k - 1].max():.4f}; Theorem 3 "
            f"{curve.theorem3[k - 1]:.3f}, ours {curve.ours[k - 1]:.3f}",
            flush=True,
        )
    weighted = compare(slippery(), [one for row in below for one in row], n_iter, n_seeds, 0)
    curves = [*plain.values(), *weighted.values()]
    print("  gaps at the end: " + ", ".join(f"{one.name} {one.mean[-1]:.4f}" for one in curves))
    for columns, table in reversed(convergence.tables(curves)):
        print("  | " + " | ".join(columns) + " |")
        for line in Table("", columns, table).cells():
            print("  | " + " | ".join(line) + " |")
    save(convergence.draw_gaps(weighted, below), images / "theory_weighted.png")
    save(convergence.draw_work(curves), images / "theory_queries.png")


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    parser.add_argument("--only", default="", help="the parts whose names contain this")
    given = parser.parse_args()
    given.images.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error", GuaranteeWarning)
    warnings.simplefilter("ignore", UnboundedWarning)  # item 9 is about such a fit
    began = time.perf_counter()
    parts = {
        "constants": theory_numbers.constants,
        "defaults": theory_numbers.defaults,
        "1. signs": lambda: signs(given.images),
        "2. bias of the gradient": lambda: bias_of_the_gradient(given.images),
        "3. the largest step": lambda: constants(given.images),
        "4. factors": lambda: factors(given.images),
        "6. PAWS": lambda: paws(given.images),
        "7, 8. counting": theory_numbers.counting,
        "9. maps": theory_numbers.maps,
        "10, 11. splits": theory_numbers.splits,
        "12. luck": theory_numbers.luck,
        "cost of a search": theory_numbers.cost,
        "5. the letter": letter,
        "5. convergence": lambda: converging(given.images, given.iterations, given.seeds),
        "proposals": lambda: theory_numbers.proposals(given.seeds),
    }
    for name, part in parts.items():
        if given.only in name:
            print(name, flush=True)
            part()
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
