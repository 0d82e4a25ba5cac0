"""Backward and forward over every number of actions, in ordinary numbers that cannot underflow.

The messages of each number of actions t are kept as b_t, relative to a potential, so that a layer costs one sparse
matrix-vector product:

    beta_t(n) = b_t(n) exp(potential(n) + scale_t),    beta_t(n) = stop_t(n) + sum_e w_e beta_{t+1}(n')

beta_t(n) is the total weight of all ways to complete a trajectory that is at node n after t actions. Whenever
the b_t drift towards the ends of what a number can hold, one layer is done in log space and its exact values
become the new potential. So nothing underflows, and true zeros stay zero.

Why nothing that counts is lost (s, drift and most are those of the precision's `Span`). What is not 0 in the layer
that a step begins with is between s and 1 / s. The step is believed only if its values are between s^2 and s^-2, no
less than s^2 times the largest and no more than s^-2 times the least that it began with; otherwise it is done in log
space. Edge weights of any action are those of a base times a factor of at most exp(drift). Where u is the least number
with all its digits, a weight below u has therefore lost at most u exp(drift) / s^2 of any value, which is less than the
rounding of one addition; and one that was cut off at exp(most) would have given more than exp(most - drift) > s^-2
times what it was multiplied by, and was not believed. Weights are finite, so that a true zero times one is zero.

The arithmetic itself is that of `LayerOperations`: compiled loops, or a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from xmen.product.graph import Product
from xmen.product.layer_operations import Array, Base, LayerOperations, Made, Scale
from xmen.product.messages import Flow, as_columns, draw_starts, entropy_of, start_law
from xmen.worlds.edge_weights import EdgeWeights, Floats


@dataclass(frozen=True)
class _Layer:
    """How b_t was made: under which potential and scale, and whether its step was done in log space."""

    epoch: int
    scale: Scale
    factor: Scale | None = None  # b_t = factor * (stop + sum w b_{t+1}); None is 1
    in_log_space: bool = False

    @property
    def plain(self) -> bool:
        """Whether b_t is what the layer after it gave, and nothing else."""
        return not self.in_log_space and self.factor is None

    def measured_as(self, other: _Layer) -> bool:
        """Whether both have the same potential and scale."""
        return self.epoch == other.epoch and bool(np.all(self.scale == other.scale))


@dataclass
class _Sweep(Generic[Array]):
    """What one question makes on its way over the layers.

    Every question has its own, so that threads can share the messages. `base` and `segment` come from other sweeps and
    go to others: they are replaced, never written into.
    """

    base: Base[Array] | None = None
    segment: dict[int, Array] = field(default_factory=dict)  # layers made again
    stop: tuple[_Layer, Array] | None = None  # stop weights under the potential and scale of a layer


class Layered(Generic[Array]):
    """Backward over every number of actions t = horizon .. 0, on the nodes that t actions can have reached."""

    def __init__(self, product: Product, weights: EdgeWeights, operations: LayerOperations[Array]) -> None:
        self._product, self._do = product, operations
        self._do.require_memory()
        self._plan: list[_Layer] = [_Layer(0, 0.0)] * (product.horizon + 1)
        self._kept: dict[int, Any] = {}
        self._segment: dict[int, Array] = {}  # the last one that `log_completions` made
        self._first_base: Base[Array] | None = None
        self._potentials = [self._do.first_potential()]
        self._backward()
        self.log_partition: Any  # a float, or one per column
        self.log_partition, self._starts = start_law(product, weights, self.log_completions(0, product.starts))

    @property
    def discount(self) -> float:
        """The discount of rewards."""
        return self._do.discount

    def _backward(self) -> None:
        do, t, sweep = self._do, self._product.horizon, _Sweep[Array]()
        b = do.last_layer()
        self._kept[t] = do.keep(t, b)
        ahead, went, ends = do.lookahead, 0, (1.0, 1.0)
        while t > 0:
            end = max(t - ahead, self._segment_of(t - 1))
            ahead = min(2 * ahead, do.lookahead)
            made = self._linear(t, end, b, sweep)
            held, n_made = self._held(made), len(made.layers)
            same = _Layer(self._plan[t].epoch, self._plan[t].scale)
            for i in range(held):
                t, b = t - 1, made.layers[i]
                self._plan[t] = same
                if t % do.stride == 0:
                    self._kept[t] = do.keep(t, b)
            went += held
            if held:
                ends = made.least[held - 1], made.largest[held - 1]
            if held < n_made:
                # What was made from it is made again; the next time may come after as many layers as this time.
                t, ahead, went = t - 1, went + 1, 0
                b, ends = self._settle(t, b, ends, made.layers[held], made.least[held], made.largest[held])
                if t % do.stride == 0 or self._plan[t].in_log_space:
                    self._kept[t] = do.keep(t, b)
        self._first_base = sweep.base

    def _held(self, made: Made[Array]) -> int:
        """How many of the layers, from the first on, are far from the ends of what a number can hold."""
        n, small = len(made.layers), self._do.span.small
        fits = (made.least >= small) & (made.largest <= 1 / small)
        fits = fits.reshape(n, -1).all(axis=1)
        return n if fits.all() else int(np.argmin(fits))

    def _segment_of(self, t: int) -> int:
        """The first of the layers that are kept or made again together with layer t."""
        return 0 if self._do.stride == 1 else t - t % self._do.stride

    def _sweep(self) -> _Sweep[Array]:
        """A new sweep, which begins with the weights that backward ended with: forward begins there."""
        return _Sweep(None if self._first_base is None else self._first_base._replace(room=[]))

    def _settle(
        self, t: int, after: Array, ends: tuple[Any, Any], layer: Array, least: Any, largest: Any
    ) -> tuple[Array, tuple[Any, Any]]:
        """b_t, made from b_{t+1}, under a scale and a potential that bring it back from the ends of its range.

        `ends` are the least and the largest of b_{t+1}; those of b_t come with it.
        """
        do, epoch, scale = self._do, self._plan[t + 1].epoch, self._plan[t + 1].scale
        small = do.span.small
        exact = (least >= small**2 * np.maximum(1.0, ends[1])) & (small**2 * largest <= np.minimum(1.0, ends[0]))
        if np.all(exact) and np.all(small**1.5 * largest <= least):
            # A common drift of all messages is undone by one number, a power of two so that nothing is rounded.
            factor = 2.0 ** -np.round(0.5 * (np.log2(least) + np.log2(largest)))
            self._plan[t] = _Layer(epoch, scale - np.log(factor), factor)
            return do.scaled(layer, factor), (factor * least, factor * largest)
        value = do.log_layer(t, self._log_after(t, after))
        potential, b = do.renew(t, self._potentials[epoch], value)
        self._potentials.append(potential)
        self._plan[t] = _Layer(len(self._potentials) - 1, 0.0, in_log_space=True)
        return b, (1.0, 1.0)

    def _linear(self, begin: int, end: int, after: Array, sweep: _Sweep[Array]) -> Made[Array]:
        """Layers begin - 1 down to `end`, or to an earlier one, under the potential and scale of layer `begin`."""
        layer = self._plan[begin]
        base = self._base(begin - 1, layer.epoch, sweep)
        while end < begin - 1 and self._drifts(base.t, end):
            end += 1
        return self._do.backward(begin, end, base, self._stop(begin, sweep), after)

    def _stop(self, t: int, sweep: _Sweep[Array]) -> Array:
        """Stop weights under the potential and scale of layer t."""
        layer = self._plan[t]
        if sweep.stop is None or not layer.measured_as(sweep.stop[0]):
            sweep.stop = (layer, self._do.stop_weights(self._potentials[layer.epoch], layer.scale))
        return sweep.stop[1]

    def _drifts(self, one: int, other: int) -> bool:
        """Whether discounting moves edge weights too far between two actions for one to be a factor of the other."""
        discount = self._do.discount
        return discount != 1.0 and abs(discount**one - discount**other) * self._do.reach > self._do.span.drift

    def _base(self, t: int, epoch: int, sweep: _Sweep[Array]) -> Base[Array]:
        """Edge weights relative to a potential, of action t or of one near enough.

        Made anew when the potential changes; from one t to the next only a factor per world edge changes, and
        that only when there is a discount.
        """
        if sweep.base is None or sweep.base.epoch != epoch or self._drifts(sweep.base.t, t):
            sweep.base = self._do.base(epoch, t, self._potentials[epoch])
        return sweep.base

    def _log_after(self, t: int, after: Array) -> Array:
        layer = self._plan[t + 1]
        return self._do.log_values(after, self._potentials[layer.epoch], layer.scale)

    def _layer(self, t: int, sweep: _Sweep[Array]) -> Array:
        """b_t, kept or made again from the next layer that was kept."""
        if t in self._kept:
            return self._do.fetch(self._kept[t])
        if t not in sweep.segment:
            sweep.segment = self._again(t)
        return sweep.segment[t]

    def _again(self, t: int) -> dict[int, Array]:
        """Layer t and all after it up to the next one that was kept."""
        u = t
        while u not in self._kept:
            u += 1
        again: dict[int, Array] = {}
        b, sweep = self._do.fetch(self._kept[u]), self._sweep()
        while u > t:
            end = u - 1
            while end > t and self._plan[end].plain:
                end -= 1
            for layer in self._linear(u, end, b, sweep).layers:
                u -= 1
                factor = self._plan[u].factor
                again[u] = b = layer if factor is None else self._do.scaled(layer, factor)
        return again

    def _conditional(self, t: int, sweep: _Sweep[Array]) -> tuple[Base[Array], Array]:
        """(weights, after): edge e is action t in proportion to weights[e] after[target]."""
        do, layer, after = self._do, self._plan[t], self._layer(t + 1, sweep)
        if not layer.in_log_space:
            return self._base(t, layer.epoch, sweep), after
        value = do.log_values(self._layer(t, sweep), self._potentials[layer.epoch], layer.scale)
        return do.conditional(t, self._log_after(t, after), value), do.ones(t + 1)

    def _together(self, t: int, sweep: _Sweep[Array]) -> int:
        """Up to which layer forward can go on from t under the same weights."""
        end, do = t + 1, self._do
        base, last = self._base(t, self._plan[t].epoch, sweep), min(t + do.lookahead, self._product.horizon)
        last = min(last, self._segment_of(t) + do.stride) if do.stride > 1 else last
        while end < last and self._plan[end].plain and not self._drifts(base.t, end):
            end += 1
        return end

    def uses(self, with_entropy: bool = False, starts: Floats | None = None) -> tuple[Array, Array, Any]:
        """Expected uses of each world edge, plain and discounted, where they were computed; and the entropy.

        With `starts`, trajectories begin at the start nodes with these weights, and not as the law says.
        """
        do, sweep, t = self._do, self._sweep(), 0
        flow = do.begin(self._starts if starts is None else starts)
        while t < self._product.horizon:
            if self._plan[t].in_log_space:
                base, after = self._conditional(t, sweep)
                do.forward(flow, t, base, [do.ones(t), after], None, with_entropy)
                t += 1
                continue
            end = self._together(t, sweep)
            layers = [self._layer(s, sweep) for s in range(t, end + 1)]
            base = self._base(t, self._plan[t].epoch, sweep)
            do.forward(flow, t, base, layers, self._plan[t].factor, with_entropy)
            t = end
        return do.totals(flow)

    def flow(self, with_entropy: bool = False) -> Flow:
        counts, discounted, entropy = self.uses(with_entropy)
        host = self._do.on_host(counts)
        same = discounted is counts
        return Flow(
            host, host if same else self._do.on_host(discounted), self._starts, entropy_of(self._starts) + entropy
        )

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        layer, sweep = self._plan[t], self._sweep()
        sweep.segment = self._segment  # a policy asks for one t after the other
        here = self._do.values(self._layer(t, sweep), nodes)
        self._segment = sweep.segment
        with np.errstate(divide="ignore"):
            completions: Floats = np.log(here) + self._do.values(self._potentials[layer.epoch], nodes) + layer.scale
        return completions

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        starts, steps = self.steps(n, rng)
        return starts, as_columns([self._do.on_host(step) for step in steps], n)

    def steps(self, n: int, rng: np.random.Generator, column: int = 0) -> tuple[NDArray[np.uint32], list[Any]]:
        """The start nodes of n walkers, and the edges that they take as action 0, 1, ..., where they were chosen."""
        do, sweep = self._do, self._sweep()
        probability: Floats = self._starts if self._starts.ndim == 1 else self._starts[:, column]
        starts = draw_starts(self._product, probability, n, rng)
        node, steps = do.walkers(starts, column), list[Any]()
        for t in range(self._product.horizon):
            base, after = self._conditional(t, sweep)
            taken = do.choose(t, base, after, rng, node)
            if taken is None:
                break
            steps.append(taken)
        return starts, steps
