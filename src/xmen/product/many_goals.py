"""One factorisation for all trips: every goal is a column (or a few) of the same linear system.

With M = exp(r) T on the nodes of a product and G = (I - M)^-1, let T be the nodes of a goal and a which of them accept.
The weight of all walks from a node that end at their first entry of the goal is

    z = G E_T G_TT^-1 a              E_T: the columns of the identity for T

(without rules T is one node d, and z(s) = G_sd / G_dd). For trips from nodes o with weights c, and
q = sum c_o e_o / z(o), the expected uses of edge (i, j) are x(i) M_ij z(j) with

    x = G^T (q - E_T y),    G_TT^T y = (G^T q)_T = (G E_T)^T q.

So all goals together cost one factorisation, one solve with a column per goal node, and one with a column per goal.
Machine states that lead only forward make levels, of which each sees only its own nodes of a goal.
Goals go through in batches of columns that fit the cache: memory is bounded by the batch, not by goals times nodes.

Both are certified goal by goal: a goal that has errors above 1e-9, because M is nearly singular or
worse, or whose numbers become too small or too large, is left to the caller.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.compiled import compiled
from xmen.events import Bools, Ints
from xmen.machines.tables import CompiledConstraint
from xmen.processes import Held, n_workers
from xmen.product.factor import EPSILON, TRUSTED, Factor, Pattern
from xmen.product.graph import explore, ground_of
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP
from xmen.worlds.walks import Floats


@compiled
def walk(indptr: Any, target: Any, weight: Any, z: Any, ends: Any, origins: Any, rng: Any) -> Any:
    """One walk from each origin to an end, edge e with probability weight[e] z[target] / z[node]."""
    taken = np.empty(1024, dtype=np.int64)
    lengths = np.zeros(len(origins), dtype=np.int64)
    n = 0
    for i in range(len(origins)):
        node = origins[i]
        while not ends[node]:
            begin, end = indptr[node], indptr[node + 1]
            total = 0.0
            for e in range(begin, end):
                total += weight[e] * z[target[e]]
            left = rng.random() * total
            chosen = -1
            for e in range(begin, end):
                w = weight[e] * z[target[e]]
                if w > 0.0:
                    chosen = e
                    left -= w
                    if left < 0.0:
                        break
            if n == len(taken):
                grown = np.empty(2 * n, dtype=np.int64)
                grown[:n] = taken
                taken = grown
            taken[n] = chosen
            n += 1
            lengths[i] += 1
            node = target[chosen]
    return taken[:n].copy(), lengths


@compiled
def residual(indptr: Any, target: Any, weight: Any, z: Any, column: Any, floor: float) -> Any:
    """The largest share by which each column of z (n, k) misses its equations; i is the goal of column[i], if any."""
    n, k = z.shape
    onward, most = np.empty(k), np.zeros(k)
    for i in range(n):
        onward[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w, after = weight[e], target[e]
            for j in range(k):
                onward[j] += w * z[after, j]
        if column[i] >= 0:
            onward[column[i]] = z[i, column[i]]
        for j in range(k):
            away, here = abs(onward[j] - z[i, j]), max(z[i, j], floor)
            if not away <= most[j] * here:
                most[j] = away / here if away < np.inf else np.inf  # nan is not
    return most


@partial(compiled, any_order=True)
def flows(
    indptr: Any, edge: Any, source: Any, weight: Any, x: Any, q: Any, z: Any, goal: Any, of: Any, floor: float
) -> tuple[Any, Any]:
    """x[source] z[target] of each edge, summed over columns; and what each x misses of x = q + M^T x, in units of z.

    Node i is of the goal goal[i], if any (-1), and column j goes to the goal of[j].
    """
    n, k = x.shape
    out, onward, residual = np.zeros(len(weight)), np.empty(k), np.zeros(k)
    for i in range(n):
        onward[:] = q[i]
        for p in range(indptr[i], indptr[i + 1]):
            w, before, total = weight[edge[p]], source[p], 0.0
            for j in range(k):
                onward[j] += w * x[before, j]
            for j in range(k):
                total += x[before, j] * z[i, j]
            out[edge[p]] = total
        if goal[i] >= 0:
            for j in range(k):
                if of[j] == goal[i]:
                    onward[j] = x[i, j]
        for j in range(k):
            residual[j] += abs(onward[j] - x[i, j]) * max(z[i, j], floor)
    return out, residual


@dataclass(frozen=True)
class OpenProduct:
    """The nodes on a way from an origin to an accepting node of one of the goals, in the order of the factors."""

    world: MDP
    state: NDArray[np.int32]  # the world state of each node
    accepting: Bools  # whether a trip that ends here keeps the rules
    source: Ints  # the node that each edge leaves, sorted
    target: Ints
    edge: Ints  # the world edge below each product edge
    start_of: Ints  # the start node of each state, -1 where there is none
    pattern: Pattern
    keeps: Bools  # which of the k rules that are usually kept hold where a trip ends at a node (n, k)

    @property
    def n_nodes(self) -> int:
        return len(self.state)

    @cached_property
    def indptr(self) -> Ints:
        """Where the edges of each node begin (n_nodes + 1,)."""
        return np.searchsorted(self.source, np.arange(self.n_nodes + 1))

    @cached_property
    def incoming(self) -> tuple[Ints, Ints, Ints]:
        """Edges by the node that they enter: where those of each node begin (n_nodes + 1,), their numbers, sources."""
        order = np.argsort(self.target, kind="stable")
        return np.searchsorted(self.target[order], np.arange(self.n_nodes + 1)), order, self.source[order]

    def matrix(self, weight: NDArray[np.float64]) -> csr_matrix:
        """M, from the weights of product edges (E,)."""
        return csr_matrix((weight, self.target, self.indptr), shape=(self.n_nodes, self.n_nodes))


def build_open_product(compiled: CompiledConstraint, goals: Ints, max_nodes: int) -> OpenProduct:
    """Multiply a network (its `any_task`, begun in the origins) with the machines, for trips to these goals."""
    world = compiled.world
    wanted = np.zeros(world.n_states, dtype=np.bool_)
    wanted[goals] = True
    found = explore(compiled, max_nodes, world.max_length, ground_of(world, wanted))
    source, ends = found.sources(), found.accepting & wanted[found.state]
    kept = distance_to(ends, source, found.target) < UNREACHABLE
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    inside = np.flatnonzero(kept[source] & kept[found.target])
    pattern = Pattern(int(kept.sum()), number[source[inside]], number[found.target[inside]])
    number[kept] = pattern.place
    inside = inside[np.argsort(number[source[inside]], kind="stable")]
    start_of = np.full(world.n_states, -1, dtype=np.int64)
    start_of[found.state[found.starts]] = number[found.starts]
    state, accepting, keeps = (each[kept][pattern.order] for each in (found.state, found.accepting, found.keeps))
    ends_of_edges, edge = (number[source[inside]], number[found.target[inside]]), found.edge[inside].astype(np.int64)
    arranged = Pattern(pattern.n_nodes, *ends_of_edges, arranged=True)
    return OpenProduct(world, state, accepting, *ends_of_edges, edge, start_of, arranged, keeps)


# ---- One batch of goals in the shared system: z of every goal and the flows of its pairs, both certified.
#
# The equations above are solved level by level: within a level l, with what later levels give to
# it as right-hand side b, z = G_l b + G_l E_T c, where c makes z what it has to be at the level's own nodes T of the
# goal. So each level costs a column for b and one for each of its nodes of goals, not one column through all levels
# for each node of a goal in any of them. A batch is a piece of work of its own: what it finds depends on nothing but
# the weights, so that batches may be solved anywhere, in any order.
#
# What is certified. Let A be I - M without the nodes of a goal. Where z misses its equations by at most m z, it is
# wrong by at most m A^-1 z, and (A^-1 z)(i) / z(i) is the expected length of trips from i; flows that miss theirs by
# s are wrong by at most the sum of |s(i)| (A^-1 z)(i). So a residual times the longest expected length bounds the
# error, of both. A bound on lengths follows from any w > 0 with A w >= c z, c > 0, which also proves that the radius
# of A's M is below 1: A^-1 z <= w / c. Solving for w costs a column for each goal. Mostly one column for all goals
# will do: where M u <= (1 - g) u, u > 0, a trip from i goes on after t moves with probability at most (1 - g)^t (u(i)
# / z(i)) max z / u, so that no expected length is beyond (1 + log of the spreads of u and z) / g.

SMALLEST = 1e-250  # of z at an origin; below it 1 / z and its products come near the ends of a double
FLOOR = 1e-270  # z below it counts as this much: no origin sees the difference, and a double loses digits from 1e-308
CANCELLED = 1e-13  # of the larger of two numbers: a difference below it is rounding
SMALLEST_DOUBLE = float(np.finfo(np.float64).tiny)
SPREAD = 1e10  # of u, at the most: beyond it, what FLOOR hides might be seen
WIDE, TRIES = 0.003, 5  # a gap that is wide enough, and how often to look for a wider one


@dataclass(frozen=True)
class Batch:
    """Goals in a row: the state of each, and where its pairs are."""

    states: list[int]
    pairs: list[slice]

    @cached_property
    def whole(self) -> slice:
        """All pairs of the batch, which stand in a row."""
        return slice(self.pairs[0].start, self.pairs[-1].stop)

    @cached_property
    def goal_of(self) -> Ints:
        """The goal of each pair, by its number in the batch."""
        return np.repeat(np.arange(len(self.states)), [its.stop - its.start for its in self.pairs])


class Solved(NamedTuple):
    """What one evaluation found, for all pairs or a batch of them."""

    log_z: Floats  # (P,), nan for pairs of goals that were left
    visits: Floats  # (E + k,) expected uses of world edges (of a batch, flows of product edges), and of usual rules
    left: list[int]  # goals that could not be served


class System:
    """I - M in factors, under one set of weights of product edges (E,); LinAlgError where a pivot is 0."""

    def __init__(self, product: OpenProduct, origin: Ints, weight: Floats, rules: Floats) -> None:
        self.ends: Floats = np.where(product.accepting, np.exp(product.keeps @ rules), 0.0)  # what ending is worth
        self.product, self.origin, self.weight = product, origin, weight
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

    def solve(self, batch: Batch, weights: Floats | None) -> Solved:
        """log z of one batch, and flows where pairs have weights (P,)."""
        column, reached = batch.goal_of, Reached(self, batch)
        origin, z, certain = self.origin[batch.whole], reached.z, reached.certain
        at_origin, sure = z[origin, column], certain[column]
        log_z = np.full(len(origin), np.nan)
        log_z[sure] = np.log(at_origin[sure])
        left = [batch.states[k] for k in np.flatnonzero(~certain).tolist()]
        through, kept = np.zeros(len(self.product.edge)), np.zeros(self.product.keeps.shape[1])
        if weights is not None and sure.any():
            q = np.zeros_like(z)
            q[origin, column] = np.divide(weights[batch.whole], at_origin, out=np.zeros(len(origin)), where=sure)
            x = reached.flow(q.copy(), np.arange(q.shape[1]))
            if left:
                x[:, ~certain], z[:, ~certain] = 0.0, 0.0
            asked = *self.product.incoming, self.weight, x, q, z, reached.column, np.arange(q.shape[1]), FLOOR
            through, missed = flows(*asked)
            total = np.bincount(column, weights[batch.whole], minlength=len(batch.states)).astype(np.float64)
            unsure = certain & ~reached.trusted(missed, total)
            if unsure.any():
                x[:, unsure] = 0.0
                through, _ = flows(*asked)
                log_z[unsure[column]] = np.nan
                left += [batch.states[k] for k in np.flatnonzero(unsure).tolist()]
                z[:, unsure] = 0.0
            if len(kept):
                kept = self._kept(reached.column, q, x, z)
        return Solved(log_z, np.append(through, kept), left)

    def _kept(self, column: Ints, q: Floats, x: Floats, z: Floats) -> Floats:
        """The weight (k,) of trips that end where each rule that is usually kept holds."""
        product, ends = self.product, np.flatnonzero(column >= 0)
        into = np.flatnonzero(column[product.target] >= 0)
        entering = self.weight[into] * x[product.source[into], column[product.target[into]]]
        ending = np.bincount(product.target[into], entering, minlength=product.n_nodes)[ends] + q[ends, column[ends]]
        return np.asarray((ending * z[ends, column[ends]]) @ product.keeps[ends])


Goals: TypeAlias = Ints
"""The goal of each column, by its number in the batch, ascending."""


class _Met(NamedTuple):
    """Where a batch meets one level of the factors: nodes of goals, the goal of each, and (I - M_l)^-1 for them."""

    rows: Ints
    owner: Ints  # ascending
    columns: Floats  # (size of the level, nodes)

    def one_each(self, of: Goals) -> bool:
        """Whether the goal of each of these columns has exactly one node here, as all have without rules."""
        enough = len(self.owner) > int(of.max(initial=-1))
        return enough and bool(np.array_equal(self.owner, np.arange(len(self.owner))))

    def ends(self, of: Goals) -> tuple[Ints, Ints]:
        """The nodes of columns' goals, as places among those here, and the column of each."""
        begin, after = np.searchsorted(self.owner, of), np.searchsorted(self.owner, of, side="right")
        n = after - begin
        return np.arange(n.sum()) + np.repeat(after - np.cumsum(n), n), np.repeat(np.arange(len(of)), n)

    def apart(self, of: Goals) -> Iterator[tuple[slice, slice]]:
        """The nodes here of each goal, and the columns of that goal."""
        for goal in np.intersect1d(self.owner, of).tolist():
            nodes, columns = (np.searchsorted(goals, [goal, goal + 1]).tolist() for goals in (self.owner, of))
            yield slice(*nodes), slice(*columns)


class Reached:
    """z of the goals of a batch (n, k), and which of them are certain."""

    def __init__(self, system: System, batch: Batch, whole: bool = True) -> None:
        """`whole`: z at origins is asked for, and has to be a number of a size with all its digits."""
        product, self.system, of = system.product, system, np.arange(len(batch.states))
        column = np.full(product.world.n_states, -1)
        column[batch.states] = of
        self.column = column[product.state]  # whose goal each node is, -1: of none
        self._met: dict[int, _Met] = {}
        for level in system.factor.levels:
            owner = self.column[level.begin : level.end]
            rows = np.flatnonzero(owner >= 0)
            if len(rows):
                rows = rows[np.argsort(owner[rows], kind="stable")]
                columns = np.zeros((level.end - level.begin, len(rows)))
                columns[rows, np.arange(len(rows))] = 1.0
                level.solve(columns)
                self._met[level.begin] = _Met(rows, owner[rows], columns)
        z = self.z = np.zeros((product.n_nodes, len(of)))
        self._solve(z, system.ends, of, blank=True)
        self._measured, self._longest, most = False, self._lengths(z), float(z.max(initial=FLOOR))
        # Weights are rounded, and lost below the smallest double.
        missed: Floats = residual(*system.graph, z, self.column, FLOOR) + EPSILON + most * SMALLEST_DOUBLE / FLOOR
        self.certain = self.trusted(missed, 1.0)
        if whole:
            at_origin = z[system.origin[batch.whole], batch.goal_of]
            self.certain[batch.goal_of[~(at_origin > SMALLEST)]] = False

    def solve(self, right: Floats, of: Goals) -> Floats:
        """A^-1 right (n, m), each column towards its goal, where it is 0."""
        x = right.copy()
        self._solve(x, np.zeros(len(x)), of, blank=False)
        return x

    def close(self, missed: Floats, x: Floats, allowed: Floats | float) -> Bools:
        """Whether columns (n, m) that miss so much of what is allowed are exact, by the gap alone."""
        with np.errstate(invalid="ignore"):
            return np.asarray(missed * self._lengths(x) <= TRUSTED * allowed)

    def _lengths(self, x: Floats) -> Floats:
        """A bound on the expected length of trips to each goal (k,) by the gap; inf where there is none."""
        system, lengths = self.system, np.full(x.shape[1], np.inf)
        if system.gap > 0.0:
            least, most = max(float(x.min(initial=1.0)), FLOOR), float(x.max(initial=FLOOR))
            lengths[:] = (1.0 + system.spread + np.log(most / least)) / system.gap
        return lengths

    def _solve(self, right: Floats, ends: Floats, of: Goals, blank: bool) -> None:
        """Make A^-1 right of the right-hand side (n, m), with these values at nodes of goals (n,)."""
        for level in reversed(self.system.factor.levels):
            block, met = level.gather(right), self._met.get(level.begin)
            if not (level.last and blank):
                level.solve(block)
            if met is not None:
                _hold(met, block, ends[level.begin + met.rows], of, level.last and blank)

    def trusted(self, missed: Floats, allowed: Floats | float, goal: int | None = None) -> Bools:
        """Whether columns that miss so much (k,) of what is allowed are exact: of each goal, or all of one goal."""
        longest = self._longest if goal is None else self._longest[goal]
        with np.errstate(invalid="ignore"):
            sure: Bools = missed * longest <= TRUSTED * allowed
        if not sure.all() and not self._measured:
            self._measured, self._longest = True, self._measure()
            return self.trusted(missed, allowed, goal)
        return sure

    def _measure(self) -> Floats:
        """A bound on the expected length of trips to each goal (k,), inf where there may be none."""
        product, z = self.system.product, np.maximum(self.z, FLOOR)
        w, ends = z.copy(), self.column[:, None] == np.arange(z.shape[1])
        self._solve(w, np.zeros(product.n_nodes), np.arange(z.shape[1]), blank=False)
        with np.errstate(all="ignore"):
            share = np.where(ends, np.inf, (w - self.system.matrix @ w) / z).min(axis=0, initial=np.inf)
            proved = (share > 0.0) & np.all(ends | (w > 0.0), axis=0)
            return np.where(proved, (w / z).max(axis=0, initial=1.0) / share, np.inf)

    def flow(self, q: Floats, of: Goals) -> Floats:
        """x from q (n, m), in place, each column towards its goal."""
        for level in self.system.factor.levels:
            block, met = q[level.begin : level.end], self._met.get(level.begin)
            if met is None:
                level.solve_transposed(block)
            else:
                nodes, column = met.ends(of)
                block[met.rows[nodes], column] = 0.0  # who starts at the goal goes nowhere
                _absorb(met, block, of)
                level.solve_transposed(block)
                block[met.rows[nodes], column] = 0.0  # exactly: a trip ends where it enters its goal
            level.scatter(q)
        return q


def _hold(met: _Met, block: Floats, accepts: Floats, of: Goals, blank: bool) -> None:
    """Correct a block that solves its level without goals, so that nodes of goals have these values."""
    rows, columns, (nodes, column) = met.rows, met.columns, met.ends(of)
    before = None if blank else block.copy()
    if met.one_each(of):
        with np.errstate(divide="ignore", invalid="ignore"):
            block += columns[:, of] * ((accepts[of] - block[rows[of], column]) / columns[rows[of], of])
    else:
        for its, some in met.apart(of):
            missing = accepts[its, None] - block[rows[its], some]
            block[:, some] += columns[:, its] @ _solve(columns[rows[its], its], missing)
    if before is not None:  # what only leads through a goal is 0, and not what rounding leaves of a difference
        block[np.abs(block) <= CANCELLED * before] = 0.0
    block[rows[nodes], column] = accepts[nodes]


def _absorb(met: _Met, block: Floats, of: Goals) -> None:
    """Take the trips that end at a level's nodes of goals off the block: y with G_TT^T y = (G^T q)_T."""
    rows, columns = met.rows, met.columns
    if met.one_each(of):
        with np.errstate(divide="ignore", invalid="ignore"):
            taken = np.einsum("ij,ij->j", columns[:, of], block) / columns[rows[of], of]
        block[rows[of], np.arange(len(of))] -= taken
        return
    for its, own in met.apart(of):
        block[rows[its], own] -= _solve(columns[rows[its], its].T, columns[:, its].T @ block[:, own])


def _solve(corner: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(corner, right))
    except np.linalg.LinAlgError:
        return np.full(right.shape, np.nan)


BATCH = 64  # columns that go through together: 64 doubles are a few cache lines per node
POWERS = 100  # steps of power iteration behind a bound on the radius


class ManyGoals:
    """The shared system of all goals of a network, under one set of rules.

    Pairs are distinct, and sorted by goal: `origin` (P,) is the start node of each, `goal` (P,) the goal's state.
    """

    def __init__(self, product: OpenProduct, origin: Ints, goal: Ints) -> None:
        self.product, self.origin, self.goal = product, origin, goal
        self.batches = self._cut()

    @cached_property
    def held(self) -> "Held[ManyGoals]":
        """This, as workers hold it."""
        return Held(self)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "held"}  # it holds this

    def _cut(self) -> list[Batch]:
        """Goals in batches of at most `BATCH` columns in every level of the factors, or of one goal."""
        ends = np.argsort(self.product.state, kind="stable")
        bounds = np.searchsorted(self.product.state[ends], np.arange(self.product.world.n_states + 1))
        begins = np.array([block.begin for block in self.product.pattern.blocks])
        batches, widths = list[Batch](), np.zeros(len(begins), dtype=np.int64)
        for state in np.unique(self.goal).tolist():
            pairs = slice(*np.searchsorted(self.goal, [state, state + 1]).tolist())
            nodes = ends[bounds[state] : bounds[state + 1]]
            here = np.bincount(np.searchsorted(begins, nodes, side="right") - 1, minlength=len(begins))
            if not batches or len(batches[-1].states) == BATCH or (widths + here).max() > BATCH:
                batches.append(Batch([], []))
                widths[:] = 0
            batches[-1].states.append(state)
            batches[-1].pairs.append(pairs)
            widths += here
        return batches

    def _system(self, log_weight: Floats) -> System | None:
        """The system under these log-weights of world edges (E,), and of rules after them; None: no solution."""
        n_edges, n_rules = len(self.product.world.source), self.product.keeps.shape[1]
        rules = log_weight[n_edges:] if len(log_weight) > n_edges else np.zeros(n_rules)
        with suppress(np.linalg.LinAlgError):
            return System(self.product, self.origin, np.exp(log_weight[self.product.edge]), rules)
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

    def solve(self, log_weight: Floats, weights: Floats | None = None) -> Solved:
        """log z under these log-weights of world edges (E,), and visits where pairs have weights (P,).

        Of rules that are usually kept, log_weight has the weights after the edges, and visits how often they are kept.

        Batches go through joblib, to where a user's `parallel_config` sends them; they are added up in their own
        order, so that the answer is the same on any number of processes.
        """
        log_z, left, product = np.full(len(self.goal), np.nan), list[int](), self.product
        found = np.zeros(len(product.edge) + product.keeps.shape[1])
        pieces: Iterable[Solved] = self.solve_batches(log_weight, weights, range(len(self.batches)))
        if (n := min(n_workers(), len(self.batches))) > 1:
            # One task per worker: each factorises for itself, and gets the weights once.
            shares = np.array_split(np.arange(len(self.batches)), n)
            pieces = chain(*self.held.map(_solve_batches, [(log_weight, weights, share.tolist()) for share in shares]))
        for batch, piece in zip(self.batches, pieces, strict=True):
            log_z[batch.whole] = piece.log_z
            left += piece.left
            found += piece.visits
        through, kept = np.split(found, [len(product.edge)])
        uses = through * np.exp(log_weight[product.edge])
        visits = np.bincount(product.edge, weights=uses, minlength=len(product.world.source))
        return Solved(log_z, np.append(visits.astype(np.float64), kept), left)

    def solve_batches(self, log_weight: Floats, weights: Floats | None, numbers: Iterable[int]) -> Iterator[Solved]:
        """What some of the batches find, one after the other."""
        system = self._system(log_weight)
        for batch in map(self.batches.__getitem__, numbers):
            if system is None:
                nothing = np.zeros(len(self.product.edge) + self.product.keeps.shape[1])
                yield Solved(np.full(len(batch.goal_of), np.nan), nothing, batch.states)
            else:
                yield system.solve(batch, weights)

    def each(self, log_weight: Floats, features: csr_matrix) -> tuple[Floats, list[int]]:
        """E[f] of every pair's trips (P, d), from features of world edges (E, d); and the goals it could not serve.

        Features of rules that are usually kept come after those of edges.
        """
        product, system = self.product, self._system(log_weight)
        out = np.full((len(self.goal), features.shape[1]), np.nan)
        if system is None:
            return out, np.unique(self.goal).tolist()
        weighed = csr_matrix(features[product.edge].multiply(system.weight[:, None])).T.tocsr()
        left: list[int] = []
        for batch in self.batches:
            reached = Reached(system, batch)
            for goal, (state, its) in enumerate(zip(batch.states, batch.pairs, strict=True)):
                if not reached.certain[goal]:
                    left.append(state)
                    continue
                z = reached.z[:, goal]
                for begin in range(its.start, its.stop, BATCH):
                    pairs = slice(begin, min(begin + BATCH, its.stop))
                    origin = self.origin[pairs]
                    q = np.zeros((product.n_nodes, len(origin)))
                    q[origin, np.arange(len(origin))] = 1.0 / z[origin]
                    x = reached.flow(q.copy(), np.full(len(origin), goal))
                    entering = q + system.matrix.T @ x
                    missed = np.abs(entering - x)[product.state != state]
                    if not reached.trusted(np.maximum(z, FLOOR)[product.state != state] @ missed, 1.0, goal).all():
                        left.append(state)
                        break
                    out[pairs] = (weighed @ (x[product.source] * z[product.target][:, None])).T
                    ends = np.flatnonzero(product.state == state)
                    kept = product.keeps[ends].T @ (entering[ends] * z[ends, None])
                    out[pairs] += kept.T @ features[len(product.world.source) :]
        return out, left

    def draw(self, log_weight: Floats, n_draws: Ints, rng: np.random.Generator) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Independent walks of every pair, goal by goal: the pair of each walk, its world edges in a row, its length.

        n_draws (P,) says how many of each pair. Pairs of goals that cannot be served are missing.
        """
        product, system = self.product, self._system(log_weight)
        if system is None:
            return
        for batch in self.batches:
            if not n_draws[batch.whole].any():
                continue
            reached = Reached(system, batch)
            for goal in np.flatnonzero(reached.certain).tolist():
                its = np.arange(batch.pairs[goal].start, batch.pairs[goal].stop)
                pairs = np.repeat(its, n_draws[its])
                if len(pairs):
                    z, ends = np.ascontiguousarray(reached.z[:, goal]), product.state == batch.states[goal]
                    taken, lengths = walk(*system.graph, z, ends, self.origin[pairs], rng)
                    yield pairs, product.edge[taken], lengths


def _solve_batches(shared: ManyGoals, task: tuple[Floats, Floats | None, list[int]]) -> list[Solved]:
    return list(shared.solve_batches(*task))
