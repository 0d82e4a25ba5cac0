"""The k most likely trajectories, exactly and in order: best-first search guided by the best completion of each node.

The guide is exact, so that what comes off the heap complete is the next best trajectory; each costs about its length
times the number of edges per node. Under rules that are not in the product the guide is too hopeful but never too low:
the order stays exact, as long as machines that watch along the way give up what they have lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

import numpy as np

from xmen.errors import EngineError
from xmen.limits import require_horizon
from xmen.machines.watch import Seen, Watch
from xmen.product.graph import Product
from xmen.product.host_layers import HostLayers
from xmen.product.relaxed_search import best_completions
from xmen.product.timeless import timeless_log_weights
from xmen.worlds.edge_weights import EdgeWeights, Floats
from xmen.worlds.walks import Walks

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
