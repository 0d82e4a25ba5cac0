"""The listed oracle: where all models can be listed, a cell is a product of two matrices over GF(2).

The first parities are taken on columns of bits, where one word holds a bit of 64 models; the few models that are left
are looked at one by one. A cell of 12 parities among 200,000 models of 81 bits takes 0.3 ms, of 400 bits 0.9 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import OracleError
from xmen.oracles.copies import Cell, Copies, LevelCopies, NumberCopies
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.formula import Bits, Formula, Parities
from xmen.oracles.gf2 import Indices, Words, odd, pack, popcount, unpack
from xmen.oracles.protocol import Answer
from xmen.oracles.solver import check_assumptions, check_formula, check_parities, check_time_limit
from xmen.oracles.stopwatch import Stopwatch

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
