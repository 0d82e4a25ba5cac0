"""The most likely trajectory: the same recursions with a maximum in place of the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xmen.limits import require_horizon
from xmen.product.graph import Product
from xmen.product.host_layers import HostLayers
from xmen.product.layer_operations import LayerOperations
from xmen.product.relaxed_search import best_completions
from xmen.product.timeless import timeless_log_weights
from xmen.worlds.edge_weights import EdgeWeights, Floats
from xmen.worlds.walks import Walks


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
