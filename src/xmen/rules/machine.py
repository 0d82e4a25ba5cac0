"""A whole constraint as one small machine over letters: what a candidate is while its probability is found.

The leaves' tables of one world are joined: a row stands for the rows of all leaves, settled by the tree above them. A
constraint with more rows than `MAX_ROWS` is left to the product, which only meets the rows that the world can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint
from xmen.errors import ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.worlds.mdp import MDP

FAILS, HOLDS = -2, -1  # successors that need no row: the answer is sure
MAX_ROWS = 4096
KEPT_BYTES = 200_000_000  # of joined machines that are kept between rounds
MAX_ENTRIES = 2**16  # rows times letters that are filled in before a machine counts as too large


@dataclass(frozen=True)
class Machine:
    """The joined machine. Row 0 is the start, unless the answer is sure before the first position."""

    start: int
    letters: NDArray[np.int32]  # (n_states, n_actions + 1): what is read there, the last column at the end
    step: NDArray[np.int32]  # (rows, letters): a row, FAILS or HOLDS
    accepts: NDArray[np.bool_]  # (rows, letters): whether a trajectory may end with this letter
    first: NDArray[np.int64]  # rows that can be met after t positions lie between first[t] and last[t]
    last: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.step)


class Machines:
    """The machines of candidates, joined once for all rounds of a search, as far as there is room for them."""

    def __init__(self, world: MDP) -> None:
        self._world = world
        self._joined: dict[Constraint, Machine | None] = {}
        self._left = KEPT_BYTES

    def __getstate__(self) -> dict[str, Any]:
        # Joined again when they are asked for.
        return {"_world": self._world, "_joined": {}, "_left": KEPT_BYTES}

    def of(self, constraint: Constraint) -> Machine | None:
        """`join`, remembered."""
        if constraint in self._joined:
            return self._joined[constraint]
        machine = join(constraint, self._world)
        size = 1000 if machine is None else machine.letters.nbytes + machine.step.nbytes + machine.accepts.nbytes
        if size <= self._left:
            self._joined[constraint] = machine
            self._left -= size
        return machine


def join(constraint: Constraint, world: MDP) -> Machine | None:
    """The constraint as one machine over the letters of a world; None where that is too large."""
    if world.unbounded:
        return None
    compiled = CompiledConstraint(constraint, world)
    assert compiled.program is not None
    letters, examples, moving = _letters(compiled)
    start = np.array([[0, *(table.start for table in compiled.tables)]], dtype=np.int32)
    if not compiled.settle(start)[0]:
        return _sure(FAILS, letters)
    holding = compiled.program.holding[-1]
    if np.array_equal(start[0, 1:], holding):
        return _sure(HOLDS, letters)

    index = {tuple(start[0, 1:].tolist()): 0}
    rows = [start[0, 1:]]
    steps: list[NDArray[np.int32]] = []
    frontier = start[:, 1:]
    for _ in range(world.max_length):
        if len(rows) > MAX_ROWS or len(rows) * len(examples) > MAX_ENTRIES:
            return None
        try:
            answers = _advance(compiled, frontier, examples, moving, holding, index, rows)
        except ProductTooLargeError:
            return None
        steps.append(answers)
        frontier = np.array(rows[sum(map(len, steps)) :], dtype=np.int32).reshape(-1, len(compiled.tables))
        if not len(frontier):
            break
    n_rows = len(rows)
    if n_rows > MAX_ROWS:
        return None
    # Rows that are only met after the last action are ended in, and never left.
    step = np.full((n_rows, len(examples)), FAILS, dtype=np.int32)
    done = np.concatenate([np.empty((0, len(examples)), np.int32), *steps])
    step[: len(done)] = done
    first, last = _reached(step, world.max_length)
    return Machine(0, letters, step, _accepts(compiled, np.array(rows, dtype=np.int32), examples), first, last)


def _sure(answer: int, letters: NDArray[np.int32]) -> Machine:
    none = np.zeros((0, int(letters.max()) + 1), dtype=np.int32)
    return Machine(answer, letters, none, none.astype(np.bool_), np.zeros(1, np.int64), np.zeros(1, np.int64))


def _letters(compiled: CompiledConstraint) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Joint letters (n_states, n_actions + 1), a (state, column) that shows each, and which are read while moving."""
    world = compiled.world
    ends = world.terminal if world.has_terminal else np.ones(world.n_states, dtype=np.bool_)
    seen = np.column_stack([world.available, ends])
    code = np.zeros(seen.shape, dtype=np.int64)
    for table in compiled.tables:
        code = code * len(table.symbols) + np.where(seen, table.letters, 0)
        _, dense = np.unique(code, return_inverse=True)  # keeps the numbers small however many leaves there are
        code = dense.reshape(seen.shape).astype(np.int64)
    places = np.argwhere(seen)
    _, first, letter = np.unique(code[seen], return_index=True, return_inverse=True)
    letters = np.zeros(seen.shape, dtype=np.int32)
    letters[seen] = letter.reshape(-1)
    moving = np.zeros(len(first), dtype=np.bool_)
    moving[letters[:, :-1][world.available]] = True
    return letters, places[first], moving


def _advance(
    compiled: CompiledConstraint,
    frontier: NDArray[np.int32],
    examples: NDArray[np.int64],
    moving: NDArray[np.bool_],
    holding: NDArray[np.int32],
    index: dict[tuple[int, ...], int],
    rows: list[NDArray[np.int32]],
) -> NDArray[np.int32]:
    """The successors (rows, letters) of a frontier, entering new rows into `index` and `rows`."""
    read = np.flatnonzero(moving)
    n, n_read = len(frontier), len(read)
    after = np.zeros((n * n_read, 1 + frontier.shape[1]), dtype=np.int32)
    states, columns = examples[read].T
    for leaf, table in enumerate(compiled.tables):
        here = np.repeat(frontier[:, leaf], n_read)
        after[:, 1 + leaf] = table.step(here, np.tile(table.letters[states, columns], n))
    alive = compiled.settle(after)
    sure = np.all(after[:, 1:] == holding, axis=1)
    answers = np.full(n * n_read, FAILS, dtype=np.int32)
    answers[alive & sure] = HOLDS
    for i in np.flatnonzero(alive & ~sure).tolist():
        key = tuple(after[i, 1:].tolist())
        row = index.get(key)
        if row is None:
            row = index[key] = len(rows)
            rows.append(after[i, 1:])
        answers[i] = row
    out = np.full((n, len(examples)), FAILS, dtype=np.int32)
    out[:, read] = answers.reshape(n, n_read)
    return out


def _accepts(compiled: CompiledConstraint, rows: NDArray[np.int32], examples: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row may end with each letter; False for letters that no end shows."""
    out = np.zeros((len(rows), len(examples)), dtype=np.bool_)
    letters, _, _ = _letters(compiled)
    world = compiled.world
    ends = np.flatnonzero(world.terminal) if world.has_terminal else np.arange(world.n_states)
    shown, first = np.unique(letters[ends, -1], return_index=True)
    for letter, state in zip(shown.tolist(), ends[first].tolist(), strict=True):
        out[:, letter] = compiled.accepts(rows, np.full(len(rows), state, dtype=np.int32))
    return out


def _reached(step: NDArray[np.int32], longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last row that can be met after each number of positions, 0 .. longest."""
    first, last = np.zeros((2, longest + 1), dtype=np.int64)
    here = np.zeros(1, dtype=np.int64)
    for t in range(longest + 1):
        first[t], last[t] = (here[0], here[-1]) if len(here) else (0, -1)
        if t < longest and len(here):
            after = np.unique(step[here])
            here = after[after >= 0].astype(np.int64)
    return first, last
