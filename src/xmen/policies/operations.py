"""The array operations that a policy's values, choices and episodes are made of.

`Behaviour` says what is computed; who carries it out is here: compiled loops on the host (`host_game`), or torch on a
device (`device_game`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = TypeVar("Array")
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.uint32]


class Stretch(NamedTuple):
    """Nodes that are worked out together, and their choices one after the other.

    The choices of the i-th node are the first[i]-th to the first[i + 1]-th of these. Nodes are a slice, except where
    one sweep serves all times: then they are a level, whose edges lead to other levels.
    """

    nodes: Any  # a slice, or an array of numbers
    choices: Index
    first: Index


class Occupancy(NamedTuple):
    """Expected discounted uses of each choice, the mean entropy of all choices, and where episodes end.

    `ended`: the probability of ending at each node before `horizon` actions; `last`: of being there after them.
    """

    used: Any  # where it was counted
    entropy: float
    ended: Floats
    last: Floats


class GameOperations(Protocol[Array]):
    """What `Behaviour` asks for. Arrays have a number per node or per choice, and stay where they are."""

    one_sweep: bool  # whether a game on which time plays no role is done once for all times

    @property
    def layer_bytes(self) -> int:
        """The memory that layers may take; above it they are kept every so often, and made again in between."""

    def array(self, values: Any) -> Array:
        """Numbers of the host, moved to where the others are."""

    def on_host(self, values: Array) -> NDArray[Any]:
        """All numbers, on the host."""

    def room(self, n: int) -> Array:
        """n numbers that are not set yet."""

    def rewards(self, table: Floats) -> Array:
        """The reward of each choice, from a table (n_states, n_actions)."""

    def visits(self, used: Array) -> Floats:
        """The sum over the choices of each state and action, on the host; shape (n_states * n_actions,)."""

    def expected(self, stretch: Stretch, after: Array, reward: Array | None = None) -> Array:
        """The reward of each choice plus the expectation of `after` over its outcomes; -inf if one outcome is."""

    def soften(self, stretch: Stretch, logits: Array, end: Array) -> tuple[Array, Array]:
        """log sum exp over the choices of each node, and the share of each choice in it; `logits` are used up.

        Nodes without choices get end[n].
        """

    def mixed(self, stretch: Stretch, shares: Array, odds: Array, end: Array) -> Array:
        """The mean of `odds` when choices are made by `shares`; end[n] where there are none."""

    def best(self, stretch: Stretch, odds: Array, tolerance: float) -> Any:
        """Which choices have the largest odds of their node, or less by at most this part of them."""

    def only(self, among: Any, logits: Array) -> Array:
        """The logits with -inf in place of what is not among these."""

    def begin(self, starts: Floats) -> Any:
        """A flow that begins at the product's start nodes with these probabilities."""

    def push(self, flow: Any, stretch: Stretch, shares: Array, factor: float, with_entropy: bool) -> None:
        """Move what is at these nodes one action on."""

    def totals(self, flow: Any) -> Occupancy:
        """What came of a flow."""

    def players(self, starts: Index) -> Any:
        """Episodes at these nodes."""

    def play(self, players: Any, shares: Array, rng: np.random.Generator) -> Any:
        """One action of each episode: the product edges they take. None when nobody moves any more."""

    def played(self, players: Any, steps: list[Any]) -> tuple[Index, Index]:
        """The edges of all steps, one row per episode, and the nodes in which episodes are; on the host."""
