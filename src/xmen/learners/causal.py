"""Learning what can be executed: a reward by the dual of maximum causal entropy, in worlds with chance."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.engines.distribution import Distribution, Seed
from xmen.errors import EngineError
from xmen.learners.base import GradientLearner, Progress, Rules, takes_parts
from xmen.methods import causal
from xmen.methods.demonstrations import Demonstrations, gather
from xmen.methods.information import Information
from xmen.methods.likelihood import Objective
from xmen.methods.neural import Training, train
from xmen.methods.runs import Run, read_l2
from xmen.options import require_choice
from xmen.policies import behaviour
from xmen.policies.explanation import promised, refuse
from xmen.rewards import Floats, reward_table
from xmen.rewards.neural import NeuralReward
from xmen.storage.models import storable
from xmen.worlds import MDP, Trajectory
from xmen.worlds.demos import as_trajectories


@storable
@takes_parts
@dataclass(eq=False, repr=False)
class CausalXMEN(GradientLearner):
    """Fits a reward so that the policy of maximum causal entropy which keeps the rules behaves as demonstrated.

    The policy can be executed: it conditions on what has happened, and not on how chance will turn out. The loss is
    L = mean V_0(start of a demonstration) - mean R + l2/2 |theta|^2, convex in theta; its gradient is E_pi[f] - mean f.
    Starts are nature's: each demonstration counts given where it starts. In a deterministic world with one start it is
    the same as `XMEN`. `score` is the mean over demonstrations of sum_t log pi(a_t | history), in nats, whatever the
    outcomes: -inf with one that the world makes impossible, or with a step that the policy never takes.

    Parameters
    ----------
    world
        An MDP or GridWorld.
    validity
        What the policy promises: "sure", "best", or a probability; see `xm.plan`. It should be what the demonstrator
        keeps to: as often as demonstrations keep the rules. With "sure" every step of a demonstration has to be one
        that cannot go wrong. Otherwise demonstrations are whole episodes, and those that failed or did not arrive
        belong to them.
    outcomes
        "demonstrated": the policy has the demonstrations' features on average. "expected": it has those of a policy
        that chooses as often as the demonstrations did and leaves the outcomes to the world; for demonstrations that
        were luckier than the world is, and for "best", which leaves little choice to make up for that.
    max_iter, tol
        Iterations at most; the largest component of the gradient, in units of its feature, at which the fit ends.
    max_nodes
        The budget of the product of world and rules.
    device
        Where policies are worked out, as in `xm.plan`.
    constraint, features, discount, reward, training, l2, fixed, seed, warm_start, validation, progress
        As for `XMEN`; the settings of `xm.Progress` are accepted by their names as well.

    Raises
    ------
    InfeasibleError
        From `fit`, where no policy keeps the promise.
    InvalidDemonstrationError
        From `fit`: a demonstration that breaks a rule, or that took a step which could have broken one.

    Examples
    --------
    >>> import xmen as xm
    >>> rows = [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (2, 0, 3, 1.0)]
    >>> world = xm.MDP(4, 2, rows, start=0, terminal=[3])
    >>> gamble, safe = xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([0, 2, 3], [1, 0])
    >>> features = np.zeros((4, 2, 1)); features[0, 0] = 1.0
    >>> model = CausalXMEN(world, features=features).fit([gamble, safe, safe])
    >>> model.weights_.round(6), round(model.policy().validity, 6)  # twice as often: -log 2
    (array([-0.693147]), 1.0)
    """

    method = "exact"

    world: MDP
    constraint: Rules = None
    features: ArrayLike | None = None
    validity: str | float = "sure"
    discount: float = 1.0
    outcomes: str = "demonstrated"
    reward: NeuralReward | None = None
    training: Training | None = None
    l2: float | ArrayLike = 0.0
    max_iter: int | None = None
    tol: float = 1e-7
    max_nodes: int | None = None
    seed: Seed = None
    fixed: Mapping[int, float] | None = None
    warm_start: bool = False
    validation: Iterable[Trajectory] | None = None
    device: str | None = None
    progress: Progress | None = None

    # --- learning ----------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        behaviour.read_validity(self.validity)
        require_choice("outcomes", self.outcomes, ("demonstrated", "expected"))

    def _gather(self, demos: Iterable[Trajectory], sample_weight: ArrayLike | None) -> Demonstrations:
        if self.validity == "sure":
            return super()._gather(demos, sample_weight)
        trajectories = as_trajectories(demos, least=1)
        found = gather(self.world.any_task, self._rule(), trajectories, sample_weight, refuse_invalid=False)
        causal.require_episodes(found, trajectories)
        return found

    def _fit(self, demos: Demonstrations) -> None:
        loss = self._loss(demos)
        settings, reward = self._begin()
        if reward is None:
            features = self._read_features()
            run: Run[Any] = causal.CausalRun(Objective(loss, features, settings.coordinates(features.d)), settings)
        else:
            run = train(loss, reward, self.training or Training(), settings)
        # More iterations go on where fewer have ended; the device says where numbers are found, and not which.
        outcome = self._drive(run, demos, apart=("max_iter", "device"))
        if loss.validity != "sure":  # of which demonstrations that fail were refused
            causal.warn_of_promise(loss, reward_table(self.reward_, self.world), demos)
        if self.reward is None and outcome.converged and not read_l2(self.l2).any():
            causal.warn_of_infinity(loss, self._read_features(), demos)

    def _loss(self, demos: Demonstrations) -> causal.CausalLoss:
        """What is to be made least: the game that the promise leaves, and the visits that are wanted."""
        validity, rule = behaviour.read_validity(self.validity), self._rule()
        game = behaviour.make_game(self.world.any_task, rule, self.max_nodes, self.device)
        promise = behaviour.Behaviour.unrewarded(game, behaviour.unpaid(validity))
        kept = validity != "sure" or behaviour.is_sure(promise, game.start_probability)
        if isinstance(validity, float):
            best = behaviour.Behaviour.unrewarded(game, "best")
            kept = validity <= behaviour.best_chance(best, game.start_probability) + 1e-9
        if not kept:
            raise refuse(game, validity, self.max_nodes)
        choices = behaviour.follow(game, demos.walks)
        causal.require_allowed(promise, choices, demos, self.max_nodes)
        shares = np.bincount(demos.walks.starts, weights=demos.weights, minlength=self.world.n_states)
        starts, visits = shares.astype(np.float64)[game.product.state[game.product.starts]], demos.visits(self.discount)
        if self.outcomes == "expected":
            visits = causal.expected_visits(promise, choices, demos.weights, starts, self.discount)
        game = behaviour.restricted(promise) if validity == "sure" else game  # with the same starts
        return causal.CausalLoss(game, starts, visits, self.discount, validity)

    def _information(self, demos: Demonstrations) -> Information:
        if self.outcomes == "expected":
            raise EngineError(
                "standard errors are those of demonstrated features: with outcomes='expected' there is no score for "
                "each demonstration. Resample demonstrations instead, or use outcomes='demonstrated'."
            )
        features = self._read_features()
        coordinates = self._fit_settings().coordinates(features.d)
        return causal.causal_information(self._loss(demos), features, coordinates, demos, self.weights_)

    def _summary_notes(self) -> dict[str, str]:
        notes = super()._summary_notes()
        if self.world.deterministic:
            return notes
        return notes | {"standard errors": "from the scores: with chance the curvature is not the features' variance"}

    # --- what was learned --------------------------------------------------------------------------------------

    def sample(
        self, n: int, also: Rules = None, seed: Seed = None, start: int | None = None, goal: int | None = None
    ) -> list[Trajectory]:
        """n episodes of `policy(also)` in the world's own chances: with "sure" every one keeps the rules."""
        return self.policy(also, start=start, goal=goal).rollout(n, seed=seed)

    def distribution(self, also: Rules = None, start: int | None = None, goal: int | None = None) -> Distribution:
        """P(tau) under the learned reward, in deterministic worlds; with chance it is not what was learned."""
        self._require_fitted()
        if not self.world.deterministic:
            raise EngineError(
                "CausalXMEN learns behaviour, and in a world with chance no distribution over trajectories stands for "
                "it: P(tau) conditions on luck. Use policy() and its rollout(n), or xm.distribution(world, constraint, "
                "model.reward_) for P(tau) under this reward."
            )
        return super().distribution(also, start, goal)

    def _log_likelihoods(self, found: Demonstrations) -> tuple[Floats, Floats]:
        return behaviour.log_probs(self.policy().behaviour, found.walks), np.zeros(len(found))

    def _likelihoods_under(self, found: Demonstrations) -> Callable[[Floats], Floats]:
        validity = behaviour.read_validity(self.validity)
        game = behaviour.make_game(self.world.any_task, self._rule(), self.max_nodes, self.device)

        def under(table: Floats) -> Floats:
            kept = promised(game, table, self.discount, validity, self.max_nodes)
            return behaviour.log_probs(kept, found.walks)

        return under
