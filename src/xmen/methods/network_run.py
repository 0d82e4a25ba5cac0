"""The training of a network as a run: pure steps from state to state, driven like those of every other learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.engines.distribution import Distribution
from xmen.methods.likelihood import Likelihood
from xmen.methods.network_training import NeuralTraining, Training
from xmen.methods.runs import FitSettings, Outcome, Run
from xmen.methods.seeds import child_seed, seed_sequence, stored_seed
from xmen.notices import ConvergenceWarning, notify
from xmen.progress.monitor import Monitor, Record
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import seeded
from xmen.storage.checkpoint import RunState

DEFAULT_MAX_ITER = 300
STILL_FALLING = 0.01  # nats per demonstration over the last tenth of the steps: more of them would help


@dataclass(frozen=True)
class NeuralState(RunState):
    """Where a run stands: what `NeuralTraining.state` gives, and the seed, of which step t uses the t-th child."""

    arrays: dict[str, NDArray[Any]]
    iteration: int
    parities: int
    seed: dict[str, Any]
    finished: bool  # no gradient above tol is left, or a step that moves nothing


class NeuralRun(Run[NeuralState]):
    """`max_iter` steps of a training, fewer where the norm of the gradient falls to `tol` or nothing moves any more.

    `base` can answer for the model afterwards; with `advise`, a loss that was still falling at the end is a warning.
    """

    state_type = NeuralState

    def __init__(
        self,
        training: NeuralTraining,
        seeds: np.random.SeedSequence,
        max_iter: int,
        tol: float = 0.0,
        base: Distribution | None = None,
        advise: bool = False,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        self.training, self.seeds, self.max_iter, self.tol = training, seeds, max_iter, tol
        self.base, self.advise, self.memory = base, advise, memory
        self._present: NeuralState | None = None  # the state that the training is in

    def start(self) -> NeuralState:
        if self.memory is not None:
            self.training.load_memory(self.memory)
        return self._at(NeuralState(self.training.state(), 0, 0, stored_seed(self.seeds), False))

    def _at(self, state: NeuralState) -> NeuralState:
        self._present = state
        return state

    def _go_to(self, state: NeuralState) -> None:
        if self._present is not state:
            self.training.load_state(state.arrays)
        self._present = None  # until a step is complete

    def finished(self, state: NeuralState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: NeuralState) -> tuple[NeuralState, dict[str, float]]:
        self._go_to(state)
        seeds = child_seed(state.seed, state.iteration)
        likelihood = self.training.likelihood
        likelihood.begin(np.random.default_rng(seeds), state.parities)
        with seeded(int(seeds.generate_state(1)[0])):  # for networks and optimisers that draw numbers
            found = self.training.step()
        entry = {"loss": found.loss, "gradient_norm": found.gradient_norm, **found.estimate.details}
        if not likelihood.exact:
            # The error of dL/dw is not known: that of dL/dr is.
            entry |= {"loss_std": found.estimate.loss_std, "gradient_std": np.nan}
            entry["visits_std"] = found.estimate.visits_std
        after = replace(state, iteration=state.iteration + 1, parities=likelihood.parities)
        if found.gradient_norm <= self.tol:
            return replace(after, finished=True), entry  # where the gradient vanishes, and not one step away
        arrays = self.training.state()
        stuck = likelihood.exact and _same_network(arrays, state.arrays)
        return self._at(replace(after, arrays=arrays, finished=stuck)), entry

    def answer(self, state: NeuralState) -> NeuralReward:
        self._go_to(state)
        self._at(state)
        return self.training.reward

    def conclude(self, state: NeuralState, monitor: Monitor) -> Outcome:
        reward = self.answer(state)
        fell = _fell_at_the_end(monitor.history)
        if self.advise and not (state.finished or monitor.stopped or monitor.interrupted) and fell > STILL_FALLING:
            notify(
                f"after max_iter = {self.max_iter} steps the loss was still falling, by {fell:.3g} nats over the last "
                "tenth of them. Raise max_iter or learning_rate; if rewards keep growing the optimum may be infinite, "
                "and l2 > 0 makes it finite.",
                ConvergenceWarning,
            )
        return Outcome(reward, state.finished, self.base, {"optimiser_state_": self.training.memory()})


def train(
    likelihood: Likelihood,
    reward: NeuralReward,
    training: Training,
    settings: FitSettings,
    base: Distribution | None,
) -> NeuralRun:
    """The run of a fit that trains a copy of `reward`; `base` can answer for the model afterwards, if there is one."""
    steps = NeuralTraining(likelihood, reward.copy(), training, float(settings.penalty(1)))
    max_iter = settings.most_iterations(DEFAULT_MAX_ITER)
    return NeuralRun(steps, seed_sequence(settings.seed), max_iter, settings.tolerance(), base, True, settings.memory)


def _same_network(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items() if name.startswith("network."))


def _fell_at_the_end(history: list[Record]) -> float:
    """By how much the loss fell over the last tenth of the steps, beyond what may be noise."""
    if len(history) < 2:
        return 0.0
    first, last = history[-1 - max(1, len(history) // 10)], history[-1]
    noise = 2.0 * float(np.hypot(first.loss_std, last.loss_std))
    return first.loss - last.loss - noise
