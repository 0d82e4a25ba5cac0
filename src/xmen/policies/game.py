"""The product as a game against chance: at a node the agent makes a choice, and chance picks one of its outcomes.

A choice is an action at a node; its outcomes are the product edges with that action, which stand one after the other
because world edges are sorted by (source, action, target).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xmen.policies.host_game import HostGame
from xmen.policies.operations import Bools, Floats, Index, Stretch
from xmen.product.graph import Product
from xmen.worlds.kernels import UNREACHABLE, distance_to

if TYPE_CHECKING:
    from torch import device as Device

    from xmen.policies.operations import GameOperations


@dataclass(frozen=True)
class Game:
    """Node n has the choices first_choice[n] to first_choice[n + 1], choice c the edges first_edge[c] to
    first_edge[c + 1].

    An episode ends at a node without choices, and after `horizon` actions.
    """

    product: Product
    first_choice: Index  # (n_nodes + 1,)
    first_edge: Index  # (n_choices + 1,)
    pair: NDArray[np.int64]  # (n_choices,) state * n_actions + action
    probability: Floats  # (n_edges,)
    device: Device | None = None  # where policies are worked out; None is compiled loops on the host

    @cached_property
    def operations(self) -> GameOperations[Any]:
        """Who works out policies: compiled loops, or a device, to which the game is moved once."""
        if self.device is None:
            return HostGame(self)
        from xmen.policies.device_game import DeviceGame

        return DeviceGame(self, self.device)

    @cached_property
    def _numbers(self) -> Index:
        return np.arange(self.n_choices, dtype=np.uint32)

    def stretch(self, begin: int, end: int) -> Stretch:
        """The nodes begin to end, with their choices."""
        first = self.first_choice[begin : end + 1]
        return Stretch(
            slice(begin, end), self._numbers[first[0] : first[-1]], first if begin == 0 else first - first[0]
        )

    @cached_property
    def levels(self) -> list[Stretch]:
        """On a graph without cycles: all nodes in stretches, each with edges into those before it alone."""
        assert self.product.topological is not None
        longest, n_choices = self.product.topological[1], counts(self.first_choice)
        order = np.argsort(-longest, kind="stable").astype(np.uint32)
        levels = np.split(order, np.flatnonzero(np.diff(-longest[order])) + 1)
        found = []
        for nodes in levels:
            first = np.concatenate([[0], np.cumsum(n_choices[nodes])])
            start = np.repeat(self.first_choice[nodes] - first[:-1], n_choices[nodes])
            found.append(Stretch(nodes, (start + np.arange(first[-1])).astype(np.uint32), first.astype(np.uint32)))
        return found

    @property
    def n_choices(self) -> int:
        """The number of choices of all nodes together."""
        return len(self.pair)

    @property
    def horizon(self) -> int:
        """The largest number of actions of an episode."""
        return self.product.horizon

    @property
    def graph(self) -> tuple[Index, Index, Index, Floats]:
        """What compiled loops read: first_choice, first_edge, the target and the probability of each edge."""
        return self.first_choice, self.first_edge, self.product.target, self.probability

    def choices_of(self, node: int) -> range:
        """The choices of a node."""
        return range(int(self.first_choice[node]), int(self.first_choice[node + 1]))

    @cached_property
    def action(self) -> NDArray[np.int64]:
        """The action of each choice."""
        return self.pair % self.product.world.n_actions

    @cached_property
    def node(self) -> Index:
        """The node of each choice."""
        nodes = np.arange(self.product.n_nodes, dtype=np.uint32)
        return np.repeat(nodes, counts(self.first_choice))

    @cached_property
    def hopeful(self) -> Bools:
        """The nodes from which every rule can still be kept, with luck and if there is time."""
        source = np.repeat(np.arange(self.product.n_nodes, dtype=np.uint32), counts(self.product.indptr))
        found: Bools = distance_to(self.product.accepting, source, self.product.target) < UNREACHABLE
        return found

    @cached_property
    def start_probability(self) -> Floats:
        """The world's probability of each of the product's start nodes."""
        product = self.product
        chances: Floats = product.world.start[product.state[product.starts]]
        return chances

    def won_before(self) -> Bools:
        """Where an episode that ends before its `horizon` actions are used up has kept every rule, and arrived."""
        product = self.product
        return product.accepting if not product.fixed_length else np.zeros(product.n_nodes, dtype=np.bool_)

    def timeless(self, discount: float) -> bool:
        """Whether one value per node is enough, whatever the number of actions before it."""
        return self.product.timeless(discount)


def counts(first: Index) -> NDArray[np.int64]:
    """How many belong to each, where those of i are first[i] to first[i + 1]."""
    ends = first.astype(np.int64)
    return ends[1:] - ends[:-1]


def game_of(product: Product, device: Device | None = None) -> Game:
    """The choices of a product."""
    world = product.world
    source = np.repeat(np.arange(product.n_nodes, dtype=np.int64), counts(product.indptr))
    key = source * world.n_actions + world.action[product.edge]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.int64)
    nodes = source[first]
    return Game(
        product=product,
        first_choice=np.searchsorted(nodes, np.arange(product.n_nodes + 1)).astype(np.uint32),
        first_edge=np.append(first, len(key)).astype(np.uint32),
        pair=product.state[nodes].astype(np.int64) * world.n_actions + key[first] % world.n_actions,
        probability=world.probability[product.edge],
        device=device,
    )
