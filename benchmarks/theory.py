"""The numbers and figures of docs/theory.md: the bias of Algorithm 1's gradient, its convergence, and its cost.

    python benchmarks/theory.py [--seeds 3] [--images docs/images]

Prints every number that docs/theory.md shows. Truth is the list of all valid trajectories.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import xmen as xm
from xmen.learners.features import DenseFeatures
from xmen.learners.notices import GuaranteeWarning
from xmen.learners.paper_bounds import bias_term, theorem_bound
from xmen.learners.proposal import Proposal, effective_sample_size, self_normalised_mean, split_mean
from xmen.learners.runs import Task
from xmen.learners.xmen import XMEN, _paper
from xmen.sampling import PawsPlan

INK, WARM, COOL = "#222222", "#c4501b", "#1b6ac4"


def slippery() -> tuple[Any, Any, np.ndarray, list[Any]]:
    """A 3x3 grid where one move in five slips, a cell to visit, three features."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6, slip=0.2)
    rule = xm.visit(grid.at((1, 1)))
    features = np.random.default_rng(0).normal(size=(grid.n_states, grid.n_actions, 3))
    demos = xm.distribution(grid, rule, features @ np.array([0.4, -0.3, 0.2]), seed=0).sample(80)
    return grid, rule, features, demos


def straight() -> tuple[Any, Any, np.ndarray, list[Any]]:
    """A deterministic 5x5 grid with a key to fetch and no long runs, two features."""
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "up-right"))
    rule = xm.visit(grid.at((1, 3), (3, 1))) & (xm.longest_repeat() <= 3)
    features = np.random.default_rng(1).normal(size=(grid.n_states, grid.n_actions, 2))
    demos = xm.distribution(grid, rule, features @ np.array([0.5, -0.4]), seed=0).sample(60)
    return grid, rule, features, demos


def run_of(grid: Any, rule: Any, features: np.ndarray, demos: list[Any], **settings: Any) -> Any:
    """The run behind XMEN(method="paper"), with its constants."""
    from xmen.learners.demonstrations import gather

    learner = XMEN(grid, rule, features, method="paper", **settings)
    return _paper(Task(gather(grid, rule, demos), DenseFeatures(features), learner))


def bias_of_the_gradient(images: Path) -> None:
    """Item 2: E[g] - grad L against M2, over exact draws from Q, so that nothing but the ratio is to blame."""
    grid, rule, features, _ = slippery()
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    proposal = Proposal(base, DenseFeatures(features))  # type: ignore[arg-type]
    rows, log_d = proposal.listed_features, proposal.log_dynamics(base.hashed.walks)  # type: ignore[attr-defined]
    assert rows is not None
    theta = np.array([0.4, -0.3, 0.2])
    q = np.exp(rows @ theta - logsumexp(rows @ theta))
    p = np.exp(rows @ theta + log_d - logsumexp(rows @ theta + log_d))
    truth, spread = p @ rows, np.sqrt(p @ (rows - p @ rows) ** 2)
    rng, repeats = np.random.default_rng(0), 20_000
    sizes, found = [8, 32, 128, 512], {"split": [], "self-normalised": []}
    print(f"slippery grid: {len(rows)} valid trajectories, log D spans {np.ptp(log_d):.1f} nats")
    for m2 in sizes:
        draws = rng.choice(len(rows), size=(repeats, 2 * m2), p=q)
        for name, estimate in (("split", split_mean), ("self-normalised", self_normalised_mean)):
            values = np.array([estimate(rows[i], log_d[i]) for i in draws])
            bias, error = (values.mean(axis=0) - truth) / spread, values.std(axis=0) / spread / np.sqrt(repeats)
            found[name].append((np.linalg.norm(bias), np.linalg.norm(error)))
            print(f"  M2 = {m2}: {name} |bias| {found[name][-1][0]:.4f} +- {found[name][-1][1]:.4f} deviations of f")
    ess = np.mean([effective_sample_size(log_d[rng.choice(len(rows), 16, p=q)]) for _ in range(2000)])
    print(f"  effective sample size of 16 draws: {ess:.2f}")
    fig, ax = plt.subplots(figsize=(5, 3.2))
    for (name, values), colour in zip(found.items(), (WARM, COOL), strict=True):
        mean, error = np.array(values).T
        ax.errorbar(sizes, mean, 2 * error, color=colour, marker="o", label=name)
    ax.plot(sizes, found["split"][1][0] * sizes[1] / np.array(sizes), color=INK, ls=":", label="1 / M2")
    ax.set(xscale="log", yscale="log", xlabel="M2", ylabel="|E[estimate] - E_P[f]|\n(standard deviations of f)")
    ax.legend(frameon=False)
    fig.savefig(images / "theory_bias.png", dpi=120, bbox_inches="tight")


def convergence(images: Path, n_seeds: int) -> None:
    """Items 3, 4 and 5: L(mean of K iterates) - L* under Theorem 3's bound plus the bias term."""
    task = straight()
    run = run_of(*task, max_iter=200, seed=0)
    rows, bounds = run.proposal.listed_features / run.bounds.span, run.bounds
    mean = run.demo_rows.mean(axis=0) / bounds.span

    def loss(theta: np.ndarray) -> float:
        return float(logsumexp(rows @ theta) - theta @ mean)

    best = minimize(loss, np.zeros(rows.shape[1]), tol=1e-12)
    print(f"5x5 grid: {len(rows)} valid trajectories; delta = {run.delta}, c = {run.factor:.4g}")
    print(
        f"  sigma1^2 = {bounds.sigma1_squared:.4f}, sigma2^2 = {bounds.sigma2_squared:.4f}, eta = {run.step_size:.4f}"
    )
    print(f"  |theta*|^2 = {best.x @ best.x:.2f} in units of the spans, L(0) - L* = {loss(0 * best.x) - best.fun:.4f}")
    curves, queries, radius, began = [], [], 0.0, time.process_time()
    for seed in range(n_seeds):
        one = run_of(*task, max_iter=200, seed=seed, burn_in=0.0)
        state, curve = one.start(), []
        for _ in range(one.max_iter):
            state, entry = one.step(state)
            curve.append(loss(state.average) - best.fun)
            radius = max(radius, float(np.linalg.norm(state.weights - best.x)))
            queries.append(entry["queries"])
        curves.append(curve)
    k = np.arange(1, 201)
    rate = np.array([theorem_bound(best.x @ best.x, run.step_size, run.factor, n, bounds, 16, 16) for n in k])
    p = np.exp(rows @ best.x - logsumexp(rows @ best.x))
    bias = bias_term(run.factor, p @ np.abs(rows), radius)
    measured = np.array(curves)
    print(f"  {n_seeds} seeds, {(time.process_time() - began) / n_seeds:.0f} s of processor time each")
    for n in (10, 50, 200):
        print(
            f"  K = {n}: measured mean {measured[:, n - 1].mean():.4f}, worst {measured[:, n - 1].max():.4f}; "
            f"Theorem 3 {rate[n - 1]:.3f}; with the bias term {rate[n - 1] + bias:.3f}"
        )
    floor = run.step_size * (bounds.sigma1_squared / 16 + bounds.sigma2_squared / 16) / run.factor
    print(f"  variance floor {floor:.4f}; bias term {bias:.3f} with iterates within {radius:.2f} of theta*")
    print(f"  always under Theorem 3: {bool(np.all(measured.mean(axis=0) <= rate))}")
    print(
        f"  oracle queries per iteration: {np.mean(queries):.0f} (first {queries[0]:.0f}, largest {max(queries):.0f})"
    )
    fig, ax = plt.subplots(figsize=(5, 3.2))
    ax.plot(k, measured.T, color=COOL, lw=0.8, alpha=0.6)
    ax.plot(k, measured.mean(axis=0), color=COOL, lw=2, label="measured, mean over seeds")
    ax.plot(k, rate, color=INK, label="Theorem 3")
    ax.plot(k, rate + bias, color=WARM, ls="--", label="Theorem 3 + bias term")
    ax.set(xscale="log", yscale="log", xlabel="iterations K", ylabel="L(mean iterate) - L*  (nats)")
    ax.legend(frameon=False)
    fig.savefig(images / "theory_convergence.png", dpi=120, bbox_inches="tight")


def constants(images: Path) -> None:
    """Items 3 and 6: the largest step against delta, and what PAWS settings guarantee."""
    delta = np.linspace(1.0, 2**0.5, 200)
    fig, ax = plt.subplots(figsize=(5, 3.2))
    for power, colour, name in ((1, COOL, "no weights, c = delta"), (2, WARM, "weights, c = delta^2")):
        c = delta**power
        ax.plot(delta, np.maximum(0, 2 - c**2) / c, color=colour, label=name)
    ax.set(xlabel="delta", ylabel="largest step times sigma2^2")
    ax.legend(frameon=False)
    fig.savefig(images / "theory_step.png", dpi=120, bbox_inches="tight")
    for d in (1.05, 1.1, 1.18, 2**0.25):
        weighted, plain = max(0, 2 - d**4) / d**2, (2 - d**2) / d
        print(f"  delta = {d:.4f}: step * sigma2^2 <= {weighted:.3f} with weights, {plain:.3f} without")
    shared = dict(failure=0.01, log_span=5.0, n_hash=40)
    for b, pivot, extra in ((1, 4096, 4), (4, 32, 2), (4, 8, 1)):
        try:
            plan = PawsPlan.paper(pivot=pivot, extra=extra, bits_per_level=b, **shared)  # type: ignore[arg-type]
            print(f"  PAWS b = {b}, P = {pivot}, alpha = {extra}: delta = {plan.delta:.4f}")
        except xm.EngineError as error:
            print(f"  PAWS b = {b}, P = {pivot}, alpha = {extra}: refused: {str(error)[:75]}...")


def cost() -> None:
    """Theorem 5 counts n' levels of 24 ln(n'/failure) cells per search; here is what searches need."""
    for size in (3, 4, 5, 6):
        grid = xm.GridWorld(size, size, start=(0, 0), goal=(size - 1, size - 1), moves=("up", "right", "up-right"))
        features = np.random.default_rng(1).normal(size=(grid.n_states, grid.n_actions, 2)) * 0.3
        base = xm.distribution(grid, None, None, engine="xor", oracle="listed")
        proposal = Proposal(base, DenseFeatures(features))  # type: ignore[arg-type]
        theta = np.array([0.5, -0.4])
        pool = proposal.draw(theta, 0 * theta, 0.0, 16, 1.18, 1e-3, np.random.default_rng(0))
        warm = proposal.draw(theta, 0 * theta, 0.0, 16, 1.18, 1e-3, np.random.default_rng(1), pool.log2_mass)
        n = base.hashed.decoder.width  # type: ignore[attr-defined]
        low, high = proposal.range_of(features @ theta, 0.0)
        plan = PawsPlan.solve(1.18, 1e-3, log_span=high - low, n_hash=n, faithful=True)
        n_values = n + plan.bits_per_level * plan.n_levels + 1
        print(
            f"  {size}x{size}: {n} hash bits, k = {pool.k}; search {pool.search.n_cells} cells cold, "
            f"{warm.search.n_cells} warm, {n_values * plan.n_repeats} in Theorem 5's count; queries "
            f"{pool.search.n_queries} cold, {warm.search.n_queries} warm, {warm.draws.n_queries} for 16 draws"
        )


def proposals() -> None:
    """The effective sample size of 16 draws in the second half of 60 iterations, by proposal."""
    for proposal in ("fixed", "adaptive", "dynamics"):
        model = XMEN(*slippery()[:3], method="paper", seed=0, max_iter=60, proposal=proposal, self_normalised=True)
        model.fit(slippery()[3])
        sizes = [record.details["effective_sample_size"] for record in model.history_[30:]]
        print(f"  {proposal}: effective sample size {np.mean(sizes):.2f} of 16 (least {min(sizes):.2f})")


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    given.images.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error", GuaranteeWarning)
    print("1. bias of the gradient")
    bias_of_the_gradient(given.images)
    print("2. constants")
    constants(given.images)
    print("3. proposals")
    proposals()
    print("4. cost")
    cost()
    print("5. convergence")
    convergence(given.images, given.seeds)


if __name__ == "__main__":
    main()
