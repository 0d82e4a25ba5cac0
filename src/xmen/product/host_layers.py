"""The operations of `Layered` by compiled loops on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.limits import require_horizon
from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.product.layer_operations import DOUBLE, Base, Made, Nodes, Scale
from xmen.product.messages import NO_EDGE
from xmen.product.timeless import timeless_log_weights
from xmen.sharing import once
from xmen.worlds.edge_weights import EdgeWeights, Floats

MESSAGE_BYTES = 1_500_000_000  # above this, layers are kept every so often and recomputed in between


@dataclass
class HostFlow:
    """Node probabilities on their way forward, and what went through each world edge so far."""

    here: Floats
    counts: Floats
    discounted: Floats
    entropy: float = 0.0


class HostLayers:
    """One reward on one product. Nothing is written into once it is given away, so threads can share it."""

    span = DOUBLE
    lookahead = 1  # looking is free here, and a layer too many is not

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        self._product, self._weights = product, weights
        self.discount = weights.discount
        self.reach = float(np.abs(weights.reward).max(initial=0.0))
        total = 8 * int(product.layer_ends.sum())
        self.stride = 1 if total <= MESSAGE_BYTES else max(2, int(np.sqrt(product.horizon)))

    def require_memory(self) -> None:
        require_horizon(self._product.horizon, 8 * int(self._product.layer_ends.sum()) / self.stride)

    def last_layer(self) -> Floats:
        return self._product.accepting.astype(np.float64)

    def first_potential(self) -> Floats:
        product, log_weight = self._product, timeless_log_weights(self._product, self._weights)
        potential = np.where(product.accepting, 0.0, -np.inf)
        sweeps.log_sweep(product.outwards, product.distance, product.indptr, product.target, log_weight, potential)
        return potential

    def renew(self, t: int, potential: Floats, value: Floats) -> tuple[Floats, Floats]:
        alive = value > -np.inf
        renewed = potential.copy()
        renewed[: len(value)][alive] = value[alive]
        return renewed, alive.astype(np.float64)

    def stop_weights(self, potential: Floats, scale: Scale) -> Floats:
        stop = np.zeros(self._product.n_nodes)
        if not self._product.fixed_length:
            ends = self._product.accepting
            stop[ends] = np.exp(-potential[ends] - scale)
        return stop

    def base(self, epoch: int, t: int, potential: Floats) -> Base[Floats]:
        product = self._product
        log_weight = self._weights.at(t)
        weights: Floats = sweeps.relative_weights(
            product.n_nodes, product.indptr, product.target, product.edge, log_weight, potential, self.span.most
        )
        return Base(epoch, t, weights, [])

    def _weights_at(self, t: int, base: Base[Floats]) -> Floats:
        """The weights of action t: those of the base, or these times a factor per world edge."""
        if base.t == t or self.discount == 1.0:
            return base.weights
        if not base.room:
            base.room.append(np.empty(len(base.weights)))
        product, rescaled = self._product, base.room[0]
        factor = np.exp((self.discount**t - self.discount**base.t) * self._weights.reward)
        n_edges = int(product.indptr[product.layer_ends[t]])
        sweeps.rescale_weights(n_edges, product.edge, base.weights, factor, rescaled)
        return rescaled

    def backward(self, begin: int, end: int, base: Base[Floats], stop: Floats, after: Floats) -> Made[Floats]:
        product, layers, ranges = self._product, [], []
        for t in range(begin - 1, end - 1, -1):
            n = int(product.layer_ends[t])
            weights, out = self._weights_at(t, base), np.empty(n)
            ranges.append(sweeps.backward_layer(n, product.indptr, product.target, weights, stop, after, out))
            layers.append(out)
            after = out
        return Made(layers, *np.array(ranges).T)

    def scaled(self, layer: Floats, factor: Scale) -> Floats:
        return layer * factor

    def keep(self, t: int, layer: Floats) -> Floats:
        return layer

    def fetch(self, kept: Floats) -> Floats:
        return kept

    def log_values(self, layer: Floats, potential: Floats, scale: Scale) -> Floats:
        with np.errstate(divide="ignore"):
            values: Floats = np.log(layer) + potential[: len(layer)] + scale
        return values

    def log_layer(self, t: int, log_after: Floats) -> Floats:
        product = self._product
        n = int(product.layer_ends[t])
        value = np.empty(n)
        sweeps.log_layer(
            n, product.indptr, product.target, product.edge, self._weights.at(t), self._log_stop, log_after, value
        )
        return value

    def conditional(self, t: int, log_after: Floats, log_value: Floats) -> Base[Floats]:
        product = self._product
        weights: Floats = sweeps.conditional_weights(
            len(log_value), product.indptr, product.target, product.edge, self._weights.at(t), log_after, log_value
        )
        return Base(-1, t, weights, [])

    def ones(self, t: int) -> Floats:
        return np.ones(int(self._product.layer_ends[t]))

    def begin(self, starts: Floats) -> HostFlow:
        product = self._product
        here = np.zeros(product.n_nodes)
        np.add.at(here, product.starts, starts)
        return HostFlow(here, *np.zeros((2, len(product.world.source))))

    def forward(
        self,
        flow: HostFlow,
        t: int,
        base: Base[Floats],
        layers: Sequence[Floats],
        factor: Scale | None,
        with_entropy: bool,
    ) -> None:
        product = self._product
        for after in layers[1:]:
            there = np.zeros(product.n_nodes)
            step = flow.counts if self.discount == 1.0 else np.zeros_like(flow.counts)
            flow.entropy += sweeps.forward_layer(
                int(product.layer_ends[t]),
                product.indptr,
                product.target,
                product.edge,
                self._weights_at(t, base),
                after,
                flow.here,
                there,
                step,
                with_entropy,
            )
            if self.discount != 1.0:
                flow.counts += step
                flow.discounted += self.discount**t * step
            flow.here = there
            t += 1

    def totals(self, flow: HostFlow) -> tuple[Floats, Floats, float]:
        return flow.counts, flow.counts if self.discount == 1.0 else flow.discounted, flow.entropy

    def choose(self, t: int, base: Base[Floats], after: Floats, rng: np.random.Generator, node: Nodes) -> Nodes | None:
        product = self._product
        weights = self._weights_at(t, base)
        taken: Nodes = sweeps.choose_edges(product.indptr, product.target, weights, after, rng.random(len(node)), node)
        return None if np.all(taken == NO_EDGE) else taken

    def walkers(self, starts: Nodes, column: int) -> Nodes:
        return starts.copy()

    def best_layer(self, t: int, after: Floats) -> tuple[Floats, NDArray[Any]]:
        product = self._product
        n = int(product.layer_ends[t])
        value, choice = np.empty(n), np.empty(n, dtype=self._choice_type)
        sweeps.best_layer(
            n, product.indptr, product.target, product.edge, self._weights.at(t), self._log_stop, after, value, choice
        )
        return value, choice

    @once
    def _choice_type(self) -> np.dtype[Any]:
        return np.min_scalar_type(int(np.diff(self._product.indptr).max(initial=0)))

    @once
    def _log_stop(self) -> Floats:
        """0 where trajectories may end before `horizon` actions, -inf elsewhere."""
        return np.full(self._product.n_nodes, -np.inf) if self._product.fixed_length else self.best_last()

    def best_last(self) -> Floats:
        return np.where(self._product.accepting, 0.0, -np.inf)

    def values(self, array: Floats, nodes: Nodes) -> Floats:
        return array[nodes]

    def on_host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array
