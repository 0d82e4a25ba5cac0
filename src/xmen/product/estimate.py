"""How large a product is at least, by walking through it at random instead of listing it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from xmen.machines.tables import FAILS, HOLDS, CompiledConstraint, MachineTable
from xmen.product.nodes import Nodes, expand

WALKERS_PER_ROOT = 16  # so many times the square root of a number of nodes show that number, if half of them end early
LARGEST_TABLE = 2_000  # machine states up to which a machine keeps its table
LONGEST_WALK = 16  # actions of a walker
SLOWEST_GROWTH = 1.1  # per action, below which walking on will not show more
FEWEST_WALKERS = 1_000  # with fewer left alive nothing is known


class Generation:
    """One machine's states at one depth: numbered as they come, and forgotten with it.

    A table would keep every state that any walker ever met, each with a row for all letters: too much if it is large.
    """

    def __init__(self, table: MachineTable, states: list[Hashable]) -> None:
        self._table, self._states = table, states
        self._after = [table.states[FAILS], table.states[HOLDS]]
        self._number = {state: row for row, state in enumerate(self._after)}
        self._known: dict[int, int] = {}

    @property
    def edge_letters(self) -> NDArray[np.int32]:
        """The letter of each world edge."""
        return self._table.edge_letters

    def step(self, rows: NDArray[np.int32], letters: NDArray[np.int32]) -> NDArray[np.int32]:
        """The successor of each (row, letter), as a row of the generation after this one."""
        n_letters = len(self._table.symbols)
        keys, inverse = np.unique(rows.astype(np.int64) * n_letters + letters, return_inverse=True)
        return np.array([self._follow(key, n_letters) for key in keys.tolist()], dtype=np.int32)[inverse]

    def _follow(self, key: int, n_letters: int) -> int:
        found = self._known.get(key)
        if found is None:
            row, letter = divmod(key, n_letters)
            state = self._table.leaf.advance(self._states[row], self._table.symbols[letter])
            found = self._known[key] = self._number.setdefault(state, len(self._after))
            if found == len(self._after):
                self._after.append(state)
        return found

    def following(self) -> Generation:
        """The next depth."""
        return Generation(self._table, self._after)


def estimate_nodes(
    compiled: CompiledConstraint,
    frontier: NDArray[np.int32],
    to_end: NDArray[np.int32] | None,
    actions_left: int,
    enough: int,
) -> int:
    """A number of nodes that the product is almost sure to have; 0 where nothing is known.

    Walkers start at random nodes of the frontier and choose among their edges at random. After k actions they are
    independent draws from some distribution p over the nodes that the search would find there. N of them meet in
    N (N - 1) / 2 sum p^2 pairs on average, and sum p^2 >= 1 / (number of nodes): few meetings mean many nodes, as with
    birthdays. C + 3 sqrt(C) + 5 instead of the C meetings that were seen leaves room for chance.

    Stops at the first depth that shows `enough`, and where the numbers no longer grow from depth to depth.
    """
    rng = np.random.default_rng(0)  # the answer must not depend on when it was asked
    rows = frontier[rng.integers(len(frontier), size=int(WALKERS_PER_ROOT * np.sqrt(enough)))]
    machines: list[MachineTable | Generation] = [
        Generation(table, table.states) if len(table) > LARGEST_TABLE else table for table in compiled.tables
    ]
    before = 0.0
    for step in range(1, min(actions_left, LONGEST_WALK) + 1):
        sources, _, rows = expand(compiled, machines, rows, to_end, actions_left - step)
        machines = [machine.following() if isinstance(machine, Generation) else machine for machine in machines]
        if to_end is not None:
            # A machine reads a position when it is left: that all is lost may show one action later.
            saved = np.unique(expand(compiled, machines, rows, to_end, actions_left - step - 1)[0])
            sources, rows = sources[saved], rows[saved]
        # The last of each walker's edges in a random order is a uniform choice; walkers without an edge end here.
        order = np.lexsort((rng.random(len(sources)), sources))
        rows = np.ascontiguousarray(rows[order[np.flatnonzero(np.diff(sources[order], append=-1))]])
        if len(rows) < FEWEST_WALKERS:
            break
        visits = np.bincount(Nodes(rows.shape[1]).add(rows)).astype(np.float64)
        meetings = float(np.sum(visits * (visits - 1)) / 2)
        shown = len(rows) * (len(rows) - 1) / 2 / (meetings + 3 * np.sqrt(meetings) + 5)
        if shown > enough:
            return int(shown)
        if step > 2 and shown < SLOWEST_GROWTH * before:
            break
        before = max(before, shown)
    return int(before)
