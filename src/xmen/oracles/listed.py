"""The listed oracle: where all models can be listed, a cell is a product of two matrices over GF(2).

The first parities are taken on columns of bits, where one word holds a bit of 64 models; the few models that are left
are looked at one by one. A cell of 12 parities among 200,000 models of 81 bits takes 0.3 ms, of 400 bits 0.9 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import OracleError
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.formula import Answer, Bits, Formula, Parities, Stopwatch
from xmen.oracles.gf2 import Indices, Words, eliminate, odd, pack, popcount, unpack
from xmen.oracles.solver import check_assumptions, check_formula, check_parities, check_time_limit

# ---- Copies of listed models: each model with extra bits that are not free to take every value.
#
# The parities are eliminated once, with pivots in the last extra columns that they have. So a parity with its pivot
# in extra column c has no later extra column in it, and no other pivot: going through the extra bits from left to
# right, a bit is either free or follows from the free bits before it and the model, and what is forbidden is left as
# soon as it shows. Parities that are left without extra columns are tested on the models alone.


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


# ---- The listed oracle: where all models can be listed, a cell is a product of two matrices over GF(2)


LevelsOfRows: TypeAlias = tuple[NDArray[np.integer], int, int]  # bucket of each row, n_levels, bits per level
NumbersOfRows: TypeAlias = tuple[NDArray[np.integer], Bits]  # depth of each row, largest number of each depth
MAX_LISTED = 200_000
# After this many halvings a model looked at alone costs less than its share of the columns (measured, of 2 to 12).
PARITIES_BY_COLUMN = 7
BLOCK = 64  # words of a column looked at together


class ListedOracle:
    """All models are given, as rows of hash bits (N, n_hash), each once.

    formula: names the hash variables (the columns, in order); its clauses are not looked at. None: variables 1 .. n.

    levels: (bucket_of_row (N,), n_levels, b). Every row is then a set of *copies*: it is extended by n_levels * b more
    hash bits, those of level 0 first, and the b bits of level i are not all zero for i <= bucket_of_row; a bucket of -1
    forces nothing. The formula grows by as many hash variables.

    `with_numbers` has copies of another kind: one number per copy, none above the largest of the row's depth.
    """

    name: str = "listed"

    def __init__(
        self,
        bits: Bits,
        *,
        formula: Formula | None = None,
        levels: LevelsOfRows | None = None,
        time_limit: float | None = None,
    ) -> None:
        bits = np.asarray(bits)
        if bits.dtype != np.bool_ or bits.ndim != 2:
            raise OracleError(f"a list of models is a matrix of bool, not {bits.ndim}-dimensional {bits.dtype}")
        check_time_limit(time_limit)
        self.n_models, self.width = bits.shape
        self.base = Formula(self.width, np.zeros(0, np.int32), tuple(range(1, self.width + 1)))
        if formula is not None:
            check_formula(formula)
            self.base = formula
        if self.base.n_hash != self.width:
            raise OracleError(f"rows of {self.width} bits for a formula with {self.base.n_hash} hash variables")
        self._words = pack(bits)
        self._columns = pack(np.ascontiguousarray(bits.T))
        self._all = np.arange(self.n_models)
        if _repeats(self._words):
            raise OracleError("the list holds a model twice")
        self.time_limit = time_limit
        self.n_queries = 0
        self._set_copies(None if levels is None else LevelCopies(*levels, n_models=self.n_models))

    @classmethod
    def from_formula(cls, formula: Formula, *, time_limit: float | None = None, limit: int = MAX_LISTED) -> Self:
        """List the models of the formula with CryptoMiniSat; raises OracleError when there are more than `limit`."""
        found = list(islice(CryptoMiniSatOracle(formula, time_limit).solutions(), limit + 1))
        if len(found) > limit:
            raise OracleError(f"the formula has more than {limit:,} models: too many to list. Use another oracle.")
        return cls(
            np.array(found, dtype=np.bool_).reshape(len(found), formula.n_hash), formula=formula, time_limit=time_limit
        )

    def with_levels(self, levels: LevelsOfRows | None) -> Self:
        """The same list with other copies; shares the memory."""
        return self._sharing(None if levels is None else LevelCopies(*levels, n_models=self.n_models))

    def with_numbers(self, numbers: NumbersOfRows) -> Self:
        """The same list, each row extended by n_bits more hash bits, a number with its highest bit first.

        numbers: (depth (N,), largest (n, n_bits)). A row has a copy for every number from 0 to that of its depth.
        """
        return self._sharing(NumberCopies(*numbers, n_models=self.n_models))

    def _sharing(self, copies: Copies | None) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.n_queries = 0
        other._set_copies(copies)
        return other

    def __repr__(self) -> str:
        copies = "" if self._copies is None else f", {self._copies}"
        return f"ListedOracle({self.n_models:,} models of {self.width} bits{copies})"

    def solve(self, assumptions: Sequence[int] = ()) -> Answer:
        """A model under assumed literals of *hash variables*, or a minimal core of them."""
        literals = [int(literal) for literal in assumptions]
        check_assumptions(literals, self.formula)
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
        if parities is None:
            parities = self._fixing([])
        check_parities(parities, self.formula.n_hash)
        return self._counted(parities)

    def cell(self, parities: Parities, limit: int | None = None) -> Bits:
        """`solutions` as one matrix (k, n_hash); up to `limit` of them, so only fewer are a complete cell."""
        check_parities(parities, self.formula.n_hash)
        if self._copies is None:
            found = unpack(self._words[self.members(parities)[:limit]], self.width)
        else:
            found = self._cell_of_copies(parities, limit)
        self.n_queries += len(found) + (limit is None or len(found) < limit)
        return found

    def members(self, parities: Parities) -> Indices:
        """The numbers of the listed rows that satisfy parities over the rows themselves, ascending."""
        check_parities(parities, self.width)
        by_column = min(parities.m, PARITIES_BY_COLUMN)
        found = survivors(self._columns, self.n_models, parities.matrix[:by_column], parities.rhs[:by_column])
        return refine(self._words, found, pack(parities.matrix[by_column:]), parities.rhs[by_column:])

    def _set_copies(self, copies: Copies | None) -> None:
        self._copies = copies
        self.formula = self.base
        if copies is None:
            return
        f, n_extra = self.base, copies.n_bits
        fresh = range(f.n_variables + 1, f.n_variables + n_extra + 1)
        self.formula = Formula(f.n_variables + n_extra, f.clauses, (*f.hash_variables, *fresh))

    def _counted(self, parities: Parities) -> Iterator[Bits]:
        for bits in self._read(parities, Stopwatch(self.name, self.time_limit)):
            self.n_queries += 1
            yield bits
        self.n_queries += 1

    def _read(self, parities: Parities, watch: Stopwatch) -> Iterator[Bits]:
        if self._copies is None:
            # In pieces, so that a caller who wants one row of many does not wait for all.
            found = self.members(parities)
            for start in range(0, len(found), 1024):
                yield from unpack(self._words[found[start : start + 1024]], self.width)
            return
        for rows in self._batches(self._copies, parities, watch):
            yield from rows

    def _batches(self, copies: Copies, parities: Parities, watch: Stopwatch) -> Iterator[Bits]:
        cell = copies.cut(parities, self.width)
        found = self._candidates(cell)
        for numbers, extra in cell.search(self._words, found, watch):
            yield np.hstack([unpack(self._words[numbers], self.width), extra])

    def _candidates(self, cell: Cell) -> Indices:
        """The models that may have copies in the cell."""
        copies, on_all = cell.copies, cell.on_rows
        if on_all.m < PARITIES_BY_COLUMN:
            light, n_zeros = copies.light(cell, self.width, PARITIES_BY_COLUMN - on_all.m)
            own = copies.zeros[copies.depth]  # leading zeros of each model's largest number
            heavy = np.flatnonzero(own < n_zeros)
            if 2 * len(heavy) < self.n_models:
                found = self.members(
                    Parities(np.vstack([on_all.matrix, light.matrix]), np.concatenate([on_all.rhs, light.rhs]))
                )
                heavy = refine(self._words, heavy, pack(on_all.matrix), on_all.rhs)
                return np.concatenate([found[own[found] >= n_zeros], heavy])
        return self.members(on_all) if on_all.m else self._all

    def _cell_of_copies(self, parities: Parities, limit: int | None) -> Bits:
        assert self._copies is not None
        found, n = [np.zeros((0, self.formula.n_hash), dtype=np.bool_)], 0
        for rows in self._batches(self._copies, parities, Stopwatch(self.name, self.time_limit)):
            found.append(rows)
            n += len(rows)
            if limit is not None and n >= limit:
                break
        return np.concatenate(found)[:limit]

    def _fixing(self, literals: Sequence[int]) -> Parities:
        """Assumptions as parities of one variable each."""
        place = {variable: i for i, variable in enumerate(self.formula.hash_variables)}
        matrix = np.zeros((len(literals), self.formula.n_hash), dtype=np.bool_)
        for i, literal in enumerate(literals):
            if abs(literal) not in place:
                raise OracleError(f"a list knows hash variables only, and {abs(literal)} is none: use another oracle")
            matrix[i, place[abs(literal)]] = True
        return Parities(matrix, np.array([literal > 0 for literal in literals], dtype=np.bool_))


def _repeats(words: Words) -> bool:
    """Whether two rows are equal."""
    if words.shape[1] == 0:
        return len(words) > 1
    ordered = words[np.lexsort(words.T)]
    return bool(np.any(np.all(ordered[1:] == ordered[:-1], axis=1)))


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
