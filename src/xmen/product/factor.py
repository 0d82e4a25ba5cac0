"""(I - M)^-1 for a sparse non-negative M: one factorisation, then solves with many columns at once.

The nodes fall into levels: the strongly connected parts of the graph of M, by the longest way through their
condensation, so that edges lead to the same part or to a later level. Each level is factorised on its own and the
rest is substitution: a counter with k values costs k factorisations of the network, not one of k times its size with
fill between them.

While the spectral radius of M is below 1, I - M is an M-matrix: with diagonal pivots both factors have non-positive
off-diagonals, nothing ever cancels in a substitution, and even entries of 1e-300 have full relative accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from xmen.compiled import compiled
from xmen.worlds.kernels import topological_order

Floats: TypeAlias = NDArray[np.float64]


class Pattern:
    """Where the entries of M are: node order by levels, and the slot of each edge. Made once, used for every M.

    `source` and `target` (E,) are the nodes of each edge; parallel edges add up.
    """

    def __init__(self, n_nodes: int, source: NDArray[Any], target: NDArray[Any]) -> None:
        self.n_nodes = n_nodes
        level = _levels(n_nodes, source, target)
        self.order = np.argsort(level, kind="stable")  # position -> node
        self.place = np.empty(n_nodes, dtype=np.int64)  # node -> position
        self.place[self.order] = np.arange(n_nodes)
        row, column = self.place[source], self.place[target]
        keys, self._slot = np.unique(row * max(1, n_nodes) + column, return_inverse=True)
        row, column = np.divmod(keys, max(1, n_nodes))
        bounds = np.searchsorted(level[self.order], np.arange(level.max(initial=0) + 2)).tolist()
        ends = np.searchsorted(row, bounds).tolist()
        self.blocks = [
            _Block(begin, end, n_nodes, slice(first, last), row[first:last] - begin, column[first:last])
            for begin, end, first, last in zip(bounds, bounds[1:], ends, ends[1:], strict=False)
        ]

    def entries(self, weights: Floats) -> Floats:
        """The entries of M in the order of their slots, from one weight per edge (E,)."""
        return np.bincount(self._slot, weights=weights).astype(np.float64)


class _Block:
    """The rows of one level, `begin` to `end`: where I - M has entries among them, and M in later levels.

    An order of little fill is chosen once, and depends on the pattern alone.
    """

    def __init__(
        self, begin: int, end: int, n_nodes: int, slots: slice, row: NDArray[np.int64], column: NDArray[np.int64]
    ) -> None:
        self.begin, self.end, self._slots = begin, end, slots
        inside = column < end  # none leads to an earlier level
        self._inside, self._row, self._column = inside, row[inside], column[inside] - begin
        self._later = csr_matrix(
            (np.ones(int((~inside).sum())), (row[~inside], column[~inside])), (end - begin, n_nodes)
        )
        self._order: NDArray[np.int64] = np.arange(end - begin)  # a node's place in the matrix that is factorised
        self._arrange()
        if not self.empty:
            some = np.bincount(self._row, minlength=end - begin)[self._row]
            self._order = self._superlu(-0.5 / some, "COLAMD").perm_c.astype(np.int64)
            self._arrange()

    @property
    def empty(self) -> bool:
        """Whether there are single nodes without loops only: I - M is the identity here."""
        return not len(self._row)

    def _arrange(self) -> None:
        """Where each entry goes in the columns of I - M, in the order at hand."""
        size = self.end - self.begin
        own = self._order[self._column] * size + self._order[self._row]
        diagonal = np.arange(size) * (size + 1)
        keys = np.union1d(own, diagonal)
        self._indices = (keys % size).astype(np.int32)
        self._indptr = np.searchsorted(keys, np.arange(size + 1) * size).astype(np.int32)
        self._own, self._diagonal = np.searchsorted(keys, own), np.searchsorted(keys, diagonal)

    def later(self, entries: Floats) -> csr_matrix:
        """M from this level to later ones, (size, n_nodes)."""
        found = self._later
        return csr_matrix((entries[self._slots][~self._inside], found.indices, found.indptr), shape=found.shape)

    def factorise(self, entries: Floats) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
        """SuperLU's factors of I - M, and the place of each row and of each column in them."""
        lu = self._superlu(-entries[self._slots][self._inside], "NATURAL")
        return lu, lu.perm_r[self._order], lu.perm_c[self._order]

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


def _levels(n_nodes: int, source: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int64]:
    """The level of each node: edges lead to the same strongly connected part, or to a later level."""
    graph = csr_matrix((np.ones(len(source), dtype=np.int8), (source, target)), shape=(n_nodes, n_nodes))
    n_parts, part = connected_components(graph, directed=True, connection="strong")
    a, b = part[source].astype(np.int64), part[target].astype(np.int64)
    pairs = np.unique((a * n_parts + b)[a != b])
    a, b = np.divmod(pairs, max(1, n_parts))
    _, level = topological_order(np.searchsorted(a, np.arange(n_parts + 1)), b)
    levels: NDArray[np.int64] = level[part].astype(np.int64)
    return levels


@dataclass(frozen=True)
class _Level:
    """One diagonal block of I - M as L U, both by columns, and the entries of M that lead out of it."""

    begin: int
    end: int
    lower: tuple[Any, Any, Any]
    upper: tuple[Any, Any, Any]
    rows: NDArray[np.integer[Any]]  # the place of each of the block's rows in the factors
    columns: NDArray[np.integer[Any]]
    later: csr_matrix  # (size, n_nodes): entries in later levels


class Factor:
    """(I - M) in factors; LinAlgError where a pivot is 0. Right-hand sides are (n_nodes, k), one problem per column.

    Whether the radius of M is below 1 is for the caller to tell from the solutions.
    """

    def __init__(self, pattern: Pattern, weights: Floats) -> None:
        self._pattern = pattern
        entries = pattern.entries(weights)
        self._levels = [_factorise(block, entries) for block in pattern.blocks]

    def solve(self, right: Floats) -> Floats:
        """X with (I - M) X = right, shape (n_nodes, k), rows by node."""
        pattern = self._pattern
        out = np.ascontiguousarray(right[pattern.order])
        for level in reversed(self._levels):
            block = out[level.begin : level.end]
            if level.later.nnz:
                block += level.later @ out
            work = np.empty_like(block)
            work[level.rows] = block
            _lower_solve(*level.lower, work)
            _upper_solve(*level.upper, work)
            out[level.begin : level.end] = work[level.columns]
        return out[pattern.place]

    def solve_transposed(self, right: Floats) -> Floats:
        """X with (I - M)^T X = right, shape (n_nodes, k), rows by node."""
        pattern = self._pattern
        out = np.ascontiguousarray(right[pattern.order])
        for level in self._levels:
            work = np.empty_like(out[level.begin : level.end])
            work[level.columns] = out[level.begin : level.end]
            _upper_solve_transposed(*level.upper, work)
            _lower_solve_transposed(*level.lower, work)
            block = work[level.rows]
            out[level.begin : level.end] = block
            if level.later.nnz:
                out += level.later.T @ block
        return out[pattern.place]


def _factorise(block: _Block, entries: Floats) -> _Level:
    begin, end, later = block.begin, block.end, block.later(entries)
    if block.empty:
        size, same = end - begin, np.arange(end - begin)
        ones = csc_matrix((np.ones(size), same, np.arange(size + 1)), (size, size))
        return _Level(begin, end, _arrays(csc_matrix((size, size))), _arrays(ones), same, same, later)
    lu, rows, columns = block.factorise(entries)
    lower, upper = csc_matrix(lu.L), csc_matrix(lu.U)
    upper.sort_indices()
    lower.sort_indices()
    return _Level(begin, end, _arrays(lower), _arrays(upper), rows, columns, later)


def _arrays(matrix: csc_matrix) -> tuple[Any, Any, Any]:
    return matrix.indptr, matrix.indices, matrix.data


# The loops below run over whole rows of right-hand sides, which the compiler turns into vector instructions.


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
