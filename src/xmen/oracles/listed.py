"""The listed oracle: where all models can be listed, a cell is a product of two matrices over GF(2).

The first parities are taken on columns of bits, where one word holds a bit of 64 models; the few models that are left
are looked at one by one. A cell of 12 parities among 200,000 models of 81 bits takes 0.3 ms, of 400 bits 0.9 ms.

A model may stand for *copies*: itself with extra bits, in groups (levels) of which the first few are not all zero. Then
the parities are eliminated once, with pivots in the last extra columns that they have. So a parity with its pivot in
extra column c has no later extra column in it, and no other pivot: going through the extra bits from left to right, a
bit is either free or follows from the free bits before it and the model, and what is forbidden is left as soon as it
shows. Parities that are left without extra columns are tested on the models alone.
"""

import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import OracleError
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.formula import Answer, Bits, Formula, Parities, Stopwatch
from xmen.oracles.gf2 import Indices, Words, eliminate, odd, pack, popcount, unpack
from xmen.oracles.solver import check_formula, check_time_limit, read_assumptions, read_parities

LevelsOfRows: TypeAlias = tuple[NDArray[np.integer], int, int]  # bucket of each row, n_levels, bits per level
MAX_LISTED = 200_000  # models of a formula
# After this many halvings a model looked at alone costs less than its share of the columns (measured, of 2 to 12).
PARITIES_BY_COLUMN = 7
BLOCK = 64  # words of a column looked at together
PIECE = 1024  # models that are written out together
# Copies come in batches that grow, so that a caller who stops early has not paid for many.
FIRST_BATCH = 64
LARGEST_BATCH = 4096
STEPS = 10_000_000  # bits after which the clock is read, about every tenth of a second


class ListedOracle:
    """All models, as rows of hash bits (N, n_hash), each once; of the formula only the hash variables are looked at."""

    name: str = "listed"
    _levels: tuple[Indices, int, int] | None = None

    def __init__(self, bits: Bits, *, formula: Formula | None = None, time_limit: float | None = None) -> None:
        bits = np.asarray(bits)
        if bits.dtype != np.bool_ or bits.ndim != 2:
            raise OracleError(f"a list of models is a matrix of bool, not {bits.ndim}-dimensional {bits.dtype}")
        check_time_limit(time_limit)
        self.n_models, self.width = bits.shape
        self.base = formula or Formula(self.width, np.zeros(0, np.int32), tuple(range(1, self.width + 1)))
        self.formula = self.base
        check_formula(self.base)
        if self.base.n_hash != self.width:
            raise OracleError(f"rows of {self.width} bits for a formula with {self.base.n_hash} hash variables")
        self._words = pack(bits)
        self._columns = pack(np.ascontiguousarray(bits.T))
        self._all = np.arange(self.n_models)
        if len({row.tobytes() for row in self._words}) < self.n_models:
            raise OracleError("the list holds a model twice")
        self.time_limit, self.n_queries = time_limit, 0

    @classmethod
    def from_formula(cls, formula: Formula, *, time_limit: float | None = None, limit: int = MAX_LISTED) -> Self:
        """List the models of the formula with CryptoMiniSat; raises OracleError when there are more than `limit`."""
        found = list(islice(CryptoMiniSatOracle(formula, time_limit).solutions(), limit + 1))
        if len(found) > limit:
            raise OracleError(f"the formula has more than {limit:,} models: too many to list. Use another oracle.")
        rows = np.array(found, dtype=np.bool_).reshape(len(found), formula.n_hash)
        return cls(rows, formula=formula, time_limit=time_limit)

    def with_levels(self, levels: LevelsOfRows) -> Self:
        """The list with every row as a set of *copies*, of levels (bucket_of_row (N,), n_levels, b); shares the memory.

        A row is extended by n_levels * b more hash bits, those of level 0 first, and the b bits of level i are not all
        zero for i <= bucket_of_row; a bucket of -1 forces nothing. The formula grows by as many hash variables.
        """
        buckets, n_levels, b = np.asarray(levels[0]), *levels[1:]
        if buckets.shape != (self.n_models,) or not np.issubdtype(buckets.dtype, np.integer):
            raise OracleError(f"{self.n_models} models need as many whole buckets, not {buckets.dtype} {buckets.shape}")
        if n_levels < 0 or b < 1:
            raise OracleError(f"levels need at least 1 bit and no negative number, not {b} bits and {n_levels} levels")
        if len(buckets) and not (buckets.min() >= -1 and buckets.max() < n_levels):
            low, high = buckets.min(), buckets.max()
            raise OracleError(f"buckets from {low} to {high} for levels 0 to {n_levels - 1} (-1 forces none)")
        other, f, top = copy.copy(self), self.base, self.base.n_variables + n_levels * b
        other._levels = (buckets.astype(np.int64) + 1) * b, n_levels, b  # so many first bits are in forced levels
        other.formula = Formula(top, f.clauses, (*f.hash_variables, *range(f.n_variables + 1, top + 1)))
        other.n_queries = 0
        return other

    def __repr__(self) -> str:
        levels = "" if self._levels is None else f", {self._levels[1]} levels of {self._levels[2]} bits"
        return f"ListedOracle({self.n_models:,} models of {self.width} bits{levels})"

    def solve(self, assumptions: Sequence[int] = ()) -> Answer:
        """A model under assumed literals of *hash variables*, or a minimal core of them."""
        literals = read_assumptions(assumptions, self.formula)
        self.n_queries += 1
        watch = Stopwatch(self.name, self.time_limit)
        bits = next(self._read(self._fixing(literals), watch), None)
        if bits is not None:
            return Answer(bits)
        core = literals
        for literal in literals:
            rest = [other for other in core if other != literal]
            if next(self._read(self._fixing(rest), watch), None) is None:
                core = rest
        return Answer(None, tuple(core))

    def solutions(self, parities: Parities | None = None) -> Iterator[Bits]:
        """All models (all copies) that satisfy the parities, each once; wrong parities are refused at the call."""
        return self._counted(read_parities(parities, self.formula.n_hash))

    def cell(self, parities: Parities, limit: int | None = None) -> Bits:
        """The models (copies) in a cell as one matrix (k, n_hash); up to `limit`, so only fewer are a complete cell."""
        read_parities(parities, self.formula.n_hash)
        if self._levels is None:
            found = unpack(self._words[self.members(parities)[:limit]], self.width)
        else:
            batches, n = [np.zeros((0, self.formula.n_hash), dtype=np.bool_)], 0
            for rows in self._copies(parities, *self._levels, Stopwatch(self.name, self.time_limit)):
                batches.append(rows)
                n += len(rows)
                if limit is not None and n >= limit:
                    break
            found = np.concatenate(batches)[:limit]
        self.n_queries += len(found) + (limit is None or len(found) < limit)
        return found

    def members(self, parities: Parities) -> Indices:
        """The numbers of the listed rows that satisfy parities over the rows themselves, ascending."""
        read_parities(parities, self.width)
        by_column = min(parities.m, PARITIES_BY_COLUMN)
        found = survivors(self._columns, self.n_models, parities.matrix[:by_column], parities.rhs[:by_column])
        return refine(self._words, found, pack(parities.matrix[by_column:]), parities.rhs[by_column:])

    def _counted(self, parities: Parities) -> Iterator[Bits]:
        for bits in self._read(parities, Stopwatch(self.name, self.time_limit)):
            self.n_queries += 1
            yield bits
        self.n_queries += 1

    def _read(self, parities: Parities, watch: Stopwatch) -> Iterator[Bits]:
        if self._levels is not None:
            for rows in self._copies(parities, *self._levels, watch):
                yield from rows
            return
        # In pieces, so that a caller who wants one row of many does not wait for all.
        found = self.members(parities)
        for start in range(0, len(found), PIECE):
            yield from unpack(self._words[found[start : start + PIECE]], self.width)

    def _copies(self, parities: Parities, forced: Indices, n_levels: int, b: int, watch: Stopwatch) -> Iterator[Bits]:
        """All copies in a cell of parities over (model bits, extra bits), in batches (k, n_hash)."""
        n_extra, width = n_levels * b, self.width
        n_words = -(-n_extra // 64)
        parts = (parities.matrix[:, width:], parities.matrix[:, :width], parities.rhs[:, None])
        rows = np.hstack([pack(part) for part in parts])
        pivots = eliminate(rows, np.arange(n_extra)[::-1].copy())
        rank = len(pivots)
        on_models, rhs = rows[:, n_words:-1], rows[:, -1].astype(np.bool_)
        row_of_column = np.full(n_extra, -1, dtype=np.int64)
        row_of_column[pivots] = np.arange(rank)
        # The kernel walks along rows, so they have to be contiguous.
        extra, models = np.ascontiguousarray(rows[:rank, :n_words]), np.ascontiguousarray(on_models[:rank])
        alone = Parities(unpack(on_models[rank:], width), rhs[rank:])
        numbers = self.members(alone) if alone.m else self._all
        state, sides = np.zeros(n_words, dtype=np.uint64), np.zeros(rank, dtype=np.bool_)
        place, batch = np.zeros(4, dtype=np.int64), FIRST_BATCH
        cell = (self._words, numbers, forced, b, extra, models, rhs[:rank], row_of_column)
        while place[0] < len(numbers):
            found, bits = np.empty(batch, dtype=np.int64), np.empty((batch, n_words), dtype=np.uint64)
            with watch:
                watch.check()
                n = walk(cell, state, sides, place, found, bits, STEPS)
            if n:
                yield np.hstack([unpack(self._words[found[:n]], width), unpack(bits[:n], n_extra)])
                batch = min(2 * batch, LARGEST_BATCH)

    def _fixing(self, literals: Sequence[int]) -> Parities:
        """Assumptions as parities of one variable each."""
        place = {variable: i for i, variable in enumerate(self.formula.hash_variables)}
        matrix = np.zeros((len(literals), self.formula.n_hash), dtype=np.bool_)
        for i, literal in enumerate(literals):
            if abs(literal) not in place:
                raise OracleError(f"a list knows hash variables only, and {abs(literal)} is none: use another oracle")
            matrix[i, place[abs(literal)]] = True
        return Parities(matrix, np.array([literal > 0 for literal in literals], dtype=np.bool_))


@compiled
def walk(cell: Any, state: Words, sides: Bits, place: Indices, found: Indices, bits: Words, steps: int) -> int:
    """Depth-first through the extra bits: fills `found` and `bits` with further copies, returns how many there were.

    The cell: the models, the numbers of those to look at, how many first bits are in forced levels of b bits; extra
    columns (rank, n_words) and model columns (rank, n_model_words) of each parity with a pivot, its rhs (rank,), and
    per extra column the parity that decides it, -1 for a free bit (n_extra,). `state` (the extra bits so far), `sides`
    (the parities' values on the model) and `place` let the next call go on from there. `place` has the position in
    `numbers`; the column; whether to step back; and how many columns have their side known.
    """
    words, numbers, forced, b, extra, models, rhs, row_of_column = cell
    n_extra, n, one = len(row_of_column), 0, np.uint64(1)
    while place[0] < len(numbers) and steps > 0 and n < len(found):
        number = numbers[place[0]]
        column, back, known = place[1], place[2], place[3]
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
                    known = column + 1
                if odd(extra[row], state) != sides[row]:
                    state[column >> 6] |= one << np.uint64(column & 63)
            column += 1
            if column <= forced[number] and column % b == 0:
                empty = True
                for c in range(column - b, column):
                    if state[c >> 6] >> np.uint64(c & 63) & one:
                        empty = False
                        break
                if empty:
                    back = 1
        if back and column < 0:
            place[0] += 1
            column, back, known = 0, 0, 0
        place[1], place[2], place[3] = column, back, known
    return n


@compiled
def survivors(columns: Words, n_models: int, matrix: Bits, rhs: Bits) -> Indices:
    """The numbers of models that satisfy m parities, from columns (n, ceil(N / 64)) with a bit per model.

    Columns that are in the same parities are added up once for all of them: n + 2^(m+1) words per 64 models.
    """
    (m, n), n_words, ones = matrix.shape, (n_models + 63) // 64, ~np.uint64(0)
    pattern = np.zeros(n, np.int64)
    for i in range(m):
        for c in range(n):
            pattern[c] |= np.int64(matrix[i, c]) << i
    found = np.empty(n_models, np.int64)
    n_found = 0
    # Block by block, so that the sums stay in the cache.
    sums, alive, parity = np.empty((1 << m, BLOCK), np.uint64), np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for start in range(0, n_words, BLOCK):
        size = min(BLOCK, n_words - start)
        sums[:] = np.uint64(0)
        for c in range(n):
            if pattern[c]:
                column, sum_ = columns[c, start : start + size], sums[pattern[c]]
                for w in range(size):
                    sum_[w] ^= column[w]
        alive[:] = ones
        for i in range(m - 1, -1, -1):
            parity[:] = np.uint64(0) if rhs[i] else ones
            for j in range(1 << i):
                upper, lower = sums[j + (1 << i)], sums[j]
                for w in range(size):
                    parity[w] ^= upper[w]
                    lower[w] ^= upper[w]
            for w in range(size):
                alive[w] &= parity[w]
        for w in range(size):
            word = alive[w]
            while word:
                lowest = word & (~word + np.uint64(1))
                number = 64 * (start + w) + popcount(lowest - np.uint64(1))
                if number < n_models:
                    found[n_found] = number
                    n_found += 1
                word ^= lowest
    return found[:n_found].copy()


@compiled
def refine(words: Words, numbers: Indices, rows: Words, rhs: Bits) -> Indices:
    """Those of the numbered models (N, n_words) that satisfy the packed parities (m, n_words) as well."""
    found = np.empty(len(numbers), np.int64)
    n = 0
    for number in numbers:
        model, i, wrong = words[number], 0, False
        while i < len(rhs) and not wrong:
            # Several at a time: a branch after each parity is one that no processor can predict.
            for _ in range(min(6, len(rhs) - i)):
                wrong |= odd(model, rows[i]) != rhs[i]
                i += 1
        if not wrong:
            found[n] = number
            n += 1
    return found[:n].copy()
