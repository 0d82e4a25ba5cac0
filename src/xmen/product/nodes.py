"""Rows of a product: a growing set of them, and one step from a frontier to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xmen.machines.tables import CompiledConstraint
from xmen.product import kernels


class Stepping(Protocol):
    """A machine over one world: its letters, and where they lead from numbered states."""

    @property
    def edge_letters(self) -> NDArray[np.int32]:
        """The letter of each world edge."""

    def step(self, rows: NDArray[np.int32], letters: NDArray[np.int32]) -> NDArray[np.int32]:
        """The successor of each (row, letter)."""


class Nodes:
    """A growing set of rows (state, machine rows ...), numbered as they come."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((1024, width), dtype=np.int32)
        self.slots = np.full(4096, -1, dtype=np.int32)
        self.n = 0

    def add(self, candidates: NDArray[np.int32]) -> NDArray[np.uint32]:
        """The number of each candidate row, new rows included."""
        most = self.n + len(candidates)
        if most > len(self.rows):
            grown = np.empty((max(most, 2 * len(self.rows)), self.rows.shape[1]), dtype=np.int32)
            grown[: self.n] = self.rows[: self.n]
            self.rows = grown
        if 2 * most > len(self.slots):
            self.slots = np.full(1 << (2 * most).bit_length(), -1, dtype=np.int32)
            kernels.rehash(self.slots, self.rows, self.n)
        numbers, self.n = kernels.intern_rows(candidates, self.slots, self.rows, self.n)
        return numbers  # type: ignore[no-any-return]


def expand(
    compiled: CompiledConstraint,
    machines: Sequence[Stepping],
    frontier: NDArray[np.int32],
    to_end: NDArray[np.int32] | None,
    left: int,
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.int32]]:
    """All edges of these nodes: the source's place among them, the world edge, the target's row.

    With the distances of all states to an end, only edges from whose targets an end is at most `left` actions away, and
    only targets that may still be saved; with None, all.
    """
    world = compiled.world
    sources, edges = kernels.expand(frontier[:, 0], world.row_start, world.terminal)
    if to_end is not None:
        near = to_end[world.target[edges]] <= left
        sources, edges = sources[near], edges[near]
    rows = np.empty((len(edges), frontier.shape[1]), dtype=np.int32)
    rows[:, 0] = world.target[edges]
    for i, machine in enumerate(machines):
        rows[:, 1 + i] = machine.step(frontier[sources, 1 + i], machine.edge_letters[edges])
    alive = compiled.settle(rows)
    if to_end is not None and not alive.all():
        sources, edges, rows = sources[alive], edges[alive], rows[alive]
    return sources, edges, rows
