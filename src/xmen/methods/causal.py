"""The dual of maximum causal entropy: the loss of a reward in a world with chance, and its exact gradient.

L(r) = mean V_0(start of a demonstration) - mean R(demonstration). V_0 is convex in the reward, and its derivative is
the expected visits of the policy, so dL/dr = E_pi[visits] - the demonstrations' mean visits. With a promise of
probability p the bonus is a further variable of the dual: L gains -bonus * p, at the bonus that makes it least.

Where a policy with the demonstrated visits exists, L is its causal entropy or more, whatever the reward: R adds as much
to V_0 as it takes away. A loss below 0 therefore proves that no policy has these visits, and that L has no minimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmen import errors
from xmen.errors import Feature, InvalidDemonstrationError, Message, Setting, joined, notify
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.identify import at_an_end, warn_unbounded
from xmen.methods.information import Information, curvature
from xmen.methods.likelihood import LbfgsRun, LbfgsState
from xmen.methods.runs import Coordinates, Likelihood, LossEstimate, Outcome
from xmen.policies.behaviour import Behaviour, best_chance, find_behaviour, push_forward, unpaid
from xmen.policies.explanation import why_unsafe
from xmen.policies.game import Game
from xmen.progress import Monitor
from xmen.rewards.linear import Features, Floats
from xmen.worlds import Trajectory
from xmen.worlds.demos import also_wrong

LESS = Setting("validity", 0.9)  # an example of a promise that is neither sure nor the best


def require_episodes(demos: Demonstrations, trajectories: Sequence[Trajectory]) -> None:
    """Refuse what is no episode of the world from its start to its end; failed and unfinished ones are episodes."""
    world = demos.walks.world
    wrong = [
        (index, *problem)
        for index in np.flatnonzero(~demos.valid).tolist()
        if (problem := world.problem(trajectories[index])) and not world.unfinished(trajectories[index])
    ]
    if wrong:
        index, position, sentence = wrong[0]
        others = also_wrong([number for number, *_ in wrong], "are no episodes of this world")
        raise InvalidDemonstrationError(f"demonstration {index} {sentence}{others}", index=index, position=position)


def require_allowed(
    promise: Behaviour, choices: NDArray[np.int64], demos: Demonstrations, max_nodes: int | None
) -> None:
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


def expected_visits(
    promise: Behaviour, choices: NDArray[np.int64], weights: Floats, starts: Floats, discount: float
) -> Floats:
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

    return game.visits(push_forward(game, shares_at, discount, starts).used)


BELOW_ZERO = 1e-6  # nats; a loss further below 0 is no rounding error
LARGE = 1e7  # a reward this large makes V_0 the largest expected sum there is, up to the entropy in units of it
MOST_ERRORS = 3.0  # standard errors between how often rules are kept, by demonstrations and by the policy
SHARE_NAMED = 0.1  # features whose gradient is this share of the largest are named as out of reach


@dataclass
class CausalLoss(Likelihood):
    """Loss and dL/dr of reward tables: one backward and one forward sweep, more where a bonus is searched for.

    `starts` are the demonstrations' shares of the game's start nodes; `visits` their mean discounted visits.
    """

    game: Game
    starts: Floats
    visits: Floats
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
        return LossEstimate(loss, behaviour.visits(self.starts) - self.visits, 0.0, 0.0, {})

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


def causal_information(
    loss: CausalLoss, features: Features, coordinates: Coordinates, demos: Demonstrations, weights: Floats
) -> Information:
    """The information about linear weights (d,) in demonstrations, whose scores are f - E_pi[f | start]."""

    def mean(at: Floats) -> Floats:
        return features.contract(loss(features.table(at)).difference + loss.visits)

    behaviour, starts = loss.behaviour(features.table(weights)), loss.game.product.starts
    states = loss.game.product.state[starts]
    expected = np.zeros((len(demos), features.d))
    for place in np.flatnonzero(loss.starts > 0).tolist():
        alone = behaviour.visits(np.eye(1, len(starts), place)[0])
        expected[demos.walks.starts == states[place]] = features.contract(alone)
    scores = features.contract(demos.walks.visit_rows(loss.discount)) - expected
    hessian = curvature(lambda points: map(mean, points), weights, features.scale, coordinates)
    # With chance the curvature is not the variance of the features: outcomes vary, too. The scores know.
    chance = not loss.game.product.world.deterministic
    return Information(coordinates, hessian, scores, demos.weights, by_scores=chance)


def warn_of_promise(loss: CausalLoss, table: Floats, demos: Demonstrations) -> None:
    """Warn where the learned policy keeps the rules more or less often than the demonstrations, beyond their noise.

    A policy of the model that has the demonstrated features need not keep the rules as often as they do; where it does
    not, the promise was another, and the weights stand for what the promise should.
    """
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
    promised = Setting("validity", loss.validity)
    notify(Message(sentence, kept, learned, promised, why, ask, more), errors.PromiseWarning)


def warn_of_infinity(loss: CausalLoss, features: Features, demos: Demonstrations) -> None:
    """Warn of features of which all demonstrations have the least or the most that any policy has on average.

    For a large reward s on one feature V_0 / s is the largest mean of it up to entropy / s.
    """

    def under(table: Floats) -> Behaviour:
        return Behaviour(loss.game, table, loss.discount, unpaid(loss.validity))

    def reached() -> Floats:
        return features.contract(under(np.zeros(loss.visits.shape)).visits(loss.starts))

    def extremes(k: int, table: Floats) -> tuple[float, float, float]:
        scale = features.scale[k]
        most, least = (sign * loss.value(under(LARGE * sign * table / scale)) / LARGE * scale for sign in (1, -1))
        return least, most, 1e-5 * scale * max(1, loss.game.horizon)

    which = at_an_end(features, demos, loss.discount, reached, extremes)
    warn_unbounded(which, "where the gradient fell below tol")
