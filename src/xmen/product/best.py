"""The most likely trajectory: the same recursions with a maximum in place of the sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmen.limits import require_horizon
from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.product.relaxed_search import best_completions
from xmen.worlds.edge_weights import EdgeWeights, Floats
from xmen.worlds.walks import Walks


def best_walk(product: Product, weights: EdgeWeights) -> tuple[float, Walks]:
    """The largest log-weight R + log D of a valid trajectory, and one that attains it."""
    if product.timeless(weights.discount):
        find = _best_by_sweep
    else:
        find = _best_by_relaxing if product.world.unbounded else _best_by_layers
    value, start, path = find(product, weights)
    edges = product.edge[np.array(path, dtype=np.int64)].astype(np.int32)
    return value, Walks(product.world, product.state[[start]], edges, np.array([0, len(edges)]))


def score_range(product: Product, weights: EdgeWeights) -> tuple[float, float]:
    """The least and the largest log-weight of a valid trajectory."""
    return -best_walk(product, weights.negated())[0], best_walk(product, weights)[0]


def _best_start(product: Product, weights: EdgeWeights, value: Floats) -> tuple[float, int]:
    values = weights.log_start[product.state[product.starts]] + value[product.starts]
    best = int(np.argmax(values))
    return float(values[best]), int(product.starts[best])


def _best_by_sweep(product: Product, weights: EdgeWeights) -> tuple[float, int, list[int]]:
    assert product.topological is not None
    backwards = product.topological[0][::-1].copy()
    discount = weights.discount ** product.depth.astype(np.float64)
    log_weight = sweeps.edge_log_weights(product.indptr, product.edge, weights.log_dynamics, discount, weights.reward)
    value, choice = np.where(product.stops, 0.0, -np.inf), np.zeros(product.n_nodes, dtype=np.uint32)
    sweeps.best_sweep(backwards, product.indptr, product.target, log_weight, value, choice)
    best, start = _best_start(product, weights, value)
    node, path = start, []
    while product.indptr[node] < product.indptr[node + 1]:
        path.append(int(product.indptr[node]) + int(choice[node]))
        node = int(product.target[path[-1]])
    return best, start, path


def _best_by_relaxing(product: Product, weights: EdgeWeights) -> tuple[float, int, list[int]]:
    value, choice = best_completions(product, (weights.log_dynamics + weights.reward)[product.edge])
    best, start = _best_start(product, weights, value)
    node, path = start, []
    while choice[node] >= 0:
        path.append(int(choice[node]))
        node = int(product.target[path[-1]])
    return best, start, path


def _best_by_layers(product: Product, weights: EdgeWeights) -> tuple[float, int, list[int]]:
    never, anywhere = np.full(product.n_nodes, -np.inf), np.where(product.accepting, 0.0, -np.inf)
    value, choices = anywhere, list[NDArray[np.unsignedinteger]]()
    degree = int(np.diff(product.indptr).max(initial=0))
    require_horizon(product.horizon, int(product.layer_ends.sum()) * np.min_scalar_type(degree).itemsize)
    for t in range(product.horizon - 1, -1, -1):
        n = int(product.layer_ends[t])
        out, choice = np.empty(n), np.empty(n, dtype=np.min_scalar_type(degree))
        sweeps.best_layer(
            n,
            product.indptr,
            product.target,
            product.edge,
            weights.at(t),
            never if product.fixed_length else anywhere,
            value,
            out,
            choice,
        )
        value = out
        choices.append(choice)
    best, start = _best_start(product, weights, value)
    node, path = start, []
    for choice in reversed(choices):
        if product.indptr[node] == product.indptr[node + 1]:
            break
        path.append(int(product.indptr[node]) + int(choice[node]))
        node = int(product.target[path[-1]])
    return best, start, path
