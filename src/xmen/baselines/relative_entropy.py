"""Relative entropy inverse reinforcement learning (Boularias, Kober and Peters, AISTATS 2011).

Of all distributions over trajectories that match the demonstrated features up to a threshold, take the one closest to
a base distribution Q, the trajectories of a base policy:

    min KL(P || Q)   with   |E_P[f_i] - mean over demos of f_i| <= epsilon_i
    P(tau) = Q(tau) exp(theta . f(tau)) / Z,    Q(tau) = d0(s_0) prod_t pi(a_t | s_t) T(s_{t+1} | s_t, a_t)
    theta maximises   theta . mean f - log Z(theta) - sum_i epsilon_i |theta_i|

It needs no model of the world: Z and its gradient are estimated by self-normalised importance sampling.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from xmen import errors
from xmen.constraints.constraint import Constraint, conjunction
from xmen.constraints.occurrence import never
from xmen.engines.distribution import Law, Seed
from xmen.errors import EngineError, Feature, Message, listing, notify, require_horizon
from xmen.events import Ints, at, doing
from xmen.learners.base import Learner, Rules
from xmen.methods.demonstrations import Demonstrations
from xmen.options import require_number, require_whole
from xmen.progress import Callback, Monitor
from xmen.rewards.linear import Features, Floats
from xmen.storage.models import storable
from xmen.worlds import MDP, Walks

ATTEMPTS = 50  # rollouts tried for each complete one wanted, at most
LARGEST_WEIGHT = 100.0  # in standard deviations of a feature: beyond, one rollout has it all


def read_policy(policy: ArrayLike | None, world: MDP, name: str) -> Floats:
    """pi(a | s), shape (n_states, n_actions), checked; None is uniform over the actions available in each state."""
    shape = (world.n_states, world.n_actions)
    if policy is None:
        return np.asarray(world.available / np.maximum(1, world.available.sum(axis=1, keepdims=True)))
    try:
        table = np.array(policy, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.shape != shape:
        found = f"an array of shape {table.shape}" if table.size else f"{type(policy).__name__} {policy!r:.40}"
        raise EngineError(f"{name} must be probabilities of shape (n_states, n_actions) = {shape}; got {found}.")
    wrong = np.argwhere(~(np.isfinite(table) & (table >= 0)) | ((table > 0) & ~world.available))
    if len(wrong):
        state, action = (int(i) for i in wrong[0])
        problem = "" if world.available[state, action] else ", where that action is not available"
        asked = f"{name} gives {world.describe_action(action)} in {world.describe_state(state)}"
        raise EngineError(f"{asked} the probability {table[state, action]}{problem}.")
    sums = table.sum(axis=1)
    off = np.flatnonzero(world.available.any(axis=1) & (np.abs(sums - 1.0) > 1e-6))
    if len(off):
        where = world.describe_state(int(off[0]))
        raise EngineError(f"{name}: the probabilities in {where} sum to {sums[off[0]]:.6g}, not to 1.")
    return table / np.where(sums > 0, sums, 1.0)[:, None]


class Rollouts(NamedTuple):
    """Complete trajectories: f(tau) (n, d), log(base / proposal) and the start of each (n,); how many were tried."""

    features: Floats
    log_weight: Floats
    starts: Ints
    tried: int


def roll_out(
    world: MDP, base: Floats, proposal: Floats, features: Features, discount: float, n: int, rng: np.random.Generator
) -> Rollouts:
    """n complete trajectories of the proposal policy, or as many as so many attempts give.

    An attempt that meets no terminal state within the horizon is no trajectory of this world and is left out: the rest
    are independent draws from the policy given that it completes, and the normalisation of the importance weights takes
    care of the probability of completing. O(longest) numpy steps per batch of n.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (np.log(base) - np.log(proposal))[world.source, world.action]
    probability = proposal[world.source, world.action] * world.probability
    possible = np.flatnonzero(probability > 0)
    source = world.source[possible].astype(np.int64)
    row = np.searchsorted(source, np.arange(world.n_states + 1))
    total = np.concatenate([[0.0], np.cumsum(probability[possible])])
    # Within a row the cumulative probabilities rise from 0 to 1, so that all rows together are one sorted array.
    key = source + np.minimum(total[1:] - total[row[source]], 1.0)
    batches, complete, tried = [], 0, 0
    while complete < n and tried < ATTEMPTS * n:
        starts = rng.choice(world.n_states, size=min(n, ATTEMPTS * n - tried), p=world.start)
        require_horizon(world.max_length, 8 * len(starts) * world.max_length)
        state, edges = starts.copy(), np.full((len(starts), world.max_length), -1, dtype=np.int64)
        for t in range(world.max_length):
            walking = np.flatnonzero(row[state + 1] > row[state])  # neither at the end nor in a dead end
            if not len(walking):
                break
            here = state[walking]
            place = np.searchsorted(key, here + rng.random(len(here)), side="right")
            edges[walking, t] = edge = possible[np.clip(place, row[here], row[here + 1] - 1)]
            state[walking] = world.target[edge]
        done = world.terminal[state] if world.has_terminal else np.all(edges >= 0, axis=1)
        kept = np.flatnonzero(done)[: n - complete]
        complete += len(kept)
        tried += int(kept[-1]) + 1 if complete == n else len(starts)  # the last batch only as far as it was needed
        walks = Walks.padded(world, starts[kept], edges[kept], np.count_nonzero(edges[kept] >= 0, axis=1))
        batches.append((features.contract(walks.visit_rows(discount)), walks.totals(ratio), starts[kept]))
    rows, log_weight, begun = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    weighted = log_weight > -np.inf  # a proposal may also go where the base policy never does
    return Rollouts(rows[weighted], log_weight[weighted], begun[weighted], tried)


class SampledDual:
    """Maximise theta . mean - log sum_k w_k exp(theta . f_k) - sum_i epsilon_i |theta_i| over theta.

    f_k and w_k are features and importance weights of the rollouts. The absolute value is split as theta = up - down
    with both non-negative, which leaves a smooth convex problem with bounds; features are scaled to unit variance.
    Features that are the same in every rollout keep the weight 0. Rollouts come in groups (n,), numbered from 0, with
    shares (G,): the logarithm is the mean of one per group.
    """

    def __init__(self, rollouts: Rollouts, mean: Floats, epsilon: Floats, group: Ints, shares: Floats) -> None:
        rows, self._log_weight, self._group, self._shares = *rollouts[:2], group, shares
        centre, scale = rows.mean(axis=0), rows.std(axis=0)
        self._known = scale > 1e-12 * np.maximum(1.0, np.abs(rows).max(axis=0))
        self._scale = np.where(self._known, scale, 1.0)
        self._rows = np.where(self._known, (rows - centre) / self._scale, 0.0)
        self._mean, self._epsilon, self._threshold = (mean - centre) / self._scale, epsilon, epsilon / self._scale
        self._scaled = np.zeros(rows.shape[1])
        self._last: tuple[Floats, tuple[float, Floats, float]] | None = None  # asked for again by the callback

    @property
    def weights(self) -> Floats:
        """theta, shape (d,)."""
        return self._scaled / self._scale

    def solve(self, max_iter: int, tolerance: float, monitor: Monitor) -> None:
        """Move to the optimum, or as near as max_iter iterations come."""
        d, first = len(self._scaled), np.zeros(2 * len(self._scaled))

        def loss(split: Floats) -> tuple[float, Floats]:
            value, gradient, _ = self._look(split[:d] - split[d:])
            penalty = float(self._threshold @ (split[:d] + split[d:]))
            return value + penalty, np.concatenate([self._threshold + gradient, self._threshold - gradient])

        def note(intermediate_result: Any) -> None:
            self._scaled = intermediate_result.x[:d] - intermediate_result.x[d:]
            if record(intermediate_result.fun):
                raise StopIteration

        def record(value: float) -> bool:
            norm, effective = float(np.linalg.norm(self.subgradient())), self.effective_sample_size
            return monitor.record(value, norm, effective_sample_size=effective, answer=lambda: self.weights)

        bounds = [(0.0, LARGEST_WEIGHT if known else 0.0) for known in self._known] * 2
        options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "maxcor": 20, "ftol": 0.0}
        options["gtol"] = tolerance / max(1.0, float(self._scale.max()))
        result = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, callback=note, options=options)
        if not monitor.stopped:
            self._scaled = result.x[:d] - result.x[d:]
        if not monitor.history:
            record(loss(first)[0])

    def _look(self, scaled: Floats) -> tuple[float, Floats, float]:
        """The smooth part of the loss at a point, its gradient, and the effective sample size there."""
        if self._last is None or not np.array_equal(self._last[0], scaled):
            log_p = self._rows @ scaled + self._log_weight
            largest = np.full(len(self._shares), -np.inf)
            np.maximum.at(largest, self._group, log_p)
            p = np.exp(log_p - largest[self._group])
            total = np.bincount(self._group, weights=p, minlength=len(self._shares))
            log_z = float(self._shares @ (largest + np.log(total))) - math.log(len(p))  # up to a constant
            p = p * (self._shares / total)[self._group]
            found = log_z - float(self._mean @ scaled), p @ self._rows - self._mean, float(1.0 / np.sum(p**2))
            self._last = scaled.copy(), found
        return self._last[1]

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2: how many independent draws of P the rollouts are worth."""
        return self._look(self._scaled)[2]

    def subgradient(self) -> Floats:
        """The smallest subgradient of the loss in the features' own units; 0 at the optimum."""
        gradient = self._look(self._scaled)[1] * self._scale
        shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - self._epsilon, 0.0)
        moved = np.where(self._scaled != 0.0, gradient + np.sign(self._scaled) * self._epsilon, shrunk)
        return np.where(self._known, moved, 0.0)

    def uncovered(self) -> Ints:
        """Features in which no mixture of the rollouts comes within epsilon of the demonstrations."""
        constant = ~self._known & (np.abs(self._mean) > self._threshold + 1e-9)
        return np.flatnonzero(constant | (np.abs(self._scaled) >= 0.99 * LARGEST_WEIGHT))


@storable
@dataclass(eq=False, repr=False)
class RelativeEntropyIRL(Learner):
    """The relative-entropy baseline: closest to a base policy, with the demonstrated features.

    It knows no rules. `fit` solves the dual of the drawn rollouts to its optimum: it is concave, and the paper's
    subgradient steps go to the same place. Cost O(n_samples d) per iteration. The learned distribution itself needs no
    samples: `distribution` and `score` put the base policy into the dynamics, and are exact where the engine is.

    Parameters
    ----------
    world
        An MDP or GridWorld.
    features
        Shape (n_states, n_actions, d); None is one weight per state.
    discount
        gamma, with 0 < gamma <= 1.
    base_policy
        pi(a | s), shape (n_states, n_actions); None is uniform over the available actions.
    sampling_policy
        The policy that rollouts follow, None for the base policy; positive where the base policy is. One that comes
        nearer to the demonstrations raises the effective sample size.
    n_samples
        Complete rollouts to draw. Those that meet no terminal state within the horizon are no trajectories of the world
        and are left out; at most 50 times as many are tried.
    epsilon
        Thresholds, a number or one per feature. None takes Hoeffding's bound at `confidence`, epsilon_i = range(f_i)
        sqrt(-log(1 - confidence) / (2 m)) with m demonstrations and the range seen.
    confidence
        Of that bound. The default makes thresholds nearly 0: features are matched as closely as rollouts allow.
    max_iter, tol
        When to stop.
    engine, seed, callback, given
        As for XMEN.

    Attributes
    ----------
    effective_sample_size_
        How many independent draws the weighted rollouts are worth.
    completed_
        The share of rollouts that were complete.
    epsilon_
        The thresholds that were used.
    """

    world: MDP
    features: ArrayLike | None = None
    discount: float = 1.0
    base_policy: ArrayLike | None = None
    sampling_policy: ArrayLike | None = None
    n_samples: int = 10_000
    epsilon: float | ArrayLike | None = None
    confidence: float = 0.01
    max_iter: int = 1000
    tol: float = 1e-6
    engine: str = "auto"
    seed: Seed = None
    callback: Callback | None = None
    given: str | None = None

    def _fit(self, demos: Demonstrations) -> None:
        features, world, rng = self._read_features(), demos.seen_world(self.given), np.random.default_rng(self.seed)
        rollouts = roll_out(world, *self._policies(demos), features, self.discount, int(self.n_samples), rng)
        n = len(rollouts.starts)
        if not n:
            none = f"none of {rollouts.tried} rollouts met a terminal state within the horizon"
            advice = "give a sampling_policy that finds one, or a longer horizon"
            raise EngineError(f"{none} ({self.world.horizon} actions): {advice}.")
        mean, epsilon = features.contract(demos.visits(self.discount)), self._thresholds(rollouts, demos, features)
        dual = SampledDual(rollouts, mean, epsilon, *self._groups(rollouts, world))
        with Monitor(self.callback) as monitor:
            dual.solve(self.max_iter, self.tol, monitor)
        missed = float(np.abs(dual.subgradient()).max(initial=0.0))
        self._learned(features.reward(dual.weights), monitor, missed <= self.tol)
        self.completed_, self.epsilon_ = n / rollouts.tried, epsilon
        self.effective_sample_size_ = dual.effective_sample_size
        self._report(dual, n, monitor)

    def _check_settings(self) -> None:
        super()._check_settings()
        require_whole("n_samples", self.n_samples, least=1)
        require_whole("max_iter", self.max_iter, least=1)
        require_number("confidence", self.confidence, least=0.0, below=1.0)
        require_number("tol", self.tol, above=0.0)

    def _policies(self, demos: Demonstrations) -> tuple[Floats, Floats]:
        """The base and the sampling policy, checked against each other and against the demonstrations."""
        world = self.world
        base = read_policy(self.base_policy, world, "base_policy")
        proposal = base if self.sampling_policy is None else read_policy(self.sampling_policy, world, "sampling_policy")
        missing = np.argwhere((base > 0) & (proposal == 0))
        if len(missing):
            state, action = (int(i) for i in missing[0])
            taken = f"which the base policy takes with probability {base[state, action]:.3g}"
            lacks = f"sampling_policy never takes {world.describe_action(action)} in {world.describe_state(state)}"
            raise EngineError(f"{lacks}, {taken}: give it a positive probability.")
        walks = demos.walks
        taken = base[world.source[walks.edges], world.action[walks.edges]] == 0
        if taken.any():
            step = int(np.argmax(taken))
            edge, index, t = int(walks.edges[step]), int(walks.owner[step]), int(walks.time[step])
            where = f"{world.describe_state(int(world.source[edge]))} (position {t})"
            did = f"demonstration {index} takes {world.describe_action(int(world.action[edge]))} in {where}"
            why = "which the base policy never does: give base_policy a positive probability there"
            raise errors.InvalidDemonstrationError(f"{did}, {why}.", index=index, position=t)
        return base, proposal

    def _groups(self, rollouts: Rollouts, world: MDP) -> tuple[Ints, Floats]:
        """Given the start, the start of each rollout and the shares of demonstrations there; else all are one group."""
        if self.given is None:
            return np.zeros(len(rollouts.starts), dtype=np.int64), np.ones(1)
        starts = np.flatnonzero(world.start)
        missing = np.setdiff1d(starts, rollouts.starts)
        if len(missing):
            where, advice = self.world.describe_state(int(missing[0])), "give a sampling_policy that finds a way"
            none = f"no rollout from {where}, where demonstrations start, was complete"
            raise EngineError(f"{none}: draw more (n_samples), or {advice}.")
        return np.searchsorted(starts, rollouts.starts), world.start[starts]

    def _thresholds(self, rollouts: Rollouts, demos: Demonstrations, features: Features) -> Floats:
        if self.epsilon is None:
            low, high = demos.feature_range(features, self.discount)
            low, high = np.minimum(low, rollouts.features.min(axis=0)), np.maximum(high, rollouts.features.max(axis=0))
            n_demos = 1.0 / float(np.sum(demos.weights**2))  # effectively: how many of equal weight they are worth
            return np.asarray((high - low) * math.sqrt(-math.log1p(-self.confidence) / (2.0 * n_demos)))  # Hoeffding's
        d = features.d
        try:
            epsilon = np.array(np.broadcast_to(np.array(self.epsilon, dtype=np.float64), (d,)))
        except (TypeError, ValueError):
            epsilon = np.array([np.nan])
        if not (np.isfinite(epsilon).all() and np.all(epsilon >= 0)):
            raise EngineError(f"epsilon must be one number or {d} of them, 0 or more; got {self.epsilon!r:.60}.")
        return epsilon

    def _report(self, dual: SampledDual, n: int, monitor: Monitor) -> None:
        away = dual.uncovered()
        advice = "Draw more (n_samples), give a sampling_policy nearer to the demonstrations, or a larger epsilon."
        if len(away):
            sentence = "no mixture of the {} rollouts matches the demonstrations in {}: {}"
            named = listing([Feature(k) for k in away.tolist()], 8)
            notify(Message(sentence, n, named, advice), errors.UnboundedWarning)
        elif self.effective_sample_size_ < 30:  # an average says little
            worth = f"{n} rollouts are worth {self.effective_sample_size_:.1f}"
            collapsed = f"the importance weights have collapsed: {worth}, so the weights are little more than noise"
            notify(f"{collapsed}. {advice}", errors.LearningWarning)
        elif not (self.converged_ or monitor.stopped or monitor.interrupted):
            last = monitor.history[-1]
            where = f"a gradient norm of {last.gradient_norm:.3g} and a loss of {last.loss:.6g}. Raise max_iter or tol."
            end = f"RelativeEntropyIRL stopped after max_iter = {self.max_iter} iterations with {where}"
            notify(end, errors.ConvergenceWarning)

    def _law(self, world: MDP, also: Rules) -> Law:
        """P(tau) = Q(tau) exp(theta . f(tau)) / Z: D has the base policy in it, whose zeros are a rule."""
        base = read_policy(self.base_policy, self.world, "base_policy")
        return replace(super()._law(world, also), policy=np.where(base > 0, base, 1.0))

    def _rule(self, also: Rules = None) -> Constraint | None:
        """The rules together with the extra ones, and a rule against the actions that the base policy never takes."""
        rules, world = [super()._rule(also)], self.world
        if "reward_" in vars(self):
            unused = world.available & (read_policy(self.base_policy, world, "base_policy") == 0)
            states = {action: np.flatnonzero(unused[:, action]).tolist() for action in range(world.n_actions)}
            events = [at(*found) & doing(action) for action, found in states.items() if found]
            if events:
                rules.append(never(reduce(or_, events)).named("what the base policy never does"))
        return conjunction(rules)
