"""All random hashes of a few bits with their probabilities, so that a sampler's output distribution is known exactly.

A cell depends on the matrix only through its row space U and on the right-hand side only through a coset: with
d = dim U, each of the 2^d cosets is the cell with probability 2^-m; else the parities contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from xmen.oracles.formula import Bits, Formula, Parities
from xmen.sampling import Space

RowSpace = tuple[int, ...]  # a reduced basis, each vector an integer, descending
Draws = Callable[[Parities], tuple[Bits, NDArray[np.float64]]]


class ListedRows:
    """The oracle protocol on a list of rows, too short to be wrong."""

    name = "rows"
    time_limit: float | None = None

    def __init__(self, bits: Bits) -> None:
        self.bits = np.asarray(bits, dtype=np.bool_)
        n = self.bits.shape[1]
        self.formula = Formula(n, np.zeros(0, dtype=np.int32), tuple(range(1, n + 1)))
        self.n_queries = 0

    def solutions(self, parities: Parities | None = None) -> Iterator[Bits]:
        self.n_queries += 1
        return iter(self.bits if parities is None else self.bits[parities.hold(self.bits)])


class BatchedRows(ListedRows):
    """The same with the batch method that fast oracles have."""

    def cell(self, parities: Parities, limit: int | None = None) -> Bits:
        self.n_queries += 1
        return self.bits[parities.hold(self.bits)][:limit]


@dataclass(frozen=True)
class TableWeight:
    """Log weights looked up by row."""

    table: dict[tuple[bool, ...], float]

    def __call__(self, rows: Bits) -> NDArray[np.float64]:
        return np.array([self.table[tuple(row)] for row in rows.tolist()])


@dataclass(frozen=True)
class LinearWeight:
    """log w = rows . weights."""

    weights: NDArray[np.float64]

    def __call__(self, rows: Bits) -> NDArray[np.float64]:
        return rows.astype(np.float64) @ self.weights


def table_space(bits: Bits, log_weights: NDArray[np.float64]) -> tuple[Space, dict[tuple[bool, ...], float]]:
    """A space of listed rows, and its true probabilities."""
    table = dict(zip(map(tuple, bits.tolist()), log_weights.tolist(), strict=True))
    total = sum(math.exp(x) for x in table.values())
    space = Space(BatchedRows(bits), TableWeight(table), float(log_weights.max()))
    return space, {row: math.exp(x) / total for row, x in table.items()}


def all_bits(n: int) -> Bits:
    """All rows of n bits (2^n, n)."""
    return np.array(list(product((False, True), repeat=n)), dtype=np.bool_).reshape(2**n, n)


def copies(bits: Bits, depth: NDArray[np.int64], n_levels: int, b: int) -> Bits:
    """Every row with every setting of its extra bits, those of the first `depth` levels not all zero: by definition."""
    return np.array(
        [
            (*row, *extra)
            for row, j in zip(bits.tolist(), depth.tolist(), strict=True)
            for extra in product((False, True), repeat=n_levels * b)
            if all(any(extra[i * b : (i + 1) * b]) for i in range(j))
        ],
        dtype=np.bool_,
    )


def reduced(vectors: tuple[int, ...]) -> RowSpace:
    """The reduced basis of the span."""
    basis: list[int] = []
    for vector in vectors:
        for b in basis:
            vector = min(vector, vector ^ b)
        if vector:
            basis = sorted([min(b, b ^ vector) for b in basis] + [vector], reverse=True)
    return tuple(basis)


@cache
def row_spaces(m: int, n: int, density: float = 0.5) -> dict[RowSpace, float]:
    """P[row space = U] for m independent rows whose bits are set with probability `density`: one row at a time."""
    weight = {v: density ** v.bit_count() * (1 - density) ** (n - v.bit_count()) for v in range(2**n)}
    spaces: dict[RowSpace, float] = {(): 1.0}
    for _ in range(m):
        grown: dict[RowSpace, float] = {}
        for basis, probability in spaces.items():
            for vector, chance in weight.items():
                key = reduced((*basis, vector))
                grown[key] = grown.get(key, 0.0) + probability * chance
        spaces = grown
    return spaces


def hashes_of(basis: RowSpace, m: int, n: int) -> Iterator[Parities]:
    """One m x n system per coset of the row space, padded with empty parities."""
    matrix = np.zeros((m, n), dtype=np.bool_)
    for i, vector in enumerate(basis):
        matrix[i] = [vector >> (n - 1 - j) & 1 for j in range(n)]
    for rhs in product((False, True), repeat=len(basis)):
        yield Parities(matrix, np.array([*rhs, *[False] * (m - len(basis))], dtype=np.bool_))


def output(
    draws: Draws, m: int, n: int, density: float = 0.5, only: RowSpace | None = None
) -> dict[tuple[bool, ...], float]:
    """The exact probability of every output of one attempt, given success; with `only`, given that row space."""
    spaces = row_spaces(m, n, density) if only is None else {only: 1.0}
    chances: dict[tuple[bool, ...], float] = {}
    for basis, probability in spaces.items():
        for parities in hashes_of(basis, m, n):
            rows, kept = draws(parities)
            for row, chance in zip(map(tuple, rows.tolist()), kept.tolist(), strict=True):
                chances[row] = chances.get(row, 0.0) + probability * 2.0**-m * chance
    success = sum(chances.values())
    return {row: chance / success for row, chance in chances.items()} if success else {}


def worst_factor(found: dict[tuple[bool, ...], float], true: dict[tuple[bool, ...], float]) -> float:
    """The smallest delta with p' / p in [1 / delta, delta] for every x; infinite when one is never produced."""
    assert set(found) <= set(true)
    ratios = [found.get(row, 0.0) / chance for row, chance in true.items()]
    return max(max(ratios), 1.0 / min(ratios) if min(ratios) > 0 else np.inf)


def subspace_counts(n: int) -> dict[int, int]:
    """The number of subspaces of each dimension, by listing spans: a check of the enumeration itself."""
    spaces = {reduced(vectors) for d in range(n + 1) for vectors in combinations(range(1, 2**n), d)}
    return {d: sum(len(space) == d for space in spaces) for d in range(n + 1)}
