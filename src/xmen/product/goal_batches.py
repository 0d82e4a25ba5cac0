"""One batch of goals in the shared system: z of every goal, certified, and the flows of its pairs.

See `many_goals` for the equations. They are solved level by level: within a level l, with what later levels give to it
as right-hand side b, z = G_l b + G_l E_T c, where c makes z what it has to be at the level's own nodes T of the goal.
So each level costs a column for b and one for each of its nodes of goals, not one column through all levels for each
node of a goal in any of them. A batch is a piece of work of its own: what it finds depends on nothing but the
weights, so that batches may be solved anywhere, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.product import trip_kernels
from xmen.product.factor import Factor, Level
from xmen.product.open_product import OpenProduct
from xmen.worlds.edge_weights import Floats

SMALLEST = 1e-250  # of z at an origin; below it 1 / z and its products come near the ends of a double
CANCELLED = 1e-13  # of the larger of two numbers: a difference below it is rounding
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
        self.factor = Factor(product.pattern, weight)

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
            x = reached.flow(q)
            if left:
                x[:, ~certain], z[:, ~certain] = 0.0, 0.0
            trip_kernels.add_flows(product.source, product.target, x, z, flows)
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
        product, self._levels = system.product, system.factor.levels
        self._met: dict[int, _Met] = {}
        self.z = np.zeros((product.n_nodes, batch.width))
        for level in reversed(self._levels):
            block = level.gather(self.z)
            if not level.last:
                level.solve(block)
            rows, owner = batch.within(level.begin, level.end)
            if len(rows):
                columns = np.zeros((level.end - level.begin, len(rows)))
                columns[rows, np.arange(len(rows))] = 1.0
                level.solve(columns)
                met = self._met[level.begin] = _Met(level, rows, owner, columns)
                _hold(met, block, product.accepting[level.begin + rows].astype(np.float64))
        state, goals = product.state, np.array(batch.states)
        graph = (product.indptr, product.target, system.weight)
        self.certain: NDArray[np.bool_] = trip_kernels.certain(*graph, self.z, state, goals, TRUSTED)
        at_origin = self.z[system.trips.origin[batch.whole], batch.goal_of]
        self.certain[batch.goal_of[~(at_origin > SMALLEST)]] = False

    def flow(self, q: Floats, goal: int | None = None) -> Floats:
        """x from q (n, m), in place: one column for each goal, or as many as you like for one goal."""
        for level in self._levels:
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


def _hold(met: _Met, block: Floats, accepts: Floats) -> None:
    """Make the block, which solves its level without goals, what it is where nodes of goals have these values."""
    rows, owner, columns = met.rows, met.owner, met.columns
    missing = accepts - block[rows, owner]
    before = None if met.level.last else block.copy()
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
