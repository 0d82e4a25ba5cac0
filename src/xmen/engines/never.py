"""Events that no trajectory of a world can ever have, and rules that none can break, or that all break; and why."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import fields, is_dataclass

import numpy as np

from xmen.constraints.arithmetic import LinearComparison
from xmen.constraints.constraint import Constraint, HowMany, units
from xmen.constraints.monitor import MonitorLeaf
from xmen.events import NO_ACTION, Event
from xmen.machines.tables import _distinct, alphabet_of
from xmen.notices import RuleWarning, notify
from xmen.product.search import ends_of
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP
from xmen.worlds.words import in_world_words

_SHOWN = 4
_STEPS = 1_000  # of machines, after which a rule is left alone: ordinary ones are done after a dozen
_MACHINES = 32  # machines side by side: numpy numbers combinations of no more


def events_in(constraint: Constraint) -> list[Event]:
    """The events that a constraint mentions, each once."""
    return list(dict.fromkeys(event for leaf in constraint.leaves() for event in _within(leaf)))


def _within(value: object) -> Iterator[Event]:
    if isinstance(value, Event):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _within(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _within(getattr(value, field.name))


def why_never(event: Event, world: MDP) -> str:
    """Why the event holds at no position of any complete trajectory of the world; '' where it may."""
    longest = UNREACHABLE - 1 if world.unbounded else world.max_length
    ends = ends_of(world)
    depth = distance_to(world.start > 0, world.target, world.source).astype(np.int64)
    to_end = distance_to(ends, world.source, world.target).astype(np.int64)
    passed = depth[world.source] + 1 + to_end[world.target] <= longest
    ended = ends & (depth <= longest)
    states = np.arange(world.n_states)
    at_end = event.holds(states, np.full(world.n_states, NO_ACTION))
    on_edge = event.holds(world.source.astype(np.int64), world.action.astype(np.int64))
    if on_edge[passed].any() or at_end[ended].any():
        return ""
    places = np.union1d(world.source[on_edge], states[at_end & ends])
    if not len(places):
        return _nowhere(event, world)
    shown = ", ".join(world.describe_state(int(state)) for state in places[:_SHOWN])
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    far = depth[places] + to_end[places]
    if far.min() >= UNREACHABLE:
        return f"no trajectory from the start to the end passes {shown}{more}"
    return f"a trajectory that passes {shown}{more} has {int(far.min())} actions or more, and the horizon is {longest}"


def _nowhere(event: Event, world: MDP) -> str:
    """Why the event holds at no state and action that the world has."""
    states, actions = np.indices((world.n_states, world.n_actions))
    pairs = np.argwhere(event.holds(states, actions))
    walls = getattr(world, "walls", ())
    places = sorted({int(state) for state, _ in pairs})
    if walls and places and all(world.cell(state) in walls for state in places):  # type: ignore[attr-defined]
        return f"{', '.join(world.describe_state(state) for state in places[:_SHOWN])} is a wall"
    names = sorted({world.describe_action(int(action)) for _, action in pairs})
    if names and len(names) < world.n_actions:
        return f"{' or '.join(names[:_SHOWN])} is possible in none of its states"
    return "no state and action of this world has it"


def remark(label: str, rule: Constraint, world: MDP) -> str:
    """What there is to say of a rule that nothing in this world can break, or that everything breaks; '' of others."""
    always = same_answer(rule, world)
    if always is None:
        return ""
    events = ((event, why_never(event, world)) for event in events_in(rule))
    reasons = [f"`{event}` can never happen: {why}" for event, why in events if why]
    sums = [leaf for leaf in rule.leaves() if isinstance(leaf, LinearComparison)]
    if any((leaf.spelling or "").startswith("share(") for leaf in sums):
        reasons.append("a share lies between 0 and 1, so that 15 % is 0.15")
    elif not reasons and sums and not world.unbounded:
        reasons.append(f"a trajectory visits at most {world.max_length + 1:,} states")
    told = "no trajectory of this world can break it" if always else "every trajectory of this world breaks it"
    return in_world_words(". ".join([f"the rule {label!r}: {told}", *reasons]), world)


def warn_of_idle(rule: Constraint | None, world: MDP) -> None:
    """Warn of parts of a rule that nothing can break; what everything breaks is an error elsewhere."""
    for label, part in units(rule):
        if same_answer(part, world):
            notify(f"{remark(label, part, world)}.", RuleWarning)


def same_answer(rule: Constraint, world: MDP) -> bool | None:
    """Whether the rule accepts (True) or refuses (False) all that the world could show it; None: it depends.

    Its machines run over every sequence of the symbols that states and actions of the world have, as long as a
    trajectory may be. These are more than there are trajectories, so that an answer is right, and None may also mean
    that it was not found out.
    """
    leaves = list(rule.leaves())
    if any(isinstance(leaf, MonitorLeaf) for leaf in leaves):
        return None  # a user's own function may fail on what cannot happen
    alphabets = [alphabet_of(leaf, world) for leaf in leaves]
    columns = [alphabet.letters for alphabet in alphabets]
    shape = [len(alphabet.symbols) for alphabet in alphabets]
    if len(leaves) > _MACHINES or math.prod(shape) >= 2**62:
        return None  # too many combinations of symbols to number them

    def different(part: slice) -> list[tuple[int, ...]]:
        """The symbols that all leaves see at once, each combination once."""
        letters = [column[:, part][columns[0][:, part] >= 0] for column in columns]
        rows = np.array(np.unravel_index(_distinct(np.ravel_multi_index(letters, shape))[0], shape)).T.tolist()
        return [tuple(a.symbols[i] for a, i in zip(alphabets, row, strict=True)) for row in rows]

    def after(states: tuple[Hashable, ...], symbols: tuple[int, ...]) -> tuple[Hashable, ...]:
        return tuple(leaf.advance(state, one) for leaf, state, one in zip(leaves, states, symbols, strict=True))

    going, ending = different(slice(world.n_actions)), different(slice(world.n_actions, None))
    frontier = {tuple(leaf.start() for leaf in leaves)}
    seen, answers, left = set(frontier), set[bool](), _STEPS
    for _ in range(world.max_length + 1):
        left -= len(frontier) * (len(going) + len(ending))
        if left < 0 or len(answers) == 2:
            return None
        for end in (after(states, symbols) for states in frontier for symbols in ending):
            answers.add(_holds(rule, iter([leaf.final(state) for leaf, state in zip(leaves, end, strict=True)])))
        frontier = {after(states, symbols) for states in frontier for symbols in going} - seen
        seen |= frontier
        if not frontier:
            break
    return answers.pop() if len(answers) == 1 else None


def _holds(node: Constraint, answers: Iterator[bool]) -> bool:
    """The tree's answer to final answers of its leaves."""
    if isinstance(node, HowMany):
        return node.least <= sum([_holds(child, answers) for child in node.children]) <= node.most
    return next(answers)
