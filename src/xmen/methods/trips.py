"""Learning from trips through a network: the exact likelihood of each given its start and its goal, and L-BFGS.

The loss is the mean over trips of log z(start, goal) - R. Without a horizon it is finite only where the weights of ever
longer trajectories add up, and theta = 0 is rarely such a point: on road networks M has a radius of about 3 there. So
the fit begins with a constant offset on every move that makes it one, and takes the offset back to 0 as it learns.
Points outside are +inf, and a line search backs off from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from xmen.engines.trips import TripEngine
from xmen.errors import DivergenceError
from xmen.methods.identify import warn_undetermined_trips
from xmen.methods.likelihood import DEFAULT_MAX_ITER, Lbfgs, LbfgsState, entry_of, warn_of_max_iter
from xmen.methods.runs import Coordinates, FitSettings, Outcome, Run, Task, Value
from xmen.progress import Monitor
from xmen.rewards import Floats

RADIUS = 0.9  # of M where the fit begins, if it would be larger there without an offset
SHARES = (0.0, 0.5, 0.8, 0.95)  # how much of an offset is left, tried in this order
LEAST_CURVATURE = 1e-6  # of the largest: for features that no trip shows and no penalty holds
PATIENCE = 100  # steps in a row that leave almost all of the offset where it was: it cannot be taken back


class TripObjective:
    """The loss of weights and its gradient, for trips as an engine has them; `offset` is added to every move."""

    def __init__(self, engine: TripEngine, task: Task, coordinates: Coordinates) -> None:
        self.engine, self.coordinates, self.offset = engine, coordinates, 0.0
        network, demos = engine.network, task.demos
        self.rows = task.features.rows(network.source, network.action)
        self._columns = self.rows.T.tocsr()
        uses = demos.walks.edge_uses(engine.discount, demos.weights)
        self.demo_features: Floats = self._columns @ uses
        self._demo_length = float(uses.sum())
        # The curvature of a weight is about the mean of its squared feature over the trips, and what its penalty adds.
        curvature = self.rows.power(2).T @ uses + coordinates.l2
        self.metric: Floats = np.sqrt(np.maximum(curvature, LEAST_CURVATURE * curvature.max(initial=1e-300)))

    def reach(self, direction: Floats) -> float:
        """The largest change of a reward along a direction of the weights that move."""
        return float(np.abs(self.rows @ self.coordinates.direction(direction)).max(initial=0.0))

    def __call__(self, moved: Floats) -> Value:
        weights = self.coordinates.full(moved)
        try:
            found = self.engine.value(self.rows @ weights + self.offset)
        except DivergenceError:
            return Value(np.inf, np.full(len(moved), np.nan))
        loss = float(self.engine.weight @ found.log_z) - float(weights @ self.demo_features)
        gradient = self._columns @ found.visits - self.demo_features
        return self.coordinates.penalised(weights, loss - self.offset * self._demo_length, gradient)


@dataclass(frozen=True)
class TripState(LbfgsState):
    """Where a run stands: that of its L-BFGS, the offset, and how long the offset has hardly moved."""

    offset: float
    stuck: int


Moved = TypeVar("Moved", bound=TripState)


class TripRun(Run[TripState]):
    """L-BFGS from a feasible offset down to none; stops where no component of the gradient is above tol."""

    state_type = TripState

    def __init__(self, task: Task, settings: FitSettings, engine: TripEngine) -> None:
        self.task, self.engine, self.coordinates = task, engine, settings.coordinates(task.features.d)
        self.max_iter, self.first = settings.most_iterations(DEFAULT_MAX_ITER), settings.start
        self.objective = TripObjective(engine, task, self.coordinates)
        scale = task.features.scale[self.coordinates.free]
        metric = self.objective.metric[self.coordinates.free]
        self.optimiser = Lbfgs(self.objective, scale, self.objective.reach, settings.tolerance(), metric)

    def start(self) -> TripState:
        first = self.coordinates.values if self.first is None else self.first
        weights = first[self.coordinates.free]
        self.objective.offset = offset = self._first_offset(self.coordinates.full(weights))
        return TripState(**self.optimiser.start(weights).parts(), offset=offset, stuck=0)

    def _first_offset(self, weights: Floats) -> float:
        if self.engine.shared is None:
            return 0.0
        radius = self.engine.shared.radius(self.objective.rows @ weights)
        return min(0.0, float(np.log(RADIUS / radius))) if radius > 0.0 else 0.0

    def finished(self, state: TripState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: Moved) -> tuple[Moved, dict[str, float]]:
        self.objective.offset = state.offset
        after = self.optimiser.step(self._less_offset(state) if state.offset < 0.0 else state)
        entry = entry_of(after.loss, after.gradient)
        if after.offset == 0.0:
            return after, entry
        # The optimum of a loss with an offset is not yet the answer.
        return replace(after, finished=False), {**entry, "offset": after.offset}

    def _less_offset(self, state: Moved) -> Moved:
        """The state under as little of an offset as its weights bear."""
        for share in SHARES:
            self.objective.offset = offset = state.offset * share
            value = self.objective(state.weights)
            if value.loss < np.inf:
                stuck = 0 if share < SHARES[-1] else state.stuck + 1
                fresh = replace(state.forgetting(), **value._asdict(), offset=offset, stuck=stuck)
                return replace(fresh, finished=False, n_calls=state.n_calls + 1)
        self.objective.offset = state.offset
        if state.stuck >= PATIENCE:
            self._require_feasible(state.weights, stuck=True)
        return replace(state, finished=False, stuck=state.stuck + 1)

    def require_feasible(self, state: TripState) -> None:
        """Raise where a run has ended with an offset that its weights cannot do without."""
        if state.offset < 0.0:
            self._require_feasible(state.weights, stuck=False)

    def _require_feasible(self, moved: Floats, stuck: bool) -> None:
        """Raise where the weights of ever longer trips do not add up at these weights, without an offset."""
        try:
            self.engine.value(self.objective.rows @ self.coordinates.full(moved), with_visits=False)
        except DivergenceError as error:
            raise DivergenceError(
                "no weights were found under which the weights of ever longer trips add up: at the best ones so far "
                f"going round {error.cycle} costs too little. {'Give' if stuck else 'Raise max_iter, or give'} the "
                "network a horizon, a feature that makes every move cost something (a length, or a constant), or fix "
                "one."
            ) from None

    def answer(self, state: TripState) -> Floats:
        return self.coordinates.full(state.weights)

    def may_end(self, state: TripState) -> bool:
        return state.offset == 0.0

    def conclude(self, state: TripState, monitor: Monitor) -> Outcome:
        self.require_feasible(state)
        if not (state.finished or monitor.stopped or monitor.interrupted):
            warn_of_max_iter(self.max_iter, state.gradient, self.optimiser.tol)
        self.warn_undetermined()
        return Outcome(self.answer(state), state.finished, None)

    def warn_undetermined(self) -> None:
        """Warn of weights that these trips cannot tell; a penalty decides, and then there is nothing to say."""
        if not self.coordinates.l2.any() and len(self.coordinates.free) == self.task.features.d:
            rows, demo_features = self.objective.rows, self.objective.demo_features
            warn_undetermined_trips(self.engine, self.task, rows, demo_features, "where its steps became small")
