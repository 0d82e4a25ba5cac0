"""Relative entropy inverse reinforcement learning (Boularias, Kober and Peters, AISTATS 2011).

Of all distributions over trajectories that match the demonstrated features up to a threshold, take the one closest to
a base distribution Q, the trajectories of a base policy:

    min KL(P || Q)   with   |E_P[f_i] - mean over demos of f_i| <= epsilon_i
    P(tau) = Q(tau) exp(theta . f(tau)) / Z,    Q(tau) = d0(s_0) prod_t pi(a_t | s_t) T(s_{t+1} | s_t, a_t)
    theta maximises   theta . mean f - log Z(theta) - sum_i epsilon_i |theta_i|

It needs no model of the world: Z and its gradient are estimated by self-normalised importance sampling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.baselines.importance import SampledDual, hoeffding
from xmen.baselines.rollouts import Rollouts, never_taken, read_policy
from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.distribution import Seed
from xmen.engines.law import Law
from xmen.errors import EngineError, InvalidDemonstrationError
from xmen.learners.base import Learner, Rules
from xmen.methods.demonstrations import Demonstrations
from xmen.notices import ConvergenceWarning, LearningWarning, UnboundedWarning, notify
from xmen.options import require_number, require_whole
from xmen.progress.monitor import Callback, Monitor
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.storage.models import storable
from xmen.worlds.mdp import MDP

LEAST_EFFECTIVE = 30  # effective rollouts below which an average says little
ATTEMPTS = 50  # rollouts tried for each complete one wanted, at most


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
        features = self._read_features()
        rollouts = self._roll_out(demos, features, self._policies(demos))
        mean = features.contract(demos.visits(self.discount))
        self.epsilon_ = self._thresholds(rollouts, demos, features)
        dual = SampledDual(rollouts.features, rollouts.log_weight, mean, self.epsilon_, *self._groups(rollouts, demos))
        with Monitor(self.callback) as monitor:
            dual.solve(self.max_iter, self.tol, monitor)
        self._learned(features.reward(dual.weights), monitor, dual.residual() <= self.tol)
        self.effective_sample_size_ = dual.effective_sample_size()
        self._report(dual, len(rollouts.features), monitor)

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
            raise EngineError(
                f"sampling_policy never takes {world.describe_action(action)} in {world.describe_state(state)}, which "
                f"the base policy takes with probability {base[state, action]:.3g}: give it a positive probability."
            )
        walks = demos.walks
        taken = base[world.source[walks.edges], world.action[walks.edges]] == 0
        if taken.any():
            step = int(np.argmax(taken))
            edge, index, t = int(walks.edges[step]), int(walks.owner[step]), int(walks.time[step])
            raise InvalidDemonstrationError(
                f"demonstration {index} takes {world.describe_action(int(world.action[edge]))} in "
                f"{world.describe_state(int(world.source[edge]))} (position {t}), which the base policy never does: "
                "give base_policy a positive probability there.",
                index=index,
                position=t,
            )
        return base, proposal

    def _groups(self, rollouts: Rollouts, demos: Demonstrations) -> tuple[NDArray[np.int64], Floats]:
        """Given the start, the start of each rollout and the shares of demonstrations there; else all are one group."""
        if self.given is None:
            return np.zeros(len(rollouts.starts), dtype=np.int64), np.ones(1)
        shares = demos.seen_world(self.given).start
        starts = np.flatnonzero(shares)
        missing = np.setdiff1d(starts, rollouts.starts)
        if len(missing):
            raise EngineError(
                f"no rollout from {self.world.describe_state(int(missing[0]))}, where demonstrations start, was "
                "complete: draw more (n_samples), or give a sampling_policy that finds a way."
            )
        return np.searchsorted(starts, rollouts.starts), shares[starts]

    def _roll_out(self, demos: Demonstrations, features: Features, policies: tuple[Floats, Floats]) -> Rollouts:
        n = int(self.n_samples)
        rng = np.random.default_rng(self.seed)
        rollouts = Rollouts.draw(demos.seen_world(self.given), *policies, features, self.discount, n, ATTEMPTS * n, rng)
        if not len(rollouts.features):
            raise EngineError(
                f"none of {rollouts.tried} rollouts met a terminal state within the horizon "
                f"({self.world.horizon} actions): give a sampling_policy that finds one, or a longer horizon."
            )
        self.completed_ = len(rollouts.features) / rollouts.tried
        return rollouts

    def _thresholds(self, rollouts: Rollouts, demos: Demonstrations, features: Features) -> Floats:
        if self.epsilon is None:
            low, high = demos.feature_range(features, self.discount)
            low, high = np.minimum(low, rollouts.features.min(axis=0)), np.maximum(high, rollouts.features.max(axis=0))
            return hoeffding(high - low, self.confidence, 1.0 / float(np.sum(demos.weights**2)))
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
            shown = ", ".join(map(str, away[:8].tolist())) + (", ..." if len(away) > 8 else "")
            notify(
                f"no mixture of the {n} rollouts matches the demonstrations in features {shown}: {advice}",
                UnboundedWarning,
            )
        elif self.effective_sample_size_ < LEAST_EFFECTIVE:
            notify(
                f"the importance weights have collapsed: {n} rollouts are worth {self.effective_sample_size_:.1f}, "
                f"so the weights are little more than noise. {advice}",
                LearningWarning,
            )
        elif not (self.converged_ or monitor.stopped or monitor.interrupted):
            last = monitor.history[-1]
            notify(
                f"RelativeEntropyIRL stopped after max_iter = {self.max_iter} iterations with a gradient norm of "
                f"{last.gradient_norm:.3g} and a loss of {last.loss:.6g}. Raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _law(self, world: MDP, also: Rules) -> Law:
        """P(tau) = Q(tau) exp(theta . f(tau)) / Z: D has the base policy in it, whose zeros are a rule."""
        base = read_policy(self.base_policy, self.world, "base_policy")
        return replace(super()._law(world, also), policy=np.where(base > 0, base, 1.0))

    def _rule(self, also: Rules = None) -> Constraint | None:
        """`also`, and the rule against what the base policy never does."""
        if "reward_" not in vars(self):
            return super()._rule(also)
        unused = never_taken(self.world, read_policy(self.base_policy, self.world, "base_policy"))
        return conjunction([rule for rule in (super()._rule(also), unused) if rule is not None])
