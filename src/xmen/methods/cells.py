"""The loss and its gradient from whole hash cells, with error bars, and a first-order method that lives with noise.

A cell is enumerated completely and weighed exactly, D(tau) included, so no importance weights are left: the gradient
E_P[f] - mean f is a ratio of unbiased sums, its bias and error by the jackknife over fresh matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xmen.encoding.decoding import Decoder
from xmen.engines.distribution import Seed
from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.engines.xor import XorDistribution
from xmen.methods.coordinates import read_l2
from xmen.methods.identify import warn_undetermined
from xmen.methods.runs import Outcome, Run, Task
from xmen.notices import ConvergenceWarning, notify
from xmen.oracles.formula import Bits
from xmen.product.best import score_range
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.sampling import choose_parities, estimate

DEFAULT_MAX_ITER = 400
DEFAULT_LEARNING_RATE = 0.5
FINAL_CELLS = 4  # times as many cells judge the answer
NOISE = 2.0  # a gradient within this many of its standard errors is as small as it can be seen to be
DECAY_FIRST, DECAY_SECOND, TINY = 0.9, 0.99, 1e-8  # of Adam


@dataclass(frozen=True)
class WalkFeatures:
    """f(tau) of the trajectories that rows of hash bits stand for; picklable, for other processes."""

    decoder: Decoder
    features: Features
    discount: float

    def __call__(self, bits: Bits) -> Floats:
        """(k, d) from rows whose first bits are the trajectory's."""
        walks = self.decoder.decode(bits[:, : self.decoder.width])
        return self.features.contract(walks.visit_rows(self.discount))


class NoisyValue(NamedTuple):
    """Estimates at some weights, each with its standard error, and the number of parities they were made with."""

    loss: float
    loss_std: float
    gradient: Floats
    gradient_std: Floats
    m: int
    n_points: int


class CellObjective:
    """L and grad L at given weights, from `n_cells` fresh cells of about `cell_size` weight-equivalents each."""

    def __init__(
        self,
        base: XorDistribution,
        features: Features,
        demo_features: Floats,
        l2: float | Floats,
        n_cells: int,
        cell_size: float,
    ) -> None:
        self.base, self.features, self.demo_features, self.l2 = base, features, demo_features, l2
        self.n_cells, self.cell_size = n_cells, cell_size
        self.function = WalkFeatures(base.hashed.decoder, features, base.discount)

    def __call__(self, weights: Floats, rng: np.random.Generator, m: int = 0, more: int = 1) -> NoisyValue:
        """The estimates; m is where the search for the number of parities starts, `more` multiplies the cells."""
        edge_weights = self.base.weights.with_table(self.base.world, self.features.table(weights))
        space = self.base.hashed.space(edge_weights, score_range(self.base.relaxation.product, edge_weights))
        m, _ = choose_parities(space, self.cell_size, rng, start=m)
        found = estimate(space, m, more * self.n_cells, rng, self.function)
        loss = found.log_partition - float(weights @ self.demo_features) + 0.5 * float(np.sum(self.l2 * weights**2))
        gradient = found.expectation - self.demo_features + self.l2 * weights
        return NoisyValue(loss, found.log_partition_std, gradient, found.expectation_std, m, found.info.n_points)


class AdamState(NamedTuple):
    """Where a run stands: the weights, Adam's moments, the average so far.

    `seed` is the entropy and key of the run's SeedSequence: iteration t uses its t-th child and nothing else.
    `judged`: the answer has been looked at once more; `converged`: and its gradient was not above its noise.
    """

    weights: Floats
    first: Floats
    second: Floats
    average: Floats
    n_averaged: int
    iteration: int
    m: int
    seed: dict[str, Any]
    judged: bool = False
    converged: bool = False


class Adam:
    """Adam with steps that shrink as 1/sqrt(t), and the average of the second half as the answer.

    Works in weights times `scale` (d,), the size of each feature: a step of the learning rate changes no feature's
    share of a reward by more than that.
    """

    def __init__(self, objective: CellObjective, scale: Floats, learning_rate: float, max_iter: int) -> None:
        self.objective, self.scale, self.learning_rate, self.max_iter = objective, scale, learning_rate, max_iter

    def start(self, weights: Floats, seeds: np.random.SeedSequence) -> AdamState:
        """The state before the first step."""
        zeros = np.zeros_like(weights)
        seed = {"entropy": seeds.entropy, "spawn_key": list(seeds.spawn_key)}
        return AdamState(weights, zeros, zeros, weights, 0, 0, 0, seed)

    def judge(self, state: AdamState, tol: float) -> tuple[AdamState, NoisyValue]:
        """A closer look at the average: is its gradient above its noise?"""
        value = self.objective(state.average, _generator(state), state.m, FINAL_CELLS)
        size, noise = np.linalg.norm(value.gradient / self.scale), np.linalg.norm(value.gradient_std / self.scale)
        converged = bool(size <= NOISE * noise + tol)
        return state._replace(m=value.m, judged=True, converged=converged), value

    def step(self, state: AdamState) -> tuple[AdamState, NoisyValue]:
        """One step, and the estimates it was made from."""
        value = self.objective(state.weights, _generator(state), state.m)
        t = state.iteration + 1
        gradient = value.gradient / self.scale
        first = DECAY_FIRST * state.first + (1.0 - DECAY_FIRST) * gradient
        second = DECAY_SECOND * state.second + (1.0 - DECAY_SECOND) * gradient**2
        direction = first / (1.0 - DECAY_FIRST**t) / (np.sqrt(second / (1.0 - DECAY_SECOND**t)) + TINY)
        length = self.learning_rate / np.sqrt(1.0 + 10.0 * t / self.max_iter)
        weights = state.weights - length * direction / self.scale
        average, n_averaged = weights, 0
        if t > self.max_iter // 2:
            n_averaged = state.n_averaged + 1
            average = weights if n_averaged == 1 else state.average + (weights - state.average) / n_averaged
        return AdamState(weights, first, second, average, n_averaged, t, value.m, state.seed), value


def _generator(state: AdamState) -> np.random.Generator:
    key = (*state.seed["spawn_key"], state.iteration)
    return np.random.default_rng(np.random.SeedSequence(state.seed["entropy"], spawn_key=key))


class CellsRun(Run[AdamState]):
    """Adam on whole-cell estimates; the last of max_iter steps ends in a larger estimate at the averaged weights.

    That one judges the answer, and is what is recorded of the last step.
    """

    state_type = AdamState

    def __init__(self, task: Task, base: XorDistribution) -> None:
        learner = task.learner
        self.task, self.base, self.tol = task, base, float(learner.tol)
        self.max_iter = DEFAULT_MAX_ITER if learner.max_iter is None else int(learner.max_iter)
        rate = DEFAULT_LEARNING_RATE if learner.learning_rate is None else float(learner.learning_rate)
        size = DEFAULT_CELL_SIZE if learner.cell_size is None else float(learner.cell_size)
        l2 = read_l2(learner.l2, task.features.d)
        objective = CellObjective(base, task.features, task.demo_features, l2, learner.n_cells, size)
        self.optimiser = Adam(objective, task.features.scale, rate, self.max_iter)

    def start(self) -> AdamState:
        # The stream of the learning is not that of the distribution which answers later.
        return self.optimiser.start(np.zeros(self.task.features.d), seed_sequence(self.task.learner.seed))

    def finished(self, state: AdamState) -> bool:
        return state.judged

    def step(self, state: AdamState) -> tuple[AdamState, dict[str, float]]:
        after, n_solutions = state, 0
        if state.iteration < self.max_iter:
            after, value = self.optimiser.step(state)
            n_solutions = value.n_points
        if after.iteration >= self.max_iter:
            after, value = self.optimiser.judge(after, self.tol)
            n_solutions += value.n_points
        return after, {
            "loss": value.loss,
            "loss_std": value.loss_std,
            "gradient_norm": float(np.linalg.norm(value.gradient)),
            "gradient_std": float(np.linalg.norm(value.gradient_std)),
            "parities": value.m,
            "solutions": n_solutions,
        }

    def conclude(self, state: AdamState, monitor: Monitor) -> Outcome:
        if state.judged and not state.converged:
            last = monitor.history[-1]
            noise = (
                f"still above its standard error of {last.gradient_std:.3g}. Raise max_iter or learning_rate"
                if last.gradient_std > 0.0
                else f"above tol = {self.tol:g}. It is exact, as the cells hold every valid trajectory, and steps of "
                "this method never come that close: method='exact' does; else raise max_iter or tol"
            )
            notify(
                f"after max_iter = {self.max_iter} steps the gradient norm is {last.gradient_norm:.3g}, {noise}; if "
                "weights keep growing the optimum may be infinite, and l2 > 0 makes it finite.",
                ConvergenceWarning,
            )
        warn_undetermined(self.base, self.task, "where its steps did")
        return Outcome(state.average, state.converged, None)


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """The seed of a learning run: one number drawn from a Generator, a child of a SeedSequence."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
    return np.random.SeedSequence(seed, spawn_key=(0,))
