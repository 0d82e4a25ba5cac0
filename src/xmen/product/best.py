"""The most likely trajectory: the same recursions with a maximum in place of the sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.limits import require_horizon
from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.product.host_layers import HostLayers
from xmen.product.layer_operations import LayerOperations
from xmen.product.relaxed_search import best_completions
from xmen.worlds.edge_weights import EdgeWeights, Floats
from xmen.worlds.walks import Walks


def best_walk(
    product: Product, weights: EdgeWeights, operations: LayerOperations[Any] | None = None
) -> tuple[float, Walks]:
    """The largest log-weight R + log D of a valid trajectory, and one that attains it.

    With `operations` layer by layer, by these.
    """
    if product.world.unbounded:
        value, start, path = _best_by_relaxing(product, weights)
    elif operations is None and product.timeless(weights.discount):
        value, start, path = _best_by_sweep(product, weights)
    else:
        value, start, path = _best_by_layers(product, weights, operations)
    edges = product.edge[np.array(path, dtype=np.int64)].astype(np.int32)
    return value, Walks(product.world, product.state[[start]], edges, np.array([0, len(edges)]))


def score_range(product: Product, weights: EdgeWeights) -> tuple[float, float]:
    """The least and the largest log-weight of a valid trajectory."""
    return -best_walk(product, weights.negated())[0], best_walk(product, weights)[0]


def _best_start(product: Product, weights: EdgeWeights, completions: Floats) -> tuple[float, int]:
    """The best start, given the best completion of each start node."""
    values = weights.log_start[product.state[product.starts]] + completions
    best = int(np.argmax(values))
    return float(values[best]), int(product.starts[best])


def _best_by_sweep(product: Product, weights: EdgeWeights) -> tuple[float, int, list[int]]:
    assert product.topological is not None
    backwards = product.topological[0][::-1].copy()
    discount = weights.discount ** product.depth.astype(np.float64)
    log_weight = sweeps.edge_log_weights(product.indptr, product.edge, weights.log_dynamics, discount, weights.reward)
    value, choice = np.where(product.stops, 0.0, -np.inf), np.zeros(product.n_nodes, dtype=np.uint32)
    sweeps.best_sweep(backwards, product.indptr, product.target, log_weight, value, choice)
    best, start = _best_start(product, weights, value[product.starts])
    node, path = start, []
    while product.indptr[node] < product.indptr[node + 1]:
        path.append(int(product.indptr[node]) + int(choice[node]))
        node = int(product.target[path[-1]])
    return best, start, path


def _best_by_relaxing(product: Product, weights: EdgeWeights) -> tuple[float, int, list[int]]:
    value, choice = best_completions(product, (weights.log_dynamics + weights.reward)[product.edge])
    best, start = _best_start(product, weights, value[product.starts])
    node, path = start, []
    while choice[node] >= 0:
        path.append(int(choice[node]))
        node = int(product.target[path[-1]])
    return best, start, path


def _best_by_layers(
    product: Product, weights: EdgeWeights, operations: LayerOperations[Any] | None = None
) -> tuple[float, int, list[int]]:
    degree = int(np.diff(product.indptr).max(initial=0))
    require_horizon(product.horizon, int(product.layer_ends.sum()) * np.min_scalar_type(degree).itemsize)
    do = HostLayers(product, weights) if operations is None else operations
    value, choices = do.best_last(), list[Any]()
    for t in range(product.horizon - 1, -1, -1):
        value, choice = do.best_layer(t, value)
        choices.append(choice)
    best, start = _best_start(product, weights, do.values(value, product.starts))
    node, path = start, []
    for choice in reversed(choices):
        if product.indptr[node] == product.indptr[node + 1]:
            break
        path.append(int(product.indptr[node]) + int(choice[node]))
        node = int(product.target[path[-1]])
    return best, start, path
