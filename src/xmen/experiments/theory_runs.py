"""Runs of Algorithm 1 that are watched: the loss above the optimum after each iteration, and what the oracle did.

A *cell* is one question to the oracle in the sense of Theorem 5: are there P solutions under these parities? A solver
that finds one solution at a time answers it with one call per solution and one more when there are fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import joblib
import numpy as np

from xmen.experiments.theory_tasks import ListedProblem
from xmen.methods.demonstrations import gather
from xmen.methods.paper import Paper, PaperRun
from xmen.methods.paper_bounds import bias_term, theorem_bound
from xmen.methods.proposal import SPAN_STEP, Pool, Proposal
from xmen.methods.runs import FitSettings, Task
from xmen.rewards import Floats
from xmen.rewards.linear import DenseFeatures
from xmen.sampling import Info, PawsPlan


class Setting(NamedTuple):
    """What Theorem 3 speaks of: delta, M1 demonstrations and 2 M2 draws per iteration; and how weights are used."""

    delta: float
    m1: int
    n_draws: int
    self_normalised: bool = False  # where there are weights: one ratio over all draws, not the paper's two halves

    def __str__(self) -> str:
        kind = ", self-normalised" if self.self_normalised else ""
        return f"delta {self.delta:g}, M1 {self.m1}, 2 M2 {self.n_draws}{kind}"

    @property
    def title(self) -> str:
        """The same for figures."""
        kind = "\nself-normalised" if self.self_normalised else ""
        return rf"$\delta={self.delta:g},\ M_1={self.m1},\ 2M_2={self.n_draws}${kind}"


COMMON = Setting(delta=1.18, m1=16, n_draws=8)
"""What other settings of a deterministic world vary around."""


class Counts(NamedTuple):
    """What one iteration asked of the oracle, or a mean over iterations."""

    search_cells: float
    drawn: float  # cells that gave a draw: 2 M2
    failed: float  # cells that gave none, and were replaced
    points: float  # solutions read from all of these
    queries: float  # calls of a solver that finds one solution at a time
    theorem5: float  # cells in Theorem 5's count

    @property
    def cells(self) -> float:
        """All cells that were opened."""
        return self.search_cells + self.drawn + self.failed


@dataclass(frozen=True)
class Trace:
    """One run: L(mean of the first k iterates) - L* (K,), and along the way the largest distance from theta* and
    the largest |E_P|f||; the oracle's work per iteration."""

    gaps: Floats
    radius: float
    absolute_features: float
    counts: list[Counts]


@dataclass(frozen=True)
class Curve:
    """All runs of one setting, and the bounds on their mean (K,)."""

    problem: str
    setting: Setting
    gaps: Floats  # (n_seeds, K)
    theorem3: Floats
    bias: float
    counts: Counts
    printed: Floats  # Theorem 3 as the paper has it, delta^2 and M2 whatever the world

    @property
    def name(self) -> str:
        """Short enough for a terminal: where the setting differs from the common one."""
        delta, m1, n_draws, one_ratio = self.setting
        if self.problem.startswith("slippery"):
            return f"slip {n_draws}{' sn' * one_ratio}"
        differs = [f"delta {delta:g}"] if delta != COMMON.delta else []
        differs += [f"M1 {m1}"] if m1 != COMMON.m1 else []
        differs += [f"2 M2 {n_draws}"] if n_draws != COMMON.n_draws else []
        return ", ".join(differs) or "common"

    @property
    def n_iter(self) -> int:
        """K."""
        return int(self.gaps.shape[1])

    @property
    def mean(self) -> Floats:
        """The mean gap over seeds after each iteration."""
        mean: Floats = self.gaps.mean(axis=0)
        return mean

    @property
    def under_theorem3(self) -> bool:
        """Whether the mean gap is under Theorem 3's bound after every iteration."""
        return bool(np.all(self.mean <= self.theorem3))

    @property
    def under_bound(self) -> bool:
        """The same with the bias term that Theorem 3 leaves out."""
        return bool(np.all(self.mean <= self.theorem3 + self.bias))


class _Watched(Proposal):
    """A proposal that keeps what its last pool cost."""

    search = draws = Info()

    def draw(self, *given: Any, **named: Any) -> Pool:
        pool = super().draw(*given, **named)
        self.search, self.draws = pool.search, pool.draws
        return pool


def start_run(problem: ListedProblem, setting: Setting, n_iter: int, seed: Any) -> PaperRun:
    """Algorithm 1 to the letter: the mean of all iterates, the largest step that Theorem 4 allows."""
    method = Paper(
        n_samples=setting.n_draws,
        n_demonstrations=setting.m1,
        delta=setting.delta,
        self_normalised=setting.self_normalised,
        burn_in=0.0,
    )
    demos = gather(problem.world, problem.rule, problem.demos)
    task = Task(demos, DenseFeatures(problem.features), problem.rule)
    run = PaperRun(task, method, FitSettings(max_iter=n_iter, seed=seed), problem.base)
    run.proposal = _Watched(problem.base, DenseFeatures(problem.features))
    return run


def trace(problem: ListedProblem, setting: Setting, n_iter: int, seed: Any) -> Trace:
    """One run from one seed, against the truth."""
    run, truth = start_run(problem, setting, n_iter, seed), problem.truth
    watched: _Watched = run.proposal  # type: ignore[assignment]
    state, gaps, distances, sizes, counts = run.start(), [], [], [], []
    for _ in range(n_iter):
        distances.append(np.linalg.norm(state.weights - truth.best))
        sizes.append(np.linalg.norm(truth.absolute_features(state.weights)))
        claimed = theorem5_cells(problem, state.weights, setting, run.failure)
        state, entry = run.step(state)
        gaps.append(truth.gap(state.average))
        counts.append(
            Counts(
                search_cells=watched.search.n_cells,
                drawn=watched.draws.n_cells - watched.draws.n_failures,
                failed=watched.draws.n_failures,
                points=entry["solutions"],
                queries=entry["queries"],
                theorem5=claimed,
            )
        )
    return Trace(np.array(gaps), float(max(distances)), float(max(sizes)), counts)


def theorem5_cells(problem: ListedProblem, theta: Floats, setting: Setting, failure: float) -> int:
    """Cells of one iteration in Theorem 5's count: n' levels of 24 ln(n' / failure) cells, and one cell for each draw.

    n' is the number of values that the number of parities can take, with the published constants of PAWS.
    """
    width, truth = int(problem.base.hashed.decoder.width), problem.truth
    chosen = _published(setting.delta, failure, float(np.ptp(truth.rows @ truth.best)), width)
    span = float(np.ptp(truth.rows @ theta))
    plan = replace(chosen, log_span=SPAN_STEP * math.ceil(span / SPAN_STEP))
    n_values = width + plan.bits_per_level * plan.n_levels + 1
    return n_values * plan.n_repeats + setting.n_draws


@lru_cache(maxsize=256)
def _published(delta: float, failure: float, log_span: float, width: int) -> PawsPlan:
    return PawsPlan.solve(delta, failure, log_span=log_span, n_hash=width, faithful=True)


def curve_of(problem: ListedProblem, setting: Setting, traces: Sequence[Trace]) -> Curve:
    """The runs of one setting, with Theorem 3's bound and the bias term of the iterates that were met."""
    n_iter = len(traces[0].gaps)
    run = start_run(problem, setting, n_iter, 0)
    # Without importance weights every draw enters the mean; with them, half the draws are in each of the two means.
    m2 = setting.n_draws // 2 if run.weighted else setting.n_draws
    distance = float(problem.truth.best @ problem.truth.best)
    bound = [
        theorem_bound(distance, run.step_size, run.factor, k, run.bounds, setting.m1, m2) for k in range(1, n_iter + 1)
    ]
    radius, size = max(one.radius for one in traces), max(one.absolute_features for one in traces)
    counts = np.mean([one.counts for one in traces], axis=(0, 1))
    gaps = np.array([one.gaps for one in traces])
    bias = bias_term(run.factor, np.array([size]), radius)
    printed = [
        theorem_bound(
            distance, run.step_size, setting.delta**2, k, run.bounds, setting.m1, max(setting.n_draws // 2, 1)
        )
        for k in range(1, n_iter + 1)
    ]
    return Curve(problem.name, setting, gaps, np.array(bound), bias, Counts(*counts), np.array(printed))


def compare(
    problem: ListedProblem,
    settings: Iterable[Setting],
    n_iter: int,
    n_seeds: int,
    seed: int,
    done: Callable[[float], None] = lambda share: None,
) -> dict[Setting, Curve]:
    """A curve for each setting, all from the same seeds; runs go where `joblib.parallel_config` says."""
    settings = list(dict.fromkeys(settings))
    seeds = np.random.SeedSequence(seed).spawn(n_seeds)
    tasks = [(setting, one) for setting in settings for one in seeds]
    problem.base, problem.truth  # noqa: B018  listed once, before the problem travels to workers
    runs = joblib.Parallel(return_as="generator")(
        joblib.delayed(trace)(problem, setting, n_iter, one) for setting, one in tasks
    )
    traces: dict[Setting, list[Trace]] = {setting: [] for setting in settings}
    for n, ((setting, _), one) in enumerate(zip(tasks, runs, strict=True), start=1):
        traces[setting].append(one)
        done(n / len(tasks))
    return {setting: curve_of(problem, setting, found) for setting, found in traces.items()}
