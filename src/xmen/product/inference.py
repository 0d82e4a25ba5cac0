"""Choosing the schedule of the dynamic program."""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.errors import DivergenceError
from xmen.product import best as relaxed_search
from xmen.product import sweeps
from xmen.product.factor import EPSILON, TRUSTED, Factor, Pattern
from xmen.product.graph import Product
from xmen.product.layered import HostLayers, Layered
from xmen.product.messages import Flow, Messages, entropy_of, start_law, timeless_log_weights, walk_timeless
from xmen.worlds.walks import EdgeWeights, Floats

# ---- Backward and forward in one sweep, for products without cycles on which time plays no role


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


# ---- Messages on a product with cycles and no horizon: one linear system in place of a sweep per number of actions.
#
# beta(n), the total weight of all completions of any length, solves (I - M) beta = stop, with M the edge weights. It
# is finite exactly where the spectral radius of M, on the nodes that lie on some way to acceptance, is below 1.
# Weights are taken relative to the best completion of each node, M_ij exp(best_j - best_i), so that beta / exp(best)
# is at least 1 and nothing underflows. What solutions miss of their equations, times the longest expected length,
# bounds their error (`goal_batches`): where that is above 1e-9, rounding decides the answer, which is refused as one
# that diverges.


class HorizonFree:
    """Backward and forward by one factorisation; exact for trajectories of any length, discount 1."""

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        self._product = product
        log_weight = timeless_log_weights(product, weights)
        self._best, _ = relaxed_search.best_completions(product, log_weight)
        degrees: NDArray[np.int64] = (product.indptr[1:] - product.indptr[:-1]).astype(np.int64)
        self._source = np.repeat(np.arange(product.n_nodes), degrees)
        relative = np.exp(log_weight + self._best[product.target] - self._best[self._source])
        self._factor, self._ratio, self._longest = self._solve(relative)
        self._conditional = relative * self._ratio[product.target] / self._ratio[self._source]
        self.log_partition, self._starts = start_law(product, weights, self.log_completions(0, product.starts))

    def _solve(self, relative: Floats) -> tuple[Factor, Floats, float]:
        """The factors, beta / exp(best), and a bound on expected lengths; DivergenceError where that is not finite."""
        product = self._product
        stop, shape = product.stops.astype(np.float64), (product.n_nodes,) * 2
        matrix = csr_matrix((relative, product.target, product.indptr), shape=shape)
        with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            factor = Factor(Pattern(product.n_nodes, self._source, product.target), relative)
            ratio: Floats = factor.solve(stop[:, None])[:, 0]
            w: Floats = factor.solve(ratio[:, None])[:, 0]
            share = ((w - matrix @ w) / ratio).min(initial=np.inf)
            longest = (w / ratio).max(initial=1.0) / share
            missed = np.abs((stop + matrix @ ratio) / ratio - 1.0).max(initial=0.0)
            if np.all(ratio > 0.0) and np.all(w > 0.0) and share > 0.0 and (missed + EPSILON) * longest <= TRUSTED:
                return factor, ratio, float(longest)
        raise DivergenceError(relaxed_search.divergence_message(product, self._source, relative))

    def _node_visits(self) -> Floats:
        """The expected number of positions at each node."""
        product = self._product
        begin = np.zeros(product.n_nodes)
        np.add.at(begin, product.starts, self._starts)
        visits: Floats = self._factor.solve_transposed((begin / self._ratio)[:, None])[:, 0] * self._ratio
        through = visits[self._source] * self._conditional
        missed = np.abs(begin + np.bincount(product.target, through, minlength=product.n_nodes) - visits).sum()
        if not missed * self._longest <= TRUSTED * visits.sum():
            raise DivergenceError(relaxed_search.divergence_message(product, self._source, self._conditional))
        return visits

    def flow(self, with_entropy: bool = False) -> Flow:
        product = self._product
        through = self._node_visits()[self._source] * self._conditional
        counts = np.bincount(product.edge, weights=through, minlength=len(product.world.source)).astype(np.float64)
        entropy = entropy_of(self._starts)
        if with_entropy:
            choice = np.where(self._conditional > 0, self._conditional, 1.0)
            entropy -= float(through @ np.log(choice))
        return Flow(counts, counts, self._starts, entropy)

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        completions: Floats = np.log(self._ratio[nodes]) + self._best[nodes]
        return completions

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return walk_timeless(self._product, self._conditional, self._starts, n, rng)


# ---- Choosing the schedule of the dynamic program


def pass_messages(product: Product, weights: EdgeWeights) -> Messages:
    """Run the backward pass with the cheapest schedule that is exact for this product and discount."""
    if product.timeless(weights.discount):
        return SinglePass(product, weights)
    if product.world.unbounded:
        return HorizonFree(product, weights)
    return Layered(product, weights, HostLayers(product, weights))
