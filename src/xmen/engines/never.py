"""Events that no trajectory of a world can ever have, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np

from xmen.constraints.constraint import Constraint
from xmen.events import NO_ACTION, Event
from xmen.product.search import ends_of
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP

_SHOWN = 4


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
