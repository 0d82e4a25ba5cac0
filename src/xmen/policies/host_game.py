"""The operations of `Behaviour` by compiled loops on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xmen.policies import sweeps
from xmen.policies.operations import Bools, Floats, Index, Occupancy, Stretch
from xmen.policies.sweeps import NO_EDGE
from xmen.product.messages import as_columns

if TYPE_CHECKING:
    from xmen.policies.game import Game

LAYER_BYTES = 1_000_000_000


@dataclass
class HostFlow:
    """Node probabilities on their way forward, and what came of them so far."""

    here: Floats
    ended: Floats
    used: Floats
    entropy: float = 0.0


class HostGame:
    """One game. Nothing is written into once it is given away, so threads can share it."""

    one_sweep = True

    def __init__(self, game: Game) -> None:
        self._game = game

    @property
    def layer_bytes(self) -> int:
        """The memory that layers may take."""
        return LAYER_BYTES

    def array(self, values: Any) -> Floats:
        return np.asarray(values, dtype=np.float64)

    def on_host(self, values: Floats) -> Floats:
        return values

    def room(self, n: int) -> Floats:
        return np.empty(n)

    def rewards(self, table: Floats) -> Floats:
        found: Floats = table.reshape(-1)[self._game.pair]
        return found

    def visits(self, used: Floats) -> Floats:
        world = self._game.product.world
        flat = np.bincount(self._game.pair, weights=used, minlength=world.n_states * world.n_actions)
        return flat.astype(np.float64)

    def expected(self, stretch: Stretch, after: Floats, reward: Floats | None = None) -> Floats:
        _, first_edge, target, probability = self._game.graph
        out = np.zeros(len(stretch.choices)) if reward is None else reward.copy()
        sweeps.add_expected(stretch.choices, first_edge, target, probability, after, out)
        return out

    def soften(self, stretch: Stretch, logits: Floats, end: Floats) -> tuple[Floats, Floats]:
        value, total = np.empty((2, len(end)))
        sweeps.centre(stretch.first, logits, end, value)
        np.exp(logits, out=logits)  # all of a layer at once: a quarter of the time of one after the other
        sweeps.normalise(stretch.first, logits, total)
        value += np.log(total)
        return value, logits

    def mixed(self, stretch: Stretch, shares: Floats, odds: Floats, end: Floats) -> Floats:
        out = np.empty(len(end))
        sweeps.mixed(stretch.first, shares, odds, end, out)
        return out

    def best(self, stretch: Stretch, odds: Floats, tolerance: float) -> Bools:
        among = np.empty(len(odds), dtype=np.bool_)
        sweeps.best(stretch.first, odds, tolerance, among)
        return among

    def only(self, among: Bools, logits: Floats) -> Floats:
        logits[~among] = -np.inf
        return logits

    def begin(self, starts: Floats) -> HostFlow:
        product = self._game.product
        flow = HostFlow(np.zeros(product.n_nodes), np.zeros(product.n_nodes), np.zeros(self._game.n_choices))
        np.add.at(flow.here, product.starts, starts)
        return flow

    def push(self, flow: HostFlow, stretch: Stretch, shares: Floats, factor: float, with_entropy: bool) -> None:
        level = not isinstance(stretch.nodes, slice)
        nodes = stretch.nodes if level else np.arange(stretch.nodes.stop, dtype=np.uint32)
        there = flow.here if level else np.zeros_like(flow.here)
        flow.entropy += sweeps.push(
            nodes,
            *self._game.graph,
            shares,
            flow.here,
            there,
            flow.used,
            factor,
            flow.ended,
            with_entropy,
        )
        flow.here = there
        if level:
            there[nodes] = 0.0

    def totals(self, flow: HostFlow) -> Occupancy:
        return Occupancy(flow.used, float(flow.entropy), flow.ended, flow.here)

    def players(self, starts: Index) -> Index:
        return starts.copy()

    def play(self, players: Index, shares: Floats, rng: np.random.Generator) -> Index | None:
        n = len(players)
        taken: Index = sweeps.play(*self._game.graph, shares, rng.random(n), rng.random(n), players)
        return None if np.all(taken == NO_EDGE) else taken

    def played(self, players: Index, steps: list[Index]) -> tuple[Index, Index]:
        return as_columns(steps, len(players)), players
