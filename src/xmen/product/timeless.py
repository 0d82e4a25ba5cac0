"""Where one number per product edge is enough, whatever the number of actions before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.product.messages import NO_EDGE, as_columns, draw_starts
from xmen.worlds.edge_weights import EdgeWeights, Floats


def timeless_log_weights(product: Product, weights: EdgeWeights) -> Floats:
    """The log-weight of each product edge as the action after so many as its node has depth."""
    discount = weights.discount ** product.depth.astype(np.float64)
    log_weight: Floats = sweeps.edge_log_weights(
        product.indptr, product.edge, weights.log_dynamics, discount, weights.reward
    )
    return log_weight


def walk_timeless(
    product: Product, conditional: Floats, start_probability: Floats, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """n independent trajectories, as `Messages.walk` gives them, from the probability of each edge given its node."""
    starts = draw_starts(product, start_probability, n, rng)
    node, ones = starts.copy(), np.ones(product.n_nodes)
    steps: list[NDArray[np.uint32]] = []
    while True:
        taken = sweeps.choose_edges(product.indptr, product.target, conditional, ones, rng.random(n), node)
        if np.all(taken == NO_EDGE):
            return starts, as_columns(steps, n)
        steps.append(taken)
