"""The most likely trajectory: the same recursions with a maximum in place of the sum."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import DivergenceError, EngineError, require_horizon
from xmen.machines.tables import Seen, Watch
from xmen.product.graph import Product
from xmen.product.layered import HostLayers, LayerOperations
from xmen.product.messages import timeless_log_weights
from xmen.worlds.walks import EdgeWeights, Floats, Walks

# ---- The best completion of every node of a product where time plays no role, by relaxing edges until nothing
# improves.
#
# A cycle whose weights multiply to more than 1 would improve for ever: then nothing has a best completion, and the
# weights of ever longer trajectories do not add up either.


SHOWN = 8  # states of a cycle in a message
POWERS = 200  # steps of power iteration behind a message


def best_completions(product: Product, log_weight: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The largest log-weight of a completion of each node, and the product edge that it takes first (-1: it stops).

    log_weight is per product edge; DivergenceError where a cycle has a positive one.
    """
    value = np.where(product.stops, 0.0, -np.inf)
    choice = np.full(product.n_nodes, -1, dtype=np.int64)
    if product.topological is not None:  # each node after all that follow it: once is enough, and exact
        order, least = product.topological[0][::-1].copy(), 0.0
    else:
        order, least = product.outwards, 1e-12 * (1.0 + float(np.abs(log_weight).max(initial=0.0)))
    node = _relax(order, product.indptr, product.target, log_weight, value, choice, least)
    if node >= 0:
        raise DivergenceError(_message(product, _follow(product, choice, int(node))))
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


def _follow(product: Product, choice: NDArray[np.int64], node: int) -> list[int]:
    """The cycle that choices lead into from a node."""
    seen: dict[int, int] = {}
    passed: list[int] = []
    while node not in seen and choice[node] >= 0:
        seen[node] = len(passed)
        passed.append(node)
        node = int(product.target[choice[node]])
    return passed[seen.get(node, 0) :]


def divergence_message(product: Product, source: NDArray[np.int64], relative: Floats) -> str:
    """Names a cycle of heavy weights: where power iteration puts its weight, and the heaviest edge from there on."""
    weight: Floats = np.ones(product.n_nodes)
    for _ in range(POWERS):
        moved = np.bincount(source, relative * weight[product.target], minlength=product.n_nodes).astype(np.float64)
        weight = moved / max(float(moved.max(initial=0.0)), 1e-300)
    value = relative * weight[product.target]
    order = np.lexsort((value, source))
    choice = np.full(product.n_nodes, -1, dtype=np.int64)
    choice[source[order]] = order  # the last one wins: the heaviest edge of each node
    return _message(product, _follow(product, choice, int(np.argmax(weight))))


def _message(product: Product, cycle: list[int]) -> str:
    world = product.world
    states = [world.describe_state(int(state)) for state in product.state[cycle]]
    shown = " -> ".join([*states, states[0]] if len(states) <= SHOWN else [*states[:SHOWN], "..."])
    return (
        "under this reward the weights of ever longer trajectories do not add up to a finite number, or so slowly that "
        f"rounding decides to which: going round {shown} costs too little. "
        "Lower the rewards on it, give a horizon, or forbid repetition by a rule."
    )


# ---- The most likely trajectory: the same recursions with a maximum in place of the sum


def best_walk(
    product: Product, weights: EdgeWeights, operations: LayerOperations[Any] | None = None
) -> tuple[float, Walks]:
    """The largest log-weight R + log D of a valid trajectory, and one that attains it.

    With `operations` layer by layer, by these.
    """
    if product.world.unbounded or (operations is None and product.timeless(weights.discount)):
        completions, edge_of = _timeless(product, weights)
    else:
        completions, edge_of = _by_layers(product, operations or HostLayers(product, weights))
    values = weights.log_start[product.state[product.starts]] + completions
    best = int(np.argmax(values))
    node, taken = int(product.starts[best]), list[int]()
    while (edge := edge_of(len(taken), node)) >= 0:
        taken.append(edge)
        node = int(product.target[edge])
    edges = product.edge[np.array(taken, dtype=np.int64)].astype(np.int32)
    start = product.state[product.starts[best : best + 1]]
    return float(values[best]), Walks(product.world, start, edges, np.array([0, len(edges)]))


Best = tuple[Floats, Callable[[int, int], int]]
"""The best completion of each start node, and the edge that it takes as action t at a node (-1: it stops)."""


def _timeless(product: Product, weights: EdgeWeights) -> Best:
    value, choice = best_completions(product, timeless_log_weights(product, weights))
    return value[product.starts], lambda t, node: int(choice[node])


def _by_layers(product: Product, do: LayerOperations[Any]) -> Best:
    degree = int(np.diff(product.indptr).max(initial=0))
    require_horizon(product.horizon, int(product.layer_ends.sum()) * np.min_scalar_type(degree).itemsize)
    value, choices = do.best_last(), list[Any]()
    for t in range(product.horizon - 1, -1, -1):
        value, choice = do.best_layer(t, value)
        choices.append(choice)

    def edge_of(t: int, node: int) -> int:
        stops = t == product.horizon or product.indptr[node] == product.indptr[node + 1]
        return -1 if stops else int(product.indptr[node]) + int(choices[-1 - t][node])

    return do.values(value, product.starts), edge_of


def score_range(product: Product, weights: EdgeWeights) -> tuple[float, float]:
    """The least and the largest log-weight of a valid trajectory."""
    return -best_walk(product, weights.negated())[0], best_walk(product, weights)[0]


# ---- The k most likely trajectories, exactly and in order: best-first search guided by the best completion of each
# node.
#
# The guide is exact, so that what comes off the heap complete is the next best trajectory; each costs about its
# length times the number of edges per node. Under rules that are not in the product the guide is too hopeful but
# never too low: the order stays exact, as long as machines that watch along the way give up what they have lost.


Taken = tuple["Taken", int] | None
"""The product edges taken so far, the last one first."""


MOST_STEPS = 1_000_000  # of a search under rules that are not in the product: a minute or so


def best_walks(product: Product, weights: EdgeWeights, k: int, watch: Watch | None = None) -> Walks:
    """The k valid trajectories of the largest log-weight R + log D, or all if there are fewer, best first.

    With `watch` only those that it accepts; EngineError where they are not found within so many steps.
    """
    value, step = _guide(product, weights)
    tie = count()  # equal ones come out in the order in which they went in
    heap: list[tuple[float, int, int, int, float, Taken, Seen]] = []
    for node in product.starts.tolist():
        begun = float(weights.log_start[product.state[node]])
        guess = begun + value(0)[node]
        if guess > -np.inf:
            heapq.heappush(heap, (-guess, next(tie), 0, node, begun, None, () if watch is None else watch.start))
    found: list[tuple[int, list[int]]] = []
    for n_steps in count():
        if not heap or len(found) == k:
            break
        if watch is not None and n_steps == MOST_STEPS:
            raise EngineError(
                f"{len(found)} of the {k} most likely trajectories were found in {MOST_STEPS:,} steps of a search. Ask "
                "for fewer, raise max_nodes so that more rules are multiplied in, or draw samples and keep the best."
            )
        _, _, t, node, so_far, taken, seen = heapq.heappop(heap)
        if _ends(product, t, node):
            if watch is None or watch.accepts(seen, int(product.state[node])):
                found.append(_unwind(product, node, taken))
            continue
        after, weight = value(t + 1), step(t)
        for e in range(int(product.indptr[node]), int(product.indptr[node + 1])):
            target, reached = int(product.target[e]), so_far + float(weight[e])
            guess = reached + after[target]
            moved = seen if watch is None else watch.move(seen, int(product.edge[e]))
            if guess > -np.inf and moved is not None:
                heapq.heappush(heap, (-guess, next(tie), t + 1, target, reached, (taken, e), moved))
    lengths = [len(edges) for _, edges in found]
    all_edges = product.edge[np.array([e for _, edges in found for e in edges], dtype=np.int64)].astype(np.int32)
    starts = product.state[np.array([start for start, _ in found], dtype=np.int64)]
    return Walks(product.world, starts, all_edges, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def _ends(product: Product, t: int, node: int) -> bool:
    return t == product.horizon if product.fixed_length else bool(product.accepting[node])


def _unwind(product: Product, node: int, taken: Taken) -> tuple[int, list[int]]:
    edges: list[int] = []
    while taken is not None:
        taken, edge = taken
        edges.append(edge)
    edges.reverse()
    if not edges:
        return node, edges
    source = int(np.searchsorted(product.indptr, edges[0], side="right")) - 1
    return source, edges


def _guide(product: Product, weights: EdgeWeights) -> tuple[Callable[[int], Floats], Callable[[int], Floats]]:
    """The best completion of each node after t actions, and the log-weight of each product edge as action t."""
    if product.world.unbounded or product.timeless(weights.discount):
        log_weight = timeless_log_weights(product, weights)
        best = best_completions(product, log_weight)[0]
        return (lambda t: best), (lambda t: log_weight)
    layers = _layers(product, weights)
    return layers.__getitem__, (lambda t: weights.at(t)[product.edge])


def _layers(product: Product, weights: EdgeWeights) -> list[Floats]:
    """The best completion of each node after every number of actions."""
    require_horizon(product.horizon, 8 * product.n_nodes * product.horizon)
    do = HostLayers(product, weights)
    layers = [do.best_last()]
    for t in range(product.horizon - 1, -1, -1):
        layers.append(do.best_layer(t, layers[-1])[0])
    return layers[::-1]


# ---- Listing every valid trajectory of a product, where there are few enough


class _Complete(NamedTuple):
    """Trajectories of one length: their starts (n,), and the world edges they take (n, length)."""

    starts: NDArray[np.int32]
    edges: NDArray[np.int32]


def list_walks(product: Product, most: int) -> Walks | None:
    """All valid trajectories, or None when there are more than `most`; breadth-first, one numpy pass per action."""
    alive = _alive(product)
    nodes = product.starts.astype(np.int64)
    nodes = nodes[alive[0][nodes]]
    starts = product.state[nodes]
    walks = np.zeros((len(nodes), 0), dtype=np.int32)
    done: list[_Complete] = []
    n_done = 0
    for t in range(product.horizon + 1):
        # Every partial path has a completion, so that their number never exceeds that of the whole ones.
        if n_done + len(nodes) > most:
            return None
        ending = product.accepting[nodes] if not product.fixed_length else np.full(len(nodes), t == product.horizon)
        n_done += int(ending.sum())
        done.append(_Complete(starts[ending], walks[ending]))
        if t == product.horizon or not len(nodes):
            break
        begin, end = product.indptr[nodes].astype(np.int64), product.indptr[nodes + 1].astype(np.int64)
        source = np.repeat(np.arange(len(nodes)), end - begin)
        offset = np.arange(len(source)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
        edges = np.repeat(begin, end - begin) + offset
        kept = alive[t + 1][product.target[edges]]
        source, edges = source[kept], edges[kept]
        nodes = product.target[edges].astype(np.int64)
        starts = starts[source]
        walks = np.concatenate([walks[source], product.edge[edges].astype(np.int32)[:, None]], axis=1)
    lengths = np.repeat([found.edges.shape[1] for found in done], [len(found.starts) for found in done])
    return Walks(
        product.world,
        np.concatenate([found.starts for found in done]),
        np.concatenate([found.edges.ravel() for found in done]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _alive(product: Product) -> list[NDArray[np.bool_]]:
    """alive[t][n]: a trajectory that is at node n after t actions can still be completed."""
    if not product.fixed_length:
        return [product.distance <= product.horizon - t for t in range(product.horizon + 1)]
    degrees = (product.indptr[1:] - product.indptr[:-1]).astype(np.int64)
    source = np.repeat(np.arange(product.n_nodes), degrees)
    alive = [product.accepting]
    for _ in range(product.horizon):
        before = np.zeros(product.n_nodes, dtype=np.bool_)
        before[source[alive[0][product.target]]] = True
        alive.insert(0, before)
    return alive
