"""method="exact": the exact gradient by dynamic programming, and L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass

from xmen.engines.choose import Chooser
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import TripEngine, trip_budget
from xmen.errors import EngineError
from xmen.methods.identify import warn_undetermined
from xmen.methods.lbfgs import DEFAULT_MAX_ITER, LbfgsRun, LbfgsState
from xmen.methods.likelihood import likelihood_of
from xmen.methods.method import Method
from xmen.methods.network_run import NeuralRun, train
from xmen.methods.network_training import Training
from xmen.methods.objective import Objective
from xmen.methods.runs import FitSettings, Outcome, Task
from xmen.methods.starts import warn_of_starts
from xmen.methods.trips import TripRun
from xmen.progress.monitor import Monitor
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
    default_max_iter = DEFAULT_MAX_ITER
    keeps_fixed = True

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
        likelihood = likelihood_of(base, task.demos.visits(task.discount))
        return train(likelihood, reward, training, settings, base)

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> TripRun:
        budget = trip_budget(settings.engine.max_nodes, network)
        engine = TripEngine(
            network, task.constraint, *task.demos.trips(), budget, task.discount, settings.engine.device
        )
        return TripRun(task, settings, engine)

    def _multiply(self, task: Task, settings: FitSettings) -> ExactDistribution:
        return Chooser(task.law(), settings.engine, settings.seed).exact()


class ExactRun(LbfgsRun):
    """L-BFGS on the exact loss."""

    def __init__(self, task: Task, method: Exact, settings: FitSettings, base: ExactDistribution) -> None:
        self.task, self.base, self.settings = task, base, settings
        features, coordinates = task.features, settings.coordinates(task.features.d)
        objective = Objective(likelihood_of(base, task.demos.visits(task.discount)), features, coordinates)
        max_iter = settings.most_iterations(method.default_max_iter)
        tol, start, memory = settings.tolerance(), settings.start, settings.memory
        super().__init__(objective, features, coordinates, max_iter, tol, start, memory)

    def conclude(self, state: LbfgsState, monitor: Monitor) -> Outcome:
        outcome = super().conclude(state, monitor)
        if not monitor.stopped:  # short of the optimum, weights are finite whatever they are
            warn_undetermined(self.base, self.task, self.settings, "where the gradient fell below tol")
        if state.finished:
            warn_of_starts(self.base, self.features.table(self.answer(state)), self.task.demos)
        return outcome._replace(base=self.base)
