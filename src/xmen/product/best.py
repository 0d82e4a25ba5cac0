"""Single trajectories of a product: the most likely one, the k most likely, and all where there are few enough."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from xmen.compiled import compiled
from xmen.errors import EngineError, require_horizon
from xmen.machines.tables import Seen, Watch
from xmen.product.graph import Product, alive_before, moves_of
from xmen.product.layered import HostLayers
from xmen.product.messages import best_completions, timeless_log_weights
from xmen.product.readings import Reading
from xmen.worlds.walks import EdgeWeights, Floats, Walks


def best_walk(product: Product, weights: EdgeWeights, operations: HostLayers | None = None) -> tuple[float, Walks]:
    """The largest log-weight R + log D of a valid trajectory, and one that attains it; `operations` go by layers."""
    if product.world.unbounded or (operations is None and product.timeless(weights.discount)):
        ends = product.log_ends(weights.rules, product.stops)
        value, choice = best_completions(product, timeless_log_weights(product, weights), ends)
        completions = value[product.starts]

        def edge_of(t: int, node: int) -> int:
            return int(choice[node])
    else:
        do, degree = operations or HostLayers(product, weights), int(np.diff(product.indptr).max(initial=0))
        require_horizon(product.horizon, int(product.layer_ends.sum()) * np.min_scalar_type(degree).itemsize)
        last, choices = do.best_last(), list[Any]()
        for t in range(product.horizon - 1, -1, -1):
            last, chosen = do.best_layer(t, last)
            choices.append(chosen)
        completions = do.values(last, product.starts)

        def edge_of(t: int, node: int) -> int:
            stops = t == product.horizon or product.indptr[node] == product.indptr[node + 1]
            return -1 if stops else int(product.indptr[node]) + int(choices[-1 - t][node])

    values = weights.log_start[product.state[product.starts]] + completions
    best = int(np.argmax(values))
    node, taken = int(product.starts[best]), list[int]()
    while (edge := edge_of(len(taken), node)) >= 0:
        taken.append(edge)
        node = int(product.target[edge])
    return float(values[best]), _as_walks(product, [[int(product.starts[best]), *taken]])


def _as_walks(product: Product, found: list[list[int]]) -> Walks:
    """Trajectories that are each a start node and the product edges after it."""
    starts = product.state[np.array([path[0] for path in found], dtype=np.int64)]
    edges = product.edge[np.array([edge for path in found for edge in path[1:]], dtype=np.int64)].astype(np.int32)
    lengths = [len(path) - 1 for path in found]
    return Walks(product.world, starts, edges, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def score_range(product: Product, weights: EdgeWeights) -> tuple[float, float]:
    """The least and the largest log-weight of a valid trajectory."""
    return -best_walk(product, weights.negated())[0], best_walk(product, weights)[0]


# ---- The k most likely trajectories, exactly and in order: best-first search guided by the best completion of each
# node.
#
# The guide is exact, so that what comes off the heap complete is the next best trajectory; each costs about its
# length times the number of edges per node. Under rules that are not in the product the guide is too hopeful but
# never too low: the order stays exact, as long as machines that watch along the way give up what they have lost.

Path = tuple["Path | None", int]
"""The product edge that was taken last, after those before it; at its root the start node."""


MOST_STEPS = 1_000_000  # of a search under rules that are not in the product: a minute or so


def best_walks(product: Product, weights: EdgeWeights, k: int, watch: Watch | None = None) -> Walks:
    """The k valid trajectories of the largest log-weight R + log D, or all if there are fewer, best first.

    With `watch` only those that it accepts; EngineError where they are not found within so many steps.
    """
    value, step = _guide(product, weights)
    tie = count()  # equal ones come out in the order in which they went in
    heap: list[tuple[float, int, int, int, float, Path, Seen]] = []
    for node in product.starts.tolist():
        begun = float(weights.log_start[product.state[node]])
        guess = begun + value(0)[node]
        if guess > -np.inf:
            seen = () if watch is None else watch.start
            heapq.heappush(heap, (-guess, next(tie), 0, node, begun, (None, node), seen))
    found: list[list[int]] = []
    for n_steps in count():
        if not heap or len(found) == k:
            break
        if watch is not None and n_steps == MOST_STEPS:
            told = f"{len(found)} of the {k} most likely trajectories were found in {MOST_STEPS:,} steps of a search"
            advice = "raise max_nodes so that more rules are multiplied in, or draw samples and keep the best"
            raise EngineError(f"{told}. Ask for fewer, {advice}.")
        _, _, t, node, so_far, path, seen = heapq.heappop(heap)
        if t == product.horizon if product.fixed_length else product.accepting[node]:
            if watch is None or watch.accepts(seen, int(product.state[node])):
                found.append(_unwound(path))
            continue
        after, weight = value(t + 1), step(t)
        for e in range(int(product.indptr[node]), int(product.indptr[node + 1])):
            target, reached = int(product.target[e]), so_far + float(weight[e])
            guess = reached + after[target]
            moved = seen if watch is None else watch.move(seen, int(product.edge[e]))
            if guess > -np.inf and moved is not None:
                heapq.heappush(heap, (-guess, next(tie), t + 1, target, reached, (path, e), moved))
    return _as_walks(product, found)


# Trajectories that can be read in several ways count with the sum of these. A prefix then stands at several nodes, each
# with its share, and no completion is worth more than the sum of the best ones from each of them alone. What these are
# worth at the most, ways that part later added up, is found by raising it until nothing changes.


SETTLED, MOST_SWEEPS = 1e-13, 10_000  # a rise in nats that is none; sweeps, each over all edges


def best_readings(reading: Reading, k: int) -> Walks:
    """The k trajectories of the largest weight, summed over the ways to read each, best first; without a horizon."""
    read, weights = reading.product, reading.weights
    log_weight, ends = timeless_log_weights(read, weights), read.log_ends(weights.rules)
    below = np.lexsort((reading.edge, read.sources()))
    bound = ends.copy()
    _raise_bounds(read.outwards, read.indptr, below, reading.edge, read.target, log_weight, bound)
    after, log_start, tie = bound.tolist(), weights.log_start, count()
    heap: list[tuple[float, int, Path | None, dict[int, float]]] = []

    def push(path: Path | None, odds: dict[int, float]) -> None:
        guess = logsumexp([share + after[node] for node, share in odds.items()])
        if guess > -np.inf:
            heapq.heappush(heap, (-guess, next(tie), path, odds))

    begun: dict[int, dict[int, float]] = {}
    for node in read.starts.tolist():
        begun.setdefault(int(reading.node[node]), {})[node] = float(log_start[read.state[node]])
    for odds in begun.values():
        push((None, next(iter(odds))), odds)
    found: list[list[int]] = []
    while heap and len(found) < k:
        _, _, path, odds = heapq.heappop(heap)
        if read.accepting[next(iter(odds))]:
            found.append(_unwound(path))
            continue
        ways: dict[int, dict[int, float]] = {}
        taken: dict[int, int] = {}
        for node, share in odds.items():
            for e in range(int(read.indptr[node]), int(read.indptr[node + 1])):
                edge, target = int(reading.edge[e]), int(read.target[e])
                own, reached = ways.setdefault(edge, {}), share + float(log_weight[e])
                own[target] = np.logaddexp(own[target], reached) if target in own else reached
                taken[edge] = e
        for edge, own in ways.items():
            push((path, taken[edge]), own)
    return _as_walks(read, found)


@compiled
def _raise_bounds(order: Any, indptr: Any, below: Any, edge: Any, target: Any, log_weight: Any, value: Any) -> None:
    """Raise the value of nodes to that of their best edge below, the sum over its ways; until none rises."""
    for _ in range(MOST_SWEEPS):
        settled = True
        for node in order:
            begin, end = indptr[node], indptr[node + 1]
            total = -np.inf
            for p in range(begin, end):
                e = below[p]
                x = log_weight[e] + value[target[e]]
                if p == begin or edge[e] != edge[below[p - 1]]:
                    total = x
                elif x > -np.inf:
                    high, low = max(total, x), min(total, x)
                    total = high + np.log1p(np.exp(low - high))
                if total > value[node]:
                    settled = settled and total <= value[node] + SETTLED
                    value[node] = total
        if settled:
            return


def _unwound(path: Path | None) -> list[int]:
    steps: list[int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return steps[::-1]


def _guide(product: Product, weights: EdgeWeights) -> tuple[Callable[[int], Floats], Callable[[int], Floats]]:
    """The best completion of each node after t actions, and the log-weight of each product edge as action t."""
    if product.world.unbounded or product.timeless(weights.discount):
        log_weight = timeless_log_weights(product, weights)
        best = best_completions(product, log_weight, product.log_ends(weights.rules, product.stops))[0]
        return (lambda t: best), (lambda t: log_weight)
    require_horizon(product.horizon, 8 * product.n_nodes * product.horizon)
    do, layers = HostLayers(product, weights), list[Floats]()
    for t in range(product.horizon, -1, -1):
        layers.append(do.best_layer(t, layers[-1])[0] if layers else do.best_last())
    return layers[::-1].__getitem__, (lambda t: weights.at(t)[product.edge])


def list_walks(product: Product, most: int) -> Walks | None:
    """All valid trajectories, or None when there are more than `most`; breadth-first, one numpy pass per action."""
    alive, ground = _alive(product), product.ground()
    nodes = product.starts[alive[0][product.starts]].astype(np.int64)
    starts = product.state[nodes]
    walks = np.zeros((len(nodes), 0), dtype=np.int32)
    done: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []  # starts (n,) and edges (n, t) of those of t actions
    n_done = 0
    for t in range(product.horizon + 1):
        # Every partial path has a completion, so that their number never exceeds that of the whole ones.
        if n_done + len(nodes) > most:
            return None
        ending = product.accepting[nodes] if not product.fixed_length else np.full(len(nodes), t == product.horizon)
        n_done += int(ending.sum())
        done.append((starts[ending], walks[ending]))
        if t == product.horizon or not len(nodes):
            break
        source, edges = moves_of(nodes, ground.row_start, ground.terminal)
        kept = alive[t + 1][product.target[edges]]
        source, edges = source[kept], edges[kept]
        nodes = product.target[edges].astype(np.int64)
        starts = starts[source]
        walks = np.concatenate([walks[source], product.edge[edges].astype(np.int32)[:, None]], axis=1)
    lengths = np.concatenate([np.full(len(first), t) for t, (first, _) in enumerate(done)])
    all_starts, all_edges = np.concatenate([s for s, _ in done]), np.concatenate([e.ravel() for _, e in done])
    return Walks(product.world, all_starts, all_edges, np.concatenate([[0], np.cumsum(lengths)]))


def _alive(product: Product) -> list[NDArray[np.bool_]]:
    """alive[t][n]: a trajectory that is at node n after t actions can still be completed."""
    if not product.fixed_length:
        return [product.distance <= product.horizon - t for t in range(product.horizon + 1)]
    alive = [product.accepting]
    for _ in range(product.horizon):
        alive.append(alive_before(product.indptr, product.target, alive[-1]))
    return alive[::-1]
