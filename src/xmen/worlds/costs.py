"""Tables of costs as people have them: whole numbers per state, per state and action, or per edge, by name or number.

A table has a column for the state (`state`, `cell`, `node`, `from`, or `x` and `y`), perhaps one for the action
(`action`, `move`) or for the next state (`next_state`, `to`), and one for the cost, whatever it is called.
"""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xmen.errors import FileFormatError, WorldError, XmenError
from xmen.worlds.names import Names, decimal, unknown
from xmen.worlds.tables import read_table
from xmen.worlds.transitions import Transitions

STATE, ACTION, NEXT = ("state", "cell", "node", "from"), ("action", "move"), ("next_state", "next state", "to")
COST = ("cost", "weight", "total")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def read_costs(file: Path, world: Transitions | None = None) -> tuple[Ints, str | None]:
    """The costs in a file, and a remark where trajectories can be in states that the table does not name.

    Shape (n_states,) or (n_states, n_actions); what the table does not name costs 0. Without a world only numbers are
    understood, and each of them has to be there.
    """
    table = read_table(file)
    state, action, successor = table.state_columns(*STATE), table.role(*ACTION), table.role(*NEXT)
    others = [name for name in table.columns if name not in (*state, action, successor)]
    cost = table.role(*COST) or (others[0] if len(others) == 1 else None)
    if cost is None:
        raise FileFormatError(
            f"{table.header}: which column has the costs? Call it `cost`; beside the state there are "
            f"{', '.join(others) or 'none'}"
        )
    names = Names(world)
    sizes = (10**18, 10**18) if world is None else (world.n_states, world.n_actions)
    entries: dict[tuple[int, ...], int] = {}
    for row, text in enumerate(table.columns[cost]):
        try:
            place: tuple[int, ...] = (table.state(state, row, names),)
            if action is not None:
                place += (names.action(table.columns[action][row]),)
            elif successor is not None:
                after = names.state(table.columns[successor][row], named=state == ("node",))
                place += (_only_action(place[0], after, world),)
            for what, number, size in zip(("state", "action"), place, sizes, strict=False):
                if number >= size:
                    raise WorldError(unknown(what, number, size))
            if place in entries:
                raise FileFormatError("there is already a cost for this place")
            entries[place] = _whole_cost(cost, text)
        except XmenError as error:
            raise FileFormatError(f"{table.where(row)}: {error}") from None
    costs = _array(file, entries, world)
    if world is None:
        return costs, None
    named = np.isin(np.arange(world.n_states), [place[0] for place in entries])
    return costs, unnamed_note("", named, world, costs.ndim == 2) and cost_note(file.name, costs, world)


def cost_note(name: str, costs: Ints, world: Transitions) -> str | None:
    """A remark on costs that are 0 in some of the states where trajectories can be, meant or not; None without."""
    named = np.any(costs.reshape(world.n_states, -1) != 0, axis=1)
    return unnamed_note(name, named, world, costs.ndim == 2)


def unnamed_note(name: str, named: Bools, world: Transitions, of_actions: bool = False) -> str | None:
    """A remark where only the states `named` (n_states,) have a cost; an end has no action that could cost."""
    acting = world.available.any(axis=1)
    counted = acting if of_actions else acting | world.terminal
    missing = np.count_nonzero(counted & ~named)
    return f"the costs {name!r} are 0 in {missing:,} of {np.count_nonzero(counted):,} states" if missing else None


def _only_action(state: int, successor: int, world: Transitions | None) -> int:
    """The action of an edge, if it leads nowhere else."""
    if world is None:
        raise WorldError("costs of edges need the world too, which knows the actions: total(file, world)")
    action = world.action_between(state, successor, 0)
    outcomes = np.count_nonzero((world.source == state) & (world.action == action))
    if outcomes > 1:
        raise WorldError(
            f"costs of edges need moves with one outcome, and {world.describe_action(action)} in "
            f"{world.describe_state(state)} has {outcomes}: give the cost of the action"
        )
    return action


def _whole_cost(column: str, text: str) -> int:
    number, shown = decimal(text), text.strip()
    if not math.isfinite(number):
        raise FileFormatError(f"{column} is {shown!r:.60}, and not a number")
    if abs(number) > 2**53:
        raise FileFormatError(f"{column} is {shown!r:.60}, too large for a cost")
    if number != int(number):
        raise FileFormatError(
            f"{column} is {shown}, and totals are of whole numbers: multiply all costs and the bound by 10, 100, ..."
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
