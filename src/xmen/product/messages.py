"""What a dynamic program on the product answers, and its schedules where time plays no role; `layered` is the other.

One backward pass gives beta(n), the total weight of all ways to complete a trajectory from node n; everything else
follows from it: log Z, expected uses of every edge, samples, the mode.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.compiled import compiled
from xmen.errors import DivergenceError
from xmen.product import sweeps
from xmen.product.factor import EPSILON, TRUSTED, Factor, Pattern
from xmen.product.graph import Product
from xmen.worlds.walks import EdgeWeights, Floats

NO_EDGE = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Flow:
    """Expected numbers of uses of each world edge, plain and discounted, and where trajectories start."""

    counts: Floats  # (E,)
    discounted: Floats  # (E,)
    starts: Floats  # probability of each of the product's start nodes
    entropy: Any  # of the trajectory, summed over its choices; only if it was asked for
    kept: Floats  # (k, k): the probability that two of the rules that are usually kept hold


class Messages(Protocol):
    """The questions that a dynamic program answers, in whatever order it visits the nodes."""

    @property
    def log_partition(self) -> float:
        """log Z."""

    def flow(self, with_entropy: bool = False, starts: Floats | None = None) -> Flow:
        """Expected uses of every world edge; the entropy costs a logarithm per edge and action.

        With `starts`, trajectories begin at the start nodes with these weights, and not as the law says.
        """

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        """log beta_t(n), the log-weight of all ways to complete a trajectory that is at n after t actions."""

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """n independent trajectories: their start nodes, and the product edges they take (n, longest)."""


def start_law(product: Product, weights: EdgeWeights, log_completions: Floats) -> tuple[Any, Floats]:
    """log Z and the probability of each start node, given the log-weight of all completions from it.

    Jointly, a start with many completions becomes more likely. Given the start it does not: P(start) is d0, and
    log Z is the d0-mean of the log Z(s_0). Columns of completions are each a law of their own.
    """
    if log_completions.ndim == 2:
        laws = [start_law(product, weights, column) for column in log_completions.T]
        return np.array([log_partition for log_partition, _ in laws]), np.stack([starts for _, starts in laws], axis=1)
    log_start = weights.log_start[product.state[product.starts]]
    if weights.given_start:
        starts: Floats = np.exp(log_start)
        return float(starts @ log_completions), starts
    values = log_start + log_completions
    largest = values.max(initial=-np.inf)
    log_partition = float(largest if largest == -np.inf else largest + np.log(np.sum(np.exp(values - largest))))
    return log_partition, np.exp(values - log_partition)


def entropy_of(probabilities: Floats) -> Any:
    """-sum p log p, of each column."""
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    return -(probabilities * logs).sum(axis=0)


def begun(product: Product, starts: Floats) -> Floats:
    """The probability that a trajectory starts at each node, from that of each start node."""
    begin = np.zeros(product.n_nodes)
    np.add.at(begin, product.starts, starts)
    return begin


def both_kept(product: Product, ending: Floats) -> Floats:
    """The probability (k, k) that two rules that are usually kept hold, from that of ending at each node."""
    ends = np.flatnonzero(product.keeps.any(axis=1) & (ending[: len(product.keeps)] > 0))
    held = product.keeps[ends].astype(np.float64)
    return np.asarray(held.T @ (ending[ends, None] * held))


def draw_starts(product: Product, probability: Floats, n: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """n start nodes."""
    cumulative = np.cumsum(probability)
    place = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    chosen: NDArray[np.uint32] = product.starts[np.minimum(place, len(cumulative) - 1)]
    return chosen


def as_columns(steps: list[NDArray[np.uint32]], n: int) -> NDArray[np.uint32]:
    """What n walkers do at each step, as rows (n, steps)."""
    return np.stack(steps, axis=1) if steps else np.empty((n, 0), dtype=np.uint32)


def timeless_log_weights(product: Product, weights: EdgeWeights) -> Floats:
    """The log-weight of each product edge as the action after so many as its node has depth."""
    discount = weights.discount ** product.depth.astype(np.float64)
    parts = product.indptr, product.edge, weights.log_dynamics, discount, weights.reward
    return np.asarray(sweeps.edge_log_weights(*parts))


# ---- The best completion of every node where time plays no role, by relaxing edges until nothing improves.
#
# A cycle whose weights multiply to more than 1 would improve for ever: then nothing has a best completion, and the
# weights of ever longer trajectories do not add up either.

SHOWN = 8  # states of a cycle in a message
POWERS = 200  # steps of power iteration behind a message


def best_completions(product: Product, log_weight: Floats, stops: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The largest log-weight of a completion of each node, and the product edge that it takes first (-1: it stops).

    log_weight is per product edge, and `stops` the log-weight of ending at a node; DivergenceError where a cycle has a
    positive weight.
    """
    value = stops.copy()
    choice = np.full(product.n_nodes, -1, dtype=np.int64)
    if product.topological is not None:  # each node after all that follow it: once is enough, and exact
        order, least = product.topological[0][::-1].copy(), 0.0
    else:
        order, least = product.outwards, 1e-12 * (1.0 + float(np.abs(log_weight).max(initial=0.0)))
    node = _relax(order, product.indptr, product.target, log_weight, value, choice, least)
    if node >= 0:
        raise _divergence(product, choice, int(node))
    return value, choice


@compiled
def _relax(order: Any, indptr: Any, target: Any, log_weight: Any, value: Any, choice: Any, least: float) -> Any:
    """Sweeps in this order until no value rises by more than `least`; a node on or before a rising cycle, or -1."""
    for _ in range(len(order) + 1):
        risen = -1
        for i in range(len(order)):
            node = order[i]
            for e in range(indptr[node], indptr[node + 1]):
                x = log_weight[e] + value[target[e]]
                if x > value[node] + least or (value[node] == -np.inf and x > -np.inf):
                    value[node] = x
                    choice[node] = e
                    risen = node
        if risen < 0:
            return -1
    return risen


def _divergence(product: Product, choice: NDArray[np.int64], node: int) -> DivergenceError:
    """Names the cycle that choices lead into from a node."""
    seen: dict[int, int] = {}
    while node not in seen and choice[node] >= 0:
        seen[node] = len(seen)
        node = int(product.target[choice[node]])
    cycle = list(seen)[seen.get(node, 0) :]
    states = [product.world.describe_state(int(state)) for state in product.state[cycle]]
    shown = " -> ".join([*states, states[0]] if len(states) <= SHOWN else [*states[:SHOWN], "..."])
    error = DivergenceError(
        "under this reward the weights of ever longer trajectories do not add up to a finite number, or so slowly that "
        f"rounding decides to which: going round {shown} costs too little. "
        "Lower the rewards on it, give a horizon, or forbid repetition by a rule."
    )
    error.cycle = shown
    return error


class Timeless:
    """Answers by log beta of each node and the probability of each edge given its node, which a schedule finds."""

    _product: Product
    _value: Floats  # log beta (n_nodes,)
    _conditional: Floats  # (n_edges,)
    _starts: Floats

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        completions: Floats = self._value[nodes]
        return completions

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        product, steps = self._product, list[NDArray[np.uint32]]()
        starts = draw_starts(product, self._starts, n, rng)
        node, ones = starts.copy(), np.ones(product.n_nodes)
        while True:
            taken = sweeps.choose_edges(product.indptr, product.target, self._conditional, ones, rng.random(n), node)
            if np.all(taken == NO_EDGE):
                return starts, as_columns(steps, n)
            steps.append(taken)


class SinglePass(Timeless):
    """Backward and forward in one sweep each, on products without cycles."""

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        assert product.topological is not None
        self._product, (self._order, longest) = product, product.topological
        self._discount = weights.discount ** product.depth.astype(np.float64)
        log_weight = timeless_log_weights(product, weights)
        self._value = value = product.log_ends(weights.rules, product.stops)
        graph = product.indptr, product.target
        self._conditional = sweeps.log_sweep(self._order[::-1].copy(), -longest, *graph, log_weight, value)
        self.log_partition, self._starts = start_law(product, weights, value[product.starts])

    def flow(self, with_entropy: bool = False, starts: Floats | None = None) -> Flow:
        product, (counts, discounted) = self._product, np.zeros((2, len(self._product.world.source)))
        graph, starts = (product.indptr, product.target, product.edge), self._starts if starts is None else starts
        here = begun(product, starts)
        chain = self._order, graph, self._conditional, self._discount
        entropy = entropy_of(starts) + sweeps.forward_sweep(*chain, here, counts, discounted, with_entropy)
        return Flow(counts, discounted, starts, entropy, both_kept(product, np.where(product.stops, here, 0.0)))


class HorizonFree(Timeless):
    """Backward and forward by one factorisation; exact for trajectories of any length, discount 1, with cycles.

    beta(n), the total weight of all completions of any length, solves (I - M) beta = stop, with M the edge weights. It
    is finite exactly where the spectral radius of M, on the nodes that lie on some way to acceptance, is below 1.
    Weights are taken relative to the best completion of each node, M_ij exp(best_j - best_i), so that beta / exp(best)
    is at least 1 and nothing underflows. What solutions miss of their equations, times the longest expected length,
    bounds their error (`many_goals`): where that is above 1e-9, rounding decides the answer, which is refused as one
    that diverges.
    """

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        self._product = product
        log_weight = timeless_log_weights(product, weights)
        ends = product.log_ends(weights.rules, product.stops)
        best, _ = best_completions(product, log_weight, ends)
        self._source = product.sources().astype(np.int64)
        relative = np.exp(log_weight + best[product.target] - best[self._source])
        self._factor, self._ratio, self._longest = self._solve(relative, np.exp(ends - best))
        self._conditional = relative * self._ratio[product.target] / self._ratio[self._source]
        self._value = np.log(self._ratio) + best
        self.log_partition, self._starts = start_law(product, weights, self._value[product.starts])

    def _solve(self, relative: Floats, stop: Floats) -> tuple[Factor, Floats, float]:
        """The factors, beta / exp(best), and a bound on expected lengths; DivergenceError where that is not finite."""
        product = self._product
        matrix = csr_matrix((relative, product.target, product.indptr), shape=(product.n_nodes,) * 2)
        with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            factor = Factor(Pattern(product.n_nodes, self._source, product.target), relative)
            ratio: Floats = factor.solve(stop[:, None])[:, 0]
            w: Floats = factor.solve(ratio[:, None])[:, 0]
            share = ((w - matrix @ w) / ratio).min(initial=np.inf)
            longest = (w / ratio).max(initial=1.0) / share
            missed = np.abs((stop + matrix @ ratio) / ratio - 1.0).max(initial=0.0)
            if np.all(ratio > 0.0) and np.all(w > 0.0) and share > 0.0 and (missed + EPSILON) * longest <= TRUSTED:
                return factor, ratio, float(longest)
        raise self._diverges(relative)

    def _diverges(self, relative: Floats) -> DivergenceError:
        """Names a cycle of heavy weights: where power iteration puts its weight, and the heaviest edge from there."""
        product, source, weight = self._product, self._source, np.ones(self._product.n_nodes)
        for _ in range(POWERS):
            moved = np.bincount(source, relative * weight[product.target], minlength=product.n_nodes)
            weight = moved / max(float(moved.max(initial=0.0)), 1e-300)
        order = np.lexsort((relative * weight[product.target], source))
        choice = np.full(product.n_nodes, -1, dtype=np.int64)
        choice[source[order]] = order  # the last one wins: the heaviest edge of each node
        return _divergence(product, choice, int(np.argmax(weight)))

    def flow(self, with_entropy: bool = False, starts: Floats | None = None) -> Flow:
        product, starts = self._product, self._starts if starts is None else starts
        begin = begun(product, starts)
        visits: Floats = self._factor.solve_transposed((begin / self._ratio)[:, None])[:, 0] * self._ratio
        through = visits[self._source] * self._conditional
        missed = np.abs(begin + np.bincount(product.target, through, minlength=product.n_nodes) - visits).sum()
        if not missed * self._longest <= TRUSTED * visits.sum():
            raise self._diverges(self._conditional)
        counts = np.bincount(product.edge, weights=through, minlength=len(product.world.source)).astype(np.float64)
        entropy = entropy_of(starts)
        if with_entropy:
            entropy -= float(through @ np.log(np.where(self._conditional > 0, self._conditional, 1.0)))
        kept = both_kept(product, np.where(product.stops, visits, 0.0))
        return Flow(counts, counts, starts, entropy, kept)
