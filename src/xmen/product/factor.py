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
        self.bounds = np.searchsorted(level[self.order], np.arange(level.max(initial=0) + 2)).tolist()
        row, column = self.place[source], self.place[target]
        keys, self._slot = np.unique(row * max(1, n_nodes) + column, return_inverse=True)
        row, column = np.divmod(keys, max(1, n_nodes))
        self._indptr = np.searchsorted(row, np.arange(n_nodes + 1))
        self._columns = column

    def matrix(self, weights: Floats) -> csr_matrix:
        """M in the order of positions, from one weight per edge (E,)."""
        data = np.bincount(self._slot, weights=weights, minlength=len(self._columns))
        return csr_matrix((data, self._columns, self._indptr), shape=(self.n_nodes, self.n_nodes))


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
    rows: NDArray[np.int32]  # the place of each of the block's rows in the factors
    columns: NDArray[np.int32]
    later: csr_matrix  # (size, n_nodes): entries in later levels


class Factor:
    """(I - M) in factors; LinAlgError where a pivot is 0. Right-hand sides are (n_nodes, k), one problem per column.

    Whether the radius of M is below 1 is for the caller to tell from the solutions.
    """

    def __init__(self, pattern: Pattern, weights: Floats) -> None:
        self._pattern = pattern
        matrix = pattern.matrix(weights)
        self._levels = [
            _factorise(matrix, begin, end) for begin, end in zip(pattern.bounds, pattern.bounds[1:], strict=False)
        ]

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


def _factorise(matrix: csr_matrix, begin: int, end: int) -> _Level:
    rows = matrix[begin:end]
    inside = rows[:, begin:end]
    later = rows.copy()
    later.data[(later.indices >= begin) & (later.indices < end)] = 0.0
    later.eliminate_zeros()
    if inside.nnz == 0:  # nothing but single nodes without loops: the block is the identity
        empty = csc_matrix(inside.shape)
        ones = csc_matrix((np.ones(end - begin), np.arange(end - begin), np.arange(end - begin + 1)), inside.shape)
        same = np.arange(end - begin, dtype=np.int32)
        return _Level(begin, end, _arrays(empty), _arrays(ones), same, same, later)
    block = csc_matrix(inside * -1.0)
    block.setdiag(block.diagonal() + 1.0)
    # A threshold of 0 takes the diagonal as the pivot: the same order for rows and columns.
    try:
        lu = splu(csc_matrix(block), permc_spec="COLAMD", diag_pivot_thresh=0.0)
    except RuntimeError as error:  # a pivot of exactly 0
        raise np.linalg.LinAlgError(str(error)) from None
    lower, upper = csc_matrix(lu.L), csc_matrix(lu.U)
    upper.sort_indices()
    lower.sort_indices()
    return _Level(begin, end, _arrays(lower), _arrays(upper), lu.perm_r, lu.perm_c, later)


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
