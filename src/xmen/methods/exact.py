"""method="exact": the exact gradient by dynamic programming, and L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmen.engines.choose import Chooser
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import TripEngine, trip_budget
from xmen.errors import EngineError
from xmen.methods.identify import warn_undetermined
from xmen.methods.lbfgs import Lbfgs, LbfgsState
from xmen.methods.likelihood import DistributionLikelihood
from xmen.methods.method import Method
from xmen.methods.network_run import NeuralRun, train
from xmen.methods.network_training import Training
from xmen.methods.objective import Objective
from xmen.methods.runs import FitSettings, Outcome, Run, Task
from xmen.methods.starts import warn_of_starts
from xmen.methods.trips import TripRun
from xmen.notices import ConvergenceWarning, notify
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats
from xmen.rewards.neural import NeuralReward
from xmen.worlds.network import Network


@dataclass(frozen=True, repr=False)
class Exact(Method):
    """The exact gradient by dynamic programming, and L-BFGS to the optimum; it has no settings of its own.

    Wherever the product of world and constraint fits the learner's `max_nodes`.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Exact()
    Exact()
    """

    name = "exact"
    default_max_iter = 1000
    takes_trips = keeps_fixed = True

    def check(self, engine: EngineSettings, given: str | None, network: bool) -> None:
        if engine.engine not in ("auto", "exact"):
            raise EngineError(
                f"method='exact' with engine={engine.engine!r} makes no sense: where the gradient is exact, so is the "
                "engine. Use engine='exact' or 'auto', or method='cells'."
            )

    def run(self, task: Task, settings: FitSettings) -> ExactRun:
        return ExactRun(task, self, settings, self._multiply(task, settings))

    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        base = self._multiply(task, settings)
        likelihood = DistributionLikelihood(base, task.demos.visits(task.discount))
        return train(likelihood, reward, training, settings, base)

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> TripRun:
        demos = task.demos
        counted = np.flatnonzero(demos.weights > 0)
        trips = demos.walks.starts[counted], demos.walks.last_states[counted], demos.weights[counted]
        budget = trip_budget(settings.engine.max_nodes, network)
        engine = TripEngine(network, task.constraint, *trips, budget, task.discount)
        return TripRun(task, settings, engine)

    def _multiply(self, task: Task, settings: FitSettings) -> ExactDistribution:
        return Chooser(task.law(), settings.engine, settings.seed).exact()


class ExactRun(Run[LbfgsState]):
    """L-BFGS on the exact loss; stops where no component of the gradient is above tol times its feature's size."""

    state_type = LbfgsState

    def __init__(self, task: Task, method: Exact, settings: FitSettings, base: ExactDistribution) -> None:
        self.task, self.base, self.settings = task, base, settings
        self.max_iter = settings.most_iterations(method.default_max_iter)
        self.coordinates = settings.coordinates(task.features.d)
        objective = Objective(base, task.features, task.demo_features, coordinates=self.coordinates)
        scale = task.features.scale[self.coordinates.free]
        self.optimiser = Lbfgs(objective, scale, self._reach, settings.tolerance())

    def _reach(self, direction: Floats) -> float:
        return float(np.abs(self.task.features.table(self.coordinates.direction(direction))).max(initial=0.0))

    def start(self) -> LbfgsState:
        free, first = self.coordinates.free, self.settings.start
        return self.optimiser.start((self.coordinates.values if first is None else first)[free])

    def finished(self, state: LbfgsState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: LbfgsState) -> tuple[LbfgsState, dict[str, float]]:
        after = self.optimiser.step(state)
        return after, {"loss": after.loss, "gradient_norm": float(np.linalg.norm(after.gradient))}

    def conclude(self, state: LbfgsState, monitor: Monitor) -> Outcome:
        if not (state.finished or monitor.stopped or monitor.interrupted):
            notify(
                f"stopped after max_iter = {self.max_iter} iterations with a gradient norm of "
                f"{np.linalg.norm(state.gradient):.3g} (tol = {self.optimiser.tol:g} per component). Raise max_iter or "
                "tol; if weights keep growing the optimum may be infinite, and l2 > 0 makes it finite.",
                ConvergenceWarning,
            )
        warn_undetermined(self.base, self.task, self.settings, "where the gradient fell below tol")
        weights = self.coordinates.full(state.weights)
        if state.finished:
            warn_of_starts(self.base, self.task.features.table(weights), self.task.demos)
        return Outcome(weights, state.finished, self.base)
