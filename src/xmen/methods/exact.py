"""method="exact": the exact gradient by dynamic programming, and L-BFGS."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc

from xmen.engines.choose import Chooser
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import SeenTrips, TripEngine
from xmen.errors import DivergenceError, EngineError, StartsWarning, notify
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.identify import MOST_SEARCHES, warn_undetermined, warn_undetermined_trips, warn_unseen
from xmen.methods.information import information
from xmen.methods.likelihood import DEFAULT_MAX_ITER, DistributionLikelihood, LbfgsRun, LbfgsState, Objective
from xmen.methods.runs import Coordinates, FitSettings, Method, Outcome, Task, Value
from xmen.progress import Monitor
from xmen.rewards import Floats
from xmen.worlds.network import Network


def warn_of_starts(base: ExactDistribution, table: Floats, demos: Demonstrations) -> None:
    """Warn where the shares of starts differ by more than noise (Pearson's test): the joint model re-weights them."""
    world = base.world
    starts = np.flatnonzero(world.start > 0)
    if base.given is not None or len(starts) < 2:
        return
    expected = base.with_reward(table).start_probabilities()[starts]
    seen = np.bincount(demos.walks.starts, weights=demos.weights, minlength=world.n_states)[starts]
    n = 1.0 / float(np.sum(demos.weights**2))  # as many demonstrations as their weights are worth
    statistic = n * float(np.sum((seen - expected) ** 2 / np.maximum(expected, 1e-12)))
    if chdtrc(len(starts) - 1, statistic) >= 1e-3:  # rarer is more than noise
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
    keeps_fixed = takes_sightings = True

    def check(self, engine: EngineSettings, given: str | None, neural: bool) -> None:
        if engine.engine not in ("auto", "exact"):
            why = f"engine={engine.engine!r} makes no sense: where the gradient is exact, so is the engine"
            raise EngineError(f"method='exact' with {why}. Use engine='exact' or 'auto', or method='cells'.")

    def run(self, task: Task, settings: FitSettings) -> "ExactRun":
        return ExactRun(task, settings, self.likelihood(task, settings))

    def likelihood(self, task: Task, settings: FitSettings) -> DistributionLikelihood:
        base, demos = Chooser(task.law(), settings.engine, settings.seed).exact(), task.demos
        if demos.order is None:
            return DistributionLikelihood(base, task.visits())
        return DistributionLikelihood(base, task.visits(), (demos.together(base), demos.seen_weights))

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> "TripRun":
        asked, trips = settings.engine, (network, task.constraint, *task.demos.trips())
        return TripRun(task, settings, TripEngine(*trips, asked.max_nodes, task.discount, asked.device))


class ExactRun(LbfgsRun[LbfgsState]):
    """L-BFGS on the exact loss."""

    state_type = LbfgsState

    def __init__(self, task: Task, settings: FitSettings, likelihood: DistributionLikelihood) -> None:
        assert isinstance(likelihood.answering, ExactDistribution)
        self.task, self.settings, self.base = task, settings, likelihood.answering
        super().__init__(Objective(likelihood, task.features, settings.coordinates(task.features.d)), settings)

    def conclude(self, state: LbfgsState, monitor: Monitor) -> Outcome:
        outcome = super().conclude(state, monitor)
        partly = len(self.task.demos.sightings) > 0
        if not monitor.stopped:  # short of the optimum, weights are finite whatever they are
            warn_undetermined(self.base, self.task, self.settings, "where the gradient fell below tol")
            if partly and not self.coordinates.l2.any() and len(self.coordinates.free) <= MOST_SEARCHES:
                warn_unseen(information(self.task, self.settings, self.answer(state)))
        if state.finished and not partly:
            warn_of_starts(self.base, self.features.table(self.answer(state)), self.task.demos)
        return outcome._replace(base=self.base)


# ---- Trips through a network: the exact likelihood of each given its start and its goal.
#
# The loss is the mean over trips of log z(start, goal) - R. Without a horizon it is finite only where the weights of
# ever longer trajectories add up, and theta = 0 is rarely such a point: on road networks M has a radius of about 3
# there. So the fit begins with a constant offset on every move that makes it 0.9 or less, and takes the offset back to
# 0 as it learns. Points outside are +inf, and a line search backs off from them.

SHARES = (0.0, 0.5, 0.8, 0.95)  # how much of an offset is left, tried in this order
PATIENCE = 100  # steps in a row that leave almost all of the offset where it was: it cannot be taken back


class TripObjective(Objective):
    """The loss of weights and its gradient, for trips as an engine has them; `offset` is added to every move.

    A trip y that was seen in part has log Z_y in place of R, and what is expected given y in place of its features.
    """

    def __init__(self, engine: TripEngine, task: Task, coordinates: Coordinates) -> None:
        self.engine, self.features, self.coordinates, self.offset = engine, task.features, coordinates, 0.0
        network, demos = engine.network, task.demos
        self.rows = task.features.rows(network.source, network.action)
        self._columns = self.rows.T.tocsr()
        uses = np.append(demos.walks.edge_uses(engine.discount, demos.weights), task.shares)
        self.demo_features: Floats = self._columns @ uses
        self._moves = np.arange(len(uses)) < len(network.source)  # and after them rules that are usually kept
        self._demo_length = float(uses[self._moves].sum())
        counted = np.flatnonzero(demos.seen_weights > 0)
        self._seen, self._seen_weights = None, demos.seen_weights[counted]
        if len(counted):
            sightings = [demos.sightings[k] for k in counted]
            self._seen = SeenTrips(engine, engine.pair_of[-len(counted) :], sightings)
            plain = self._seen.value(np.where(self._moves, engine.offset(0.0 * uses), 0.0), self._seen_weights)
            self._seen.require_explained(plain, demos.numbers[len(demos.walks) + counted])
            uses = uses + plain.visits
        # The curvature of a weight is about the mean of its squared feature over the trips, and what its penalty adds.
        curvature = self.rows.power(2).T @ uses + coordinates.l2
        # Of features that no trip shows and no penalty holds it is taken for a millionth of the largest.
        self.metric: Floats = np.sqrt(np.maximum(curvature, 1e-6 * curvature.max(initial=1e-300)))

    def reach(self, direction: Floats) -> float:
        return float(np.abs(self.rows @ self.coordinates.direction(direction)).max(initial=0.0))

    def __call__(self, moved: Floats) -> Value:
        weights = self.coordinates.full(moved)
        reward = self.rows @ weights + self.offset * self._moves
        try:
            found = self.engine.value(reward)
            loss, visits = float(self.engine.weight @ found.log_z) - float(weights @ self.demo_features), found.visits
            if self._seen is not None:
                seen = self._seen.value(reward, self._seen_weights)
                loss, visits = loss - float(self._seen_weights @ seen.log_z), visits - seen.visits
        except DivergenceError:
            return Value(np.inf, np.full(len(moved), np.nan))
        gradient = self._columns @ visits - self.demo_features
        return self.coordinates.penalised(weights, loss - self.offset * self._demo_length, gradient)


@dataclass(frozen=True)
class TripState(LbfgsState):
    """Where a run stands: that of its L-BFGS, the offset, and how long the offset has hardly moved."""

    offset: float = 0.0
    stuck: int = 0


class TripRun(LbfgsRun[TripState]):
    """L-BFGS from a feasible offset down to none; stops where no component of the gradient is above tol."""

    state_type = TripState
    objective: TripObjective

    def __init__(self, task: Task, settings: FitSettings, engine: TripEngine) -> None:
        self.task, self.settings, self.engine = task, settings, engine
        super().__init__(TripObjective(engine, task, settings.coordinates(task.features.d)), settings)

    def start(self) -> TripState:
        self.objective.offset = self.engine.offset(self.objective.rows @ self.coordinates.full(self.first))
        return replace(super().start(), offset=self.objective.offset)

    def step(self, state: TripState) -> tuple[TripState, dict[str, float]]:
        self.objective.offset = state.offset
        after, entry = super().step(self._less_offset(state) if state.offset < 0.0 else state)
        if after.offset == 0.0:
            return after, entry
        # The optimum of a loss with an offset is not yet the answer.
        return replace(after, finished=False), {**entry, "offset": after.offset}

    def _less_offset(self, state: TripState) -> TripState:
        """The state under as little of an offset as its weights bear."""
        for share in SHARES:
            self.objective.offset = offset = state.offset * share
            value = self.objective(state.weights)
            if value.loss < np.inf:
                stuck = 0 if share < SHARES[-1] else state.stuck + 1
                fresh = replace(state.forgetting(), **value._asdict(), offset=offset, stuck=stuck)
                return replace(fresh, finished=False)
        self.objective.offset = state.offset
        if state.stuck >= PATIENCE:
            self.require_feasible(state, stuck=True)
        return replace(state, finished=False, stuck=state.stuck + 1)

    def require_feasible(self, state: TripState, stuck: bool = False) -> None:
        """Raise where a run ends with an offset without which the weights of ever longer trips do not add up."""
        if state.offset == 0.0:
            return
        try:
            self.engine.log_z(self.objective.rows @ self.answer(state))
        except DivergenceError as error:
            raise DivergenceError(
                "no weights were found under which the weights of ever longer trips add up: at the best ones so far "
                f"going round {error.cycle} costs too little. {'Give' if stuck else 'Raise max_iter, or give'} the "
                "network a horizon, a feature that makes every move cost something (a length, or a constant), or fix "
                "one."
            ) from None

    def may_end(self, state: TripState) -> bool:
        return state.offset == 0.0

    def conclude(self, state: TripState, monitor: Monitor) -> Outcome:
        self.require_feasible(state)
        outcome = super().conclude(state, monitor)
        if not self.task.demos.sightings:
            self.warn_undetermined()
        elif not (monitor.stopped or self.coordinates.l2.any() or len(self.coordinates.free) > MOST_SEARCHES):
            warn_unseen(information(self.task, self.settings, self.answer(state)))
        return outcome._replace(learned={})

    def warn_undetermined(self) -> None:
        """Warn of weights that these trips cannot tell; a penalty decides, and then there is nothing to say."""
        if not self.coordinates.l2.any() and len(self.coordinates.free) == self.task.features.d:
            warn_undetermined_trips(self.engine, self.task, self.objective.rows, self.objective.demo_features)
