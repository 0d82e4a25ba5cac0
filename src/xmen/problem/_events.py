"""The [events] table: cells and moves of a grid, nodes of a graph, or text in the constraint language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from xmen.constraints.names import check_names
from xmen.constraints.text import parse_event
from xmen.errors import ConstraintError, ConstraintSyntaxError
from xmen.events import At, Doing, Event, at
from xmen.problem._document import TomlTable
from xmen.worlds import MDP, GridWorld
from xmen.worlds.from_networkx import GraphWorld
from xmen.worlds.words import rule_text


def read_events(
    table: TomlTable, world: MDP, events: dict[str, Event], reading: Callable[[str], AbstractContextManager[None, bool]]
) -> None:
    """Fill in all events in the order of the file; each may use those above it, and is read inside `reading(name)`."""
    table.allow(*table.values)
    for name, value in table.values.items():
        with reading(name):
            event = read_event(table, name, value, world, events)
            with table.explaining(name):
                check_names({name: event}, "")
                event.check_world(world)
            events[name] = event


def read_event(table: TomlTable, name: str, value: object, world: MDP, names: Mapping[str, Event]) -> Event:
    """One event from its text or from its inline table."""
    if isinstance(value, str):
        with table.explaining(name):
            return parse_event(value, names, world)
    forms = [f'a text such as "at({world.state_name(0)}) | doing({world.action_name(0)})"']
    if isinstance(world, GridWorld):
        forms += ["{ cells = [[x, y], ...] }", '{ moves = ["up", ...] }']
    if isinstance(world, GraphWorld):
        forms += ['{ nodes = ["a", ...] }']
    if not isinstance(value, dict) or not value:
        table.fail(name, f"expected {', or '.join(forms)}, got {value!r:.60}")
    inner = TomlTable(value, table.file, f"{table.name}, {name}")
    parts: list[Event] = []
    if isinstance(world, GridWorld):
        cells, moves = inner.cells("cells", None), inner.texts("moves", None)
        inner.finish()
        with inner.explaining():
            parts += [] if cells is None else [world.at(*cells)]
            parts += [] if moves is None else [world.doing(*moves)]
    elif isinstance(world, GraphWorld):
        nodes = inner.texts("nodes")
        inner.finish()
        with inner.explaining():
            parts.append(at(*map(world.state, nodes)))
    else:
        table.fail(name, f"this kind of world has no cells, moves or nodes: write {forms[0]}")
    return parts[0] if len(parts) == 1 else parts[0] & parts[1]


def spell_event(name: str, event: Event, world: MDP) -> Any:
    """What the file says for an event: cells or moves where it is that simple, else its text."""
    if isinstance(world, GridWorld) and isinstance(event, At):
        return {"cells": [world.cell(state) for state in event.states]}
    if isinstance(world, GridWorld) and isinstance(event, Doing):
        return {"moves": [world.moves[action] for action in event.actions]}
    text = rule_text(str(event), world)
    try:
        parse_event(text, world=world)
    except ConstraintSyntaxError:
        raise ConstraintError(
            f"the event {name!r} cannot be written to a file: `{text:.60}` holds a function. "
            "Spell it with at(...) and doing(...)."
        ) from None
    return text
