"""The product as a game against chance: at a node the agent makes a choice, and chance picks one of its outcomes.

A choice is an action at a node; its outcomes are the product edges with that action, which stand one after the other
because world edges are sorted by (source, action, target).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.product.graph import Product
from xmen.product.messages import NO_EDGE
from xmen.product.sweeps import choose_edges, row_total

if TYPE_CHECKING:
    from torch import device as Device


# ---- Compiled loops over a game, whose `graph` is (first_choice, first_edge, target, probability).
#
# Indices that loops read are unsigned 32-bit, as in `product.sweeps`.


@compiled
def add_rows(rows: Any, first: Any, weights: Any, values: Any, target: Any, out: Any) -> None:
    """out += the sum of weight * values[target] over the entries of each of these rows; -inf if one value is."""
    for i in range(len(rows)):
        row = rows[i]
        out[i] += row_total(weights, values, target, first[row], first[row + 1])


@compiled
def centre(first: Any, logits: Any, end: Any, largest: Any) -> None:
    """The largest logit of each row, or end[n] where it has none, and logits minus it; -inf where all are."""
    for node in range(len(first) - 1):
        begin, finish = first[node], first[node + 1]
        if begin == finish:
            largest[node] = end[node]
            continue
        most = -np.inf
        for c in range(begin, finish):
            most = max(most, logits[c])
        largest[node] = most
        for c in range(begin, finish):
            logits[c] = logits[c] - most if most > -np.inf else -np.inf


@compiled
def normalise(first: Any, shares: Any, total: Any) -> None:
    """Shares of each row are divided by their total; 1 where there is none."""
    for node in range(len(first) - 1):
        begin, finish = first[node], first[node + 1]
        sum_of_shares = 0.0
        for c in range(begin, finish):
            sum_of_shares += shares[c]
        total[node] = sum_of_shares if sum_of_shares > 0.0 else 1.0
        inverse = 1.0 / total[node]
        for c in range(begin, finish):
            shares[c] *= inverse


@compiled
def best_choices(first: Any, odds: Any, tolerance: float) -> Any:
    """Which choices have the largest odds of their row, or less by at most this part of them."""
    among = np.empty(len(odds), dtype=np.bool_)
    for node in range(len(first) - 1):
        most = 0.0
        for c in range(first[node], first[node + 1]):
            most = max(most, odds[c])
        for c in range(first[node], first[node + 1]):
            among[c] = odds[c] >= most * (1.0 - tolerance)
    return among


@compiled
def push_layer(
    order: Any, graph: Any, shares: Any, here: Any, there: Any, used: Any, factor: float, ended: Any, with_entropy: bool
) -> Any:
    """Push node probabilities one action on, into `there`, `used` (times factor), `ended`; the entropy of choices."""
    first_choice, first_edge, target, probability = graph
    entropy = 0.0
    for i in range(len(order)):
        node = order[i]
        mass = here[node]
        if mass == 0.0:
            continue
        begin, finish = first_choice[node], first_choice[node + 1]
        if begin == finish:
            ended[node] += mass
            continue
        for c in range(begin, finish):
            share = shares[c]
            if share == 0.0:
                continue
            flow = mass * share
            used[c] += factor * flow
            if with_entropy:
                entropy -= flow * np.log(share)
            for e in range(first_edge[c], first_edge[c + 1]):
                there[target[e]] += flow * probability[e]
    return entropy


# ---- The game, and the operations that a policy's values, choices and episodes are made of: `Behaviour` says which

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.uint32]
Numbers: TypeAlias = Any
"""One number per node or per choice, where the game is worked out: arrays of the host, or tensors on a device."""

LAYER_BYTES = 1_000_000_000


class Stretch(NamedTuple):
    """Nodes that are worked out together, and their choices one after the other."""

    nodes: Any  # a slice; where one sweep serves all times, an array: a level, whose edges lead to other levels
    choices: Index
    first: Index  # of these choices, that each node begins with


@dataclass
class Occupancy:
    """Node probabilities on their way forward, and what came of them so far."""

    here: Numbers  # of being at each node; in the end, after `horizon` actions
    ended: Numbers  # of having ended at each node
    used: Numbers  # expected discounted uses of each choice
    entropy: Any = 0.0  # the mean entropy of all choices


class Game:
    """Node n has the choices first_choice[n] to first_choice[n + 1], choice c the edges first_edge[c] to
    first_edge[c + 1].

    An episode ends at a node without choices, and after `horizon` actions. The operations are compiled loops here, and
    torch in `DeviceGame`. Nothing is written into once it is given away, so threads can share it.
    """

    device: "Device | None" = None
    one_sweep = True  # a game on which time plays no role is done once for all times

    def __init__(self, product: Product) -> None:
        self.product, world, self.horizon = product, product.world, product.horizon
        source = product.sources().astype(np.int64)
        key = source * world.n_actions + world.action[product.edge]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.int64)
        nodes = source[first]
        self.first_choice = np.searchsorted(nodes, np.arange(product.n_nodes + 1)).astype(np.uint32)
        self.first_edge = np.append(first, len(key)).astype(np.uint32)
        self.probability: Floats = world.probability[product.edge]
        self.graph = self.first_choice, self.first_edge, product.target, self.probability
        self.action = key[first] % world.n_actions  # of each choice
        self.pair = product.state[nodes].astype(np.int64) * world.n_actions + self.action
        self.node = nodes.astype(np.uint32)  # of each choice
        self.n_choices = len(nodes)
        self.start_probability: Floats = world.start[product.state[product.starts]]  # of each start node

    @cached_property
    def numbers(self) -> Numbers:
        """0, 1, 2 and so on, for each choice."""
        return np.arange(self.n_choices, dtype=np.uint32)

    def stretch(self, begin: int, end: int) -> Stretch:
        """The nodes begin to end, with their choices."""
        first = self.first_choice[begin : end + 1]
        choices = np.arange(first[0], first[-1], dtype=np.uint32) if begin else self.numbers[: first[-1]]
        return Stretch(slice(begin, end), choices, first if begin == 0 else first - first[0])

    @cached_property
    def levels(self) -> list[Stretch]:
        """On a graph without cycles: all nodes in stretches, each with edges into those before it alone."""
        assert self.product.topological is not None
        longest, n_choices = self.product.topological[1], np.diff(self.first_choice).astype(np.int64)
        order = np.argsort(-longest, kind="stable").astype(np.uint32)
        found = []
        for nodes in np.split(order, np.flatnonzero(np.diff(-longest[order])) + 1):
            first = np.concatenate([[0], np.cumsum(n_choices[nodes])])
            start = np.repeat(self.first_choice[nodes] - first[:-1], n_choices[nodes])
            found.append(Stretch(nodes, (start + np.arange(first[-1])).astype(np.uint32), first.astype(np.uint32)))
        return found

    def choices_of(self, node: int) -> range:
        return range(int(self.first_choice[node]), int(self.first_choice[node + 1]))

    def outcomes(self, choice: int) -> list[int]:
        """The nodes to which chance may let a choice lead."""
        return list(self.product.target[self.first_edge[choice] : self.first_edge[choice + 1]].tolist())

    @property
    def layer_bytes(self) -> int:
        """The memory that layers may take; above it they are kept every so often, and made again in between."""
        return LAYER_BYTES

    def array(self, values: Any) -> Numbers:
        """Numbers of the host, moved to where the others are."""
        return np.asarray(values, dtype=np.float64)

    def on_host(self, values: Numbers) -> NDArray[Any]:
        """All numbers, on the host."""
        return np.asarray(values)

    def rewards(self, table: Floats) -> Numbers:
        """The reward of each choice, from a table (n_states, n_actions)."""
        return table.reshape(-1)[self.pair]

    def visits(self, used: Numbers) -> Floats:
        """The sum over the choices of each state and action, on the host; shape (n_states, n_actions)."""
        shape = self.product.world.n_states, self.product.world.n_actions
        return np.bincount(self.pair, weights=used, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)

    # --- backwards -------------------------------------------------------------------------------------------------

    def expected(self, stretch: Stretch, after: Numbers, reward: Numbers | None = None) -> Numbers:
        """The reward of each choice plus the expectation of `after` over its outcomes; -inf if one outcome is."""
        out = np.zeros(len(stretch.choices)) if reward is None else reward.copy()
        add_rows(stretch.choices, self.first_edge, self.probability, after, self.product.target, out)
        return out

    def soften(self, stretch: Stretch, logits: Numbers, end: Numbers) -> tuple[Numbers, Numbers]:
        """log sum exp over each node's choices, end[n] where there are none, and their shares; `logits` are used up."""
        value, total = np.empty((2, len(end)))
        centre(stretch.first, logits, end, value)
        np.exp(logits, out=logits)  # all of a layer at once: a quarter of the time of one after the other
        normalise(stretch.first, logits, total)
        value += np.log(total)
        return value, logits

    def mixed(self, stretch: Stretch, shares: Numbers, odds: Numbers, end: Numbers) -> Numbers:
        """The mean of `odds` when choices are made by `shares`; end[n] where there are none."""
        out = np.where(stretch.first[1:] == stretch.first[:-1], end, 0.0)
        add_rows(np.arange(len(out), dtype=np.uint32), stretch.first, shares, odds, self.numbers, out)
        return out

    def best(self, stretch: Stretch, odds: Numbers, tolerance: float) -> Any:
        """Which choices have the largest odds of their node, or less by at most this part of them."""
        return best_choices(stretch.first, odds, tolerance)

    # --- forwards --------------------------------------------------------------------------------------------------

    def begin(self, starts: Floats) -> Occupancy:
        """A flow that begins at the product's start nodes with these probabilities."""
        here, ended = np.zeros((2, self.product.n_nodes))
        np.add.at(here, self.product.starts, starts)
        return Occupancy(here, ended, np.zeros(self.n_choices))

    def push(self, flow: Occupancy, stretch: Stretch, shares: Numbers, factor: float, with_entropy: bool) -> None:
        """Move what is at these nodes one action on."""
        level = not isinstance(stretch.nodes, slice)
        nodes = stretch.nodes if level else np.arange(stretch.nodes.stop, dtype=np.uint32)
        there = flow.here if level else np.zeros_like(flow.here)
        counted = flow.used, factor, flow.ended, with_entropy
        flow.entropy += push_layer(nodes, self.graph, shares, flow.here, there, *counted)
        flow.here = there
        if level:
            there[nodes] = 0.0

    # --- episodes --------------------------------------------------------------------------------------------------

    def players(self, starts: Index) -> Numbers:
        """Episodes at these nodes."""
        return starts.copy()

    def play(self, players: Numbers, shares: Numbers, rng: np.random.Generator) -> Numbers | None:
        """One action of each episode: the product edges they take. None when nobody moves any more."""
        n, (first_choice, first_edge, target, probability) = len(players), self.graph
        choosing, falling = rng.random(n), rng.random(n)
        chosen = choose_edges(first_choice, self.numbers, shares, self._ones, choosing, players)
        going = np.flatnonzero(chosen != NO_EDGE)
        if not len(going):
            return None
        there = chosen[going]
        chosen[going] = choose_edges(first_edge, target, probability, self._ones, falling[going], there)
        players[going] = there
        return chosen

    @cached_property
    def _ones(self) -> Numbers:
        return self.array(np.ones(max(self.n_choices, self.product.n_nodes)))


def game_of(product: Product, device: "Device | None" = None) -> Game:
    """The choices of a product; policies are worked out by compiled loops, or on a device, to which it is moved."""
    if device is None:
        return Game(product)
    from xmen.policies.device_game import DeviceGame

    return DeviceGame(product, device)
