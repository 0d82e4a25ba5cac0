"""The user's events as words: looked up in a table instead of evaluated again, and spelled by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xmen.errors import ConstraintError
from xmen.events import NO_ACTION, Bools, Event, Ints, require_event
from xmen.worlds.mdp import MDP


@dataclass(frozen=True, repr=False)
class Word(Event):
    """An event under the name that the user gave it; `table` is (n_states, n_actions + 1), the last column the end."""

    name: str
    event: Event = field(compare=False)
    table: Bools = field(compare=False)

    def holds(self, states: Ints, actions: Ints) -> Bools:
        happens: Bools = self.table[states, actions]  # NO_ACTION is -1: the last column
        return happens

    def holds_without_action(self) -> bool | None:
        return self.event.holds_without_action()

    def __str__(self) -> str:
        return self.name


def words(events: Mapping[str, Event] | None, world: MDP) -> list[Word]:
    """The events of a mapping in the order of their names, each evaluated once on the whole world."""
    if events is None:
        return []
    if not isinstance(events, Mapping):
        raise ConstraintError(f"events maps names to events; got {type(events).__name__}.")
    for name in events:
        if not isinstance(name, str) or not name:
            raise ConstraintError(f"events: each name is a non-empty string; got {name!r}.")
    return [_word(name, events[name], world) for name in sorted(events)]


def _word(name: str, event: object, world: MDP) -> Word:
    known = require_event(event, f"events[{name!r}]")
    known.check_world(world)
    columns = np.append(np.arange(world.n_actions), NO_ACTION)
    states, actions = np.meshgrid(np.arange(world.n_states), columns, indexing="ij")
    table = np.zeros(states.shape, dtype=np.bool_)
    # A user's own test is only asked about what the world can show.
    possible = np.column_stack([world.available, np.ones(world.n_states, dtype=np.bool_)])
    table[possible] = known.holds(states[possible], actions[possible])
    return Word(name, known, table)
