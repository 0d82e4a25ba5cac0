"""Backward and forward in one sweep, for products without cycles on which time plays no role."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.product.messages import Flow, entropy_of, start_law
from xmen.product.timeless import timeless_log_weights, walk_timeless
from xmen.worlds.edge_weights import EdgeWeights, Floats


class SinglePass:
    """Backward in one sweep: each node has one message, whatever the number of actions before it."""

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        assert product.topological is not None
        self._product = product
        self._order, longest = product.topological
        self._backwards = self._order[::-1].copy()
        self._discount = weights.discount ** product.depth.astype(np.float64)
        self._log_weight = timeless_log_weights(product, weights)
        self._value = np.where(product.stops, 0.0, -np.inf)
        sweeps.log_sweep(self._backwards, -longest, product.indptr, product.target, self._log_weight, self._value)
        self.log_partition, self._starts = start_law(product, weights, self._value[product.starts])
        self._conditional = sweeps.conditional_weights(
            product.n_nodes,
            product.indptr,
            product.target,
            np.arange(product.n_edges, dtype=np.uint32),
            self._log_weight,
            self._value,
            self._value,
        )

    def flow(self, with_entropy: bool = False) -> Flow:
        product = self._product
        here = np.zeros(product.n_nodes)
        np.add.at(here, product.starts, self._starts)
        counts, discounted = np.zeros((2, len(product.world.source)))
        entropy = entropy_of(self._starts) + sweeps.forward_sweep(
            self._order,
            product.indptr,
            product.target,
            product.edge,
            self._conditional,
            self._discount,
            here,
            counts,
            discounted,
        )
        return Flow(counts, discounted, self._starts, entropy)

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        completions: Floats = self._value[nodes]
        return completions

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return walk_timeless(self._product, self._conditional, self._starts, n, rng)
