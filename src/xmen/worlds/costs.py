"""Tables of costs as people have them: whole numbers per state, per state and action, or per edge, by name or number.

A table has a column for the state (`state`, `cell`, `node`, `from`, or `x` and `y`), perhaps one for the action
(`action`, `move`) or for the next state (`next_state`, `to`), and one for the cost, whatever it is called.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import FileFormatError, TrajectoryError, WorldError
from xmen.worlds.names import Names
from xmen.worlds.tables import read_table
from xmen.worlds.transitions import Transitions

STATE, ACTION, NEXT = ("state", "cell", "node", "from"), ("action", "move"), ("next_state", "next state", "to")
COST = ("cost", "weight", "total")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def read_costs(file: Path, world: Transitions | None = None) -> Ints:
    """Shape (n_states,) or (n_states, n_actions); what the table does not name costs 0.

    Without a world only numbers are understood, and each of them has to be there.
    """
    return read_noted_costs(file, world)[0]


def read_noted_costs(file: Path, world: Transitions | None = None) -> tuple[Ints, str | None]:
    """The same, and what to say where trajectories can be in states that the table does not name."""
    table = {name.lower(): values for name, values in read_table(file).items()}
    state, action, successor, cost = _columns(file, table)
    names = Names(world)
    entries: dict[tuple[int, ...], int] = {}
    for row, text in enumerate(table[cost]):
        try:
            place = _place(names, {name: values[row] for name, values in table.items()}, state, action, successor)
        except (TrajectoryError, WorldError) as error:
            raise FileFormatError(f"{file}, row {row + 1}: {error}") from None
        if place in entries:
            raise FileFormatError(f"{file}, row {row + 1}: there is already a cost for this place")
        entries[place] = _whole(file, row, cost, text)
    costs = _array(file, entries, world)
    if world is None or not unnamed_note("", _named(entries, world), world, costs.ndim == 2):
        return costs, None
    return costs, cost_note(file.name, costs, world)


def cost_note(name: str, costs: Ints, world: Transitions) -> str | None:
    """What to say of costs that are 0 in some of the states where trajectories can be, meant or not."""
    named = np.any(costs.reshape(world.n_states, -1) != 0, axis=1)
    return unnamed_note(name, named, world, costs.ndim == 2)


def unnamed_note(name: str, named: Bools, world: Transitions, of_actions: bool = False) -> str | None:
    """The same of costs in the states `named` (n_states,) alone; an end has no action that could cost something."""
    acting = world.available.any(axis=1)
    counted = acting if of_actions else acting | world.terminal
    missing = np.count_nonzero(counted & ~named)
    return f"the costs {name!r} are 0 in {missing:,} of {np.count_nonzero(counted):,} states" if missing else None


def _named(entries: dict[tuple[int, ...], int], world: Transitions) -> Bools:
    return np.isin(np.arange(world.n_states), [place[0] for place in entries])


def _columns(file: Path, table: dict[str, list[str]]) -> tuple[tuple[str, ...], str | None, str | None, str]:
    """The columns of the state (one, or x and y), the action, the next state, and the cost."""

    def one_of(known: tuple[str, ...]) -> str | None:
        return next((name for name in known if name in table), None)

    single = one_of(STATE)
    state = ("x", "y") if "x" in table and "y" in table else () if single is None else (single,)
    if not state:
        raise FileFormatError(
            f"{file}, line 1: there is no column for the state: expected {', '.join(STATE)}, or x and y; got "
            f"{', '.join(table)!r:.120}"
        )
    action, successor = one_of(ACTION), one_of(NEXT)
    others = [name for name in table if name not in (*state, action, successor)]
    cost = one_of(COST) or (others[0] if len(others) == 1 else None)
    if cost is None:
        raise FileFormatError(
            f"{file}, line 1: which column has the costs? Call it `cost`; beside the state there are "
            f"{', '.join(others) or 'none'}"
        )
    return state, action, successor, cost


def _place(
    names: Names, row: dict[str, str], state: tuple[str, ...], action: str | None, successor: str | None
) -> tuple[int, ...]:
    world = names.world
    value: Any = row[state[0]] if len(state) == 1 else (row["x"], row["y"])
    source = _below(names.state(value, named=state == ("node",)), None if world is None else world.n_states, "state")
    if action is not None:
        return source, _below(names.action(row[action]), None if world is None else world.n_actions, "action")
    if successor is None:
        return (source,)
    taken = names.between(source, names.state(row[successor], named=state == ("node",)), 0)
    outcomes = np.count_nonzero((world.source == source) & (world.action == taken))
    if outcomes > 1:
        raise TrajectoryError(
            f"costs of edges need moves with one outcome, and {world.describe_action(taken)} in "
            f"{world.describe_state(source)} has {outcomes}: give the cost of the action"
        )
    return source, taken


def _below(number: int, limit: int | None, what: str) -> int:
    if limit is not None and number >= limit:
        raise TrajectoryError(f"{what} {number} does not exist: the world has {what}s 0 to {limit - 1}")
    return number


def _whole(file: Path, row: int, column: str, text: str) -> int:
    try:
        number = float(text.replace(",", ".")) if text.count(",") == 1 else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise FileFormatError(f"{file}, row {row + 1}: {column} is {text!r:.60}, and not a number")
    if abs(number) > 2**53:
        raise FileFormatError(f"{file}, row {row + 1}: {column} is {text.strip()!r:.60}, too large for a cost")
    if number != int(number):
        raise FileFormatError(
            f"{file}, row {row + 1}: {column} is {text.strip()}, and totals are of whole numbers: multiply all costs "
            "and the bound by 10, 100, ..."
        )
    return int(number)


def _array(file: Path, entries: dict[tuple[int, ...], int], world: Transitions | None) -> Ints:
    if not entries:
        raise FileFormatError(f"{file}: there are no costs in this file")
    places = np.array(list(entries), dtype=np.int64)
    shape = tuple(int(size) + 1 for size in places.max(axis=0))
    if world is not None:
        shape = (world.n_states, world.n_actions)[: places.shape[1]]
    elif len(entries) < math.prod(shape):
        raise FileFormatError(
            f"{file}: costs for {len(entries)} of {math.prod(shape)} places: name the world too, as in "
            f"total({file.name!r}, world), so that the others can be 0"
        )
    costs = np.zeros(shape, dtype=np.int64)
    costs[tuple(places.T)] = list(entries.values())
    return costs
