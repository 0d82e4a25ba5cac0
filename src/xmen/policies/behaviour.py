"""What to do at every node and time, by maximum causal entropy, and what comes of it.

V_t(n) = log sum over choices of exp(gamma^t r + sum over outcomes of T V_{t+1}(n')), and the share of each choice in
it is its probability. What an end is worth says what is promised:

- "sure": 0 where every rule was kept, -inf elsewhere. A choice with an outcome from which nothing is sure is -inf.
- "best": only choices with the largest chance of keeping the rules (within 1e-12) take part; all ends are worth 0.
- "bonus": an end at which every rule was kept is worth `bonus`, others 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np

from xmen.limits import require_horizon
from xmen.policies import sweeps
from xmen.policies.game import Floats, Game, Index

TOLERANCE = 1e-12  # chances of keeping the rules that differ by less are the same
LAYER_BYTES = 1_000_000_000  # above this, layers are kept every so often and made again in between


class Aim(NamedTuple):
    """What a policy promises: the rules surely, as likely as can be, or in return for a bonus."""

    kind: Literal["sure", "best", "bonus"]
    bonus: float = 0.0


SURE, BEST = Aim("sure"), Aim("best")


class Layer(NamedTuple):
    """One number of actions t: value and chance of keeping the rules per node, and the shares of all choices.

    Under "sure" the chance is 1 wherever the value is finite, and is not kept.
    """

    value: Floats
    chance: Floats | None
    shares: Floats


class Occupancy(NamedTuple):
    """Expected discounted uses of each choice, the mean entropy of all choices, and where episodes end.

    `ended`: the probability of ending at each node before `horizon` actions; `last`: of being there after them.
    """

    used: Floats
    entropy: float
    ended: Floats
    last: Floats


class Behaviour:
    """The shares of all choices at every time, for one reward (n_states, n_actions), discount and aim."""

    def __init__(self, game: Game, table: Floats, discount: float, aim: Aim) -> None:
        self.game, self.table, self.discount, self.aim = game, table, discount, aim
        self._reward: Floats = table.reshape(-1)[game.pair]
        self.timeless = game.timeless(discount)
        ends = game.product.layer_ends
        total = 8 * int(ends.sum() + game.first_choice[ends].astype(np.int64).sum())
        self._stride = 1 if total <= LAYER_BYTES else max(2, int(np.sqrt(game.horizon)))
        self._kept: dict[int, Layer] = {}
        self._segment: dict[int, Layer] = {}
        self._order = np.arange(game.product.n_nodes, dtype=np.uint32)
        if self.timeless:
            self._sweep()
        else:
            require_horizon(game.horizon, total / self._stride)
            self._backward()

    @classmethod
    def unrewarded(cls, game: Game, aim: Aim) -> Self:
        """The behaviour where nothing is earned: what can be promised does not depend on rewards."""
        world = game.product.world
        return cls(game, np.zeros((world.n_states, world.n_actions)), 1.0, aim)

    # --- backwards ---------------------------------------------------------------------------------------------

    def _worth(self, won: Floats) -> Floats:
        """The value of ending at each node, where `won` says which have kept the rules."""
        good, bad = (self.aim.bonus, 0.0) if self.aim.kind == "bonus" else (0.0, -np.inf)
        return np.zeros(len(won)) if self.aim.kind == "best" else np.where(won > 0, good, bad)

    @cached_property
    def _won_before(self) -> Floats:
        return self.game.won_before().astype(np.float64)

    @cached_property
    def _worth_before(self) -> Floats:
        return self._worth(self._won_before)

    def _sweep(self) -> None:
        product = self.game.product
        assert product.topological is not None
        order = product.topological[0][::-1].copy()
        won = product.stops.astype(np.float64)
        reward = self._reward * self.discount ** product.depth[self.game.node].astype(np.float64)
        value, shares = np.empty(product.n_nodes), np.empty(self.game.n_choices)
        chance = None if self.aim.kind == "sure" else np.empty(product.n_nodes)
        layer = Layer(value, chance, shares)
        self._fill(order, reward, self._worth(won), won, layer, layer)
        self._kept[0] = layer

    def _backward(self) -> None:
        game = self.game
        won = game.product.accepting.astype(np.float64)
        layer = Layer(self._worth(won), None if self.aim.kind == "sure" else won, np.empty(0))
        self._kept[game.horizon] = layer
        for t in range(game.horizon - 1, -1, -1):
            layer = self._before(t, layer)
            if t % self._stride == 0:
                # With a stride the shares are made again with the layers in between.
                self._kept[t] = layer if self._stride == 1 else layer._replace(shares=np.empty(0))

    def _before(self, t: int, after: Layer) -> Layer:
        """Layer t from layer t + 1."""
        game = self.game
        n = int(game.product.layer_ends[t])
        chance = None if self.aim.kind == "sure" else np.empty(n)
        layer = Layer(np.empty(n), chance, np.empty(int(game.first_choice[n])))
        reward = self._reward if self.discount == 1.0 else self._reward * self.discount**t
        self._fill(self._order[:n], reward, self._worth_before, self._won_before, after, layer)
        return layer

    def _fill(self, order: Index, reward: Floats, end: Floats, won: Floats, after: Layer, out: Layer) -> None:
        game = self.game
        graph = game.graph
        if self.aim.kind == "best":
            sweeps.best_layer(
                order, *graph, reward, end, won, after.value, after.chance, out.value, out.chance, out.shares, TOLERANCE
            )
            return
        if self.timeless:
            sweeps.soft_sweep(order, *graph, reward, end, after.value, out.value, out.shares)
        else:
            sweeps.logit_layer(len(order), *graph, reward, end, after.value, out.value, out.shares)
            np.exp(out.shares, out=out.shares)
            total = np.empty(len(order))
            sweeps.normalise_layer(len(order), game.first_choice, out.shares, total)
            out.value[:] += np.log(total)
        if out.chance is not None:
            sweeps.chance_layer(order, *graph, out.shares, won, after.chance, out.chance)

    def layer(self, t: int) -> Layer:
        """The layer of t actions, kept or made again from the next one that was kept; no shares at t = horizon."""
        if self.timeless:
            return self._kept[0]
        if self._stride == 1 or t == self.game.horizon:
            return self._kept[t]
        segment = self._segment
        if t not in segment:
            begin = t - t % self._stride
            end = min(begin + self._stride, self.game.horizon)
            layer, segment = self._kept[end], {}
            for s in range(end - 1, begin - 1, -1):
                layer = segment[s] = self._before(s, layer)
            self._segment = segment
        return segment[t]

    @cached_property
    def start_values(self) -> Floats:
        """V_0 of each of the product's start nodes."""
        values: Floats = self._first.value[self.game.product.starts]
        return values

    @cached_property
    def start_chances(self) -> Floats:
        """The probability of keeping every rule, from each of the product's start nodes."""
        if self._first.chance is None:
            return np.isfinite(self.start_values).astype(np.float64)
        chances: Floats = self._first.chance[self.game.product.starts]
        return chances

    @property
    def _first(self) -> Layer:
        return self._kept[0]

    # --- forwards ----------------------------------------------------------------------------------------------

    def occupancy(self, starts: Floats, with_entropy: bool = False, discount: float | None = None) -> Occupancy:
        """What happens from start nodes with these probabilities; uses are counted with the reward's own discount."""
        product, discount = self.game.product, self.discount if discount is None else discount
        if not self.timeless:
            return push_forward(self.game, lambda t: self.layer(t).shares, discount, starts, with_entropy)
        assert product.topological is not None
        here, ended, used = np.zeros(product.n_nodes), np.zeros(product.n_nodes), np.zeros(self.game.n_choices)
        np.add.at(here, product.starts, starts)
        order, shares = product.topological[0], self._first.shares
        entropy = sweeps.forward_layer(order, *self.game.graph, shares, here, here, used, 1.0, ended, with_entropy)
        used *= discount ** product.depth[self.game.node].astype(np.float64)
        return Occupancy(used, float(entropy), ended, np.zeros(product.n_nodes))

    def visits(self, occupancy: Occupancy) -> Floats:
        """Expected discounted uses of each state and action, shape (n_states, n_actions)."""
        flat = np.bincount(self.game.pair, weights=occupancy.used, minlength=self.table.size).astype(np.float64)
        return flat.reshape(self.table.shape)

    def state_visits(self, starts: Floats) -> Floats:
        """Expected number of positions at each state, ends included, shape (n_states,)."""
        found = self.occupancy(starts, discount=1.0)
        visits: Floats = self.visits(found).sum(axis=1)
        visits += np.bincount(self.game.product.state, weights=found.ended + found.last, minlength=len(visits))
        return visits


def push_forward(
    game: Game, shares_at: Callable[[int], Floats], discount: float, starts: Floats, with_entropy: bool = False
) -> Occupancy:
    """What happens from start nodes with these probabilities when action t follows shares_at(t), for every t."""
    product = game.product
    here, ended, used = np.zeros(product.n_nodes), np.zeros(product.n_nodes), np.zeros(game.n_choices)
    np.add.at(here, product.starts, starts)
    order, entropy = np.arange(product.n_nodes, dtype=np.uint32), 0.0
    for t in range(game.horizon):
        there, reached = np.zeros(product.n_nodes), order[: product.layer_ends[t]]
        entropy += sweeps.forward_layer(
            reached, *game.graph, shares_at(t), here, there, used, discount**t, ended, with_entropy
        )
        here = there
    return Occupancy(used, float(entropy), ended, here)
