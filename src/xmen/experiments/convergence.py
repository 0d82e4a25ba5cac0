"""Does Algorithm 1 converge as its theorems say, and at what cost? Truth is the list of all valid trajectories.

The loss is set against Theorem 3's bound as printed and against one that holds (`bound`), the oracle's work against
Theorem 5's count of cells: questions whether there are P solutions under these parities. Features are in units in which
each spans 1 over the valid trajectories, and steps are the largest that Theorem 3 allows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

import xmen as xm
from xmen.experiments.methods import LOOKS, noticed
from xmen.experiments.notebook import Done, Floats, Notebook
from xmen.sampling import PawsPlan

FAILURE = 0.05  # of all iterations together
MOST = 10_000  # trajectories of a problem
SPAN_STEP = 0.25  # nats; spans are rounded up to multiples of it, as the paper's method does
LOWEST_GAP = 1e-4  # nats; below it a curve leaves the figure
MEASURED, BOUND = LOOKS["paper"].colour, LOOKS["demonstrations"].colour
COUNTED = ("search_cells", "drawn", "failed", "cells", "theorem5", "points", "queries")
"""Per iteration: cells of the search, cells that gave a draw (2 M2), cells that gave none, all cells, Theorem 5's count
of them, solutions read from all cells, and calls of a solver that finds one solution at a time."""
WORK = {  # of these in the figure, in Tol's muted colours: none of them is the colour of a method
    "theorem5": ("Theorem 5's count", "#000000", "|"),
    "points": ("solutions read", "#882255", "P"),
    "search_cells": ("cells of the search", "#332288", "s"),
    "failed": ("cells without a draw", "#999933", "v"),
    "drawn": ("cells that gave a draw", "#44AA99", "^"),
}
FONT: Any = {"font.size": 9.0, "axes.titlesize": 9.0, "legend.fontsize": 8.0}
FONT |= {"axes.spines.top": False, "axes.spines.right": False}
NAMES_NOTE = """Common: the 5x5 grid with delta 1.18, M1 16 and 2 M2 8, from which other rows differ as they say. Slip:
the slippery grid with delta 1.1, M1 16 and so many draws 2 M2; sn: self-normalised; letter: Algorithm 1 as printed."""
WORK_NOTE = f"""A cell is one question to the oracle, as Theorem 5 (Th. 5) counts them: are there P solutions under
these parities? Read: solutions read from all cells. Calls: of a solver that finds one solution at a time.
{NAMES_NOTE}"""
SUMMARY_NOTE = f"""Mean and worst gap over seeds, Theorem 3's bound as printed (Th. 3) and ours, in nats; under: whether
the mean gap is under it after every iteration. Solver calls, Theorem 5's cells (Th. 5) and solutions read, per
iteration. {NAMES_NOTE}"""


class Setting(NamedTuple):
    """What Theorem 3 speaks of: delta, M1 demonstrations and 2 M2 draws per iteration; and how weights are used."""

    delta: float
    m1: int
    n_draws: int
    self_normalised: bool = False  # where there are weights: one ratio over all draws, not the paper's two halves
    letter: bool = False  # Algorithm 1 as printed: f counted from 0, and no estimate moved to the range of f

    def __str__(self) -> str:
        kind = ", self-normalised" * self.self_normalised + ", to the letter" * self.letter
        return f"delta {self.delta:g}, M1 {self.m1}, 2 M2 {self.n_draws}{kind}"


COMMON = Setting(delta=1.18, m1=16, n_draws=8)
OTHERS: Any = [{"m1": 1}, {"m1": 4}, {"n_draws": 2}, {"n_draws": 32}]
SETTINGS = [[COMMON._replace(delta=delta) for delta in (1.05, 1.18, 1.35)], [COMMON._replace(**one) for one in OTHERS]]
WEIGHTED = [[Setting(1.1, 16, n, *kind) for n in (8, 32, 64)] for kind in ((False, True), (False,), (True,))]
"""For a world with chance: Algorithm 1 to the letter; with f counted from the demonstrations; with one ratio, too."""


def run(book: Notebook) -> None:
    """`xmen reproduce convergence`: both worlds, the curves against the bounds, and the oracle's work."""
    book.title("Convergence of Algorithm 1, and what it asks of the oracle")
    n_iter, n_seeds = book.pick(16, 120), book.pick(3, 6)
    book.set(iterations=n_iter, seeds=n_seeds, burn_in=0.0, failure=0.05, oracle="listed")
    book.say(f"""L(mean of the first k iterates) - L*, in nats, for {n_seeds} runs of {n_iter} iterations with the
        largest step eta that Theorem 3 allows, features in units of their span. Theorem 3 is drawn as printed; ours is
        |theta*|^2 / (2 eta K) + eta V (1 + eta Lambda) / 2 + B R: given the past, a gradient's bias is at most B and
        the mean square of its noise V, and R bounds E|theta_k - theta*|. This experiment is ours.""")

    with book.stage("the deterministic 5x5 grid") as done:
        problem = straight(book.seed)
        curves = compare(problem, chain(*SETTINGS), n_iter, n_seeds, book.seed, done)
    book.say(f"""The 5x5 grid has {len(problem.rows)} valid trajectories, L(0) - L* = {problem.gap(np.zeros(2)):.3f}
        nats and |theta*|^2 = {problem.best @ problem.best:.2f}. Its dynamics are deterministic: no importance weights,
        and all 2 M2 draws enter one mean.""")
    caption = f"""Loss above the optimum on the 5x5 grid: mean over {n_seeds} seeds, from the best to the worst seed
        shaded, with Theorem 3's bound and ours. Above delta varies, below M1 and 2 M2."""
    book.figure(draw_gaps(curves, SETTINGS), "convergence_curves", caption)

    with book.stage("the slippery 3x3 grid") as done:
        problem, rows = slippery(book.seed), [row[: book.pick(2, 3)] for row in WEIGHTED]
        weighted = compare(problem, chain(*rows), n_iter, n_seeds, book.seed, done)
    book.say(f"""The 3x3 grid where one move in five slips has {len(problem.rows)} valid trajectories. Draws from Q need
        importance weights here, and E_P[f] is a ratio of two means, whose bias and noise no delta bounds: ours has
        those of exact draws, and is not drawn for one self-normalised mean, where they are not known.""")
    caption = """The same on the slippery 3x3 grid: above Algorithm 1 to the letter, in the middle with f counted from
        the demonstrations, and estimates moved to the range of f, below with one self-normalised mean of all draws."""
    book.figure(draw_gaps(weighted, rows), "convergence_weighted", caption)

    both = [*curves.values(), *weighted.values()]
    caption = """What one iteration asks of the oracle, mean over all iterations and seeds. Theorem 5 counts n' levels
        of 24 ln(n' / failure) cells for the search and one for each draw; n' is the number of hash bits plus 1."""
    book.figure(draw_work(both), "convergence_queries", caption)
    work, summary = tables(both)
    book.table("The oracle's work per iteration", *work, note=WORK_NOTE)
    book.table(f"Gap to L* after {n_iter} iterations, {n_seeds} seeds", *summary, note=SUMMARY_NOTE)


class ListedProblem:
    """A small problem with the truth: all N valid trajectories are listed, and f is in units of its spans over them.

    Demonstrators have these `weights`, in the user's units. `rows` (N, d) and `demo_rows` (n, d) are f of all
    trajectories and of the demonstrations, `log_dynamics` (N,) is log D. With `weighted`, where D differs, draws carry
    importance weights. Parities range over `hash_bits`. The loss L(theta) = log Z - theta . mean f of the
    demonstrations, and its gap L(theta) - L*, are in nats; theta* is `best`.
    """

    def __init__(
        self, name: str, world: xm.GridWorld, rule: Any, features: Floats, weights: Any, seed: int, n_demos: int = 100
    ) -> None:
        self.name, self.world, self.rule, self.features = name, world, rule, features
        free: Any = xm.distribution(world, rule, None, engine="exact")
        self.trajectories = free.best(MOST)
        self.demos = xm.distribution(world, rule, features @ np.array(weights), seed=seed).sample(n_demos)
        self.log_dynamics = np.array([free.log_prob(tau) for tau in self.trajectories]) + free.log_partition()
        self.weighted = bool(np.ptp(self.log_dynamics) > 1e-9)
        both = (self.trajectories, self.demos)
        steps = ([(list(tau.states[:-1]), list(tau.actions)) for tau in some] for some in both)
        rows, demo_rows = (np.array([features[taken].sum(axis=0) for taken in some]) for some in steps)
        self.span = np.ptp(rows, axis=0)
        self.rows, self.demo_rows = rows / self.span, demo_rows / self.span
        self.demo_mean = self.demo_rows.mean(axis=0)
        hashed = xm.distribution(world, rule, None, engine="xor", oracle="listed")
        self.hash_bits = int(hashed.sizes()["hash variables"])
        slope = lambda theta: self.probabilities(theta) @ self.rows - self.demo_mean  # noqa: E731
        self.best = minimize(self.loss, np.zeros(len(self.span)), jac=slope, tol=1e-12).x

    def loss(self, theta: Floats) -> float:
        return float(logsumexp(self.rows @ theta + self.log_dynamics) - theta @ self.demo_mean)

    def probabilities(self, theta: Floats) -> Any:
        return softmax(self.rows @ theta + self.log_dynamics)

    def gap(self, theta: Floats) -> float:
        return self.loss(theta) - self.loss(self.best)


def straight(seed: int = 0) -> ListedProblem:
    """A deterministic 5x5 grid: exactly one of two keys, at most three equal moves in a row."""
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "up-right"))
    upper, lower = (1, 3), (3, 1)
    keys = xm.exactly(1, xm.visit(grid.at(upper)), xm.visit(grid.at(lower)))
    features = np.zeros((grid.n_states, grid.n_actions, 2))
    features[grid.state(upper), :, 0] = 1.0  # whether the upper key is taken
    features[:, grid.moves.index("up-right"), 1] = 1.0  # the number of diagonal moves
    rule = keys & (xm.longest_repeat() <= 3)
    return ListedProblem("5x5 grid", grid, rule, features, (2.0, -0.5), seed)


def slippery(seed: int = 0) -> ListedProblem:
    """A 3x3 grid where one move in five slips and the middle has to be passed, on the shortest way."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=4, slip=0.2)
    features = np.zeros((grid.n_states, grid.n_actions, 2))
    features[:, grid.moves.index("up"), 0] = 1.0  # the number of moves up
    features[grid.state((0, 1)), :, 1] = 1.0  # whether this cell is passed
    rule = xm.visit(grid.at((1, 1)))
    return ListedProblem("slippery 3x3 grid", grid, rule, features, (0.5, 1.0), seed)


def constants(problem: ListedProblem, delta: float) -> tuple[float, float, float]:
    """Of Theorem 3: sigma1^2 and sigma2^2, the variances of f over demonstrations and, for any theta, under P; and the
    largest step, (2 - delta^2) / (sigma2^2 delta)."""
    rows = problem.rows
    middle = (rows.min(axis=0) + rows.max(axis=0)) / 2.0
    sigma2_squared = float(((rows - middle) ** 2).sum(axis=1).max())
    return float(problem.demo_rows.var(axis=0).sum()), sigma2_squared, (2.0 - delta**2) / (delta * sigma2_squared)


def theorem3(problem: ListedProblem, setting: Setting, n_iter: int) -> Any:
    """As printed, after k = 1 .. K: delta^2 |theta*|^2 / (2 eta k) + eta (sigma1^2 / M1 + sigma2^2 / M2) / delta^2."""
    sigma1_squared, sigma2_squared, step = constants(problem, setting.delta)
    floor = step * (sigma1_squared / setting.m1 + sigma2_squared / (setting.n_draws // 2)) / setting.delta**2
    return setting.delta**2 * (problem.best @ problem.best) / (2.0 * step * np.arange(1, n_iter + 1)) + floor


def bound(start: float, step: float, k: Any, noise: float, bias: float, reach: float, smoothness: float) -> Any:
    """The theorem of docs/theory.md after k iterations from |theta_0 - theta*|^2 = start: noise V, bias B, reach R."""
    return start / (2.0 * step * k) + step * noise * (1.0 + step * smoothness) / 2.0 + bias * reach


def noise_and_bias(problem: ListedProblem, setting: Setting, theta: Floats) -> tuple[float, float]:
    """V and B at theta. Within delta of P where draws need no weights; else of exact draws, and nan for one ratio.

    A split sample has the mean of D (f - m) over M draws over the mean of D over M others, m being 0 or the
    demonstrations' mean. With S the sum of the latter, E[1 / S] and E[1 / S^2] are the integrals over t > 0 of E[e^-tS]
    and of t E[e^-tS].
    """
    sigma1_squared, sigma2_squared, _ = constants(problem, setting.delta)
    away = problem.rows - (0.0 if setting.letter else problem.demo_mean)
    n = setting.n_draws // (2 if setting.letter or problem.weighted else 1)
    p, sampled = problem.probabilities(theta), sigma1_squared / setting.m1
    if not problem.weighted:
        return sampled + sigma2_squared / n, (setting.delta - 1.0) * float(np.linalg.norm(p @ np.abs(away)))
    if setting.self_normalised:
        return math.nan, math.nan
    q, d = softmax(problem.rows @ theta), np.exp(problem.log_dynamics - problem.log_dynamics.max())
    t = np.geomspace(1e-6, 1e6, 2000)
    decay = (np.exp(-np.outer(t, d)) @ q) ** n
    inverse, inverse_squared = n * np.trapezoid(decay, t), n**2 * np.trapezoid(t * decay, t)
    mean = (q * d) @ away
    squared = (mean @ mean) * (1.0 - 1.0 / n) + (q * d**2) @ (away**2).sum(axis=1) / n
    bias = float(np.linalg.norm(mean)) * (inverse - 1.0 / (q @ d))
    return sampled + squared * inverse_squared - mean @ mean * inverse**2, bias


def theorem5_cells(problem: ListedProblem, theta: Floats, setting: Setting, failure: float) -> int:
    """Cells of one iteration in Theorem 5's count, with the published constants of PAWS."""
    span, n_hash = float(np.ptp(problem.rows @ problem.best)), problem.hash_bits
    chosen = planned(setting.delta, failure, log_span=span, n_hash=n_hash, faithful=True)
    plan = replace(chosen, log_span=SPAN_STEP * math.ceil(float(np.ptp(problem.rows @ theta)) / SPAN_STEP))
    return (n_hash + plan.bits_per_level * plan.n_levels + 1) * plan.n_repeats + setting.n_draws


planned = lru_cache(maxsize=256)(PawsPlan.solve)


@dataclass(frozen=True)
class Curve:
    """All runs of one setting, and the bounds on their mean (K,)."""

    problem: str
    setting: Setting
    gaps: Floats  # L(mean of the first k iterates) - L*, (n_seeds, K)
    theorem3: Floats  # as printed
    ours: Floats  # `bound`, with the largest V and B at any iterate, and R the largest mean distance from theta*
    counts: dict[str, float]  # what an iteration asked of the oracle, by the names in COUNTED

    @property
    def name(self) -> str:
        """Short enough for a terminal: where the setting differs from the common one."""
        if self.problem.startswith("slippery"):
            return f"slip {self.setting.n_draws}{' sn' * self.setting.self_normalised}{' letter' * self.setting.letter}"
        labels = zip(("delta", "M1", "2 M2"), self.setting, COMMON, strict=False)
        return ", ".join(f"{label} {value:g}" for label, value, common in labels if value != common) or "common"

    @property
    def mean(self) -> Any:
        return self.gaps.mean(axis=0)

    def under(self, curve: Floats) -> bool | None:
        """Whether the mean gap is under a bound after every iteration; None where the bound is not known."""
        return None if np.isnan(curve).any() else bool(np.all(self.mean <= curve))


def compare(
    problem: ListedProblem, settings: Any, n_iter: int, n_seeds: int, seed: int, done: Done = lambda share: None
) -> dict[Setting, Curve]:
    """A curve for each setting, all from the same seeds."""
    settings, curves = list(dict.fromkeys(settings)), dict[Setting, Curve]()
    for setting in settings:
        gaps, counts, distances, errors = [], list[Any](), list[list[float]](), list[Any]()
        for one in np.random.SeedSequence(seed).spawn(n_seeds):
            averages, entries = watched_run(problem, setting, n_iter, one)
            gaps.append([problem.gap(average) for average in averages])
            sums = np.arange(1, n_iter + 1)[:, None] * averages
            iterates = np.diff(sums, axis=0, prepend=0.0 * sums[:1])
            distances.append([float(np.linalg.norm(theta - problem.best)) for theta in iterates])
            for theta, entry in zip([0.0 * problem.best, *iterates[:-1]], entries, strict=True):
                errors.append(noise_and_bias(problem, setting, theta))
                search, cells = entry["search_cells"], entry["cells"]
                claimed = theorem5_cells(problem, theta, setting, FAILURE / n_iter)
                failed, answered = cells - search - setting.n_draws, (entry["solutions"], entry["queries"])
                counts.append((search, setting.n_draws, failed, cells, claimed, *answered))
            done((len(curves) * n_seeds + len(gaps)) / (len(settings) * n_seeds))
        (noise, bias), reach = np.max(errors, axis=0), float(np.max(np.mean(distances, axis=0)))
        _, smoothness, step = constants(problem, setting.delta)
        start, k = float(problem.best @ problem.best), np.arange(1, n_iter + 1)
        ours = bound(start, step, k, float(noise), float(bias), reach, smoothness)
        work = dict(zip(COUNTED, np.mean(counts, axis=0).tolist(), strict=True))
        curves[setting] = Curve(problem.name, setting, np.array(gaps), theorem3(problem, setting, n_iter), ours, work)
    return curves


def watched_run(problem: ListedProblem, setting: Setting, n_iter: int, seed: Any) -> tuple[Floats, list[Any]]:
    """Algorithm 1: the mean of all iterates after each iteration (K, d), and what each asked for."""
    records: list[Any] = []
    draws: Any = {"n_samples": setting.n_draws, "n_demonstrations": setting.m1}
    draws |= {"letter": True} if setting.letter else {"self_normalised": setting.self_normalised, "burn_in": 0.0}
    step = constants(problem, setting.delta)[2]
    method = xm.Paper(delta=setting.delta, failure=FAILURE, learning_rate=step, **draws)
    watched: Any = {"oracle": "listed", "max_iter": n_iter, "seed": seed, "callback": records.append}
    with noticed():
        features = problem.features / problem.span
        xm.XMEN(problem.world, problem.rule, features, method=method, **watched).fit(problem.demos)
    return np.array([one.weights for one in records]), [one.details for one in records]


def draw_gaps(curves: dict[Setting, Curve], rows: Sequence[Sequence[Setting]]) -> Figure:
    """One panel for each setting, all on the same axes."""
    n_columns = max(len(row) for row in rows)
    figure = plt.figure(figsize=(2.7 * n_columns + 0.4, 2.1 * len(rows) + 0.6), layout="constrained")
    panels = figure.subplots(len(rows), n_columns, sharex=True, sharey=True, squeeze=False)
    for ax, setting in chain(*map(zip_longest, panels, rows)):
        if setting is None:
            ax.remove()
            continue
        curve, (delta, m1, n_draws, one_ratio, letter) = curves[setting], setting
        k = np.arange(1, len(curve.mean) + 1)
        ax.fill_between(k, curve.gaps.min(axis=0), curve.gaps.max(axis=0), color=MEASURED, alpha=0.25, lw=0)
        ax.plot(k, curve.mean, color=MEASURED, lw=1.8, label="measured: mean, best to worst seed")
        ax.plot(k, curve.theorem3, color=BOUND, lw=1.2, ls="--", label="Theorem 3 as printed")
        ax.plot(k, curve.ours, color=BOUND, lw=1.2, label="ours")
        kind = "\nself-normalised" * one_ratio + "\nto the letter" * letter
        ax.set_title(rf"$\delta={delta:g},\ M_1={m1},\ 2M_2={n_draws}$" + kind)
        ax.set(xscale="log", yscale="log", xlim=(1, len(curve.mean)))
    bottom, top = panels[0, 0].get_ylim()
    panels[0, 0].set_ylim(max(bottom, LOWEST_GAP), top)
    figure.supxlabel("iterations K", fontsize=9)
    figure.supylabel("L(mean iterate) - L*  (nats)", fontsize=9)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def draw_work(curves: Sequence[Curve]) -> Figure:
    """One line for each setting: the parts of the oracle's work per iteration, and Theorem 5's count."""
    figure, ax = plt.subplots(figsize=(7.2, 0.3 * len(curves) + 1.3), layout="constrained")
    for name, (label, colour, marker) in WORK.items():
        size, edge = (14, 2) if marker == "|" else (7, 0)
        values = [curve.counts[name] for curve in curves]
        ax.plot(values, range(len(curves)), marker, color=colour, ms=size, mew=edge, label=label)
    ax.set_yticks(range(len(curves)), [f"{curve.problem.split()[0]} {curve.setting}" for curve in curves])
    ax.set(xscale="log", xlabel="cells, or solutions, per iteration")
    ax.invert_yaxis()
    ax.grid(axis="x", color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, handletextpad=0.2)
    return figure


def tables(curves: Sequence[Curve]) -> list[tuple[dict[str, str], list[list[Any]]]]:
    """Columns and rows: where the cells and solver calls of one iteration go; gaps at the end against the bounds."""
    names = ("search cells", "draws", "failed draws", "all cells", "Th. 5", "read", "calls")
    work = {"setting": "", **dict.fromkeys(names, ",.0f")}, [[one.name, *one.counts.values()] for one in curves]
    columns = {"setting": "", "mean": ".3f", "worst": ".3f", "Th. 3": ".3f", "under": ""}
    columns |= {"ours": ".3f", "under ours": "", **dict.fromkeys(("calls", "Th. 5", "read"), ",.0f")}
    rows = []
    for one in curves:
        ours = None if np.isnan(one.ours[-1]) else one.ours[-1]
        gaps, bounds = one.gaps[:, -1], (one.theorem3[-1], one.under(one.theorem3), ours, one.under(one.ours))
        asked = [one.counts[name] for name in ("queries", "theorem5", "points")]
        rows.append([one.name, gaps.mean(), gaps.max(), *bounds, *asked])
    return [work, (columns, rows)]
