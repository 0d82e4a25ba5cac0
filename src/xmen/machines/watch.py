"""All machines of a constraint along one trajectory, a move at a time, without tables."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

import numpy as np

from xmen.constraints.verdict import Sure
from xmen.machines.tables import FAILS, HOLDS, CompiledConstraint

Seen: TypeAlias = tuple[Hashable, ...]
"""The state of every machine."""

OPEN_ROW = 2  # any row of a table that is not a sure one


class Watch:
    """Follows trajectories that are still growing; a table would keep every state it has met, and most are met once."""

    def __init__(self, compiled: CompiledConstraint) -> None:
        self._compiled = compiled
        self._machines = [
            (table.leaf, [table.symbols[letter] for letter in table.edge_letters.tolist()]) for table in compiled.tables
        ]
        self.start: Seen = tuple(leaf.start() for leaf, _ in self._machines)

    def move(self, seen: Seen, edge: int) -> Seen | None:
        """The machines after one more world edge; None where no continuation can be valid."""
        after = tuple(
            leaf.advance(state, symbols[edge]) for (leaf, symbols), state in zip(self._machines, seen, strict=True)
        )
        if after == seen:
            return seen
        rows = [OPEN_ROW, *(_row(state) for state in after)]
        return after if self._compiled.settle(np.array([rows], dtype=np.int32))[0] else None

    def accepts(self, seen: Seen, last_state: int) -> bool:
        """Whether a trajectory may end in this state, its last position not yet read."""
        answers = [
            table.leaf.final(table.leaf.advance(state, table.symbols[int(table.letters[last_state, -1])]))
            for table, state in zip(self._compiled.tables, seen, strict=True)
        ]
        return bool(self._compiled.judge(np.array([answers], dtype=np.bool_))[0])


def _row(state: Hashable) -> int:
    return FAILS if state is Sure.FAILS else HOLDS if state is Sure.HOLDS else OPEN_ROW
