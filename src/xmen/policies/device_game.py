"""A game whose policies are worked out by torch on a device."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from xmen.policies.game import Floats, Game, Index, Occupancy, Stretch
from xmen.product.device.layers import row_operations
from xmen.product.device.plain import Factors, Moves, Rows, along, bounds, row_sums, uniforms
from xmen.product.device.workspace import HEADROOM, free_bytes
from xmen.product.graph import Product

Tensor = torch.Tensor

WORKING = 8  # arrays of one number per choice that a layer needs beside what is kept of it


class DeviceGame(Game):
    """Expectations and flows by two sparse matrices, moved once: from choices to outcomes, and to nodes from choices.

    Rows are summed up by one thread each, so that results do not depend on who comes first.
    """

    device: torch.device
    one_sweep = False  # layer after layer: levels would be many small steps

    def __init__(self, product: Product, device: torch.device) -> None:
        super().__init__(product)
        self.device, self._do = device, row_operations(device)
        self._first, first_outcome, outcome = map(self._moved, self.graph[:3])
        self._outcomes = Rows(first_outcome, outcome, outcome)
        self._probability = torch.as_tensor(self.probability, device=device)[:, None]
        self._pair = torch.as_tensor(self.pair, device=device)
        self._ended = (self._first[1:] == self._first[:-1]).double()  # 1 where a node has no choices, 0 elsewhere
        self._numbers = torch.arange(self.n_choices, dtype=torch.int32, device=device)
        self._zeros = torch.zeros(max(2, self.n_choices, product.n_nodes), dtype=torch.float64, device=device)

    def _moved(self, values: Index) -> Tensor:
        return torch.as_tensor(values.view(np.int32), device=self.device)

    @property
    def layer_bytes(self) -> int:
        return int(HEADROOM * free_bytes(self.device)) - 8 * WORKING * self.n_choices

    @cached_property
    def _entering(self) -> tuple[Tensor, Rows, Tensor]:
        """The node of each choice; the choices that lead to each node, and with which probability."""
        order = torch.argsort(self._outcomes.other, stable=True)
        choice = along(self._outcomes.indptr, self._numbers)[order]
        indptr = bounds(self._outcomes.other, self.product.n_nodes).int()
        return self._moved(self.node).long(), Rows(indptr, choice, choice), self._probability[order]

    @cached_property
    def _by_pair(self) -> tuple[Tensor, Tensor]:
        """Choices in the order of their state and action, and where each of these ends."""
        n_pairs = self.product.world.n_states * self.product.world.n_actions
        return torch.argsort(self._pair, stable=True), bounds(self._pair, n_pairs)

    def array(self, values: Any) -> Tensor:
        if isinstance(values, np.ndarray):
            values = np.array(values, dtype=np.float64)  # torch wants to be able to write into what it is given
        return torch.as_tensor(values, device=self.device)

    def on_host(self, values: Tensor) -> NDArray[Any]:
        return np.asarray(values.cpu().numpy())

    def rewards(self, table: Floats) -> Tensor:
        return self.array(table).reshape(-1)[self._pair]

    def visits(self, used: Tensor) -> Floats:
        order, ends = self._by_pair
        return self.on_host(row_sums(used[order][:, None], ends)).reshape(self.product.world.n_states, -1)

    def _bounds(self, stretch: Stretch) -> Tensor:
        """Where the choices of each node of a stretch begin, counted from those of its first."""
        first = self._first[stretch.nodes.start : stretch.nodes.stop + 1]
        return first if stretch.nodes.start == 0 else first - first[0]

    def expected(self, stretch: Stretch, after: Tensor, reward: Tensor | None = None) -> Tensor:
        begin, n = int(self.first_choice[stretch.nodes.start]), len(stretch.choices)
        rows = replace(self._outcomes, indptr=self._outcomes.indptr[begin : begin + n + 1])
        plus = self._zeros[:n] if reward is None else reward
        return self._do.products(rows, self._probability, after[:, None], plus[:, None])[:, 0]

    def soften(self, stretch: Stretch, logits: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        return self._do.soften(self._bounds(stretch), logits[:, None], end[:, None])[:, 0], logits

    def mixed(self, stretch: Stretch, shares: Tensor, odds: Tensor, end: Tensor) -> Tensor:
        rows = Rows(self._bounds(stretch), self._numbers, self._numbers)
        ended = end * self._ended[stretch.nodes]
        return self._do.products(rows, shares[:, None], odds[:, None], ended[:, None])[:, 0]

    def best(self, stretch: Stretch, odds: Tensor, tolerance: float) -> Tensor:
        near = torch.full((1,), 1.0 - tolerance, dtype=torch.float64, device=self.device)
        return self._do.best(self._bounds(stretch), odds[:, None], near)[:, 0]

    def begin(self, starts: Floats) -> Occupancy:
        here, ended = torch.zeros((2, self.product.n_nodes), dtype=torch.float64, device=self.device)
        here.index_add_(0, self._moved(self.product.starts), self.array(starts))
        return Occupancy(here, ended, torch.zeros(self.n_choices, dtype=torch.float64, device=self.device))

    def push(self, flow: Occupancy, stretch: Stretch, shares: Tensor, factor: float, with_entropy: bool) -> None:
        n, (node, rows, probability) = len(stretch.choices), self._entering
        through = torch.zeros_like(flow.used)  # choices of nodes that are not reached yet stay 0
        torch.mul(flow.here.index_select(0, node[:n]), shares, out=through[:n])
        flow.used.add_(through, alpha=factor)
        if with_entropy:
            flow.entropy = flow.entropy - through[:n] @ torch.log(torch.where(shares > 0, shares, 1.0))
        flow.ended.addcmul_(flow.here, self._ended)
        nothing = self._zeros[: rows.n_rows]
        flow.here = self._do.products(rows, probability, through[:, None], nothing[:, None])[:, 0]

    def players(self, starts: Index) -> Tensor:
        return self._moved(starts).clone()

    def play(self, players: Tensor, shares: Tensor, rng: np.random.Generator) -> Tensor | None:
        choosing, falling = (uniforms(rng, len(players), self.device) for _ in range(2))
        chosen, rows = players.clone(), Rows(self._first, self._numbers, self._numbers)
        going = self._pick(rows, shares[:, None], choosing, chosen) >= 0
        if not bool(going.any()):
            return None
        there = torch.where(going, chosen, torch.zeros_like(chosen))  # who has arrived looks at the first choice of all
        taken = self._pick(self._outcomes, self._probability, falling, there)
        players.copy_(torch.where(going, there, players))
        return torch.where(going, taken, torch.full_like(taken, -1))

    def _pick(self, rows: Rows, weights: Tensor, uniforms: Tensor, at: Tensor) -> Tensor:
        """The entry of its row that each takes, in proportion to weights; moves `at` to the other end of it."""
        undiscounted = Factors(0.0, 1.0, self._zeros[:2])
        return self._do.choose(Moves(rows, weights, weights, undiscounted), self._ones[:, None], 0, uniforms, at)
