"""method="exact": the exact gradient by dynamic programming, and L-BFGS."""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from xmen.engines.choose import Chooser
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import TripEngine, trip_budget
from xmen.errors import EngineError, StartsWarning, notify
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.identify import warn_undetermined
from xmen.methods.likelihood import DEFAULT_MAX_ITER, LbfgsRun, LbfgsState, Objective, likelihood_of
from xmen.methods.method import Method
from xmen.methods.neural import NeuralRun, Training, train
from xmen.methods.runs import FitSettings, Outcome, Task
from xmen.methods.trips import TripRun
from xmen.progress import Monitor
from xmen.rewards import Floats
from xmen.rewards.neural import NeuralReward
from xmen.worlds.network import Network

LEVEL = 1e-3  # of a chi-square test: rarer than this is more than noise


def warn_of_starts(base: ExactDistribution, table: Floats, demos: Demonstrations) -> None:
    """Warn where the shares of starts differ by more than noise: the joint model re-weights them, silently.

    The test is Pearson's, with as many demonstrations as their weights are worth.
    """
    world = base.world
    starts = np.flatnonzero(world.start > 0)
    if base.given is not None or len(starts) < 2:
        return
    expected = base.with_reward(table).start_probabilities()[starts]
    seen = np.bincount(demos.walks.starts, weights=demos.weights, minlength=world.n_states)[starts]
    n = 1.0 / float(np.sum(demos.weights**2))
    statistic = n * float(np.sum((seen - expected) ** 2 / np.maximum(expected, 1e-12)))
    if chdtrc(len(starts) - 1, statistic) >= LEVEL:
        return
    worst = int(np.argmax(np.abs(seen - expected)))
    notify(
        f"{seen[worst]:.1%} of the demonstrations start in {world.describe_state(int(starts[worst]))}, but "
        f"{expected[worst]:.1%} of the learned model's trajectories do: P is joint, so a start with many or good "
        'completions becomes more likely. With given="start" each demonstration counts given its start.',
        StartsWarning,
    )


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

    def check(self, engine: EngineSettings, given: str | None, neural: bool) -> None:
        if engine.engine not in ("auto", "exact"):
            raise EngineError(
                f"method='exact' with engine={engine.engine!r} makes no sense: where the gradient is exact, so is the "
                "engine. Use engine='exact' or 'auto', or method='cells'."
            )

    def run(self, task: Task, settings: FitSettings) -> "ExactRun":
        return ExactRun(task, settings, Chooser(task.law(), settings.engine, settings.seed).exact())

    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        base = Chooser(task.law(), settings.engine, settings.seed).exact()
        return train(likelihood_of(base, task.demos.visits(task.discount)), reward, training, settings, base)

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> TripRun:
        trips, budget = task.demos.trips(), trip_budget(settings.engine.max_nodes, network)
        engine = TripEngine(network, task.constraint, *trips, budget, task.discount, settings.engine.device)
        return TripRun(task, settings, engine)


class ExactRun(LbfgsRun[LbfgsState]):
    """L-BFGS on the exact loss."""

    state_type = LbfgsState

    def __init__(self, task: Task, settings: FitSettings, base: ExactDistribution) -> None:
        self.task, self.base, self.settings = task, base, settings
        likelihood = likelihood_of(base, task.demos.visits(task.discount))
        super().__init__(Objective(likelihood, task.features, settings.coordinates(task.features.d)), settings)

    def conclude(self, state: LbfgsState, monitor: Monitor) -> Outcome:
        outcome = super().conclude(state, monitor)
        if not monitor.stopped:  # short of the optimum, weights are finite whatever they are
            warn_undetermined(self.base, self.task, self.settings, "where the gradient fell below tol")
        if state.finished:
            warn_of_starts(self.base, self.features.table(self.answer(state)), self.task.demos)
        return outcome._replace(base=self.base)
