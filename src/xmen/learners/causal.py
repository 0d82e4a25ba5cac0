"""Learning what can be executed: a reward by the dual of maximum causal entropy, in worlds with chance.

L(r) = mean V_0(start of a demonstration) - mean R(demonstration). V_0 is convex in the reward, and its derivative is
the expected visits of the policy, so dL/dr = E_pi[visits] - the demonstrations' mean visits. With a promise of
probability p the bonus is a further variable of the dual: L gains -bonus * p, at the bonus that makes it least.

Where a policy with the demonstrated visits exists, L is its causal entropy or more, whatever the reward: R adds as much
to V_0 as it takes away. A loss below 0 therefore proves that no policy has these visits, and that L has no minimum.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from xmen import errors
from xmen.constraints.constraint import usual_rules
from xmen.engines.distribution import Distribution, Seed, as_constraint
from xmen.errors import EngineError, Feature, InvalidDemonstrationError, Message, Setting, joined, notify
from xmen.events import Ints
from xmen.learners.base import Demos, GradientLearner, Progress, Rules, takes_parts
from xmen.methods.demonstrations import Demonstrations, gather
from xmen.methods.identify import at_an_end, warn_of_usual, warn_unbounded
from xmen.methods.information import Information, curvature
from xmen.methods.likelihood import LbfgsRun, LbfgsState, Objective
from xmen.methods.neural import NeuralRun, Training
from xmen.methods.runs import Likelihood, LossEstimate, Outcome, Run, read_l2
from xmen.options import require_choice
from xmen.policies import behaviour as behaviours
from xmen.policies.behaviour import Behaviour, best_chance, find_behaviour
from xmen.policies.explanation import promised, refuse, why_unsafe
from xmen.policies.game import Game
from xmen.progress import Monitor
from xmen.rewards import Floats
from xmen.rewards.linear import Features
from xmen.rewards.neural import NeuralReward
from xmen.storage.models import storable
from xmen.worlds import MDP, Trajectory
from xmen.worlds.demos import also_wrong, as_trajectories

LESS = Setting("validity", 0.9)  # an example of a promise that is neither sure nor the best


def require_allowed(promise: Behaviour, choices: Ints, demos: Demonstrations, max_nodes: int | None) -> None:
    """Refuse a demonstration with a step that the promise forbids, and say what could have gone wrong."""
    wrong: list[tuple[int, int]] = []
    for t in range(choices.shape[1]):
        going = np.flatnonzero(choices[:, t] >= 0)
        bad = going[~promise.allowed(t)[choices[going, t]]]
        wrong += [(index, t) for index in bad.tolist()]
    if not wrong:
        return
    (index, position), game, world = min(wrong), promise.game, demos.walks.world
    edges, choice = demos.walks.edges[demos.walks.owner == index][:position], int(choices[index, position])
    states, actions = [int(demos.walks.starts[index]), *world.target[edges].tolist()], world.action[edges].tolist()
    action, label = int(game.action[choice]), None
    doing = f"{world.describe_action(action)} in {world.describe_state(states[-1])}"
    did = f"demonstration {index} does {doing} at position {position}"
    if promise.aim == "best":
        sentence = "{}, with less than the best chance of keeping the rules. Ask for less, as in {}, or leave it out."
        message = Message(sentence, did, LESS)
    else:
        value = promise.layer(position + 1).value
        outcome = int(game.product.state[next(n for n in game.outcomes(choice) if value[n] == -np.inf)])
        label, reason = why_unsafe(game, ([*states, outcome], [*actions, action]), max_nodes)
        sentence = (
            "{}, which could have gone wrong: it may lead to {}, {}. A policy that is sure never does this. Ask for a "
            "probability, as in {}, or leave the demonstration out; {} only helps where no sure policy exists, and "
            "here one does."
        )
        where, best = world.describe_state(outcome), Setting("validity", "best")
        message = Message(sentence, did, where, reason, LESS, best, world=world)
    error = InvalidDemonstrationError(message, index=index, constraint=label, position=position)
    error.details = also_wrong(sorted({number for number, _ in wrong}), "take such steps")
    raise error


def expected_visits(promise: Behaviour, choices: Ints, weights: Floats, starts: Floats, discount: float) -> Floats:
    """The visits of a policy that chooses as the demonstrations did, and leaves the outcomes to the world.

    At a node and time that demonstrations reached it has their frequencies. Elsewhere those of the node at other
    times, of its state, or else all that is allowed, in this order.
    """
    game, nothing = promise.game, np.zeros(promise.game.n_choices)
    steps = [(column >= 0, column) for column in choices.T]
    at_time = [np.bincount(c[on], weights=weights[on], minlength=game.n_choices) for on, c in steps]
    by_node = np.sum(at_time, axis=0) if at_time else nothing
    by_pair = np.bincount(game.pair, weights=by_node)[game.pair]

    def shares_at(t: int) -> Floats:
        n = int(game.product.layer_ends[t])
        nodes = game.node[: int(game.first_choice[n])]
        allowed = promise.allowed(t)[: len(nodes)]
        shares, unknown = np.zeros(len(allowed)), np.ones(n, dtype=np.bool_)
        for count in (at_time[t] if t < len(at_time) else nothing, by_node, by_pair, np.ones(game.n_choices)):
            usable = np.where(allowed, count[: len(allowed)], 0.0)
            total = np.bincount(nodes, weights=usable, minlength=n)
            now = (unknown & (total > 0))[nodes]
            shares[now] = usable[now] / total[nodes[now]]
            unknown &= total == 0
        return shares

    return game.visits(behaviours.push_forward(game, shares_at, discount, starts).used)


BELOW_ZERO = 1e-6  # nats; a loss further below 0 is no rounding error
LARGE = 1e7  # a reward this large makes V_0 the largest expected sum there is, up to the entropy in units of it
MOST_ERRORS = 3.0  # standard errors between how often rules are kept, by demonstrations and by the policy
SHARE_NAMED = 0.1  # features whose gradient is this share of the largest are named as out of reach


@dataclass
class CausalLoss(Likelihood):
    """Loss and dL/dr of reward tables: one backward and one forward sweep, more where a bonus is searched for."""

    game: Game
    starts: Floats  # the demonstrations' shares of the game's start nodes
    visits: Floats  # their mean discounted visits, and how often rules that are usually kept are to be kept
    discount: float
    validity: str | float

    exact = True

    def behaviour(self, table: Floats) -> Behaviour:
        """The behaviour of maximum causal entropy under a reward table (n_states, n_actions)."""
        found = find_behaviour(self.game, table, self.discount, self.validity, self.starts)
        # The world's own starts allow what is asked for; the demonstrations' may fall short of it, and do their best.
        return Behaviour(self.game, table, self.discount, "best") if found is None else found

    def __call__(self, table: Floats) -> LossEstimate:
        behaviour = self.behaviour(table)
        loss = self.value(behaviour) - float(np.sum(self.visits * table))
        if isinstance(behaviour.aim, float):
            loss -= behaviour.aim * float(self.validity)
        return LossEstimate(loss, behaviour.moments(self.starts) - self.visits, 0.0, 0.0, {})

    def value(self, behaviour: Behaviour) -> float:
        """The mean of V_0 over the starts of the demonstrations."""
        counted = self.starts > 0
        return float(behaviour.start_values[counted] @ self.starts[counted])


class CausalRun(LbfgsRun[LbfgsState]):
    """L-BFGS on the causal loss; ends at the optimum, or where a loss below 0 proves that there is none."""

    state_type = LbfgsState

    def _without_minimum(self, state: LbfgsState) -> bool:
        return not self.coordinates.l2.any() and state.loss < -BELOW_ZERO

    def finished(self, state: LbfgsState) -> bool:
        return super().finished(state) or self._without_minimum(state)

    def conclude(self, state: LbfgsState, monitor: Monitor) -> Outcome:
        if not self._without_minimum(state):
            return super().conclude(state, monitor)
        gradient = self.coordinates.direction(state.gradient)
        notify(_out_of_reach(gradient, self.features.scale), errors.UnboundedWarning)
        monitor.stopped = True  # what there is to say of its end has been said
        return super().conclude(state, monitor)._replace(converged=False)


def _out_of_reach(gradient: Floats, scale: Floats) -> Message:
    """The sentence about features that no policy has as the demonstrations have them."""
    apart = np.abs(gradient / scale)
    worst = [int(k) for k in np.argsort(-apart, kind="stable")[:6] if apart[k] >= SHARE_NAMED * apart.max()]
    which = [Message("{} (demonstrated {})", Feature(k), "more" if gradient[k] < 0 else "less") for k in worst]
    sentence = (
        "no policy that keeps the promise has the demonstrated features: {}. Either chance was not with the "
        "demonstrations what it is in the world, or they promise less than `validity` asks for; the loss has no "
        "minimum, and the weights run to infinity. Set {}, which takes from the demonstrations how often each action "
        "was chosen, and from the world where it leads; or {} > 0 for finite weights; or give more demonstrations."
    )
    return Message(sentence, joined(which, ", "), Setting("outcomes", "expected"), Setting("l2"))


def warn_of_promise(loss: CausalLoss, table: Floats, demos: Demonstrations) -> None:
    """Warn where the learned policy keeps the rules more or less often than the demonstrations, beyond their noise."""
    kept = demos.mean(demos.valid.astype(np.float64))
    learned = best_chance(loss.behaviour(table), loss.starts)
    noise = np.sqrt(learned * (1.0 - learned) * float(np.sum(demos.weights**2)))
    if abs(learned - kept) <= max(MOST_ERRORS * noise, 1e-6):
        return
    best = best_chance(Behaviour.unrewarded(loss.game, "best"), loss.starts)
    ask = Setting("validity", float(f"{kept:.4g}") if kept < best - MOST_ERRORS * noise else "best")
    why, more = "no policy with this promise behaves as they do", ""
    if kept >= learned:
        why = "something keeps them to the rules that is neither in the features nor in the promise"
        more = " if they were meant to keep the rules, or add features"
    sentence = (
        "{:.4g} of the demonstrations keep the rules, and the learned policy does with probability {:.4g} ({}): {}, "
        "and the weights make up for it. Ask for {}{}."
    )
    notify(Message(sentence, kept, learned, Setting("validity", loss.validity), why, ask, more), errors.PromiseWarning)


def warn_of_infinity(loss: CausalLoss, features: Features, demos: Demonstrations) -> None:
    """Warn of features of which all demonstrations have the least or the most that any policy has on average.

    For a large reward s on one feature V_0 / s is the largest mean of it up to entropy / s.
    """

    def under(table: Floats) -> Behaviour:
        return Behaviour(loss.game, table, loss.discount, behaviours.unpaid(loss.validity))

    def reached() -> Floats:
        return features.contract(under(np.zeros(loss.visits.shape)).visits(loss.starts))

    def extremes(k: int, table: Floats) -> tuple[float, float, float]:
        scale = features.scale[k]
        most, least = (sign * loss.value(under(LARGE * sign * table / scale)) / LARGE * scale for sign in (1, -1))
        return least, most, 1e-5 * scale * max(1, loss.game.horizon)

    warn_unbounded(at_an_end(features, demos, loss.discount, reached, extremes), "where the gradient fell below tol")


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
    takes_usual: ClassVar[bool] = True

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
        behaviours.read_validity(self.validity)
        require_choice("outcomes", self.outcomes, ("demonstrated", "expected"))

    def _gather(self, demos: Demos, sample_weight: ArrayLike | None, refuse_invalid: bool = True) -> Demonstrations:
        if self.validity == "sure" or not refuse_invalid:
            return super()._gather(demos, sample_weight, refuse_invalid)
        trajectories, world = as_trajectories(demos, least=1), self.world.any_task
        found = gather(world, self._rule(), trajectories, sample_weight, refuse_invalid=False)
        wrong = [  # failed and unfinished episodes are episodes
            (index, *problem)
            for index in np.flatnonzero(~found.valid).tolist()
            if (problem := world.problem(trajectories[index])) and not world.unfinished(trajectories[index])
        ]
        if wrong:
            index, position, sentence = wrong[0]
            others = also_wrong([number for number, *_ in wrong], "are no episodes of this world")
            raise InvalidDemonstrationError(f"demonstration {index} {sentence}{others}", index=index, position=position)
        return found

    def _fit(self, demos: Demonstrations) -> None:
        loss = self._loss(demos)
        if self._evaluates():
            return
        settings, reward = self._begin()
        if reward is None:
            features = self._all_features()
            run: Run[Any] = CausalRun(Objective(loss, features, settings.coordinates(features.d)), settings)
        else:
            run = NeuralRun(loss, reward, self.training or Training(), settings)
        # More iterations go on where fewer have ended; the device says where numbers are found, and not which.
        outcome = self._drive(run, demos, apart=("max_iter", "device"))
        if loss.validity != "sure":  # of which demonstrations that fail were refused
            warn_of_promise(loss, self._table(), demos)
        usual, found = usual_rules(as_constraint(self.constraint)), vars(self).get("rule_weights_", {})
        warn_of_usual(usual, self._task(demos).shares, found, outcome.converged)
        if self.reward is None and outcome.converged and not read_l2(self.l2).any():
            warn_of_infinity(loss, self._read_features(), demos)

    def _loss(self, demos: Demonstrations) -> CausalLoss:
        """What is to be made least: the game that the promise leaves, and the visits that are wanted."""
        validity, rule = behaviours.read_validity(self.validity), self._rule()
        game = behaviours.make_game(self.world.any_task, rule, self.max_nodes, self.device)
        promise = Behaviour.unrewarded(game, behaviours.unpaid(validity))
        kept = validity != "sure" or behaviours.is_sure(promise, game.start_probability)
        if isinstance(validity, float):
            kept = validity <= best_chance(Behaviour.unrewarded(game, "best"), game.start_probability) + 1e-9
        if not kept:
            raise refuse(game, validity, self.max_nodes)
        choices = behaviours.follow(game, demos.walks)
        require_allowed(promise, choices, demos, self.max_nodes)
        begun = np.bincount(demos.walks.starts, weights=demos.weights, minlength=self.world.n_states)
        starts, visits = begun.astype(np.float64)[game.product.state[game.product.starts]], demos.visits(self.discount)
        if self.outcomes == "expected":
            visits = expected_visits(promise, choices, demos.weights, starts, self.discount)
        game = behaviours.restricted(promise) if validity == "sure" else game  # with the same starts
        shares = self._task(demos).shares
        return CausalLoss(game, starts, np.append(visits, shares) if len(shares) else visits, self.discount, validity)

    def _information(self, demos: Demonstrations) -> Information:
        if self.outcomes == "expected":
            none = "with outcomes='expected' there is no score for each demonstration"
            advice = "Resample demonstrations instead, or use outcomes='demonstrated'."
            raise EngineError(f"standard errors are those of demonstrated features: {none}. {advice}")
        features, loss, weights = self._all_features(), self._loss(demos), self._all_weights
        coordinates, product = self._fit_settings().coordinates(features.d), loss.game.product

        def mean(at: Floats) -> Floats:
            return features.contract(loss(features.table(at)).difference + loss.visits)

        behaviour, states = loss.behaviour(features.table(weights)), product.state[product.starts]
        expected = np.zeros((len(demos), features.d))  # E_pi[f | start]
        for place in np.flatnonzero(loss.starts > 0).tolist():
            alone = behaviour.moments(np.eye(1, len(states), place)[0])
            expected[demos.walks.starts == states[place]] = features.contract(alone)
        scores = features.contract(demos.rows(loss.discount)) - expected
        hessian = curvature(lambda points: map(mean, points), weights, features.scale, coordinates)
        # With chance the curvature is not the variance of the features: outcomes vary, too. The scores know.
        chance = not product.world.deterministic
        return Information(coordinates, hessian, scores, demos.weights, self._settled, by_scores=chance)

    def _summary_notes(self) -> dict[str, str]:
        by_scores = {"standard errors": "from the scores: with chance the curvature is not the features' variance"}
        return super()._summary_notes() | ({} if self.world.deterministic else by_scores)

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
        return behaviours.log_probs(self.policy().behaviour, found.walks), np.zeros(len(found))

    def _likelihoods_under(self, found: Demonstrations) -> Callable[[Floats], Floats]:
        asked = self.discount, behaviours.read_validity(self.validity), self.max_nodes
        game = behaviours.make_game(self.world.any_task, self._rule(), self.max_nodes, self.device)
        return lambda table: behaviours.log_probs(promised(game, table, *asked), found.walks)
