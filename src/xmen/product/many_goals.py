"""One factorisation for all trips: every goal is a column (or a few) of the same linear system.

With M = exp(r) T on the nodes of a product and G = (I - M)^-1, let T be the nodes of a goal and a which of them accept.
The weight of all walks from a node that end at their first entry of the goal is

    z = G E_T G_TT^-1 a              E_T: the columns of the identity for T

(without rules T is one node d, and z(s) = G_sd / G_dd). For trips from nodes o with weights c, and
q = sum c_o e_o / z(o), the expected uses of edge (i, j) are x(i) M_ij z(j) with

    x = G^T (q - E_T y),    G_TT^T y = (G^T q)_T = (G E_T)^T q.

So all goals together cost one factorisation, one solve with a column per goal node, and one with a column per goal.
Machine states that lead only forward make levels, of which each sees only its own nodes of a goal (`goal_batches`).
Goals go through in batches of columns that fit the cache: memory is bounded by the batch, not by goals times nodes.

Both are certified goal by goal (`goal_batches`): a goal that has errors above 1e-9, because M is nearly singular or
worse, or whose numbers become too small or too large, is left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.product import trip_kernels
from xmen.product.goal_batches import FLOOR, Batch, Piece, Reweigh, System, Trips
from xmen.product.open_product import OpenProduct
from xmen.workers import Held, n_workers
from xmen.worlds.edge_weights import Floats

BATCH = 64  # columns that go through together: 64 doubles are a few cache lines per node
POWERS = 100  # steps of power iteration behind a bound on the radius


class Solved(NamedTuple):
    """What one evaluation found: log z of each pair, the uses of every world edge, and the goals it could not serve."""

    log_z: Floats  # (P,), nan for pairs of goals that were left
    visits: Floats  # (E,) expected uses of world edges, summed over pairs with their weights
    left: list[int]


class ManyGoals:
    """The shared system of all goals of a network, under one set of rules."""

    def __init__(self, product: OpenProduct, trips: Trips) -> None:
        self.product, self.trips = product, trips
        self.batches = self._cut(trips.by_goal())

    @cached_property
    def held(self) -> Held[ManyGoals]:
        """This, as workers hold it."""
        return Held(self)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "held"}  # it holds this

    def _cut(self, goals: list[tuple[int, slice]]) -> list[Batch]:
        """Goals in batches of at most `BATCH` columns in every level of the factors, or of one goal."""
        ends = np.argsort(self.product.state, kind="stable")
        bounds = np.searchsorted(self.product.state[ends], np.arange(self.product.world.n_states + 1))
        begins = np.array([block.begin for block in self.product.pattern.blocks])
        batches, widths = list[Batch](), np.zeros(len(begins), dtype=np.int64)
        for state, pairs in goals:
            nodes = ends[bounds[state] : bounds[state + 1]]
            here = np.bincount(np.searchsorted(begins, nodes, side="right") - 1, minlength=len(begins))
            if not batches or len(batches[-1].states) == BATCH or (widths + here).max() > BATCH:
                batches.append(Batch([], [], []))
                widths[:] = 0
            batches[-1].states.append(state)
            batches[-1].pairs.append(pairs)
            batches[-1].nodes.append(nodes)
            widths += here
        return batches

    def _system(self, log_weight: Floats) -> System | None:
        """The system under these log-weights of world edges (E,); None where it has no solution."""
        try:
            return System(self.product, self.trips, np.exp(log_weight[self.product.edge]))
        except np.linalg.LinAlgError:
            return None

    def radius(self, log_weight: Floats) -> float:
        """An upper bound on the spectral radius of M, close after so many steps: max (M x)_i / x_i for any x > 0."""
        matrix = self.product.matrix(np.exp(log_weight[self.product.edge]))
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
        Without it batches go through joblib, to where a user's `parallel_config` sends them; they are added up in
        their own order, so that the answer is the same on any number of processes.
        """
        product, trips = self.product, self.trips
        log_z, through = np.full(len(trips.goal), np.nan), np.zeros(len(product.edge))
        left: list[int] = []
        for batch, piece in zip(self.batches, self._pieces(log_weight, with_visits, reweigh), strict=True):
            log_z[batch.whole] = piece.log_z
            left += piece.left
            if piece.flows is not None:
                through += piece.flows
        uses = through * np.exp(log_weight[product.edge])
        visits = np.bincount(product.edge, weights=uses, minlength=len(log_weight))
        return Solved(log_z, visits.astype(np.float64), left)

    def _pieces(self, log_weight: Floats, with_visits: bool, reweigh: Reweigh | None) -> Iterator[Piece]:
        n = min(n_workers(), len(self.batches)) if reweigh is None else 1
        if n <= 1:
            yield from self.solve_batches(log_weight, range(len(self.batches)), with_visits, reweigh)
            return
        # One task per worker: each factorises for itself, and gets the weights once.
        shares = [part.tolist() for part in np.array_split(np.arange(len(self.batches)), n)]
        tasks = [(log_weight, share, with_visits) for share in shares]
        for pieces in self.held.map(_solve_batches, tasks):
            yield from pieces

    def solve_batches(
        self, log_weight: Floats, numbers: Iterable[int], with_visits: bool, reweigh: Reweigh | None = None
    ) -> Iterator[Piece]:
        """What some of the batches find, one after the other."""
        system = self._system(log_weight)
        for batch in map(self.batches.__getitem__, numbers):
            if system is None:
                yield Piece(np.full(batch.whole.stop - batch.whole.start, np.nan), None, batch.states)
            else:
                yield system.solve(batch, with_visits, reweigh)

    def each(self, log_weight: Floats, features: csr_matrix) -> tuple[Floats, list[int]]:
        """E[f] of every pair's trips (P, d), from features of world edges (E, d); and the goals it could not serve."""
        product, trips = self.product, self.trips
        out = np.full((len(trips.goal), features.shape[1]), np.nan)
        system = self._system(log_weight)
        if system is None:
            return out, [state for state, _ in trips.by_goal()]
        weighed = csr_matrix(features[product.edge].multiply(system.weight[:, None])).T.tocsr()
        left: list[int] = []
        for batch in self.batches:
            reached = system.reach(batch)
            for goal, (state, its) in enumerate(zip(batch.states, batch.pairs, strict=True)):
                if not reached.certain[goal]:
                    left.append(state)
                    continue
                z = reached.z[:, goal]
                for begin in range(its.start, its.stop, BATCH):
                    pairs = slice(begin, min(begin + BATCH, its.stop))
                    origin = trips.origin[pairs]
                    q = np.zeros((product.n_nodes, len(origin)))
                    q[origin, np.arange(len(origin))] = 1.0 / z[origin]
                    x = reached.flow(q.copy(), goal)
                    missed = np.abs(q + system.matrix.T @ x - x)[product.state != state]
                    if not reached.trusted(np.maximum(z, FLOOR)[product.state != state] @ missed, 1.0, goal).all():
                        left.append(state)
                        break
                    out[pairs] = (weighed @ (x[product.source] * z[product.target][:, None])).T
        return out, left

    def greedy(self, log_weight: Floats, most: int) -> list[NDArray[np.int64]]:
        """The world edges of each pair's greedy walk: the likeliest move at every node.

        At most `most` moves; a walk that runs into a dead end, or whose goal could not be served, stops there.
        """
        product, trips = self.product, self.trips
        out: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64) for _ in trips.goal]
        system = self._system(log_weight)
        if system is None:
            return out
        for its, z, ends in self._certain(system, self.batches):
            for pair in range(its.start, its.stop):
                out[pair] = product.edge[trip_kernels.greedy(*system.graph, z, ends, trips.origin[pair], most)]
        return out

    def draw(
        self, log_weight: Floats, n_draws: NDArray[np.int64], rng: np.random.Generator
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Independent walks of every pair, goal by goal: the pair of each walk, its world edges in a row, its length.

        n_draws (P,) says how many of each pair. Pairs of goals that cannot be served are missing.
        """
        product, trips = self.product, self.trips
        system = self._system(log_weight)
        if system is None:
            return
        wanted = [batch for batch in self.batches if n_draws[batch.whole].any()]
        for its, z, ends in self._certain(system, wanted):
            pairs = np.repeat(np.arange(its.start, its.stop), n_draws[its])
            if len(pairs):
                taken, lengths = trip_kernels.walk(*system.graph, z, ends, trips.origin[pairs], rng)
                yield pairs, product.edge[taken], lengths

    def _certain(self, system: System, batches: Iterable[Batch]) -> Iterator[tuple[slice, Floats, NDArray[np.bool_]]]:
        """Every goal that is served: where its pairs are, z, and which nodes are its ends."""
        for batch in batches:
            reached = system.reach(batch)
            for goal in np.flatnonzero(reached.certain).tolist():
                state, z = batch.states[goal], np.ascontiguousarray(reached.z[:, goal])
                yield batch.pairs[goal], z, self.product.state == state


def _solve_batches(shared: ManyGoals, task: tuple[Floats, list[int], bool]) -> list[Piece]:
    """What a worker does with its share of the batches."""
    return list(shared.solve_batches(*task))
