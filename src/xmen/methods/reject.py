"""method="reject": learning under rules that do not fit the product, from exact draws of what does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xmen.engines.choose import Chooser
from xmen.engines.reject import RejectDistribution
from xmen.engines.reject_trips import RejectTrips
from xmen.engines.trips import trip_budget
from xmen.errors import EngineError
from xmen.methods.by_start import rounds
from xmen.methods.method import Method
from xmen.methods.network_run import NeuralRun
from xmen.methods.network_training import Training
from xmen.methods.reject_draws import RejectSource, TripSource
from xmen.methods.rounds import DEFAULT_MAX_ITER, RoundsRun
from xmen.methods.runs import FitSettings, Outcome, Task
from xmen.methods.trips import TripRun, TripState
from xmen.notices import ConvergenceWarning, notify
from xmen.options import require_whole
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats
from xmen.rewards.neural import NeuralReward
from xmen.worlds.network import Network

OPENING_TOL = 1e-4  # of a gradient: where the rules that fit have their optimum is only where rounds begin


@dataclass(frozen=True, repr=False)
class Reject(Method):
    """Learn from rejection's exact draws: for rules that do not fit the product, such as no link twice.

    In rounds as those of `xm.Cells`, with the same `tol` in nats and `max_iter` in rounds. On a network they begin at
    the optimum of the rules that fit, which is exact.

    Parameters
    ----------
    n_draws
        On a network, the least number of draws of every distinct pair of a start and a goal in a round; `tol` may ask
        for more, and pairs of which few draws are valid get ten times as many.
    redraw_every
        Has no effect any more: rounds end by themselves.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Reject(n_draws=200)
    Reject(n_draws=200)
    """

    n_draws: int = 16
    redraw_every: int = 12

    name = "reject"
    default_max_iter = DEFAULT_MAX_ITER
    plans_with_max_iter = True  # the last round only judges
    keeps_fixed = True

    def __post_init__(self) -> None:
        require_whole("n_draws", self.n_draws, least=2)
        require_whole("redraw_every", self.redraw_every, least=2)

    def run(self, task: Task, settings: FitSettings) -> RoundsRun:
        def make(part: Task) -> tuple[RejectDistribution, RejectSource]:
            base = Chooser(part.joint_law(), settings.engine).joint_reject()
            return base, RejectSource(base, part.features)

        return rounds(task, settings, make)

    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        raise EngineError("method='reject' is for linear rewards: train a network with method='exact' or 'cells'.")

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> RoundsRun:
        if task.discount != 1.0:
            raise EngineError("method='reject' needs discount = 1: raise max_nodes so that the rules fit the product.")
        budget = trip_budget(settings.engine.max_nodes, network)
        trips = RejectTrips(network, task.constraint, *task.demos.trips(), budget)
        opening = RelaxedFirst(task, settings, trips)
        coordinates = settings.coordinates(task.features.d)
        source = TripSource(trips, settings.learned(task).features, int(self.n_draws), coordinates)
        return RoundsRun(task, settings, source, opening.run.warn_undetermined, opening)


class RelaxedFirst:
    """The optimum of the rules that fit, exactly, as what rounds begin with."""

    def __init__(self, task: Task, settings: FitSettings, trips: RejectTrips) -> None:
        self.run = TripRun(task, settings.changed(tol=OPENING_TOL, max_iter=None), trips.engine)
        self.trips, self.metric = trips, self.run.optimiser.metric

    def start(self) -> dict[str, Any]:
        return self.run.start().parts()

    def step(self, state: dict[str, Any]) -> tuple[dict[str, Any], Floats, dict[str, float], bool]:
        after, entry = self.run.step(TripState(**state))
        over = self.run.finished(after)
        if over:
            self.run.require_feasible(after)
        return after.parts(), after.weights, entry, over

    def conclude(self, state: dict[str, Any], monitor: Monitor) -> Outcome:
        multiplied = ", ".join(map(repr, self.trips.multiplied)) or "none"
        notify(
            f"stopped after {state['iteration']} iterations, before any draw: these are the weights of the rules that "
            f"fit ({multiplied}).",
            ConvergenceWarning,
        )
        return self.run.conclude(TripState(**state), monitor)
