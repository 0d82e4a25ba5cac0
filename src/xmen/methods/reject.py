"""method="reject": learning under rules that do not fit the product, from exact draws of what does.

The fit begins at the optimum of the rules that fit, which is exact. Then, in rounds: draw trips from the relaxation at
the present weights, and take steps on the loss that these draws estimate (`RejectTrips`), until the weights have moved
on or the loss of these draws is at its optimum. It ends when fresh draws see no gradient above its noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from xmen.engines.choose import Chooser
from xmen.engines.reject import RejectDistribution
from xmen.engines.reject_trips import RejectTrips, TripDraws
from xmen.engines.trips import trip_budget
from xmen.errors import DivergenceError, EngineError
from xmen.methods.by_start import rounds
from xmen.methods.coordinates import Value
from xmen.methods.lbfgs import Lbfgs, entry_of
from xmen.methods.method import Method
from xmen.methods.network_run import NeuralRun
from xmen.methods.network_training import Training
from xmen.methods.reject_draws import RejectSource
from xmen.methods.rounds import RoundsRun
from xmen.methods.runs import FitSettings, Outcome, Run, Task
from xmen.methods.seeds import child_seed, seed_sequence, stored_seed
from xmen.methods.trips import TripObjective, TripRun, TripState
from xmen.notices import ConvergenceWarning, notify
from xmen.options import require_whole
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats
from xmen.rewards.neural import NeuralReward
from xmen.worlds.network import Network

NOISE = 2.0  # a gradient within this many of its standard errors is as small as it can be seen to be
LEAST_ROUNDS = 3
MOST_FEATURES = 300  # whose noise is kept with its correlations
MOST_CHANGE = 0.03  # of the acceptance in a round: invalid draws cannot speak for longer ones that they never saw


@dataclass(frozen=True, repr=False)
class Reject(Method):
    """Learn from rejection's exact draws: for rules that do not fit the product, such as no link twice.

    In a world with its own start, in rounds as those of `xm.Cells`. On a network:

    Parameters
    ----------
    n_draws
        Draws of every distinct pair of a start and a goal in a round; ten times as many where few are valid.
    redraw_every
        Steps after which the draws are made anew, at the latest.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Reject(n_draws=200)
    Reject(n_draws=200)
    """

    n_draws: int = 64
    redraw_every: int = 12

    name = "reject"
    default_max_iter = 1000
    keeps_fixed = True

    def __post_init__(self) -> None:
        require_whole("n_draws", self.n_draws, least=2)
        require_whole("redraw_every", self.redraw_every, least=2)

    def run(self, task: Task, settings: FitSettings) -> RoundsRun:
        if settings.fixed:
            raise EngineError("method='reject' does not go with fixed weights: use method='exact', or leave them out.")

        def make(part: Task) -> tuple[RejectDistribution, RejectSource]:
            base = Chooser(part.joint_law(), settings.engine).joint_reject()
            return base, RejectSource(base, part.features)

        return rounds(task, settings, make)

    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        raise EngineError("method='reject' is for linear rewards: train a network with method='exact' or 'cells'.")

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> RejectRun:
        if task.discount != 1.0:
            raise EngineError("method='reject' needs discount = 1: raise max_nodes so that the rules fit the product.")
        budget = trip_budget(settings.engine.max_nodes, network)
        return RejectRun(task, settings, RejectTrips(network, task.constraint, *task.demos.trips(), budget), self)


class RejectObjective:
    """The loss that one round's draws estimate, and its gradient.

    The influence of an invalid draw on a pair's E[f | valid] is its weight times that expectation less its own f; the
    features of the pair's own demonstrations, `pair_features` (P, d), stand in for the expectation.
    """

    def __init__(self, trips: RejectTrips, exact: TripObjective, draws: TripDraws, pair_features: csr_matrix) -> None:
        self.trips, self.exact, self.draws = trips, exact, draws
        self._difference = csr_matrix(pair_features[draws.pair] - draws.uses @ exact.rows)  # (K, d)
        self._squares = self._difference.power(2).T.tocsr()

    def __call__(self, moved: Floats) -> Value:
        coordinates, rows = self.exact.coordinates, self.exact.rows
        weights = coordinates.full(moved)
        try:
            found = self.trips.value(rows @ weights, self.draws)
        except DivergenceError:
            return Value(np.inf, np.full(len(moved), np.nan))
        loss = float(self.trips.engine.weight @ found.log_z) - float(weights @ self.exact.demo_features)
        return coordinates.penalised(weights, loss, rows.T @ found.visits - self.exact.demo_features)

    def acceptance(self, weights: Floats) -> float:
        """The mean acceptance that these draws expect at all weights (d,)."""
        found = self.trips.value(self.exact.rows @ weights, self.draws, with_visits=False)
        return float(self.trips.engine.weight @ found.acceptance / self.trips.engine.weight.sum())

    def noise(self, weights: Floats) -> tuple[float, Floats]:
        """The standard error of the loss, and the variance of the gradient (d,), at all weights (d,)."""
        found = self.trips.value(self.exact.rows @ weights, self.draws, with_visits=False)
        loss_std = float(np.sqrt(self.trips.engine.weight**2 @ found.variance))
        variance: Floats = self._squares @ self._scale(found.acceptance) ** 2
        return loss_std, variance

    def gradient_covariance(self) -> Floats:
        """The covariance of the gradient (d, d) where the draws were made; of many features, its diagonal alone."""
        scale = self._scale(self.draws.acceptance)
        if self._difference.shape[1] > MOST_FEATURES:
            return np.diag(self._squares @ scale**2)
        influence = csr_matrix(self._difference.multiply(scale[:, None]))
        covariance: Floats = (influence.T @ influence).toarray()
        return covariance

    def _scale(self, acceptance: Floats) -> Floats:
        """What each invalid draw counts in the gradient."""
        scale: Floats = (self.trips.engine.weight / np.maximum(acceptance, 1e-12) / self.draws.n)[self.draws.pair]
        return scale


@dataclass(frozen=True)
class RejectState(TripState):
    """Where a run stands: a TripState, the round (0: the rules that fit), and where and how long ago it drew."""

    round: int
    anchor: Floats
    since: int
    seed: dict[str, Any]


class RejectRun(Run[RejectState]):
    """Rounds of draws and steps, from the optimum of the rules that fit."""

    state_type = RejectState

    def __init__(self, task: Task, settings: FitSettings, trips: RejectTrips, method: Reject) -> None:
        self.task, self.trips, self.method, self.seed = task, trips, method, settings.seed
        self.relaxed = TripRun(task, settings, trips.engine)
        self.coordinates = self.relaxed.coordinates
        self.max_iter = self.relaxed.max_iter
        self._drawn: tuple[int, RejectObjective] | None = None
        demos, engine = task.demos, trips.engine
        walks = demos.walks[demos.weights > 0]
        shares = demos.weights[demos.weights > 0] / engine.weight[engine.pair_of]
        shape = (engine.n_pairs, len(walks.world.source))
        uses = csr_matrix((shares[walks.owner], (engine.pair_of[walks.owner], walks.edges)), shape=shape)
        self.pair_features = csr_matrix(uses @ self.relaxed.objective.rows)

    def start(self) -> RejectState:
        state, seed = self.relaxed.start(), stored_seed(seed_sequence(self.seed))
        return RejectState(**state.parts(), round=0, anchor=state.weights, since=0, seed=seed)

    def finished(self, state: RejectState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def objective(self, state: RejectState) -> RejectObjective:
        """The loss of the state's round; the draws are a function of its seed, its round and its anchor."""
        if self._drawn is None or self._drawn[0] != state.round:
            rng = np.random.default_rng(child_seed(state.seed, state.round))
            reward = self.relaxed.objective.rows @ self.coordinates.full(state.anchor)
            draws = self.trips.draw(reward, self.method.n_draws, rng)
            self._drawn = state.round, RejectObjective(self.trips, self.relaxed.objective, draws, self.pair_features)
        return self._drawn[1]

    def step(self, state: RejectState) -> tuple[RejectState, dict[str, float]]:
        if state.round == 0:
            state, entry = self.relaxed.step(state)
            return (self._redraw(state, judge=False)[0] if state.finished else state), entry
        after = self._optimiser(self.objective(state)).step(state)
        far = self._too_far(state, after.weights)
        if far is not None:
            return self._redraw(replace(after.forgetting(), weights=far), judge=False)
        state = replace(after, finished=False, since=after.since + 1)
        if after.finished or state.since >= self.method.redraw_every:
            return self._redraw(state, judge=True)
        return state, self._entry(state)

    def _too_far(self, state: RejectState, weights: Floats) -> Floats | None:
        """Where to stop on the way to these weights, if their acceptance is too far from that of the draws."""
        objective, full = self.objective(state), self.coordinates.full
        here = objective.acceptance(full(state.anchor))
        share = 1.0
        while share > 0.01:
            there = state.weights + share * (weights - state.weights)
            if abs(objective.acceptance(full(there)) - here) <= MOST_CHANGE:
                break
            share /= 2.0
        return None if share == 1.0 else there

    def _optimiser(self, objective: RejectObjective) -> Lbfgs:
        relaxed = self.relaxed.optimiser
        return Lbfgs(objective, relaxed.scale, relaxed.reach, relaxed.tol, relaxed.metric)

    def _redraw(self, state: RejectState, judge: bool) -> tuple[RejectState, dict[str, float]]:
        """The next round: fresh draws at the present weights, which also judge them."""
        expected = state.loss
        state = replace(state, round=state.round + 1, anchor=state.weights, since=0)
        objective = self.objective(state)
        value = objective(state.weights)
        state = replace(state, **value._asdict(), finished=False)
        entry = self._entry(state)
        if judge and state.round >= LEAST_ROUNDS:
            scale, tol = self.relaxed.optimiser.scale, self.relaxed.optimiser.tol
            size = float(np.linalg.norm(value.gradient / scale))
            noise = float(np.sqrt(np.sum(self._gradient_variance(state) / scale**2)))
            # The last draws and these agree: on where the optimum is, and on how much loss there is.
            same = abs(value.loss - expected) <= NOISE * np.sqrt(2.0) * entry["loss_std"] + tol
            state = replace(state, finished=bool(same and size <= NOISE * noise + tol))
        return state, entry

    def _gradient_variance(self, state: RejectState) -> Floats:
        weights = self.coordinates.full(state.weights)
        variance: Floats = self.objective(state).noise(weights)[1][self.coordinates.free]
        return variance

    def _entry(self, state: RejectState) -> dict[str, float]:
        objective = self.objective(state)
        weights = self.coordinates.full(state.weights)
        loss_std, variance = objective.noise(weights)
        acceptance = objective.draws.acceptance
        return {
            **entry_of(state.loss, state.gradient),
            "loss_std": loss_std,
            "gradient_std": float(np.sqrt(variance.sum())),
            "acceptance": float(self.trips.engine.weight @ acceptance / self.trips.engine.weight.sum()),
            "least_acceptance": float(acceptance.min()),
            "round": state.round,
        }

    def answer(self, state: RejectState) -> Floats:
        return self.coordinates.full(state.weights)

    def may_end(self, state: RejectState) -> bool:
        return state.round > 0

    def conclude(self, state: RejectState, monitor: Monitor) -> Outcome:
        if state.round == 0:
            notify(
                f"stopped after {state.iteration} iterations, before any draw: these are the weights of the rules that "
                f"fit ({', '.join(map(repr, self.trips.multiplied)) or 'none'}). Raise max_iter.",
                ConvergenceWarning,
            )
            return self.relaxed.conclude(state, monitor)
        if not (state.finished or monitor.stopped or monitor.interrupted):
            notify(
                f"stopped after max_iter = {self.max_iter} iterations with a gradient norm of "
                f"{np.linalg.norm(state.gradient):.3g}, still above its noise. Raise max_iter, or Reject(n_draws=...).",
                ConvergenceWarning,
            )
        self.relaxed.warn_undetermined()
        engine, objective = self.trips.engine, self.objective(state)
        learned = {
            "acceptance_": np.column_stack([engine.start, engine.goal, objective.draws.acceptance]),
            "gradient_noise_": objective.gradient_covariance(),
        }
        return Outcome(self.answer(state), state.finished, None, learned)
