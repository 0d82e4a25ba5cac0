"""One batch of goals in the shared system: z of every goal and the flows of its pairs, both certified.

See `many_goals` for the equations. They are solved level by level: within a level l, with what later levels give to it
as right-hand side b, z = G_l b + G_l E_T c, where c makes z what it has to be at the level's own nodes T of the goal.
So each level costs a column for b and one for each of its nodes of goals, not one column through all levels for each
node of a goal in any of them. A batch is a piece of work of its own: what it finds depends on nothing but the
weights, so that batches may be solved anywhere, in any order.

What is certified. Let A be I - M without the nodes of a goal. Where z misses its equations by at most m z, it is wrong
by at most m A^-1 z, and (A^-1 z)(i) / z(i) is the expected length of trips from i; flows that miss theirs by s are
wrong by at most the sum of |s(i)| (A^-1 z)(i). So a residual times the longest expected length bounds the error, of
both. A bound on lengths follows from any w > 0 with A w >= c z, c > 0, which also proves that the radius of A's M is
below 1: A^-1 z <= w / c. Solving for w costs a column for each goal. Mostly one column for all goals will do: where
M u <= (1 - g) u, u > 0, a trip from i goes on after t moves with probability at most (1 - g)^t (u(i) / z(i)) max z / u,
so that no expected length is beyond (1 + log of the spreads of u and z) / g.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.product import trip_kernels
from xmen.product.factor import EPSILON, TRUSTED, Factor, Level
from xmen.product.open_product import OpenProduct
from xmen.worlds.edge_weights import Floats

SMALLEST = 1e-250  # of z at an origin; below it 1 / z and its products come near the ends of a double
FLOOR = 1e-270  # z below it counts as this much: no origin sees the difference, and a double loses digits from 1e-308
CANCELLED = 1e-13  # of the larger of two numbers: a difference below it is rounding
SMALLEST_DOUBLE = float(np.finfo(np.float64).tiny)
SPREAD = 1e10  # of u, at the most: beyond it, what FLOOR hides might be seen
WIDE, TRIES = 0.003, 5  # a gap that is wide enough, and how often to look for a wider one


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

    @property
    def width(self) -> int:
        """The number of columns: one per goal."""
        return len(self.states)

    @cached_property
    def goal_of(self) -> NDArray[np.int64]:
        """The goal of each pair, by its number in the batch."""
        return np.repeat(np.arange(self.width), [its.stop - its.start for its in self.pairs])

    @cached_property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The nodes of all goals in ascending order, and the goal of each."""
        nodes, owner = np.concatenate(self.nodes), np.repeat(np.arange(self.width), list(map(len, self.nodes)))
        order = np.argsort(nodes, kind="stable")
        return nodes[order], owner[order]

    def within(self, begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The nodes of goals among these, counted from the first, and the goal of each, goal by goal."""
        nodes, owner = self._ends
        here = slice(*np.searchsorted(nodes, [begin, end]).tolist())
        order = np.argsort(owner[here], kind="stable")
        return nodes[here][order] - begin, owner[here][order]


class Piece(NamedTuple):
    """What a batch adds: log z of its pairs (nan where left), flows of product edges, goals that it could not serve.

    Flows (E,) are x(i) z(j), still to be multiplied with the edge's weight; None where nobody asked.
    """

    log_z: Floats
    flows: Floats | None
    left: list[int]


class System:
    """I - M in factors, under one set of weights of product edges (E,); LinAlgError where a pivot is 0."""

    def __init__(self, product: OpenProduct, trips: Trips, weight: Floats) -> None:
        self.product, self.trips, self.weight = product, trips, weight
        self.factor, self.matrix = Factor(product.pattern, weight), product.matrix(weight)
        self.graph = product.indptr, product.target, weight
        self.gap, self.spread = self._gap()

    def _gap(self) -> tuple[float, float]:
        """g with M u <= (1 - g) u, and log of the largest u over the smallest; 0 where that is not found."""
        u = np.ones(self.product.n_nodes)
        for tries in range(TRIES):
            gap = max(0.0, 1.0 - float((self.matrix @ u / u).max(initial=0.0)))
            if gap > WIDE or tries == TRIES - 1:
                break
            u = self.factor.solve(u[:, None])[:, 0]
            if not (u.min(initial=1.0) > 0.0 and u.max(initial=1.0) < np.inf):
                return 0.0, 0.0
            u /= u.max(initial=0.0)
        spread = 1.0 / float(u.min(initial=1.0))
        return gap if spread <= SPREAD else 0.0, float(np.log(spread))

    def reach(self, batch: Batch) -> Reached:
        """z of every goal of a batch, each certified or not."""
        return Reached(self, batch)

    def solve(self, batch: Batch, with_visits: bool, reweigh: Reweigh | None) -> Piece:
        """log z, and with `with_visits` flows, of one batch."""
        product, trips, column, whole = self.product, self.trips, batch.goal_of, batch.whole
        reached = self.reach(batch)
        origin, z, certain = trips.origin[whole], reached.z, reached.certain
        at_origin, sure = z[origin, column], certain[column]
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
            q = np.zeros_like(z)
            q[origin, column] = np.divide(weights, at_origin, out=np.zeros(len(origin)), where=sure)
            x = reached.flow(q.copy())
            if left:
                x[:, ~certain], z[:, ~certain] = 0.0, 0.0
            flows, missed = reached.flows(x, q)
            total = np.bincount(column, weights, minlength=batch.width).astype(np.float64)
            unsure = certain & ~reached.trusted(missed, total)
            if unsure.any():
                x[:, unsure] = 0.0
                flows, _ = reached.flows(x, q)
                log_z[unsure[column]] = np.nan
                left += [batch.states[k] for k in np.flatnonzero(unsure).tolist()]
        return Piece(log_z, flows, left)


class _Met(NamedTuple):
    """Where a batch meets one level of the factors: nodes of goals, the goal of each, and (I - M_l)^-1 for them."""

    level: Level
    rows: NDArray[np.int64]
    owner: NDArray[np.int64]  # ascending
    columns: Floats  # (size of the level, nodes)

    def one_each(self, n_goals: int) -> bool:
        """Whether each goal has exactly one node here, as all have without rules."""
        return bool(np.array_equal(self.owner, np.arange(n_goals)))

    def of(self, goal: int) -> slice:
        """The nodes of one goal."""
        return slice(*np.searchsorted(self.owner, [goal, goal + 1]).tolist())


class Reached:
    """z of the goals of a batch (n, k), and which of them are certain."""

    def __init__(self, system: System, batch: Batch) -> None:
        product, self._system = system.product, system
        column = np.full(product.world.n_states, -1)
        column[batch.states] = np.arange(batch.width)
        self._column = column[product.state]  # whose goal each node is, -1: of none
        self._met: dict[int, _Met] = {}
        for level in system.factor.levels:
            rows, owner = batch.within(level.begin, level.end)
            if len(rows):
                columns = np.zeros((level.end - level.begin, len(rows)))
                columns[rows, np.arange(len(rows))] = 1.0
                level.solve(columns)
                self._met[level.begin] = _Met(level, rows, owner, columns)
        z = self.z = np.zeros((product.n_nodes, batch.width))
        self._solve(z, product.accepting.astype(np.float64))
        least, most = max(float(z.min(initial=1.0)), FLOOR), float(z.max(initial=FLOOR))
        self._measured, self._longest = False, np.full(batch.width, np.inf)
        if system.gap > 0.0:
            self._longest[:] = (1.0 + system.spread + np.log(most / least)) / system.gap
        missed: Floats = trip_kernels.missed(*system.graph, z, self._column, FLOOR)
        # Weights are rounded, and lost below the smallest double.
        self.certain = self.trusted(missed + EPSILON + most * SMALLEST_DOUBLE / FLOOR, 1.0)
        at_origin = z[system.trips.origin[batch.whole], batch.goal_of]
        self.certain[batch.goal_of[~(at_origin > SMALLEST)]] = False

    def _solve(self, right: Floats, ends: Floats, blank: bool = True) -> None:
        """Make A^-1 right of the right-hand side (n, k), with these values at nodes of goals (n,)."""
        for level in reversed(self._system.factor.levels):
            block, met = level.gather(right), self._met.get(level.begin)
            if not (level.last and blank):
                level.solve(block)
            if met is not None:
                _hold(met, block, ends[level.begin + met.rows], level.last and blank)

    def trusted(self, missed: Floats, allowed: Floats | float, goal: int | None = None) -> NDArray[np.bool_]:
        """Whether columns that miss so much (k,) of what is allowed are exact: of each goal, or all of one goal."""
        longest = self._longest if goal is None else self._longest[goal]
        with np.errstate(invalid="ignore"):
            sure: NDArray[np.bool_] = missed * longest <= TRUSTED * allowed
        if not sure.all() and not self._measured:
            self._measured, self._longest = True, self._measure()
            return self.trusted(missed, allowed, goal)
        return sure

    def _measure(self) -> Floats:
        """A bound on the expected length of trips to each goal (k,), inf where there may be none."""
        product, z = self._system.product, np.maximum(self.z, FLOOR)
        w, ends = z.copy(), self._column[:, None] == np.arange(z.shape[1])
        self._solve(w, np.zeros(product.n_nodes), blank=False)
        with np.errstate(all="ignore"):
            share = np.where(ends, np.inf, (w - self._system.matrix @ w) / z).min(axis=0, initial=np.inf)
            proved = (share > 0.0) & np.all(ends | (w > 0.0), axis=0)
            return np.where(proved, (w / z).max(axis=0, initial=1.0) / share, np.inf)

    def flows(self, x: Floats, q: Floats) -> tuple[Floats, Floats]:
        """x(i) z(j) of product edges (E,), summed over goals, and how much each x misses of its equations, in trips."""
        system = self._system
        out, missed = trip_kernels.flows(*system.product.incoming, system.weight, x, q, self.z, self._column, FLOOR)
        return out, missed

    def flow(self, q: Floats, goal: int | None = None) -> Floats:
        """x from q (n, m), in place: one column for each goal, or as many as you like for one goal."""
        for level in self._system.factor.levels:
            block, met = q[level.begin : level.end], self._met.get(level.begin)
            if met is not None:
                _absorb(met, block, goal)
            level.solve_transposed(block)
            if met is not None and goal is None:  # exactly: a trip ends where it enters its goal
                block[met.rows, met.owner] = 0.0
            elif met is not None and goal is not None:
                block[met.rows[met.of(goal)]] = 0.0
            level.scatter(q)
        return q


def _hold(met: _Met, block: Floats, accepts: Floats, blank: bool) -> None:
    """Make the block, which solves its level without goals, what it is where nodes of goals have these values."""
    rows, owner, columns = met.rows, met.owner, met.columns
    missing = accepts - block[rows, owner]
    before = None if blank else block.copy()
    if met.one_each(block.shape[1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            block += columns * (missing / columns[rows, owner])
    else:
        for goal in np.unique(owner).tolist():
            its = met.of(goal)
            block[:, goal] += columns[:, its] @ _solve(columns[rows[its], its], missing[its])
    if before is not None:  # what only leads through a goal is 0, and not what rounding leaves of a difference
        block[np.abs(block) <= CANCELLED * before] = 0.0
    block[rows, owner] = accepts


def _absorb(met: _Met, block: Floats, goal: int | None) -> None:
    """Take from what begins in a level that which ends at its nodes of goals: y with G_TT^T y = (G^T q)_T."""
    rows, owner, columns = met.rows, met.owner, met.columns
    if goal is not None:
        its = met.of(goal)
        block[rows[its]] = 0.0  # who starts at the goal goes nowhere
        block[rows[its]] -= _solve(columns[rows[its], its].T, columns[:, its].T @ block)
        return
    block[rows, owner] = 0.0
    if met.one_each(block.shape[1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            block[rows, owner] -= np.einsum("ij,ij->j", columns, block) / columns[rows, owner]
        return
    for each in np.unique(owner).tolist():
        its = met.of(each)
        block[rows[its], each] -= _solve(columns[rows[its], its].T, columns[:, its].T @ block[:, each])


def _solve(corner: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(corner, right))
    except np.linalg.LinAlgError:
        return np.full(right.shape, np.nan)
