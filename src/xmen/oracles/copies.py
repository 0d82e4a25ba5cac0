"""Copies of listed models: each model with extra bits, some groups of which must not be all zero.

The parities are eliminated once, with pivots in the last extra columns that they have. So a parity with its pivot in
extra column c has no later extra column in it: going through the extra bits from left to right, a bit is either free or
follows from the bits before it and the model, and each group is tested as soon as its last bit is known. Parities that
are left without extra columns are tested on the models alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmen.errors import OracleError
from xmen.oracles.formula import Bits, Parities
from xmen.oracles.gf2 import Indices, Words, compiled, eliminate, odd, pack, unpack
from xmen.oracles.stopwatch import Stopwatch

# Copies come in batches that grow, so that a caller who stops early has not paid for many.
FIRST_BATCH = 16
LARGEST_BATCH = 4096
# The clock is read after this many bits, about every tenth of a second.
STEPS = 10_000_000


class Copies:
    """How the listed models are copied: n_levels groups of b bits, those up to the model's bucket not all zero."""

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

    @property
    def n_bits(self) -> int:
        """The number of extra bits of each model."""
        return self.n_levels * self.b

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
        # The kernel walks along rows, so they have to be contiguous.
        extra, models = np.ascontiguousarray(rows[:rank, :n_words]), np.ascontiguousarray(on_models[:rank])
        return Cell(self, on_rows, extra, models, rhs[:rank], row_of_column)


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
        state = np.zeros(self.extra.shape[1], dtype=np.uint64)
        sides = np.zeros(len(self.rhs), dtype=np.bool_)
        place = np.array([0, 0, 0, 0], dtype=np.int64)
        while place[0] < len(numbers):
            found = np.empty(batch, dtype=np.int64)
            bits = np.empty((batch, self.extra.shape[1]), dtype=np.uint64)
            with watch:
                _ = watch.left
                n = walk(
                    words,
                    numbers,
                    copies.buckets,
                    copies.b,
                    self.extra,
                    self.models,
                    self.rhs,
                    self.row_of_column,
                    state,
                    sides,
                    place,
                    found,
                    bits,
                    STEPS,
                )
            if n:
                yield found[:n], unpack(bits[:n], copies.n_bits)
                batch = min(2 * batch, LARGEST_BATCH)


@compiled
def walk(
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
    """Fill `found` and `bits` with further copies by depth-first search; returns how many there were.

    `state` (the extra bits so far), `sides` (the parities' values on the model) and `place` (position in `numbers`,
    column, whether to step back, how many columns have their side known) let the next call go on from there.
    """
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
