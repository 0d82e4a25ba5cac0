"""Copies of listed models: each model with extra bits that are not free to take every value.

The parities are eliminated once, with pivots in the last extra columns that they have. So a parity with its pivot in
extra column c has no later extra column in it, and no other pivot: going through the extra bits from left to right, a
bit is either free or follows from the free bits before it and the model, and what is forbidden is left as soon as it
shows. Parities that are left without extra columns are tested on the models alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import OracleError
from xmen.oracles.formula import Bits, Parities
from xmen.oracles.gf2 import Indices, Words, eliminate, odd, pack, unpack
from xmen.oracles.stopwatch import Stopwatch

# Copies come in batches that grow, so that a caller who stops early has not paid for many.
FIRST_BATCH = 64
LARGEST_BATCH = 4096
# The clock is read after this many bits, about every tenth of a second.
STEPS = 10_000_000


class Copies(ABC):
    """Which extra bits each listed model may have."""

    n_bits: int  # of every model

    def cut(self, parities: Parities, width: int) -> Cell:
        """The cell of parities over (model bits, extra bits)."""
        n_extra = self.n_bits
        n_words = -(-n_extra // 64)
        parts = (parities.matrix[:, width:], parities.matrix[:, :width], parities.rhs[:, None])
        rows = np.hstack([pack(part) for part in parts])
        pivots = eliminate(rows, np.arange(n_extra)[::-1].copy())
        rank = len(pivots)
        on_models, rhs = rows[:, n_words:-1], rows[:, -1].astype(np.bool_)
        row_of_column = np.full(n_extra, -1, dtype=np.int64)
        row_of_column[pivots] = np.arange(rank)
        on_rows = Parities(unpack(on_models[rank:], width), rhs[rank:])
        # The kernels walk along rows, so they have to be contiguous.
        extra, models = np.ascontiguousarray(rows[:rank, :n_words]), np.ascontiguousarray(on_models[:rank])
        return Cell(self, on_rows, extra, models, rhs[:rank], row_of_column)

    @property
    @abstractmethod
    def kernel(self) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """The compiled depth-first search, and what it has to know of these copies.

        It fills `found` and `bits` with further copies and returns how many there were. `state` (the extra bits so
        far), `sides` (the parities' values on the model) and `place` (position in `numbers`, and what the search keeps)
        let the next call go on from there.
        """


@dataclass(frozen=True)
class Cell:
    """Eliminated parities: some on the models alone, and one for each extra bit that follows from others."""

    copies: Copies
    on_rows: Parities
    extra: Words  # (rank, n_words) of each parity with a pivot, its extra columns
    models: Words  # (rank, n_model_words), its columns of the model
    rhs: Bits  # (rank,)
    row_of_column: Indices  # (n_extra,) the parity that decides an extra bit, -1 for a free one

    def search(self, words: Words, numbers: Indices, watch: Stopwatch) -> Iterator[tuple[Indices, Bits]]:
        """All copies of the numbered models in batches: numbers (k,) and extra bits (k, n_extra)."""
        walk, about = self.copies.kernel
        parts, batch = (self.extra, self.models, self.rhs, self.row_of_column), FIRST_BATCH
        state = np.zeros(self.extra.shape[1], dtype=np.uint64)
        sides = np.zeros(len(self.rhs), dtype=np.bool_)
        place = np.zeros(4, dtype=np.int64)
        while place[0] < len(numbers):
            found = np.empty(batch, dtype=np.int64)
            bits = np.empty((batch, self.extra.shape[1]), dtype=np.uint64)
            with watch:
                _ = watch.left
                n = walk(words, numbers, *about, *parts, state, sides, place, found, bits, STEPS)
            if n:
                yield found[:n], unpack(bits[:n], self.copies.n_bits)
                batch = min(2 * batch, LARGEST_BATCH)


class LevelCopies(Copies):
    """n_levels groups of b bits, those up to the model's bucket not all zero."""

    def __init__(self, buckets: NDArray[np.integer], n_levels: int, b: int, *, n_models: int) -> None:
        buckets = np.asarray(buckets)
        if buckets.shape != (n_models,) or not np.issubdtype(buckets.dtype, np.integer):
            raise OracleError(f"{n_models} models need as many whole buckets, not {buckets.dtype} {buckets.shape}")
        if n_levels < 0 or b < 1:
            raise OracleError(f"levels need at least 1 bit and no negative number, not {b} bits and {n_levels} levels")
        if len(buckets) and not (buckets.min() >= -1 and buckets.max() < n_levels):
            raise OracleError(
                f"buckets from {buckets.min()} to {buckets.max()} for levels 0 to {n_levels - 1} (-1 forces none)"
            )
        self.buckets: Indices = buckets.astype(np.int64)
        self.n_levels, self.b = n_levels, b
        self.n_bits = n_levels * b

    def __repr__(self) -> str:
        return f"{self.n_levels} levels of {self.b} bits"

    @property
    def kernel(self) -> tuple[Callable[..., int], tuple[Any, ...]]:
        return walk_levels, (self.buckets, self.b)


class NumberCopies(Copies):
    """One number per copy, highest bit first, up to the largest that the model's depth allows: `last` (n, n_bits)."""

    def __init__(self, depth: NDArray[np.integer], last: Bits, *, n_models: int) -> None:
        depth = np.asarray(depth)
        if depth.shape != (n_models,) or not np.issubdtype(depth.dtype, np.integer):
            raise OracleError(f"{n_models} models need as many whole depths, not {depth.dtype} {depth.shape}")
        if len(depth) and not (depth.min() >= 0 and depth.max() < len(last)):
            raise OracleError(f"depths from {depth.min()} to {depth.max()} for {len(last)} largest numbers")
        self.depth: Indices = depth.astype(np.int64)
        self.last = pack(last)
        self.n_bits = last.shape[1]
        self.zeros: Indices = np.where(last.any(axis=1), last.argmax(axis=1) if self.n_bits else 0, self.n_bits)
        self.n_zeros: Indices = self.zeros[self.depth]  # leading zeros of each model's largest number

    def light(self, cell: Cell, width: int, most: int) -> tuple[Parities, int]:
        """Up to so many parities on the models alone that hold where a copy's first bits are 0, and how many bits.

        A parity with its pivot among bits that are all 0 has nothing else of them in it.
        """
        columns = np.flatnonzero(cell.row_of_column >= 0)[:most]
        rows = cell.row_of_column[columns]
        return Parities(unpack(cell.models[rows], width), cell.rhs[rows]), int(columns[-1]) + 1 if len(columns) else 0

    def __repr__(self) -> str:
        return f"numbers of {self.n_bits} bits"

    @property
    def kernel(self) -> tuple[Callable[..., int], tuple[Any, ...]]:
        return walk_numbers, (self.depth, self.last, self.zeros)


@compiled
def walk_levels(
    words: Words,
    numbers: Indices,
    buckets: Indices,
    b: int,
    extra: Words,
    models: Words,
    rhs: Bits,
    row_of_column: Indices,
    state: Words,
    sides: Bits,
    place: Indices,
    found: Indices,
    bits: Words,
    steps: int,
) -> int:
    """`Copies.kernel`; `place` has the position in `numbers`, the column, whether to step back, and how many columns
    have their side known."""
    n_extra, n = len(row_of_column), 0
    one = np.uint64(1)
    while place[0] < len(numbers) and steps > 0 and n < len(found):
        number = numbers[place[0]]
        column, back, known = place[1], place[2], place[3]
        forced = (buckets[number] + 1) * b
        while steps > 0:
            steps -= 1
            if back:
                # To the last free bit that is still 0; clear everything after it.
                column -= 1
                if column < 0:
                    break
                word, bit = column >> 6, one << np.uint64(column & 63)
                if state[word] & bit:
                    state[word] ^= bit
                elif row_of_column[column] < 0:
                    state[word] |= bit
                    column += 1
                    back = 0
                continue
            if column == n_extra:
                found[n] = number
                bits[n] = state
                n += 1
                back = 1
                if n == len(found):
                    break
                continue
            row = row_of_column[column]
            if row >= 0:
                if column >= known:
                    sides[row] = odd(words[number], models[row]) != rhs[row]
                if odd(extra[row], state) != sides[row]:
                    state[column >> 6] |= one << np.uint64(column & 63)
            column += 1
            known = max(known, column)
            if column % b == 0 and column <= forced:
                empty = True
                for c in range(column - b, column):
                    if state[c >> 6] >> np.uint64(c & 63) & one:
                        empty = False
                        break
                if empty:
                    back = 1
        if back and column < 0:
            place[0] += 1
            place[1], place[2], place[3] = 0, 0, 0
        else:
            place[1], place[2], place[3] = column, back, known
    return n


@compiled
def walk_numbers(
    words: Words,
    numbers: Indices,
    depth: Indices,
    lasts: Words,
    zeros: Indices,
    extra: Words,
    models: Words,
    rhs: Bits,
    row_of_column: Indices,
    state: Words,
    sides: Bits,
    place: Indices,
    found: Indices,
    bits: Words,
    steps: int,
) -> int:
    """`Copies.kernel`; `place` has the position in `numbers`, the column, whether to step back, and the first column at
    which the number is below the largest one (n_extra: none yet) plus 1 (0: a model not begun)."""
    n_extra, n = len(row_of_column), 0
    one, none, first = np.uint64(1), len(row_of_column), 0
    while first < n_extra and row_of_column[first] < 0:
        first += 1
    while place[0] < len(numbers) and steps > 0 and n < len(found):
        number = numbers[place[0]]
        last = lasts[depth[number]]
        # Free bits that the largest number has as 0 stay 0.
        base = min(first, zeros[depth[number]])
        column, back, below = place[1], place[2], place[3] - 1
        if below < 0:
            column, back, below = base, 0, none
        while steps > 0:
            steps -= 1
            if back:
                # To the last free bit that is still 0; clear everything after it.
                column -= 1
                if column < base:
                    break
                word, bit = column >> 6, one << np.uint64(column & 63)
                if below >= column:
                    below = none
                if state[word] & bit:
                    state[word] ^= bit
                elif row_of_column[column] < 0 and (below < column or last[word] & bit):
                    state[word] |= bit
                    column += 1
                    back = 0
                continue
            if column == n_extra:
                found[n] = number
                bits[n] = state
                n += 1
                back = 1
                if n == len(found):
                    break
                continue
            word, bit = column >> 6, one << np.uint64(column & 63)
            row = row_of_column[column]
            if row >= 0 and (odd(words[number], models[row]) != odd(extra[row], state)) != rhs[row]:
                if below > column and not last[word] & bit:
                    back = 1  # above the largest number
                    continue
                state[word] |= bit
            elif below > column and last[word] & bit:
                below = column
            column += 1
        if back and column < base:
            place[0] += 1
            place[3] = 0
        else:
            place[1], place[2], place[3] = column, back, below + 1
    return n
