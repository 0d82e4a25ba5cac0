"""One batch of goals in the shared system: z of every goal, certified, and the flows of its pairs.

See `many_goals` for the equations. A batch is a piece of work of its own: what it finds depends on nothing but the
weights, so that batches may be solved anywhere, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.product import trip_kernels
from xmen.product.factor import Factor, Pattern
from xmen.product.open_product import OpenProduct
from xmen.worlds.edge_weights import Floats

SMALLEST = 1e-250  # of z at an origin; below it 1 / z and its products come near the ends of a double
TRUSTED = 1e-6  # a solution that misses its equation by more than this share is no solution


@dataclass(frozen=True)
class Trips:
    """Distinct pairs of an origin and a goal, sorted by goal: product nodes, states, and how much each pair counts."""

    origin: NDArray[np.int64]  # (P,) the start node of each pair
    goal: NDArray[np.int64]  # (P,) the goal's state
    weight: Floats  # (P,)

    def by_goal(self) -> list[tuple[int, slice]]:
        """Each goal's state, and where its pairs are."""
        goals, first = np.unique(self.goal, return_index=True)
        ends = np.append(first[1:], len(self.goal))
        return [(int(d), slice(int(a), int(b))) for d, a, b in zip(goals, first, ends, strict=True)]


Reweigh: TypeAlias = Callable[[slice | NDArray[np.int64], Floats], Floats]
"""From the pairs of one goal or of goals in a row, and their log z, to the weights of these pairs."""


@dataclass(frozen=True)
class Batch:
    """Goals in a row: the state of each, where its pairs are, and its product nodes."""

    states: list[int]
    pairs: list[slice]
    nodes: list[NDArray[np.int64]]

    @cached_property
    def whole(self) -> slice:
        """All pairs of the batch, which stand in a row."""
        return slice(self.pairs[0].start, self.pairs[-1].stop)

    @cached_property
    def width(self) -> int:
        """The number of columns: one per node of a goal."""
        return sum(map(len, self.nodes))

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The node of each column."""
        return np.concatenate(self.nodes)

    @cached_property
    def goal_of(self) -> NDArray[np.int64]:
        """The goal of each pair, by its number in the batch."""
        return np.repeat(np.arange(len(self.states)), [its.stop - its.start for its in self.pairs])


class Piece(NamedTuple):
    """What a batch adds: log z of its pairs (nan where left), flows of product edges, goals that it could not serve.

    Flows (E,) are x(i) z(j), still to be multiplied with the edge's weight; None where nobody asked.
    """

    log_z: Floats
    flows: Floats | None
    left: list[int]


class System:
    """I - M in factors, under one set of weights of product edges (E,); LinAlgError where a pivot is 0."""

    def __init__(self, product: OpenProduct, pattern: Pattern, trips: Trips, weight: Floats) -> None:
        self.product, self.trips, self.weight = product, trips, weight
        self.factor = Factor(pattern, weight)

    @cached_property
    def matrix(self) -> csr_matrix:
        """M by rows, as the edges of a product come."""
        shape = (self.product.n_nodes,) * 2
        return csr_matrix((self.weight, self.product.target, self.product.indptr), shape=shape)

    def solve(self, batch: Batch, with_visits: bool, reweigh: Reweigh | None) -> Piece:
        """log z, and with `with_visits` flows, of one batch."""
        one_each = batch.width == len(batch.states)
        return (self._solve_single if one_each else self._solve_several)(batch, with_visits, reweigh)

    def _solve_single(self, batch: Batch, with_visits: bool, reweigh: Reweigh | None) -> Piece:
        """Goals of one node each, as all are without rules: whole columns at once, no loop over goals."""
        product, trips = self.product, self.trips
        nodes, numbers, column, whole = batch.ends, np.arange(batch.width), batch.goal_of, batch.whole
        unit = np.zeros((product.n_nodes, batch.width))
        unit[nodes, numbers] = 1.0
        columns = self.factor.solve(unit)
        accepts = product.accepting[nodes].astype(np.float64)
        z, certain = trip_kernels.completions(
            product.indptr, product.target, self.weight, columns, nodes, accepts, TRUSTED
        )
        origin = trips.origin[whole]
        at_origin = z[origin, column]
        certain[column[~(at_origin > SMALLEST)]] = False
        sure = certain[column]
        log_z = np.full(len(origin), np.nan)
        log_z[sure] = np.log(at_origin[sure])
        left = [batch.states[k] for k in np.flatnonzero(~certain).tolist()]
        if not with_visits:
            return Piece(log_z, None, left)
        flows = np.zeros(len(product.edge))
        if sure.any():
            weights = trips.weight[whole]
            if reweigh is not None and not left:
                weights = reweigh(whole, log_z)
            elif reweigh is not None:
                parts = [(its, slice(its.start - whole.start, its.stop - whole.start)) for its in batch.pairs]
                found = [reweigh(its, log_z[own]) for (its, own), ok in zip(parts, certain, strict=True) if ok]
                weights = np.zeros(len(origin))
                weights[sure] = np.concatenate(found)
            goes = sure & (origin != nodes[column])  # who starts at the goal goes nowhere
            share = np.divide(weights, at_origin, out=np.zeros(len(origin)), where=goes)
            q = np.zeros_like(z)
            q[origin, column] = share
            ending = np.bincount(column, weights=share * columns[origin, column], minlength=batch.width)
            q[nodes, numbers] = -ending / np.where(certain, columns[nodes, numbers], 1.0)
            x = self.factor.solve_transposed(q)
            x[nodes, numbers] = 0.0  # exactly: a trip ends where it enters its goal
            if left:
                x[:, ~certain], z[:, ~certain] = 0.0, 0.0
            trip_kernels.add_flows(product.source, product.target, x, z, flows)
        return Piece(log_z, flows, left)

    def _solve_several(self, batch: Batch, with_visits: bool, reweigh: Reweigh | None) -> Piece:
        product, trips, first = self.product, self.trips, batch.whole.start
        goals = self.completions(batch)
        served = [goal for goal in goals if goal.certain]
        log_z = np.full(batch.whole.stop - first, np.nan)
        for goal in served:
            log_z[goal.pairs.start - first : goal.pairs.stop - first] = goal.log_z(trips)
        left = [goal.state for goal in goals if not goal.certain]
        if not with_visits:
            return Piece(log_z, None, left)
        flows = np.zeros(len(product.edge))
        if served:
            weights = [trips.weight[g.pairs] if reweigh is None else reweigh(g.pairs, g.log_z(trips)) for g in served]
            sources = [goal.sources(trips.origin[goal.pairs], its) for goal, its in zip(served, weights, strict=True)]
            x = self.factor.solve_transposed(np.stack(sources, axis=1))
            for k, goal in enumerate(served):
                x[goal.nodes, k] = 0.0  # exactly: a trip ends where it enters its goal
            z = np.stack([goal.z for goal in served], axis=1)
            trip_kernels.add_flows(product.source, product.target, x, z, flows)
        return Piece(log_z, flows, left)

    def completions(self, batch: Batch) -> list[Goal]:
        """z of every goal of a batch, each certified or not."""
        product = self.product
        unit = np.zeros((product.n_nodes, batch.width))
        unit[batch.ends, np.arange(batch.width)] = 1.0
        columns, at = self.factor.solve(unit), 0
        goals = []
        for state, pairs, nodes in zip(batch.states, batch.pairs, batch.nodes, strict=True):
            own = columns[:, at : at + len(nodes)]
            at += len(nodes)
            goals.append(Goal.found(state, pairs, nodes, own, product.accepting[nodes].astype(np.float64)))
        z = np.stack([goal.z for goal in goals], axis=1)
        onward = self.matrix @ z
        for k, goal in enumerate(goals):
            onward[goal.nodes, k] = product.accepting[goal.nodes]
        with np.errstate(invalid="ignore"):
            close = np.all((z >= 0.0) & (np.abs(onward - z) <= TRUSTED * z), axis=0)
        return [
            goal._replace(certain=bool(ok and np.all(z[self.trips.origin[goal.pairs], k] > SMALLEST)))
            for k, (goal, ok) in enumerate(zip(goals, close, strict=True))
        ]


class Goal(NamedTuple):
    """One goal: its pairs, its product nodes, the columns of G for these, G_TT, and z."""

    state: int
    pairs: slice
    nodes: NDArray[np.int64]
    columns: Floats
    corner: Floats
    z: Floats
    certain: bool

    @classmethod
    def found(cls, state: int, pairs: slice, nodes: NDArray[np.int64], columns: Floats, accepts: Floats) -> Goal:
        corner = columns[nodes]
        try:
            z = columns @ np.linalg.solve(corner, accepts)
        except np.linalg.LinAlgError:
            z = np.full(len(columns), np.nan)
        z[nodes] = accepts
        return cls(state, pairs, nodes, columns, corner, z, False)

    def log_z(self, trips: Trips) -> Floats:
        """log z of each pair's origin."""
        return np.log(self.z[trips.origin[self.pairs]])

    def sources(self, origin: NDArray[np.int64], weights: Floats | float) -> Floats:
        """q - E_T y for trips from these nodes together."""
        q = np.zeros(len(self.z))
        np.add.at(q, origin, weights / self.z[origin])
        q[self.nodes] = 0.0  # who starts at the goal goes nowhere
        q[self.nodes] -= np.linalg.solve(self.corner.T, self.columns.T @ q)
        return q
