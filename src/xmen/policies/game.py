"""The product as a game against chance: at a node the agent makes a choice, and chance picks one of its outcomes.

A choice is an action at a node; its outcomes are the product edges with that action, which stand one after the other
because world edges are sorted by (source, action, target).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.product.graph import Product
from xmen.product.messages import NO_EDGE, as_columns
from xmen.product.sweeps import row_total
from xmen.worlds.kernels import UNREACHABLE, distance_to

if TYPE_CHECKING:
    from torch import device as Device


# ---- Compiled loops over a game: expectations and choices backwards, probabilities forwards, episodes.
#
# Indices that loops read are unsigned 32-bit, as in `product.sweeps`.


@compiled
def add_expected(choices: Any, first_edge: Any, target: Any, probability: Any, after: Any, out: Any) -> None:
    """out += the expectation of `after` over the outcomes of each of these choices, which is -inf if one outcome is."""
    for i in range(len(choices)):
        c = choices[i]
        out[i] += row_total(probability, after, target, first_edge[c], first_edge[c + 1])


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
def mean_odds(first: Any, shares: Any, odds: Any, end: Any, out: Any) -> None:
    """The mean of `odds` over each row when choices are made by `shares`; end[n] where there are none."""
    for node in range(len(first) - 1):
        total = end[node] if first[node] == first[node + 1] else 0.0
        for c in range(first[node], first[node + 1]):
            if shares[c] > 0.0:
                total += shares[c] * odds[c]
        out[node] = total


@compiled
def best_choices(first: Any, odds: Any, tolerance: float, among: Any) -> None:
    """Which choices have the largest odds of their row, or less by at most this part of them."""
    for node in range(len(first) - 1):
        most = 0.0
        for c in range(first[node], first[node + 1]):
            most = max(most, odds[c])
        for c in range(first[node], first[node + 1]):
            among[c] = odds[c] >= most * (1.0 - tolerance)


@compiled
def push_layer(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    shares: Any,
    here: Any,
    there: Any,
    used: Any,
    factor: float,
    ended: Any,
    with_entropy: bool,
) -> Any:
    """Push the probability of each node one action on; returns the mean entropy of the choices, if asked for.

    used (per choice) += factor times what goes through; ended (per node) += what has no choice left.
    """
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


@compiled
def _pick(weights: Any, begin: Any, end: Any, uniform: Any) -> Any:
    """Where in a row of weights, which add up to 1, a uniform number falls; a weight of 0 is never picked."""
    left, chosen = uniform, end
    for i in range(begin, end):
        if weights[i] > 0.0:
            chosen = i
            left -= weights[i]
            if left < 0.0:
                break
    return chosen


@compiled
def play_step(
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    shares: Any,
    choosing: Any,
    falling: Any,
    node: Any,
) -> Any:
    """One action of each episode: the product edge it takes, given two uniform numbers; nodes are moved in place.

    An episode without choices stays where it is, and its edge is the largest unsigned number.
    """
    taken = np.empty(len(node), dtype=np.uint32)
    for i in range(len(node)):
        begin, finish = first_choice[node[i]], first_choice[node[i] + 1]
        if begin == finish:
            taken[i] = NO_EDGE
            continue
        chosen = _pick(shares, begin, finish, choosing[i])
        edge = _pick(probability, first_edge[chosen], first_edge[chosen + 1], falling[i])
        taken[i] = edge
        node[i] = target[edge]
    return taken


# ---- The array operations that a policy's values, choices and episodes are made of: `Behaviour` says which


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


LAYER_BYTES = 1_000_000_000


@dataclass
class HostFlow:
    """Node probabilities on their way forward, and what came of them so far."""

    here: Floats
    ended: Floats
    used: Floats
    entropy: float = 0.0


class HostGame:
    """The operations of one game by compiled loops; `DeviceGame` has the same ones by torch on a device.

    Arrays have a number per node or per choice, and stay where they are. Nothing is written into once it is given
    away, so threads can share it.
    """

    one_sweep = True  # a game on which time plays no role is done once for all times

    def __init__(self, game: Game) -> None:
        self._game = game

    @property
    def layer_bytes(self) -> int:
        """The memory that layers may take; above it they are kept every so often, and made again in between."""
        return LAYER_BYTES

    def array(self, values: Any) -> Floats:
        """Numbers of the host, moved to where the others are."""
        return np.asarray(values, dtype=np.float64)

    def on_host(self, values: Any) -> NDArray[Any]:
        """All numbers, on the host."""
        numbers: NDArray[Any] = values
        return numbers

    def room(self, n: int) -> Floats:
        """n numbers that are not set yet."""
        return np.empty(n)

    def rewards(self, table: Floats) -> Floats:
        """The reward of each choice, from a table (n_states, n_actions)."""
        found: Floats = table.reshape(-1)[self._game.pair]
        return found

    def visits(self, used: Floats) -> Floats:
        """The sum over the choices of each state and action, on the host; shape (n_states * n_actions,)."""
        world = self._game.product.world
        flat = np.bincount(self._game.pair, weights=used, minlength=world.n_states * world.n_actions)
        return flat.astype(np.float64)

    def expected(self, stretch: Stretch, after: Floats, reward: Floats | None = None) -> Floats:
        """The reward of each choice plus the expectation of `after` over its outcomes; -inf if one outcome is."""
        _, first_edge, target, probability = self._game.graph
        out = np.zeros(len(stretch.choices)) if reward is None else reward.copy()
        add_expected(stretch.choices, first_edge, target, probability, after, out)
        return out

    def soften(self, stretch: Stretch, logits: Floats, end: Floats) -> tuple[Floats, Floats]:
        """log sum exp over the choices of each node, and the share of each choice in it; `logits` are used up.

        Nodes without choices get end[n].
        """
        value, total = np.empty((2, len(end)))
        centre(stretch.first, logits, end, value)
        np.exp(logits, out=logits)  # all of a layer at once: a quarter of the time of one after the other
        normalise(stretch.first, logits, total)
        value += np.log(total)
        return value, logits

    def mixed(self, stretch: Stretch, shares: Floats, odds: Floats, end: Floats) -> Floats:
        """The mean of `odds` when choices are made by `shares`; end[n] where there are none."""
        out = np.empty(len(end))
        mean_odds(stretch.first, shares, odds, end, out)
        return out

    def best(self, stretch: Stretch, odds: Floats, tolerance: float) -> Bools:
        """Which choices have the largest odds of their node, or less by at most this part of them."""
        among = np.empty(len(odds), dtype=np.bool_)
        best_choices(stretch.first, odds, tolerance, among)
        return among

    def only(self, among: Bools, logits: Floats) -> Floats:
        """The logits with -inf in place of what is not among these."""
        logits[~among] = -np.inf
        return logits

    def begin(self, starts: Floats) -> HostFlow:
        """A flow that begins at the product's start nodes with these probabilities."""
        product = self._game.product
        flow = HostFlow(np.zeros(product.n_nodes), np.zeros(product.n_nodes), np.zeros(self._game.n_choices))
        np.add.at(flow.here, product.starts, starts)
        return flow

    def push(self, flow: HostFlow, stretch: Stretch, shares: Floats, factor: float, with_entropy: bool) -> None:
        """Move what is at these nodes one action on."""
        level = not isinstance(stretch.nodes, slice)
        nodes = stretch.nodes if level else np.arange(stretch.nodes.stop, dtype=np.uint32)
        there = flow.here if level else np.zeros_like(flow.here)
        graph, counted = self._game.graph, (flow.used, factor, flow.ended, with_entropy)
        flow.entropy += push_layer(nodes, *graph, shares, flow.here, there, *counted)
        flow.here = there
        if level:
            there[nodes] = 0.0

    def totals(self, flow: HostFlow) -> Occupancy:
        """What came of a flow."""
        return Occupancy(flow.used, float(flow.entropy), flow.ended, flow.here)

    def players(self, starts: Index) -> Index:
        """Episodes at these nodes."""
        return starts.copy()

    def play(self, players: Index, shares: Floats, rng: np.random.Generator) -> Index | None:
        """One action of each episode: the product edges they take. None when nobody moves any more."""
        n = len(players)
        taken: Index = play_step(*self._game.graph, shares, rng.random(n), rng.random(n), players)
        return None if np.all(taken == NO_EDGE) else taken

    def played(self, players: Index, steps: list[Index]) -> tuple[Index, Index]:
        """The edges of all steps, one row per episode, and the nodes in which episodes are; on the host."""
        return as_columns(steps, len(players)), players


# ---- The product as a game against chance: at a node the agent makes a choice, and chance picks one of its outcomes


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
    def operations(self) -> HostGame:
        """Who works out policies: compiled loops, or a device, to which the game is moved once."""
        if self.device is None:
            return HostGame(self)
        from xmen.policies.device_game import DeviceGame

        return cast(HostGame, DeviceGame(self, self.device))

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
