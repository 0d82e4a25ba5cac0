"""Copies of listed models: each model with extra bits that are not free to take every value.

The parities are eliminated once, with pivots in the last extra columns that they have. So a parity with its pivot in
extra column c has no later extra column in it, and no other pivot: going through the extra bits from left to right, a
bit is either free or follows from the free bits before it and the model, and what is forbidden is left as soon as it
shows. Parities that are left without extra columns are tested on the models alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


class Copies:
    """Which extra bits each listed model may have; subclasses say so in terms that the search reads.

    The first `forced` bits of a model, in groups of b, are not all zero in any group. Read as one number, highest bit
    first, its extra bits are at most the largest that its depth allows, which begins with `zeros` of that depth.
    """

    n_bits: int  # of every model
    forced: Indices  # (N,)
    b: int
    depth: Indices  # (N,)
    last: Words  # (n, n_words) the largest number of each depth
    zeros: Indices  # (n,)

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

    def light(self, cell: Cell, width: int, most: int) -> tuple[Parities, int]:
        """Up to so many parities on the models alone that hold where a copy's first bits are 0, and how many bits.

        A parity with its pivot among bits that are all 0 has nothing else of them in it.
        """
        columns = np.flatnonzero(cell.row_of_column >= 0)[:most]
        rows = cell.row_of_column[columns]
        return Parities(unpack(cell.models[rows], width), cell.rhs[rows]), int(columns[-1]) + 1 if len(columns) else 0


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
        copies, batch = self.copies, FIRST_BATCH
        about = (copies.forced, copies.b, copies.depth, copies.last, copies.zeros)
        parts = (self.extra, self.models, self.rhs, self.row_of_column)
        state = np.zeros(self.extra.shape[1], dtype=np.uint64)
        sides = np.zeros(len(self.rhs), dtype=np.bool_)
        place = np.zeros(5, dtype=np.int64)
        while place[0] < len(numbers):
            found = np.empty(batch, dtype=np.int64)
            bits = np.empty((batch, self.extra.shape[1]), dtype=np.uint64)
            with watch:
                _ = watch.left
                n = walk(words, numbers, *about, *parts, state, sides, place, found, bits, STEPS)
            if n:
                yield found[:n], unpack(bits[:n], copies.n_bits)
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
        self.n_levels, self.b, self.n_bits = n_levels, b, n_levels * b
        self.forced = (buckets.astype(np.int64) + 1) * b
        self.depth, self.zeros = np.zeros(n_models, np.int64), np.zeros(1, np.int64)
        self.last = pack(np.ones((1, self.n_bits), dtype=np.bool_))  # no limit

    def __repr__(self) -> str:
        return f"{self.n_levels} levels of {self.b} bits"


class NumberCopies(Copies):
    """One number per copy, highest bit first, up to the largest that the model's depth allows: `last` (n, n_bits)."""

    def __init__(self, depth: NDArray[np.integer], last: Bits, *, n_models: int) -> None:
        depth = np.asarray(depth)
        if depth.shape != (n_models,) or not np.issubdtype(depth.dtype, np.integer):
            raise OracleError(f"{n_models} models need as many whole depths, not {depth.dtype} {depth.shape}")
        if len(depth) and not (depth.min() >= 0 and depth.max() < len(last)):
            raise OracleError(f"depths from {depth.min()} to {depth.max()} for {len(last)} largest numbers")
        self.forced, self.b, self.n_bits = np.zeros(n_models, np.int64), 1, last.shape[1]
        self.depth, self.last = depth.astype(np.int64), pack(last)
        self.zeros = np.where(last.any(axis=1), last.argmax(axis=1) if self.n_bits else 0, self.n_bits)

    def __repr__(self) -> str:
        return f"numbers of {self.n_bits} bits"


@compiled
def walk(
    words: Words,
    numbers: Indices,
    forced: Indices,
    b: int,
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
    """Depth-first through the extra bits: fills `found` and `bits` with further copies, returns how many there were.

    `state` (the extra bits so far), `sides` (the parities' values on the model) and `place` let the next call go on
    from there. `place` has the position in `numbers`; the column; whether to step back; the first column at which the
    number is below the largest one (n_extra: none yet) plus 1 (0: a model not begun); and how many columns have their
    side known.
    """
    n_extra, n = len(row_of_column), 0
    one, none, first = np.uint64(1), len(row_of_column), 0
    while first < n_extra and row_of_column[first] < 0:
        first += 1
    while place[0] < len(numbers) and steps > 0 and n < len(found):
        number = numbers[place[0]]
        last, in_groups = lasts[depth[number]], forced[number]
        # Free bits that the largest number has as 0 stay 0.
        base = min(first, zeros[depth[number]])
        column, back, below, known = place[1], place[2], place[3] - 1, place[4]
        if below < 0:
            column, back, below, known = base, 0, none, 0
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
            one_here = False
            if row >= 0:
                if column >= known:
                    sides[row] = odd(words[number], models[row]) != rhs[row]
                    known = column + 1
                one_here = odd(extra[row], state) != sides[row]
            if one_here:
                if below > column and not last[word] & bit:
                    back = 1  # above the largest number
                    continue
                state[word] |= bit
            elif below > column and last[word] & bit:
                below = column
            column += 1
            if column <= in_groups and column % b == 0:
                empty = True
                for c in range(column - b, column):
                    if state[c >> 6] >> np.uint64(c & 63) & one:
                        empty = False
                        break
                if empty:
                    back = 1
        if back and column < base:
            place[0] += 1
            place[3] = 0
        else:
            place[1], place[2], place[3], place[4] = column, back, below + 1, known
    return n
