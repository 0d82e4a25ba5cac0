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

The arithmetic itself is that of `HostLayers`, by compiled loops, or of `device.layers`, by torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import require_horizon
from xmen.product import messages, sweeps
from xmen.product.graph import Product
from xmen.sharing import once
from xmen.worlds.walks import EdgeWeights, Floats

# ---- The array operations that dynamic programming over layers is made of, by compiled loops on the host.
#
# `Layered` says what is computed; these carry it out, or torch on a device (`device.layers`). A device does well when
# it is asked for many layers at once and looked at rarely, so the operations take stretches of layers that share their
# potential, their scale and their edge weights.

Array: TypeAlias = Any
"""One number per node, or one row of columns: numpy's on the host, a tensor on a device."""

SIDE_BY_SIDE = 16  # rewards that are answered together; more go one batch after the other
MESSAGE_BYTES = 1_500_000_000  # above this, layers are kept every so often and recomputed in between

Nodes = NDArray[np.uint32]
Scale = float | Floats  # one number, or one per column where several rewards are answered together


class Span(NamedTuple):
    """How far from the ends of its numbers a precision keeps layers and edge weights, for the reasons above."""

    small: float  # layers below this, and above 1 / small, are brought back
    drift: float  # how far (in nats) discounting may move edge weights before they are made anew
    most: float  # the largest log-weight of an edge: larger ones are cut off


DOUBLE = Span(1e-120, 50.0, 640.0)
SINGLE = Span(1e-15, 5.0, 78.0)


class Base(NamedTuple):
    """Edge weights relative to a potential as of action t; other actions differ by a factor per world edge."""

    epoch: int  # which potential
    t: int
    weights: Array
    room: list[Array]  # where the weights of other actions are made; every sweep has its own


class Made(NamedTuple):
    """Layers b_t before they are scaled, with the least and the largest nonzero value of each (in each column)."""

    layers: Sequence[Array]
    least: Any
    largest: Any


@dataclass
class Passing:
    """Node probabilities on their way forward, and what went through each edge so far."""

    here: Array
    flows: list[Array]  # plain, and discounted where there is a discount
    entropy: Any
    kept: Floats  # (k, k): the probability so far that a trajectory ended and kept two of the rules usually kept


class HostLayers:
    """One reward on one product. Nothing is written into once it is given away, so threads can share it."""

    span = DOUBLE
    lookahead = 1  # so many layers are made before their ranges are looked at: looking is free here, a layer is not
    stride: int  # every so many layers are kept, the others made again; 1 keeps all
    discount: float
    reach: float  # the largest reward, as an absolute value
    weights: Any
    _graph: Any

    def __init__(self, product: Product, weights: EdgeWeights) -> None:
        self.product, self.weights, self.discount = product, weights, weights.discount
        self._graph = product.indptr, product.target, product.edge
        self.reach = float(np.abs(weights.reward).max(initial=0.0))
        total = 8 * int(product.layer_ends.sum())
        self.stride = 1 if total <= MESSAGE_BYTES else max(2, int(np.sqrt(product.horizon)))

    def last_layer(self) -> Array:
        """b after `horizon` actions, under the first potential: 1 where trajectories may end."""
        return self.product.accepting.astype(np.float64)

    def first_potential(self) -> Array:
        """The log-weight of all shortest completions of each node."""
        product, log_weight = self.product, messages.timeless_log_weights(self.product, self.weights)
        potential = product.log_ends(self.weights.rules)
        sweeps.log_sweep(product.outwards, product.distance, product.indptr, product.target, log_weight, potential)
        return potential

    def renew(self, t: int, potential: Array, value: Array) -> tuple[Array, Array]:
        """The potential with these values where they are finite, and b_t under it: 1 there, 0 elsewhere."""
        alive = value > -np.inf
        renewed = potential.copy()
        renewed[: len(value)][alive] = value[alive]
        return renewed, alive.astype(np.float64)

    def stop_weights(self, potential: Array, scale: Scale) -> Array:
        """exp(-potential - scale) where trajectories may end before `horizon` actions, 0 elsewhere."""
        stop = np.zeros(self.product.n_nodes)
        if not self.product.fixed_length:
            ends = self.product.accepting
            stop[ends] = np.exp(self.best_last()[ends] - potential[ends] - scale)
        return stop

    def base(self, epoch: int, t: int, potential: Array) -> Base:
        """Edge weights of action t relative to a potential, cut off at exp(span.most)."""
        log_weight = self.weights.at(t)
        return Base(epoch, t, sweeps.relative_weights(self._graph, log_weight, potential, self.span.most), [])

    def _weights_at(self, t: int, base: Base) -> Array:
        """The weights of action t: those of the base, or these times a factor per world edge."""
        if base.t == t or self.discount == 1.0:
            return base.weights
        if not base.room:
            base.room.append(np.empty(len(base.weights)))
        product, rescaled = self.product, base.room[0]
        factor = np.exp((self.discount**t - self.discount**base.t) * self.weights.reward)
        n_edges = int(product.indptr[product.layer_ends[t]])
        sweeps.rescale_weights(n_edges, product.edge, base.weights, factor, rescaled)
        return rescaled

    def backward(self, begin: int, end: int, base: Base, stop: Array, after: Array) -> Made:
        """Layers begin - 1 .. end, each from the one after it, the first of them from `after`."""
        product, layers, ranges = self.product, [], []
        for t in range(begin - 1, end - 1, -1):
            n = int(product.layer_ends[t])
            weights, out = self._weights_at(t, base), np.empty(n)
            ranges.append(sweeps.backward_layer(n, product.indptr, product.target, weights, stop, after, out))
            layers.append(out)
            after = out
        return Made(layers, *np.array(ranges).T)

    def scaled(self, layer: Array, factor: Scale) -> Array:
        """The layer times a factor."""
        return layer * factor

    def keep(self, layer: Array) -> Array:
        """The layer where it stays until it is fetched."""
        return layer

    def fetch(self, kept: Array) -> Array:
        """A layer that was kept."""
        return kept

    def log_values(self, layer: Array, potential: Array, scale: Scale) -> Array:
        """log b + potential + scale, for as many nodes as the layer has."""
        with np.errstate(divide="ignore"):
            return np.log(layer) + potential[: len(layer)] + scale

    def log_layer(self, t: int, log_after: Array) -> Array:
        """One layer in log space, from the log-weights of all completions after it."""
        value = np.empty(int(self.product.layer_ends[t]))
        sweeps.log_layer(self._graph, self.weights.at(t), self._log_stop, log_after, value)
        return value

    def conditional(self, t: int, log_after: Array, log_value: Array) -> Base:
        """The probability of each edge as action t given its node, from the log-weights before and after it."""
        weights = sweeps.conditional_weights(self._graph, self.weights.at(t), log_after, log_value)
        return Base(-1, t, weights, [])

    def ones(self, t: int) -> Array:
        """1 for every node of layer t."""
        return np.ones(int(self.product.layer_ends[t]))

    def begin(self, starts: Floats) -> Passing:
        """A flow that begins at the product's start nodes with these probabilities."""
        flows = np.zeros((1 if self.discount == 1.0 else 2, len(self.product.world.source)))
        return Passing(messages.begun(self.product, starts), list(flows), 0.0, np.zeros((len(self.weights.rules),) * 2))

    def forward(
        self, flow: Passing, t: int, base: Base, layers: Sequence[Array], factor: Scale | None, with_entropy: bool
    ) -> None:
        """Move a flow on, from layer t through as many layers as are given with it: b_t, b_{t+1}, ...

        Edge e is taken in proportion to weight[e] b[target]; `factor` is that of b_t.
        """
        product, (counts, *discounted) = self.product, flow.flows
        for after in layers[1:]:
            self.end(flow)
            there = np.zeros(product.n_nodes)
            step = np.zeros_like(counts) if discounted else counts
            weights, n = self._weights_at(t, base), int(product.layer_ends[t])
            flow.entropy += sweeps.forward_layer(n, self._graph, weights, after, flow.here, there, step, with_entropy)
            if discounted:
                counts += step
                discounted[0] += self.discount**t * step
            flow.here = there
            t += 1

    def end(self, flow: Passing, last: bool = False) -> None:
        """Count what ends here and keeps rules that are usually kept."""
        if len(flow.kept) and (last or not self.product.fixed_length):
            flow.kept += messages.both_kept(self.product, flow.here)

    def totals(self, flow: Passing) -> tuple[Array, Array, Any, Floats]:
        """Expected uses of each world edge, plain and discounted; the entropy, if asked for; which rules were kept."""
        self.end(flow, last=True)
        return flow.flows[0], flow.flows[-1], flow.entropy, flow.kept

    def choose(self, t: int, base: Base, after: Array, rng: np.random.Generator, node: Any) -> Any:
        """The edge that each walker takes as action t; nodes are moved in place. None when nobody moves any more."""
        product, weights = self.product, self._weights_at(t, base)
        taken = sweeps.choose_edges(product.indptr, product.target, weights, after, rng.random(len(node)), node)
        return None if np.all(taken == messages.NO_EDGE) else taken

    def walkers(self, starts: Nodes, column: int) -> Any:
        """Walkers at these nodes, under one of the columns."""
        return starts.copy()

    def best_layer(self, t: int, after: Array) -> tuple[Array, Any]:
        """The largest log-weight of a completion from each node of layer t, and which edge of the node attains it."""
        n = int(self.product.layer_ends[t])
        value, choice = np.empty(n), np.empty(n, dtype=self._choice_type)
        sweeps.best_layer(self._graph, self.weights.at(t), self._log_stop, after, value, choice)
        return value, choice

    @once
    def _choice_type(self) -> np.dtype[Any]:
        return np.min_scalar_type(int(np.diff(self.product.indptr).max(initial=0)))

    @once
    def _log_stop(self) -> Array:
        """What ending before `horizon` actions is worth, -inf where trajectories cannot."""
        return np.full(self.product.n_nodes, -np.inf) if self.product.fixed_length else self.best_last()

    def best_last(self) -> Array:
        """What ending after `horizon` actions is worth, -inf where trajectories cannot."""
        return self.product.log_ends(self.weights.rules)

    def values(self, array: Array, nodes: Nodes) -> Floats:
        """The numbers at some nodes, on the host."""
        return np.asarray(array[nodes])


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


@dataclass
class _Sweep:
    """What one question makes on its way over the layers.

    Every question has its own, so that threads can share the messages. `base` and `segment` come from other sweeps and
    go to others: they are replaced, never written into.
    """

    base: Base | None = None
    segment: dict[int, Array] = field(default_factory=dict)  # layers made again
    stop: tuple[_Layer, Array] | None = None  # stop weights under the potential and scale of a layer


class Layered:
    """Backward over every number of actions t = horizon .. 0, on the nodes that t actions can have reached."""

    def __init__(self, operations: HostLayers) -> None:
        self._product, self._do, self.discount = operations.product, operations, operations.discount
        self._plan: list[_Layer] = [_Layer(0, 0.0)] * (self._product.horizon + 1)
        self._together = self._product.horizon + 1 if self._do.stride == 1 else self._do.stride  # layers made at once
        self._kept: dict[int, Any] = {}
        self._segment: dict[int, Array] = {}  # the last one that `log_completions` made
        self._first_base: Base | None = None
        self._potentials = [self._do.first_potential()]
        self._backward()
        self.log_partition: Any  # a float, or one per column
        completions = self.log_completions(0, self._product.starts)
        self.log_partition, self._starts = messages.start_law(self._product, operations.weights, completions)

    def _backward(self) -> None:
        do, t, sweep = self._do, self._product.horizon, _Sweep()
        b = do.last_layer()
        self._kept[t] = do.keep(b)
        ahead, went, ends = do.lookahead, 0, (1.0, 1.0)
        while t > 0:
            end = max(t - ahead, t - 1 - (t - 1) % self._together)
            ahead = min(2 * ahead, do.lookahead)
            made = self._linear(t, end, b, sweep)
            n_made, small = len(made.layers), do.span.small
            fits = ((made.least >= small) & (made.largest <= 1 / small)).reshape(n_made, -1).all(axis=1)
            held = n_made if fits.all() else int(np.argmin(fits))
            same = _Layer(self._plan[t].epoch, self._plan[t].scale)
            for b in made.layers[:held]:
                t -= 1
                self._plan[t] = same
                if t % do.stride == 0:
                    self._kept[t] = do.keep(b)
            went += held
            if held:
                ends = made.least[held - 1], made.largest[held - 1]
            if held < n_made:
                # What was made from it is made again; the next time may come after as many layers as this time.
                t, ahead, went = t - 1, min(went + 1, do.lookahead), 0
                b, ends = self._settle(t, b, ends, made.layers[held], made.least[held], made.largest[held])
                if t % do.stride == 0 or self._plan[t].in_log_space:
                    self._kept[t] = do.keep(b)
        self._first_base = sweep.base

    def _sweep(self) -> _Sweep:
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

    def _linear(self, begin: int, end: int, after: Array, sweep: _Sweep) -> Made:
        """Layers begin - 1 down to `end`, or to an earlier one, under the potential and scale of layer `begin`."""
        layer, stop = self._plan[begin], sweep.stop
        base = self._base(begin - 1, layer.epoch, sweep)
        while end < begin - 1 and self._drifts(base.t, end):
            end += 1
        if stop is None or stop[0].epoch != layer.epoch or np.any(stop[0].scale != layer.scale):
            stop = sweep.stop = (layer, self._do.stop_weights(self._potentials[layer.epoch], layer.scale))
        return self._do.backward(begin, end, base, stop[1], after)

    def _drifts(self, one: int, other: int) -> bool:
        """Whether discounting moves edge weights too far between two actions for one to be a factor of the other."""
        discount = self._do.discount
        return discount != 1.0 and abs(discount**one - discount**other) * self._do.reach > self._do.span.drift

    def _base(self, t: int, epoch: int, sweep: _Sweep) -> Base:
        """Edge weights relative to a potential, of action t or of one that a factor per world edge leads from."""
        if sweep.base is None or sweep.base.epoch != epoch or self._drifts(sweep.base.t, t):
            sweep.base = self._do.base(epoch, t, self._potentials[epoch])
        return sweep.base

    def _log_after(self, t: int, after: Array) -> Array:
        layer = self._plan[t + 1]
        return self._do.log_values(after, self._potentials[layer.epoch], layer.scale)

    def _layer(self, t: int, sweep: _Sweep) -> Array:
        """b_t, kept or made again from the next layer that was kept."""
        if t in self._kept:
            return self._do.fetch(self._kept[t])
        if t in sweep.segment:
            return sweep.segment[t]
        u = next(u for u in range(t, self._product.horizon + 1) if u in self._kept)
        b, own, sweep.segment = self._do.fetch(self._kept[u]), self._sweep(), {}
        while u > t:
            end = u - 1
            while end > t and self._plan[end].plain:
                end -= 1
            for layer in self._linear(u, end, b, own).layers:
                u -= 1
                factor = self._plan[u].factor
                sweep.segment[u] = b = layer if factor is None else self._do.scaled(layer, factor)
        return b

    def _conditional(self, t: int, sweep: _Sweep) -> tuple[Base, Array]:
        """(weights, after): edge e is action t in proportion to weights[e] after[target]."""
        do, layer, after = self._do, self._plan[t], self._layer(t + 1, sweep)
        if not layer.in_log_space:
            return self._base(t, layer.epoch, sweep), after
        value = do.log_values(self._layer(t, sweep), self._potentials[layer.epoch], layer.scale)
        return do.conditional(t, self._log_after(t, after), value), do.ones(t + 1)

    def uses(self, with_entropy: bool = False, starts: Floats | None = None) -> tuple[Array, Array, Any, Floats]:
        """Expected uses of each world edge, plain and discounted, where they were computed; the entropy; rules kept.

        With `starts`, trajectories begin at the start nodes with these weights, and not as the law says.
        """
        do, sweep, t = self._do, self._sweep(), 0
        flow = do.begin(self._starts if starts is None else starts)
        while t < self._product.horizon:
            layer, end = self._plan[t], t + 1
            if layer.in_log_space:
                base, after = self._conditional(t, sweep)
                layers = [do.ones(t), after]
            else:  # as far as layers can go on under the same weights
                base = self._base(t, layer.epoch, sweep)
                last = min(t + do.lookahead, self._product.horizon, t - t % self._together + self._together)
                while end < last and self._plan[end].plain and not self._drifts(base.t, end):
                    end += 1
                layers = [self._layer(s, sweep) for s in range(t, end + 1)]
            do.forward(flow, t, base, layers, layer.factor, with_entropy)
            t = end
        return do.totals(flow)

    def flow(self, with_entropy: bool = False, starts: Floats | None = None) -> messages.Flow:
        counts, discounted, entropy, kept = self.uses(with_entropy, starts)
        starts = self._starts if starts is None else starts
        return messages.Flow(counts, discounted, starts, messages.entropy_of(starts) + entropy, kept)

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
        return starts, messages.as_columns(steps, n)

    def steps(self, n: int, rng: np.random.Generator, column: int = 0) -> tuple[NDArray[np.uint32], list[Any]]:
        """The start nodes of n walkers, and the edges that they take as action 0, 1, ..., where they were chosen."""
        do, sweep = self._do, self._sweep()
        probability: Floats = self._starts if self._starts.ndim == 1 else self._starts[:, column]
        starts = messages.draw_starts(self._product, probability, n, rng)
        node, steps = do.walkers(starts, column), list[Any]()
        for t in range(self._product.horizon):
            base, after = self._conditional(t, sweep)
            taken = do.choose(t, base, after, rng, node)
            if taken is None:
                break
            steps.append(taken)
        return starts, steps


def pass_messages(product: Product, weights: EdgeWeights) -> messages.Messages:
    """Run the backward pass with the cheapest schedule that is exact for this product and discount."""
    if product.timeless(weights.discount):
        return messages.SinglePass(product, weights)
    if product.world.unbounded:
        return messages.HorizonFree(product, weights)
    operations = HostLayers(product, weights)
    require_horizon(product.horizon, 8 * int(product.layer_ends.sum()) / operations.stride)
    return Layered(operations)
