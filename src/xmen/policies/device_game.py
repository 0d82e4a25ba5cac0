"""The operations of `Behaviour` by torch on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from xmen.policies.game import Floats, Index, Occupancy, Stretch
from xmen.product.device.layers import row_operations
from xmen.product.device.plain import Factors, Moves, Rows, row_sums, uniforms
from xmen.product.device.workspace import HEADROOM, free_bytes

if TYPE_CHECKING:
    from xmen.policies.game import Game

Tensor = torch.Tensor

WORKING = 8  # arrays of one number per choice that a layer needs beside what is kept of it


@dataclass
class DeviceFlow:
    """Node probabilities on their way forward, and what came of them so far."""

    here: Tensor
    ended: Tensor
    used: Tensor
    through: Tensor  # what goes through each choice now
    entropy: Tensor


class DeviceGame:
    """One game, moved once. Nothing is written into once it is given away, so threads can share it.

    Two sparse matrices are all there is to expectations and flows: from a choice to its outcomes, and from a node to
    the choices that lead to it. Rows are summed up by one thread each, so that results do not depend on who comes
    first.
    """

    one_sweep = False  # layer after layer: levels would be many small steps

    def __init__(self, game: Game, device: torch.device) -> None:
        self._game, self.device, self._do = game, device, row_operations(device)
        first_choice, first_edge, target, probability = game.graph
        self._first, first_outcome, outcome = map(self._moved, (first_choice, first_edge, target))
        self._outcomes = Rows(first_outcome, outcome, outcome, 0)
        self._probability = torch.as_tensor(probability, device=device)[:, None]
        self._pair = torch.as_tensor(game.pair, device=device)

    def _moved(self, values: Index) -> Tensor:
        return torch.as_tensor(values.view(np.int32), device=self.device)

    @property
    def layer_bytes(self) -> int:
        """The memory that layers may take."""
        return int(HEADROOM * free_bytes(self.device)) - 8 * WORKING * self._game.n_choices

    @cached_property
    def _node(self) -> Tensor:
        """The node of each choice."""
        return self._moved(self._game.node).long()

    @cached_property
    def _ended(self) -> Tensor:
        """1 where a node has no choices, 0 elsewhere."""
        return (self._first[1:] == self._first[:-1]).double()

    @cached_property
    def _numbers(self) -> Tensor:
        return torch.arange(self._game.n_choices, dtype=torch.int32, device=self.device)

    @cached_property
    def _zeros(self) -> Tensor:
        n = max(self._game.n_choices, self._game.product.n_nodes)
        return torch.zeros(n, dtype=torch.float64, device=self.device)

    @cached_property
    def _entering(self) -> tuple[Rows, Tensor]:
        """The choices that lead to each node, and with which probability."""
        order = torch.argsort(self._outcomes.other, stable=True)
        indptr = torch.zeros(self._game.product.n_nodes + 1, dtype=torch.int32, device=self.device)
        indptr[1:] = torch.cumsum(torch.bincount(self._outcomes.other, minlength=len(indptr) - 1), 0)
        choice = self._choice_of_edge[order]
        return Rows(indptr, choice, choice, 0), self._probability[order]

    @property
    def _choice_of_edge(self) -> Tensor:
        counts = self._outcomes.indptr[1:] - self._outcomes.indptr[:-1]
        numbers = torch.arange(len(counts), dtype=torch.int32, device=self.device)
        return torch.repeat_interleave(numbers, counts.long())

    @cached_property
    def _by_pair(self) -> tuple[Tensor, Tensor]:
        """Choices in the order of their state and action, and where each of these ends."""
        world = self._game.product.world
        ends = torch.zeros(world.n_states * world.n_actions + 1, dtype=torch.int64, device=self.device)
        ends[1:] = torch.cumsum(torch.bincount(self._pair, minlength=len(ends) - 1), 0)
        return torch.argsort(self._pair, stable=True), ends

    def array(self, values: Any) -> Tensor:
        if isinstance(values, np.ndarray):
            values = np.array(values, dtype=np.float64)  # torch wants to be able to write into what it is given
        return torch.as_tensor(values, device=self.device)

    def on_host(self, values: Tensor) -> NDArray[Any]:
        numbers: NDArray[Any] = values.cpu().numpy()
        return numbers

    def room(self, n: int) -> Tensor:
        return torch.empty(n, dtype=torch.float64, device=self.device)

    def rewards(self, table: Floats) -> Tensor:
        return self.array(table).reshape(-1)[self._pair]

    def visits(self, used: Tensor) -> Floats:
        order, ends = self._by_pair
        found: Floats = row_sums(used[order][:, None], ends)[:, 0].cpu().numpy()
        return found

    # --- backwards -------------------------------------------------------------------------------------------------

    def _bounds(self, stretch: Stretch) -> Tensor:
        """Where the choices of each node of a stretch begin, counted from those of its first."""
        nodes = stretch.nodes
        first = self._first[nodes.start : nodes.stop + 1]
        return first if nodes.start == 0 else first - first[0]

    def expected(self, stretch: Stretch, after: Tensor, reward: Tensor | None = None) -> Tensor:
        begin, n = int(stretch.choices[0]) if len(stretch.choices) else 0, len(stretch.choices)
        rows = replace(self._outcomes, indptr=self._outcomes.indptr[begin : begin + n + 1])
        plus = self._zeros[:n] if reward is None else reward
        return self._do.products(rows, self._probability, after[:, None], plus[:, None])[:, 0]

    def soften(self, stretch: Stretch, logits: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        return self._do.soften(self._bounds(stretch), logits[:, None], end[:, None])[:, 0], logits

    def mixed(self, stretch: Stretch, shares: Tensor, odds: Tensor, end: Tensor) -> Tensor:
        rows = Rows(self._bounds(stretch), self._numbers, self._numbers, 0)
        ended = end * self._ended[stretch.nodes]
        return self._do.products(rows, shares[:, None], odds[:, None], ended[:, None])[:, 0]

    def best(self, stretch: Stretch, odds: Tensor, tolerance: float) -> Tensor:
        near = torch.full((1,), 1.0 - tolerance, dtype=torch.float64, device=self.device)
        return self._do.best(self._bounds(stretch), odds[:, None], near)[:, 0]

    def only(self, among: Tensor, logits: Tensor) -> Tensor:
        return logits.masked_fill_(~among, -float("inf"))

    # --- forwards --------------------------------------------------------------------------------------------------

    def begin(self, starts: Floats) -> DeviceFlow:
        product = self._game.product
        here, ended = torch.zeros((2, product.n_nodes), dtype=torch.float64, device=self.device)
        here.index_add_(0, self._moved(product.starts), self.array(starts))
        used, through = torch.zeros((2, self._game.n_choices), dtype=torch.float64, device=self.device)
        entropy = torch.zeros((), dtype=torch.float64, device=self.device)
        return DeviceFlow(here, ended, used, through, entropy)

    def push(self, flow: DeviceFlow, stretch: Stretch, shares: Tensor, factor: float, with_entropy: bool) -> None:
        n, (rows, probability) = len(stretch.choices), self._entering
        through = flow.through[:n]  # choices of nodes that are not reached yet stay 0
        torch.mul(flow.here.index_select(0, self._node[:n]), shares, out=through)
        flow.used[:n].add_(through, alpha=factor)
        if with_entropy:
            flow.entropy -= through @ torch.log(torch.where(shares > 0, shares, torch.ones_like(shares)))
        flow.ended.addcmul_(flow.here, self._ended)
        nothing = self._zeros[: rows.n_rows]
        flow.here = self._do.products(rows, probability, flow.through[:, None], nothing[:, None])[:, 0]

    def totals(self, flow: DeviceFlow) -> Occupancy:
        return Occupancy(flow.used, float(flow.entropy), self.on_host(flow.ended), self.on_host(flow.here))

    # --- episodes --------------------------------------------------------------------------------------------------

    def players(self, starts: Index) -> Tensor:
        return self._moved(starts).clone()

    def play(self, players: Tensor, shares: Tensor, rng: np.random.Generator) -> Tensor | None:
        choosing, falling = (uniforms(rng, len(players), self.device) for _ in range(2))
        chosen, rows = players.clone(), Rows(self._first, self._numbers, self._numbers, 0)
        going = self._pick(rows, shares[:, None], choosing, chosen) >= 0
        if not bool(going.any()):
            return None
        there = torch.where(going, chosen, torch.zeros_like(chosen))  # who has arrived looks at the first choice of all
        taken = self._pick(self._outcomes, self._probability, falling, there)
        players.copy_(torch.where(going, there, players))
        return torch.where(going, taken, torch.full_like(taken, -1))

    def _pick(self, rows: Rows, weights: Tensor, uniforms: Tensor, at: Tensor) -> Tensor:
        """The entry of its row that each takes, in proportion to weights; moves `at` to the other end of it."""
        return self._do.choose(Moves(rows, weights, weights, self._undiscounted), self._ones, 0, uniforms, at)

    @cached_property
    def _undiscounted(self) -> Factors:
        return Factors(0.0, 1.0, torch.zeros(2, dtype=torch.float64, device=self.device))

    @cached_property
    def _ones(self) -> Tensor:
        return torch.ones_like(self._zeros)[:, None]

    def played(self, players: Tensor, steps: list[Tensor]) -> tuple[Index, Index]:
        n = len(players)
        columns = torch.stack(steps, dim=1) if steps else torch.empty((n, 0), dtype=torch.int32, device=self.device)
        taken, last = (values.cpu().numpy().view(np.uint32) for values in (columns, players))
        return taken, last
