"""(I - M)^-1 for a sparse non-negative M: one factorisation, then solves with many columns at once.

The nodes fall into levels: the strongly connected parts of the graph of M, by the longest way through their
condensation, so that edges lead to the same part or to a later level. Each level is factorised on its own and the
rest is substitution: a counter with k values costs k factorisations of the network, not one of k times its size with
fill between them.

While the spectral radius of M is below 1, I - M is an M-matrix: with diagonal pivots both factors have non-positive
off-diagonals, nothing ever cancels in a substitution, and even entries of 1e-300 have full relative accuracy.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from xmen.compiled import compiled
from xmen.events import Ints
from xmen.worlds.kernels import topological_order

TRUSTED = 1e-9  # the largest error of what is called exact, as a share
EPSILON = float(np.finfo(np.float64).eps)

Floats: TypeAlias = NDArray[np.float64]
_Arrays: TypeAlias = tuple[Any, Any, Any]
"""A sparse matrix: where its rows or columns begin, indices, entries."""


class Pattern:
    """Where the entries of M are: node order by levels, and the slot of each edge. Made once, used for every M.

    `source` and `target` (E,) are the nodes of each edge; parallel edges add up. Inside a level nodes are in an order
    of little fill, which depends on the pattern alone; `arranged`: their numbers are in such an order already.
    """

    def __init__(self, n_nodes: int, source: NDArray[Any], target: NDArray[Any], arranged: bool = False) -> None:
        self.n_nodes = n_nodes
        level = _levels(n_nodes, source, target)
        bounds = np.searchsorted(np.sort(level), np.arange(level.max(initial=0) + 2)).tolist()
        self._settle(np.argsort(level, kind="stable"), source, target, bounds)
        if not arranged:
            inside = [begin + block.little_fill() for begin, block in zip(bounds, self.blocks, strict=False)]
            self._settle(self.order[np.concatenate(inside)], source, target, bounds)

    def _settle(self, order: NDArray[Any], source: NDArray[Any], target: NDArray[Any], bounds: list[int]) -> None:
        n_nodes = self.n_nodes
        self.order = order  # position -> node
        self.place = np.empty(n_nodes, dtype=np.int64)  # node -> position
        self.place[order] = np.arange(n_nodes)
        row, column = self.place[source], self.place[target]
        keys, self._slot = np.unique(row * max(1, n_nodes) + column, return_inverse=True)
        row, column = np.divmod(keys, max(1, n_nodes))
        ends = np.searchsorted(row, bounds).tolist()
        self.blocks = [
            _Block(begin, end, n_nodes, slice(first, last), row[first:last] - begin, column[first:last])
            for begin, end, first, last in zip(bounds, bounds[1:], ends, ends[1:], strict=False)
        ]

    def entries(self, weights: Floats) -> Floats:
        """The entries of M in the order of their slots, from one weight per edge (E,)."""
        return np.bincount(self._slot, weights=weights).astype(np.float64)


class _Block:
    """The rows of one level, `begin` to `end`: where I - M has entries among them, and M in later levels."""

    def __init__(self, begin: int, end: int, n_nodes: int, slots: slice, row: Ints, column: Ints) -> None:
        self.begin, self.end, self._slots = begin, end, slots
        size = end - begin
        inside = column < end  # none leads to an earlier level
        self._inside, self._row, own = inside, row[inside], column[inside] - begin
        self._later = csr_matrix((np.ones(int((~inside).sum())), (row[~inside], column[~inside])), (size, n_nodes))
        entries, diagonal = own * size + self._row, np.arange(size) * (size + 1)
        keys = np.union1d(entries, diagonal)
        self._indices = (keys % size).astype(np.int32)
        self._indptr = np.searchsorted(keys, np.arange(size + 1) * size).astype(np.int32)
        self._own, self._diagonal = np.searchsorted(keys, entries), np.searchsorted(keys, diagonal)

    def little_fill(self) -> Ints:
        """The rows in an order in which factors have few entries."""
        if not len(self._row):
            return np.arange(self.end - self.begin)
        some = np.bincount(self._row, minlength=self.end - self.begin)[self._row]
        return np.argsort(self._superlu(-0.5 / some, "COLAMD").perm_c)

    def factorise(self, entries: Floats) -> "Level":
        """L U = I - M among these rows; LinAlgError where a pivot is 0."""
        found = self._later
        later = (found.indptr, found.indices, entries[self._slots][~self._inside])
        if not len(self._row):  # single nodes without loops: I - M is the identity here
            return Level(self.begin, self.end, None, later)
        lu = self._superlu(-entries[self._slots][self._inside], "NATURAL")
        if not np.array_equal(lu.perm_r, lu.perm_c):  # another pivot than the diagonal had to be taken
            raise np.linalg.LinAlgError("a pivot is 0")
        lower, upper = ((matrix.indptr, matrix.indices, matrix.data) for matrix in (lu.L, lu.U))
        _diagonal_last(*upper)
        return Level(self.begin, self.end, (lower, upper), later)

    def _superlu(self, own: Floats, order: str) -> Any:
        data, size = np.zeros(len(self._indices)), self.end - self.begin
        data[self._own] = own
        data[self._diagonal] += 1.0
        matrix = csc_matrix((data, self._indices, self._indptr), shape=(size, size))
        # A threshold of 0 takes the diagonal as the pivot: the same order for rows and columns.
        try:
            return splu(matrix, permc_spec=order, diag_pivot_thresh=0.0)
        except RuntimeError as error:  # a pivot of exactly 0
            raise np.linalg.LinAlgError(str(error)) from None


def _levels(n_nodes: int, source: NDArray[Any], target: NDArray[Any]) -> Ints:
    """The level of each node: edges lead to the same strongly connected part, or to a later level."""
    graph = csr_matrix((np.ones(len(source), dtype=np.int8), (source, target)), shape=(n_nodes, n_nodes))
    n_parts, part = connected_components(graph, directed=True, connection="strong")
    a, b = part[source].astype(np.int64), part[target].astype(np.int64)
    a, b = np.divmod(np.unique((a * n_parts + b)[a != b]), max(1, n_parts))
    _, level = topological_order(np.searchsorted(a, np.arange(n_parts + 1)), b)
    return np.asarray(level[part], dtype=np.int64)


@dataclass(frozen=True)
class Level:
    """One diagonal block of I - M as L U, both by columns (None: the identity), and the entries that lead out of it.

    `x` and `block` are rows by position, one problem per column; a block is the level's part of x, solved in place.
    """

    begin: int
    end: int
    factors: tuple[_Arrays, _Arrays] | None
    later: _Arrays  # by rows: entries of M in later levels

    @property
    def last(self) -> bool:
        """Whether nothing leads on from here."""
        return not len(self.later[2])

    def solve(self, block: Floats) -> None:
        """(I - M)^-1 within the level."""
        if self.factors is not None:
            lower, upper = self.factors
            _lower_solve(*lower, block)
            _upper_solve(*upper, block)

    def solve_transposed(self, block: Floats) -> None:
        """(I - M)^-T within the level."""
        if self.factors is not None:
            lower, upper = self.factors
            _upper_solve_transposed(*upper, block)
            _lower_solve_transposed(*lower, block)

    def gather(self, x: Floats) -> Floats:
        """The level's part of x, to which M x of later levels has been added."""
        if not self.last:
            _gather(*self.later, self.begin, x)
        return x[self.begin : self.end]

    def scatter(self, x: Floats) -> None:
        """Add M^T of the level's part of x to later levels."""
        if not self.last:
            _scatter(*self.later, self.begin, x)


class Factor:
    """(I - M) in factors; LinAlgError where a pivot is 0. Callers tell from solutions whether M's radius is below 1."""

    def __init__(self, pattern: Pattern, weights: Floats) -> None:
        self._pattern = pattern
        entries = pattern.entries(weights)
        self.levels = [block.factorise(entries) for block in pattern.blocks]

    def solve(self, right: Floats) -> Floats:
        """X with (I - M) X = right, shape (n_nodes, k), rows by node."""
        x = np.ascontiguousarray(right[self._pattern.order])
        for level in reversed(self.levels):
            level.solve(level.gather(x))
        return x[self._pattern.place]

    def solve_transposed(self, right: Floats) -> Floats:
        """X with (I - M)^T X = right, shape (n_nodes, k), rows by node."""
        x = np.ascontiguousarray(right[self._pattern.order])
        for level in self.levels:
            level.solve_transposed(x[level.begin : level.end])
            level.scatter(x)
        return x[self._pattern.place]


# The loops below run over whole rows of right-hand sides, which the compiler turns into vector instructions.


@compiled
def _gather(indptr: Any, indices: Any, data: Any, begin: int, x: Any) -> None:
    """x[begin + i] += sum over entries of row i of value x[column]."""
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j, value = indices[p], data[p]
            for k in range(x.shape[1]):
                x[begin + i, k] += value * x[j, k]


@compiled
def _scatter(indptr: Any, indices: Any, data: Any, begin: int, x: Any) -> None:
    """x[column] += value x[begin + i], over the entries of every row i."""
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j, value = indices[p], data[p]
            for k in range(x.shape[1]):
                x[j, k] += value * x[begin + i, k]


@compiled
def _diagonal_last(indptr: Any, indices: Any, data: Any) -> None:
    """Move the diagonal to the end of each column, where the loops below look for it."""
    for j in range(len(indptr) - 1):
        last = indptr[j + 1] - 1
        for p in range(indptr[j], last):
            if indices[p] == j:
                indices[p], indices[last] = indices[last], indices[p]
                data[p], data[last] = data[last], data[p]


@compiled
def _lower_solve(indptr: Any, indices: Any, data: Any, x: Any) -> None:
    """L x, in place; the unit diagonal may be stored or not."""
    for j in range(len(indptr) - 1):
        for p in range(indptr[j], indptr[j + 1]):
            i, value = indices[p], data[p]
            if i > j and value != 0.0:
                for k in range(x.shape[1]):
                    x[i, k] -= value * x[j, k]


@compiled
def _upper_solve(indptr: Any, indices: Any, data: Any, x: Any) -> None:
    """U x, in place; the diagonal is the last entry of each column."""
    for j in range(len(indptr) - 2, -1, -1):
        last = indptr[j + 1] - 1
        for k in range(x.shape[1]):
            x[j, k] /= data[last]
        for p in range(indptr[j], last):
            i, value = indices[p], data[p]
            for k in range(x.shape[1]):
                x[i, k] -= value * x[j, k]


@compiled
def _upper_solve_transposed(indptr: Any, indices: Any, data: Any, x: Any) -> None:
    for j in range(len(indptr) - 1):
        last = indptr[j + 1] - 1
        for p in range(indptr[j], last):
            i, value = indices[p], data[p]
            for k in range(x.shape[1]):
                x[j, k] -= value * x[i, k]
        for k in range(x.shape[1]):
            x[j, k] /= data[last]


@compiled
def _lower_solve_transposed(indptr: Any, indices: Any, data: Any, x: Any) -> None:
    for j in range(len(indptr) - 2, -1, -1):
        for p in range(indptr[j], indptr[j + 1]):
            i, value = indices[p], data[p]
            if i > j and value != 0.0:
                for k in range(x.shape[1]):
                    x[j, k] -= value * x[i, k]
