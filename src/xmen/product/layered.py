"""Backward and forward over every number of actions, in ordinary numbers that cannot underflow.

The messages of each number of actions t are kept as b_t, relative to a potential, so that a layer costs one sparse
matrix-vector product:

    beta_t(n) = b_t(n) exp(potential(n) + scale_t),    beta_t(n) = stop_t(n) + sum_e w_e beta_{t+1}(n')

beta_t(n) is the total weight of all ways to complete a trajectory that is at node n after t actions. Whenever
the b_t drift towards the ends of what a double can hold, one layer is done in log space and its exact values
become the new potential. So nothing underflows, and true zeros stay zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xmen.limits import require_horizon
from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.product.messages import NO_EDGE, Flow, as_columns, draw_starts, entropy_of, start_law
from xmen.worlds.edge_weights import EdgeWeights, Floats

SMALL, LARGE = 1e-120, 1e120  # beyond these b_t are brought back; far from the ends of a double (1e-308, 1e308)
MESSAGE_BYTES = 1_500_000_000  # above this, layers are kept every so often and recomputed in between
MAX_DRIFT = 100.0  # how far (in nats) discounting may move edge weights before they are made anew


@dataclass
class _Layer:
    """How b_t was made: under which potential and scale, and whether its step was done in log space."""

    epoch: int
    scale: float
    in_log_space: bool
    factor: float  # b_t = factor * (stop + sum w b_{t+1})


@dataclass(frozen=True)
class _Base:
    """Edge weights relative to a potential as of action t."""

    epoch: int
    t: int
    weights: Floats


@dataclass
class _Sweep:
    """What one question makes on its way over the layers.

    Every question has its own, so that threads can share the messages. `base` and `segment` come from other sweeps and
    go to others: they are replaced, never written into.
    """

    base: _Base | None = None
    segment: dict[int, Floats] = field(default_factory=dict)  # layers made again
    rescaled: Floats | None = None  # room for the weights of another action than that of `base`
    stop: tuple[tuple[int, float], Floats] | None = None


class Layered:
    """Backward over every number of actions t = horizon .. 0, on the nodes that t actions can have reached."""

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        self._product, self._weights = product, weights
        self._stops_anywhere = not product.fixed_length
        self._plan: list[_Layer] = [_Layer(0, 0.0, False, 1.0)] * (product.horizon + 1)
        self._kept: dict[int, Floats] = {}
        self._segment: dict[int, Floats] = {}  # the last one that `log_completions` made
        self._first_base: _Base | None = None
        total = 8 * int(product.layer_ends.sum())
        self._stride = 1 if total <= MESSAGE_BYTES else max(2, int(np.sqrt(product.horizon)))
        require_horizon(product.horizon, total / self._stride)
        self._potentials = [self._first_potential()]
        self._backward()
        self.log_partition, self._starts = start_law(product, weights, self.log_completions(0, product.starts))

    def _first_potential(self) -> Floats:
        """The weight of all shortest completions of each node: what b_t starts from when a node comes into reach."""
        product, weights = self._product, self._weights
        discount = weights.discount ** product.depth.astype(np.float64)
        log_weight = sweeps.edge_log_weights(
            product.indptr, product.edge, weights.log_dynamics, discount, weights.reward
        )
        potential = np.where(product.accepting, 0.0, -np.inf)
        sweeps.log_sweep(product.outwards, product.distance, product.indptr, product.target, log_weight, potential)
        return potential

    def _backward(self) -> None:
        product, sweep = self._product, _Sweep()
        b = product.accepting.astype(np.float64)
        for t in range(product.horizon, -1, -1):
            if t < product.horizon:
                b = self._step(t, b, sweep)
            if t % self._stride == 0 or t == product.horizon or self._plan[t].in_log_space:
                self._kept[t] = b
        self._first_base = sweep.base

    def _sweep(self) -> _Sweep:
        """A new sweep, which begins with the weights that backward ended with: forward begins there."""
        return _Sweep(self._first_base)

    def _step(self, t: int, after: Floats, sweep: _Sweep) -> Floats:
        """b_t from b_{t+1}, choosing scale and potential on the way."""
        epoch, scale = self._plan[t + 1].epoch, self._plan[t + 1].scale
        out, least, largest = self._linear_layer(t, after, sweep)
        if least >= SMALL and largest <= LARGE:
            self._plan[t] = _Layer(epoch, scale, False, 1.0)
            return out
        if least > 0 and largest < np.inf and largest / least <= LARGE:
            # A common drift of all messages is undone by one number, a power of two so that nothing is rounded.
            factor = 2.0 ** -round(0.5 * (math.log2(least) + math.log2(largest)))
            self._plan[t] = _Layer(epoch, scale - math.log(factor), False, factor)
            return out * factor
        value = self._log_layer(t, after)
        alive = value > -np.inf
        potential = self._potentials[epoch].copy()
        potential[: len(value)][alive] = value[alive]
        self._potentials.append(potential)
        self._plan[t] = _Layer(len(self._potentials) - 1, 0.0, True, 1.0)
        return alive.astype(np.float64)

    def _linear_layer(self, t: int, after: Floats, sweep: _Sweep) -> tuple[Floats, float, float]:
        """b_t / factor_t from b_{t+1}, under the potential and scale of the latter."""
        product, layer = self._product, self._plan[t + 1]
        n = int(product.layer_ends[t])
        out = np.empty(n)
        weights = self._layer_weights(t, layer.epoch, sweep)
        stop = self._stop_weights(layer.epoch, layer.scale, sweep)
        least, largest = sweeps.backward_layer(n, product.indptr, product.target, weights, stop, after, out)
        return out, least, largest

    def _stop_weights(self, epoch: int, scale: float, sweep: _Sweep) -> Floats:
        if sweep.stop is None or sweep.stop[0] != (epoch, scale):
            stop = np.zeros(self._product.n_nodes)
            if self._stops_anywhere:
                ends = self._product.accepting
                stop[ends] = np.exp(-self._potentials[epoch][ends] - scale)
            sweep.stop = ((epoch, scale), stop)
        return sweep.stop[1]

    def _layer_weights(self, t: int, epoch: int, sweep: _Sweep) -> Floats:
        """Edge weights of action t relative to a potential.

        Made anew when the potential changes; from one t to the next only a factor per world edge changes, and
        that only when there is a discount.
        """
        product, weights = self._product, self._weights
        base, drift = sweep.base, np.zeros(0)
        if base is not None and base.epoch == epoch:
            if base.t == t or weights.discount == 1.0:
                return base.weights
            drift = (weights.discount**t - weights.discount**base.t) * weights.reward
        if base is None or base.epoch != epoch or np.abs(drift).max(initial=0.0) > MAX_DRIFT:
            relative: Floats = sweeps.relative_weights(
                product.n_nodes, product.indptr, product.target, product.edge, weights.at(t), self._potentials[epoch]
            )
            sweep.base = _Base(epoch, t, relative)
            return relative
        if sweep.rescaled is None:
            sweep.rescaled = np.empty(len(base.weights))
        n_edges = int(product.indptr[product.layer_ends[t]])
        sweeps.rescale_weights(n_edges, product.edge, base.weights, np.exp(drift), sweep.rescaled)
        return sweep.rescaled

    def _log_after(self, t: int, after: Floats) -> Floats:
        layer = self._plan[t + 1]
        return _log(after) + self._potentials[layer.epoch][: len(after)] + layer.scale

    def _log_layer(self, t: int, after: Floats) -> Floats:
        product = self._product
        n = int(product.layer_ends[t])
        stops = product.accepting[:n] if self._stops_anywhere else np.zeros(n, dtype=np.bool_)
        value = np.empty(n)
        sweeps.log_layer(
            n,
            product.indptr,
            product.target,
            product.edge,
            self._weights.at(t),
            np.where(stops, 0.0, -np.inf),
            self._log_after(t, after),
            value,
        )
        return value

    def _layer(self, t: int, sweep: _Sweep) -> Floats:
        """b_t, kept or made again from the next layer that was kept."""
        if t in self._kept:
            return self._kept[t]
        if t not in sweep.segment:
            u = t
            while u not in self._kept:
                u += 1
            again: dict[int, Floats] = {}
            b, backward = self._kept[u], self._sweep()
            for s in range(u - 1, t - 1, -1):
                b = self._linear_layer(s, b, backward)[0] * self._plan[s].factor
                again[s] = b
            sweep.segment = again
        return sweep.segment[t]

    def _conditional(self, t: int, sweep: _Sweep) -> tuple[Floats, Floats]:
        """(weights, after): edge e is action t in proportion to weights[e] after[target]."""
        product, after, layer = self._product, self._layer(t + 1, sweep), self._plan[t]
        if not layer.in_log_space:
            return self._layer_weights(t, layer.epoch, sweep), after
        n = int(product.layer_ends[t])
        value = np.where(self._layer(t, sweep) > 0, self._potentials[layer.epoch][:n], -np.inf)
        conditional = sweeps.conditional_weights(
            n, product.indptr, product.target, product.edge, self._weights.at(t), self._log_after(t, after), value
        )
        return conditional, np.ones(len(after))

    def flow(self, with_entropy: bool = False) -> Flow:
        product, discount = self._product, self._weights.discount
        here = np.zeros(product.n_nodes)
        np.add.at(here, product.starts, self._starts)
        counts, discounted = np.zeros((2, len(product.world.source)))
        entropy, sweep = entropy_of(self._starts), self._sweep()
        for t in range(product.horizon):
            weights, after = self._conditional(t, sweep)
            there = np.zeros(product.n_nodes)
            step = counts if discount == 1.0 else np.zeros_like(counts)
            entropy += sweeps.forward_layer(
                int(product.layer_ends[t]),
                product.indptr,
                product.target,
                product.edge,
                weights,
                after,
                here,
                there,
                step,
                with_entropy,
            )
            if discount != 1.0:
                counts += step
                discounted += discount**t * step
            here = there
        return Flow(counts, counts if discount == 1.0 else discounted, self._starts, entropy)

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        layer, sweep = self._plan[t], self._sweep()
        sweep.segment = self._segment  # a policy asks for one t after the other
        completions: Floats = _log(self._layer(t, sweep)[nodes]) + self._potentials[layer.epoch][nodes] + layer.scale
        self._segment = sweep.segment
        return completions

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        product = self._product
        starts = draw_starts(product, self._starts, n, rng)
        node, sweep = starts.copy(), self._sweep()
        steps: list[NDArray[np.uint32]] = []
        for t in range(product.horizon):
            weights, after = self._conditional(t, sweep)
            taken = sweeps.choose_edges(product.indptr, product.target, weights, after, rng.random(n), node)
            if np.all(taken == NO_EDGE):
                break
            steps.append(taken)
        return starts, as_columns(steps, n)


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(values)
