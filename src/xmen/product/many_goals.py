"""One factorisation for all trips: every goal is a column (or a few) of the same linear system.

With M = exp(r) T on the nodes of a product and G = (I - M)^-1, let T be the nodes of a goal and a which of them accept.
The weight of all walks from a node that end at their first entry of the goal is

    z = G E_T G_TT^-1 a              E_T: the columns of the identity for T

(without rules T is one node d, and z(s) = G_sd / G_dd). For trips from nodes o with weights c, and
q = sum c_o e_o / z(o), the expected uses of edge (i, j) are x(i) M_ij z(j) with

    x = G^T (q - E_T y),    G_TT^T y = (G^T q)_T = (G E_T)^T q.

So all goals together cost one factorisation, one solve with a column per goal node, and one with a column per goal.
Goals go through in batches of columns that fit the cache: memory is bounded by the batch, not by goals times nodes.

z is what it should be where it is non-negative and solves its equations: each node that reaches the goal is then
positive, which proves that the radius of M without the goal is below 1. A goal of which that is not seen, or whose
numbers become too small, is left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.product import trip_kernels
from xmen.product.factor import Factor, Pattern
from xmen.product.open_product import OpenProduct
from xmen.worlds.edge_weights import Floats

BATCH = 64  # columns that go through together: 64 doubles are a few cache lines per node
SMALLEST = 1e-250  # of z at an origin; below it 1 / z and its products come near the ends of a double
POWERS = 100  # steps of power iteration behind a bound on the radius
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


class Solved(NamedTuple):
    """What one evaluation found: log z of each pair, the uses of every world edge, and the goals it could not serve."""

    log_z: Floats  # (P,), nan for pairs of goals that were left
    visits: Floats  # (E,) expected uses of world edges, summed over pairs with their weights
    left: list[int]


class ManyGoals:
    """The shared system of all goals of a network, under one set of rules."""

    def __init__(self, product: OpenProduct, trips: Trips) -> None:
        self.product, self.trips = product, trips
        self.pattern = Pattern(product.n_nodes, product.source, product.target)
        self._batches = self._cut(trips.by_goal())

    def _cut(self, goals: list[tuple[int, slice]]) -> list[list[tuple[int, slice, NDArray[np.int64]]]]:
        """Goals in batches of about `BATCH` columns."""
        ends = np.argsort(self.product.state, kind="stable")
        bounds = np.searchsorted(self.product.state[ends], np.arange(self.product.world.n_states + 1))
        batches: list[list[tuple[int, slice, NDArray[np.int64]]]] = [[]]
        width = 0
        for state, pairs in goals:
            nodes = ends[bounds[state] : bounds[state + 1]]
            if width and width + len(nodes) > BATCH:
                batches.append([])
                width = 0
            batches[-1].append((state, pairs, nodes))
            width += len(nodes)
        return batches

    def radius(self, log_weight: Floats) -> float:
        """An upper bound on the spectral radius of M, close after so many steps: max (M x)_i / x_i for any x > 0."""
        weight = np.exp(log_weight[self.product.edge])
        matrix = csr_matrix((weight, (self.product.source, self.product.target)), shape=(self.product.n_nodes,) * 2)
        x, bound = np.ones(self.product.n_nodes), np.inf
        for _ in range(POWERS):
            moved = matrix @ x
            bound = min(bound, float((moved / x).max(initial=0.0)))
            x = moved + x  # M + I has the same vectors, and no power of it swings to and fro
            x /= x.max()
            x = np.maximum(x, 1e-200)
        return bound

    def solve(self, log_weight: Floats, with_visits: bool = True, reweigh: Reweigh | None = None) -> Solved:
        """log z and visits under these log-weights of world edges (E,).

        `reweigh(pairs, log_z)` gives other weights to a goal's pairs than those of the trips, once log z is known.
        """
        product, trips = self.product, self.trips
        weight = np.exp(log_weight[product.edge])
        log_z = np.full(len(trips.goal), np.nan)
        through = np.zeros(len(product.edge))
        left: list[int] = []
        try:
            factor = Factor(self.pattern, weight)
        except np.linalg.LinAlgError:
            return Solved(log_z, np.zeros(len(log_weight)), [state for state, _ in trips.by_goal()])
        matrix = csr_matrix((weight, (product.source, product.target)), shape=(product.n_nodes,) * 2)
        for batch in self._batches:
            if all(len(nodes) == 1 for *_, nodes in batch):
                left += self._solve_single(factor, matrix, batch, with_visits, reweigh, log_z, through)
                continue
            columns = self._completions(factor, matrix, batch)
            left += [goal.state for goal in columns if not goal.certain]
            served = [goal for goal in columns if goal.certain]
            for goal in served:
                log_z[goal.pairs] = goal.log_z(trips)
            if served and with_visits:
                weights = [
                    trips.weight[g.pairs] if reweigh is None else reweigh(g.pairs, log_z[g.pairs]) for g in served
                ]
                sources = [goal.sources(trips, its) for goal, its in zip(served, weights, strict=True)]
                x = factor.solve_transposed(np.stack(sources, axis=1))
                for k, goal in enumerate(served):
                    x[goal.nodes, k] = 0.0  # exactly: a trip ends where it enters its goal
                trip_kernels.add_flows(
                    product.source, product.target, x, np.stack([g.z for g in served], axis=1), through
                )
        visits = np.bincount(product.edge, weights=through * weight, minlength=len(log_weight))
        return Solved(log_z, visits.astype(np.float64), left)

    def _solve_single(
        self,
        factor: Factor,
        matrix: csr_matrix,
        batch: list[tuple[int, slice, NDArray[np.int64]]],
        with_visits: bool,
        reweigh: Reweigh | None,
        log_z: Floats,
        through: Floats,
    ) -> list[int]:
        """The same for goals of one node each, as all are without rules: whole columns at once, no loop over goals."""
        product, trips = self.product, self.trips
        nodes, numbers = np.array([own[0] for *_, own in batch]), np.arange(len(batch))
        unit = np.zeros((product.n_nodes, len(batch)))
        unit[nodes, numbers] = 1.0
        columns = factor.solve(unit)
        corner = columns[nodes, numbers]
        accepts = product.accepting[nodes].astype(np.float64)
        z = columns * np.divide(accepts, corner, out=np.full(len(batch), np.nan), where=corner > 0.0)
        z[nodes, numbers] = accepts
        onward = matrix @ z
        onward[nodes, numbers] = accepts
        pairs = np.concatenate([np.arange(its.start, its.stop) for _, its, _ in batch])
        column = np.repeat(numbers, [its.stop - its.start for _, its, _ in batch])
        origin = trips.origin[pairs]
        with np.errstate(invalid="ignore"):
            certain = np.all((z >= 0.0) & (np.abs(onward - z) <= TRUSTED * z), axis=0)
            certain &= np.bincount(column, ~(z[origin, column] > SMALLEST), minlength=len(batch)) == 0
        served = certain[column]
        pairs, column, origin = pairs[served], column[served], origin[served]
        log_z[pairs] = np.log(z[origin, column])
        if with_visits and len(pairs):
            weights = trips.weight[pairs]
            if reweigh is not None:
                its = [its for (_, its, _), sure in zip(batch, certain, strict=True) if sure]
                if certain.all():  # all at once, as they stand in a row
                    its = [slice(its[0].start, its[-1].stop)]
                weights = np.concatenate([reweigh(one, log_z[one]) for one in its])
            q = np.zeros_like(z)
            np.add.at(q, (origin, column), weights / z[origin, column])
            q[nodes, numbers] = 0.0  # who starts at the goal goes nowhere
            q[nodes, numbers] = -np.einsum("nk,nk->k", columns, q) / np.where(certain, corner, 1.0)
            x = factor.solve_transposed(q)
            x[nodes, numbers] = 0.0  # exactly: a trip ends where it enters its goal
            x[:, ~certain], z[:, ~certain] = 0.0, 0.0
            trip_kernels.add_flows(product.source, product.target, x, z, through)
        return [state for (state, *_), sure in zip(batch, certain, strict=True) if not sure]

    def each(self, log_weight: Floats, features: csr_matrix) -> tuple[Floats, list[int]]:
        """E[f] of every pair's trips (P, d), from features of world edges (E, d); and the goals it could not serve."""
        product, trips = self.product, self.trips
        weight = np.exp(log_weight[product.edge])
        out = np.full((len(trips.goal), features.shape[1]), np.nan)
        try:
            factor = Factor(self.pattern, weight)
        except np.linalg.LinAlgError:
            return out, [state for state, _ in trips.by_goal()]
        matrix = csr_matrix((weight, (product.source, product.target)), shape=(product.n_nodes,) * 2)
        weighed = csr_matrix(features[product.edge].multiply(weight[:, None])).T.tocsr()
        left: list[int] = []
        for batch in self._batches:
            for goal in self._completions(factor, matrix, batch):
                if not goal.certain:
                    left.append(goal.state)
                    continue
                where = np.arange(goal.pairs.start, goal.pairs.stop)
                for begin in range(0, len(where), BATCH):
                    pairs = where[begin : begin + BATCH]
                    x = factor.solve_transposed(
                        np.stack([goal.source_of(trips.origin[p], 1.0) for p in pairs.tolist()], axis=1)
                    )
                    x[goal.nodes] = 0.0
                    out[pairs] = (weighed @ (x[product.source] * goal.z[product.target][:, None])).T
        return out, left

    def greedy(self, log_weight: Floats, most: int, revisits: bool = True) -> list[NDArray[np.int64]]:
        """The world edges of each pair's greedy walk: the likeliest move at every node; or none to a state again.

        At most `most` moves; a walk that runs into a dead end, or whose goal could not be served, stops there.
        """
        product, trips = self.product, self.trips
        weight = np.exp(log_weight[product.edge])
        out: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64) for _ in trips.goal]
        factor = Factor(self.pattern, weight)
        matrix = csr_matrix((weight, (product.source, product.target)), shape=(product.n_nodes,) * 2)
        indptr = np.searchsorted(product.source, np.arange(product.n_nodes + 1))
        for batch in self._batches:
            for goal in self._completions(factor, matrix, batch):
                ends = np.zeros(product.n_nodes, dtype=np.bool_)
                ends[goal.nodes] = True
                for pair in range(goal.pairs.start, goal.pairs.stop) if goal.certain else ():
                    taken = trip_kernels.greedy(
                        indptr, product.target, product.state, weight, goal.z, ends, trips.origin[pair], most, revisits
                    )
                    out[pair] = product.edge[taken]
        return out

    def draw(
        self, log_weight: Floats, n_draws: NDArray[np.int64], rng: np.random.Generator
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Independent walks of every pair, goal by goal: the pair of each walk, its world edges in a row, its length.

        n_draws (P,) says how many of each pair. Pairs of goals that cannot be served are missing.
        """
        product, trips = self.product, self.trips
        weight = np.exp(log_weight[product.edge])
        try:
            factor = Factor(self.pattern, weight)
        except np.linalg.LinAlgError:
            return
        matrix = csr_matrix((weight, (product.source, product.target)), shape=(product.n_nodes,) * 2)
        indptr = np.searchsorted(product.source, np.arange(product.n_nodes + 1))
        for batch in self._batches:
            if not any(n_draws[pairs].any() for _, pairs, _ in batch):
                continue
            for goal in self._completions(factor, matrix, batch):
                pairs = np.repeat(np.arange(goal.pairs.start, goal.pairs.stop), n_draws[goal.pairs])
                if not goal.certain or not len(pairs):
                    continue
                ends = np.zeros(product.n_nodes, dtype=np.bool_)
                ends[goal.nodes] = True
                taken, lengths = trip_kernels.walk(
                    indptr, product.target, weight, np.ascontiguousarray(goal.z), ends, trips.origin[pairs], rng
                )
                yield pairs, product.edge[taken], lengths

    def _completions(
        self, factor: Factor, matrix: csr_matrix, batch: list[tuple[int, slice, NDArray[np.int64]]]
    ) -> list[_Goal]:
        """z of every goal of a batch, each certified or not."""
        product = self.product
        unit = np.zeros((product.n_nodes, sum(len(nodes) for *_, nodes in batch)))
        at = 0
        for *_, nodes in batch:
            unit[nodes, np.arange(at, at + len(nodes))] = 1.0
            at += len(nodes)
        columns, at = factor.solve(unit), 0
        goals = []
        for state, pairs, nodes in batch:
            own = columns[:, at : at + len(nodes)]
            at += len(nodes)
            goals.append(_Goal.found(state, pairs, nodes, own, product.accepting[nodes].astype(np.float64)))
        z = np.stack([goal.z for goal in goals], axis=1)
        onward = matrix @ z
        for k, goal in enumerate(goals):
            onward[goal.nodes, k] = product.accepting[goal.nodes]
        with np.errstate(invalid="ignore"):
            close = np.all((z >= 0.0) & (np.abs(onward - z) <= TRUSTED * z), axis=0)
        return [
            goal._replace(certain=bool(ok and np.all(z[self.trips.origin[goal.pairs], k] > SMALLEST)))
            for k, (goal, ok) in enumerate(zip(goals, close, strict=True))
        ]


class _Goal(NamedTuple):
    """One goal: its pairs, its product nodes, the columns of G for these, G_TT, and z."""

    state: int
    pairs: slice
    nodes: NDArray[np.int64]
    columns: Floats
    corner: Floats
    z: Floats
    certain: bool

    @classmethod
    def found(cls, state: int, pairs: slice, nodes: NDArray[np.int64], columns: Floats, accepts: Floats) -> _Goal:
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

    def sources(self, trips: Trips, weights: Floats) -> Floats:
        """q - E_T y for all pairs of this goal together."""
        q = np.zeros(len(self.z))
        origin = trips.origin[self.pairs]
        np.add.at(q, origin, weights / self.z[origin])
        return self._ending(q)

    def source_of(self, origin: int, weight: float) -> Floats:
        """q - E_T y for one origin."""
        q = np.zeros(len(self.z))
        q[origin] = weight / self.z[origin]
        return self._ending(q)

    def _ending(self, q: Floats) -> Floats:
        q[self.nodes] = 0.0  # who starts at the goal goes nowhere
        q[self.nodes] -= np.linalg.solve(self.corner.T, self.columns.T @ q)
        return q
