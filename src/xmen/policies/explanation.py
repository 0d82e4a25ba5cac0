"""Why no policy keeps the rules surely: what chance can do against every choice, in the user's names.

A node is *safe* if the rules can be kept surely from it, and *lost* if nothing can save them any more. From a start
that is not safe, chance has an answer to every action: an outcome that is not safe either. The story follows choices
and such outcomes, as few as possible, to a node at which every action has an outcome that is lost at once.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

import numpy as np

from xmen.constraints.constraint import And, Constraint, conjunction, units, usual_rules
from xmen.errors import InfeasibleError, Message, ProductTooLargeError, Setting, joined
from xmen.machines.tables import CompiledConstraint
from xmen.policies.behaviour import Aim, Behaviour, Validity, best_chance, find_behaviour, is_sure, make_game
from xmen.policies.game import Floats, Game
from xmen.product.graph import DEFAULT_MAX_NODES
from xmen.product.watch import Chain
from xmen.worlds.mdp import MDP

# ---- How likely a policy is to break each rule.
#
# Once the rules together are lost, a policy no longer remembers which of them: nodes merge. So each rule is watched
# by itself, by its own machine beside the policy's memory.


def rules_of(constraint: Constraint | None) -> dict[str, Constraint]:
    """The parts of a conjunction that a user would name, by name; those of one name are taken together."""
    return _by_name(units(constraint))


def _by_name(rules: Iterable[tuple[str, Constraint]]) -> dict[str, Constraint]:
    parts: dict[str, list[Constraint]] = {}
    for label, rule in rules:
        parts.setdefault(label, []).append(rule)
    return {label: cast(Constraint, conjunction(same)) for label, same in parts.items()}


def _named(node: Constraint, covered: bool = False) -> Iterator[tuple[str, Constraint]]:
    """Every rule of a conjunction that has a name, the conjunctions too, and by its text what no name covers."""
    if node.name is not None or not (covered or isinstance(node, And)):
        yield node.label, node
    for child in node.children if isinstance(node, And) else ():
        yield from _named(child, covered or node.name is not None)


def breaking(behaviour: Behaviour) -> dict[str, float]:
    """The probability that an episode breaks each rule, by its name."""
    game, product = behaviour.game, behaviour.game.product
    constraint = product.compiled.constraint
    rules = {} if constraint is None else _by_name(_named(constraint))
    rules |= {one.label: one.rule for one in usual_rules(constraint)}
    if behaviour.aim == "sure" and not usual_rules(constraint):
        return dict.fromkeys(rules, 0.0)
    n_outcomes = np.diff(game.first_edge)

    def probability(actions: slice) -> Floats:
        shares = np.zeros((actions.stop - actions.start, game.n_choices))
        for row, t in zip(shares, range(actions.start, actions.stop), strict=True):
            made = behaviour.layer(t).shares
            row[: len(made)] = made
        return np.asarray(np.repeat(shares, n_outcomes, axis=1) * game.probability)

    chain = Chain(product, game.start_probability, probability, behaviour.timeless)
    most, given = max(DEFAULT_MAX_NODES, product.n_nodes), (product.world, True, product.compiled.tables)
    return {label: chain.mass_broken(CompiledConstraint(rule, *given), most) for label, rule in rules.items()}


SHOWN = 6  # steps and actions printed before the rest is summed up
Move = tuple[int, int]  # an action, and the state to which chance may let it lead


class Impossible(NamedTuple):
    """Why no policy is sure."""

    world: MDP
    best: float  # probability of keeping the rules
    start: int
    story: list[Move]
    failing: list[Move]  # after the story: an outcome of each action that is lost
    reasons: list[str]  # what each of these breaks
    conflict: tuple[str, ...]  # a minimal set of rules that no policy keeps surely
    dropping: tuple[str, ...]  # without any one of these the rest can be kept surely

    def __str__(self) -> str:
        world = self.world

        def tell(move: Move) -> str:
            return f"{world.describe_action(move[0])} may lead to {world.describe_state(move[1])}"

        told = list(map(tell, self.story))
        if len(told) > SHOWN:
            told = [*told[: SHOWN - 1], f"and so on for {len(told) - SHOWN + 1} more steps"]
        begin = f"from {world.describe_state(self.start)}" + (f", {', then '.join(told)}" if told else "")
        if not self.failing:
            return f"{begin}: this {self.reasons[0]}"
        fails = [f"{tell(move)}, which {why}" for move, why in zip(self.failing[:SHOWN], self.reasons, strict=False)]
        more = f"; and {len(self.failing) - SHOWN} more actions" if len(self.failing) > SHOWN else ""
        return f"{begin}; there every action can fail: {'; '.join(fails)}{more}"


def explain(game: Game, max_nodes: int | None = None) -> Impossible | None:
    """Why no policy keeps the rules surely; None where one does."""
    product, starts, safe = game.product, game.start_probability, Behaviour.unrewarded(game, "sure")
    if is_sure(safe, starts):
        return None
    best = Behaviour.unrewarded(game, "best")
    found = _story(game, safe, best, only_best=True) or _story(game, safe, best, only_best=False)
    assert found is not None  # a start that is not safe has a story
    start, story, failing = found
    rules = rules_of(product.compiled.constraint)
    states, actions = [start, *(state for _, state in story)], [action for action, _ in story]
    ends = [([*states, state], [*actions, action]) for action, state in failing] or [(states, actions)]
    arriving, *alone = (_chances(product.world, rule, "best", ends, max_nodes) for rule in (None, *rules.values()))
    reasons = []
    for i, arrives in enumerate(arriving):
        broken = [label for label, chances in zip(rules, alone, strict=True) if chances[i] == 0.0]
        reason: str = Message("breaks {}", joined(broken, " and ", "{!r}"))
        if not broken:
            reason = "leaves no way to keep all rules and arrive"
        reasons.append("cannot arrive in time" if arrives == 0.0 else reason)
    blame = _blame(product.world, rules, max_nodes)
    return Impossible(product.world, best_chance(best, starts), *found, reasons, *blame)


def promised(game: Game, table: Floats, discount: float, validity: Validity, max_nodes: int | None = None) -> Behaviour:
    """The behaviour that keeps the promise from the world's own starts; InfeasibleError where none does."""
    found = find_behaviour(game, table, discount, validity, game.start_probability)
    if found is None:
        raise refuse(game, validity, max_nodes)
    return found


def refuse(game: Game, asked: Validity, max_nodes: int | None = None) -> InfeasibleError:
    """The error for a promise that no policy can keep."""
    why = explain(game, max_nodes)
    assert why is not None
    wanted = "surely" if asked == "sure" else f"with probability {asked:g}"
    advice = " No episode at all can keep them: loosen the rules, or raise the horizon."
    if why.best > 0.0:
        advice = Message(" Ask for {}, or for a probability up to {:.6g}.", Setting("validity", "best"), why.best)
    sentence = "No policy is sure to keep {}, and dropping any single rule does not make all the others sure."
    hint: str = Message(sentence, joined(why.conflict, ", ", "{!r}"))
    if not why.conflict:
        hint = "Even without rules no policy is sure to arrive in time."
    elif len(rules_of(game.product.compiled.constraint)) == 1:
        hint = "Without this rule every episode could arrive in time."
    elif why.dropping:
        hint = Message("Without {} all other rules can be kept surely.", joined(why.dropping, " or without ", "{!r}"))
    sentence = "no policy keeps the rules {}: {}. The best probability there is: {:.6g}. {}{}"
    message = Message(sentence, wanted, why, why.best, hint, advice, world=why.world)
    return InfeasibleError(message, why.conflict, why.best, why.dropping)


def _story(game: Game, safe: Behaviour, best: Behaviour, only_best: bool) -> tuple[int, list[Move], list[Move]] | None:
    """The shortest way to where every action can be lost at once, through the best choices alone if asked for."""
    product = game.product

    def move(choice: int, after: int) -> Move:
        return int(game.action[choice]), int(product.state[after])

    unsafe = (safe.start_values == -np.inf) & (game.start_probability > 0)
    came: list[dict[int, tuple[int, Move] | None]] = [dict.fromkeys(product.starts[unsafe].tolist())]
    for t in range(game.horizon + 1):
        for node in came[t]:
            choices = game.choices_of(node) if t < game.horizon else range(0)
            lost = [[n for n in game.outcomes(c) if best.layer(t + 1).chance[n] == 0.0] for c in choices]
            if all(lost):  # or nothing is left to do
                story, failing = list[Move](), [move(c, some[0]) for c, some in zip(choices, lost, strict=True)]
                for reached in came[t:0:-1]:
                    node, step = cast(tuple[int, Move], reached[node])
                    story.append(step)
                return int(product.state[node]), story[::-1], failing
        if t == game.horizon:
            break
        came.append({})
        for node in came[t]:
            for choice in game.choices_of(node):
                if only_best and best.layer(t).shares[choice] == 0.0:
                    continue
                for after in game.outcomes(choice):
                    if safe.layer(t + 1).value[after] == -np.inf:
                        came[-1].setdefault(after, (node, move(choice, after)))
    return None


History = tuple[list[int], list[int]]  # states and actions


def _chances(
    world: MDP, rule: Constraint | None, aim: Aim, histories: list[History], max_nodes: int | None
) -> list[float]:
    """The chance that a policy which cares for nothing but one rule keeps it after each of these histories."""
    game = make_game(world, rule, max_nodes)
    found, product, promise = [], game.product, Behaviour.unrewarded(game, aim)
    for states, actions in histories:
        node = int(product.starts[np.flatnonzero(product.state[product.starts] == states[0])[0]])
        for action, state in zip(actions, states[1:], strict=True):
            choice = next(c for c in game.choices_of(node) if game.action[c] == action)
            node = next(after for after in game.outcomes(choice) if product.state[after] == state)
        found.append(float(promise.chance(len(actions), node)))
    return found


def why_unsafe(game: Game, history: History, max_nodes: int | None = None) -> tuple[str | None, str]:
    """Which rule a history may cost, as (its name, a clause): broken already, or no longer sure to be kept."""
    world, rules = game.product.world, rules_of(game.product.compiled.constraint)

    def lost(aim: Aim, rule: Constraint | None) -> bool:
        return _chances(world, rule, aim, [history], max_nodes) == [0.0]

    broken = [label for label, rule in rules.items() if lost("best", rule)]
    if broken:
        return broken[0], Message("which breaks {}", joined(broken, " and ", "{!r}"))
    if lost("best", None):
        return None, "from where it cannot arrive in time"
    unsure = [label for label, rule in rules.items() if lost("sure", rule)]
    if unsure:
        return unsure[0], Message("after which {} can no longer be kept surely", joined(unsure, " and ", "{!r}"))
    return None, "after which the rules can no longer be kept surely together"


def _blame(world: MDP, rules: dict[str, Constraint], max_nodes: int | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A minimal set of rules that no policy keeps surely, and the rules without any one of which the rest is sure."""

    def sure(kept: list[str]) -> bool:
        try:
            game = make_game(world, conjunction([rules[label] for label in kept]), max_nodes)
        except ProductTooLargeError:
            return False  # cannot tell: nothing is promised
        return is_sure(Behaviour.unrewarded(game, "sure"), game.start_probability)

    labels = list(rules)
    if not sure([]):
        return (), ()
    dropping = tuple(label for label in labels if sure([other for other in labels if other != label]))
    kept = labels
    for label in labels:
        without = [other for other in kept if other != label]
        if without and not sure(without):
            kept = without
    return tuple(kept), dropping
