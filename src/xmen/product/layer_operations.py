"""The array operations that dynamic programming over layers is made of.

`Layered` says what is computed; who carries it out is here: compiled loops on the host (`host_layers`), or torch on a
device (`device_layers`). A device does well when it is asked for many layers at once and looked at rarely, so the
operations take stretches of layers that share their potential, their scale and their edge weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmen.worlds.edge_weights import Floats

Array = TypeVar("Array")

SIDE_BY_SIDE = 16  # rewards that are answered together; more go one batch after the other

Nodes = NDArray[np.uint32]
Scale = float | Floats  # one number, or one per column where several rewards are answered together


class Span(NamedTuple):
    """How far from the ends of its numbers a precision keeps layers and edge weights; `layered` says why."""

    small: float  # layers below this, and above 1 / small, are brought back
    drift: float  # how far (in nats) discounting may move edge weights before they are made anew
    most: float  # the largest log-weight of an edge: larger ones are cut off


DOUBLE = Span(1e-120, 50.0, 640.0)
SINGLE = Span(1e-15, 5.0, 78.0)


class Base(NamedTuple, Generic[Array]):
    """Edge weights relative to a potential as of action t; other actions differ by a factor per world edge."""

    epoch: int  # which potential
    t: int
    weights: Array
    room: list[Array]  # where the weights of other actions are made; every sweep has its own


class Made(NamedTuple, Generic[Array]):
    """Layers b_t before they are scaled, with the least and the largest nonzero value of each (in each column)."""

    layers: Sequence[Array]
    least: Any
    largest: Any


class LayerOperations(Protocol[Array]):
    """What `Layered` asks for. Arrays have one number per node, or one row of columns, and stay where they are."""

    span: Span
    lookahead: int  # so many layers are made before their ranges are looked at
    stride: int  # every so many layers are kept, the others made again; 1 keeps all
    discount: float
    reach: float  # the largest reward, as an absolute value

    def require_memory(self) -> None:
        """Refuse, before any is taken, where layers need more memory than there is."""

    def last_layer(self) -> Array:
        """b after `horizon` actions: 1 where trajectories may end."""

    def first_potential(self) -> Array:
        """The log-weight of all shortest completions of each node."""

    def renew(self, t: int, potential: Array, value: Array) -> tuple[Array, Array]:
        """The potential with these values where they are finite, and b_t under it: 1 there, 0 elsewhere."""

    def stop_weights(self, potential: Array, scale: Scale) -> Array:
        """exp(-potential - scale) where trajectories may end before `horizon` actions, 0 elsewhere."""

    def base(self, epoch: int, t: int, potential: Array) -> Base[Array]:
        """Edge weights of action t relative to a potential, cut off at exp(span.most)."""

    def backward(self, begin: int, end: int, base: Base[Array], stop: Array, after: Array) -> Made[Array]:
        """Layers begin - 1 .. end, each from the one after it, the first of them from `after`."""

    def scaled(self, layer: Array, factor: Scale) -> Array:
        """The layer times a factor."""

    def keep(self, t: int, layer: Array) -> Any:
        """The layer where it stays until it is fetched."""

    def fetch(self, kept: Any) -> Array:
        """A layer that was kept."""

    def log_values(self, layer: Array, potential: Array, scale: Scale) -> Array:
        """log b + potential + scale, for as many nodes as the layer has."""

    def log_layer(self, t: int, log_after: Array) -> Array:
        """One layer in log space, from the log-weights of all completions after it."""

    def conditional(self, t: int, log_after: Array, log_value: Array) -> Base[Array]:
        """The probability of each edge as action t given its node, from the log-weights before and after it."""

    def ones(self, t: int) -> Array:
        """1 for every node of layer t."""

    def begin(self, starts: Floats) -> Any:
        """A flow that begins at the product's start nodes with these probabilities."""

    def forward(
        self, flow: Any, t: int, base: Base[Array], layers: Sequence[Array], factor: Scale | None, with_entropy: bool
    ) -> None:
        """Move a flow on, from layer t through as many layers as are given with it: b_t, b_{t+1}, ...

        Edge e is taken in proportion to weight[e] b[target]; `factor` is that of b_t.
        """

    def totals(self, flow: Any) -> tuple[Array, Array, Any]:
        """Expected uses of each world edge, plain and discounted; the entropy of all choices, if it was asked for."""

    def choose(self, t: int, base: Base[Array], after: Array, rng: np.random.Generator, node: Any) -> Any:
        """The edge that each walker takes as action t; nodes are moved in place. None when nobody moves any more."""

    def walkers(self, starts: Nodes, column: int) -> Any:
        """Walkers at these nodes, under one of the columns."""

    def best_layer(self, t: int, after: Array) -> tuple[Array, Any]:
        """The largest log-weight of a completion from each node of layer t, and which edge of the node attains it."""

    def best_last(self) -> Array:
        """The same after `horizon` actions: 0 where trajectories may end, -inf elsewhere."""

    def values(self, array: Array, nodes: Nodes) -> Floats:
        """The numbers at some nodes, on the host."""

    def on_host(self, array: Any) -> NDArray[Any]:
        """All numbers, on the host."""
