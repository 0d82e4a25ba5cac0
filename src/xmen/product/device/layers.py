"""The operations of `Layered` by torch on a device: one column per reward, many layers per look at them."""

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from xmen.product.device import kernels
from xmen.product.device.kernels import AVAILABLE
from xmen.product.device.plain import NEVER, SLOTS, DeviceGraph, Moves, PlainRows, Rows, uniforms
from xmen.product.device.workspace import LOOKAHEAD, Workspaces
from xmen.product.graph import Product
from xmen.product.layered import DOUBLE, SINGLE, Base, HostLayers, Made, Nodes, Passing, Scale
from xmen.worlds.walks import EdgeWeights, Floats


def row_operations(device: torch.device) -> PlainRows:
    """Fused kernels on GPUs that have a compiler for them, or under Triton's interpreter; else plain torch."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return FusedRows() if AVAILABLE and (device.type == "cuda" or interpreted) else PlainRows()


ENTRIES = 1024  # numbers that a program holds at once
WIDEST = 32  # entries of a row that are read side by side


class FusedRows(PlainRows):
    """Each operation of `PlainRows` as one kernel, so that a sequence of them can be recorded and replayed."""

    records = True

    def relative(
        self, rows: Rows, log_weight: Tensor, ends: tuple[Tensor, ...], entering: bool, most: float, out: Tensor
    ) -> None:
        graph, shape = (rows.indptr, rows.other, rows.edge), _shape(rows, out)
        _launch(kernels.relative, rows.n_rows, shape, *graph, log_weight, *ends, out, most, entering)

    def backward(self, moves: Moves, stop: Tensor, after: Tensor, out: Tensor, *ranges: Tensor) -> None:
        whole = torch.int64 if out.dtype == torch.float64 else torch.int32
        arrays = *_arrays(moves), stop, after, out, *(values.view(whole) for values in ranges)
        _launch(kernels.backward, len(out), _shape(moves.rows, out), *arrays, moves.factors.drift != 0.0, SLOTS)

    def forward(self, moves: Moves, share: Tensor, after: Tensor, out: Tensor, flows: list[Tensor]) -> None:
        arrays, flags = (share, after, out, flows[0], flows[-1]), (moves.factors.drift != 0.0, len(flows) == 2)
        _launch(kernels.forward, len(after), _shape(moves.rows, out), *_arrays(moves), *arrays, *flags)

    def log_rows(self, moves: Moves, stop: Tensor, after: Tensor, out: Tensor) -> None:
        unused = moves.rows.indptr, moves.rows.indptr, moves.weights  # nodes, ranks and discounts of a level
        self._log(moves, len(out), *unused, moves.factors.pair, stop, after, out, level=False)

    def log_level(self, moves: Moves, discounts: Tensor, nodes: Tensor, rank: Tensor, value: Tensor) -> None:
        self._log(moves, len(nodes), nodes, rank, discounts, discounts, value, value, value, level=True)

    def _log(
        self, moves: Moves, n: int, nodes: Tensor, rank: Tensor, discounts: Tensor, *arrays: Tensor, level: bool
    ) -> None:
        rows = moves.rows
        graph = nodes, rows.indptr, rows.other, rows.edge, rank, moves.weights, moves.reward, discounts
        _launch(kernels.log_rows, n, _shape(rows, arrays[-1]), *graph, *arrays, level)

    def choose(self, moves: Moves, after: Tensor, column: int, uniforms: Tensor, node: Tensor) -> Tensor:
        taken = torch.empty_like(node)
        if len(node):
            which, walkers = (column, moves.weights.shape[1]), (uniforms, node, taken)
            drifts, grid = moves.factors.drift != 0.0, (-(-len(node) // 256),)
            kernels.choose[grid](len(node), *_arrays(moves), after, *which, *walkers, drifts, R=256)
        return taken

    def products(self, rows: Rows, weights: Tensor, values: Tensor, plus: Tensor) -> Tensor:
        out, shape = torch.empty_like(plus), _shape(rows, values)
        _launch(kernels.products, rows.n_rows, shape, rows.indptr, rows.other, weights, values, plus, out)
        return out

    def best(self, first: Tensor, odds: Tensor, near: Tensor) -> Tensor:
        n, among = len(first) - 1, torch.empty_like(odds, dtype=torch.bool)
        _launch(kernels.best, n, (len(odds), n, odds.shape[1]), first, odds, near, among)
        return among

    def soften(self, first: Tensor, logits: Tensor, ends: Tensor) -> Tensor:
        n, value = len(ends), torch.empty_like(ends)
        _launch(kernels.soften, n, (len(logits), n, logits.shape[1]), first, logits, ends, value)
        return value

    def world_totals(self, flows: Tensor, order: Tensor, ends: Tensor) -> Tensor:
        n, columns = len(ends) - 1, flows.shape[1]
        out = torch.zeros((n, columns), dtype=torch.float64, device=flows.device)
        if n:
            kernels.world_totals[(n,)](flows, order, ends, out, C=columns, R=max(1, ENTRIES // columns))
        return out


def _arrays(moves: Moves) -> tuple[Tensor, ...]:
    """What kernels read of edges and their weights."""
    rows = moves.rows
    return rows.indptr, rows.other, rows.edge, moves.weights, moves.reward, moves.factors.pair


def _shape(rows: Rows, values: Tensor) -> tuple[int, int, int]:
    """How many entries, rows and columns there are."""
    return len(rows.other), rows.n_rows, values.shape[1]


def _launch(kernel: Any, n: int, shape: tuple[int, int, int], *arguments: Any) -> None:
    """Run over n rows: columns, entries side by side and rows of a program are powers of two, `ENTRIES` in all."""
    n_entries, n_rows, columns = shape
    mean = max(1, round(n_entries / max(1, n_rows)))
    width = min(WIDEST, 1 << (mean - 1).bit_length())
    size = max(1, ENTRIES // (width * columns))
    kernel[(max(1, -(-n // size)),)](n, *arguments, C=columns, W=width, R=size)


Walkers: TypeAlias = tuple[Tensor, int]
"""Where each walker is, and under which column of rewards they walk."""


@dataclass(frozen=True)
class DeviceWeights(EdgeWeights):
    """Log-weights of world edges on the device; one column of rewards for each law that is answered together."""

    log_dynamics: Any  # (E, 1)
    reward: Any  # (E, columns)


class DeviceLayers(HostLayers):
    """One product and one or several rewards. Layers are views of a workspace that is handed back in the end."""

    lookahead = LOOKAHEAD

    def __init__(self, product: Product, graph: DeviceGraph, weights: DeviceWeights, spaces: Workspaces) -> None:
        self.product, self._graph, self.device, self.discount = product, graph, graph.device, weights.discount
        self.reach = 0.0 if self.discount == 1.0 or not len(weights.reward) else float(weights.reward.abs().max())
        space = spaces.take(weights.reward.shape[1], self.discount)
        weakref.finalize(self, spaces.give_back, space)
        space.begin(weights.reward)
        self.weights = replace(weights, reward=space.reward)
        self._space, self.stride = space, space.plan.stride
        self.span = DOUBLE if space.dtype == torch.float64 else SINGLE
        self._rows = row_operations(graph.device)

    # --- backward ------------------------------------------------------------------------------------------------

    def last_layer(self) -> Tensor:
        layer = self._space.layer(self.product.horizon)
        layer.copy_(self._graph.accepting[:, None])
        return layer

    def _log_ends(self) -> Tensor:
        """0 where trajectories may end, -inf elsewhere."""
        ends = torch.full((self._graph.n_nodes, self._space.columns), NEVER, dtype=torch.float64, device=self.device)
        ends[self._graph.accepting] = 0.0
        return ends

    def first_potential(self) -> Tensor:
        graph, moves = self._graph, self._log_moves(0)
        potential, discounts = self._space.potential, self._space.node_discounts

        def make() -> None:
            potential.fill_(NEVER)
            potential.masked_fill_(graph.accepting[:, None], 0.0)
            for begin, end in pairwise([0, *graph.level_ends]):
                self._rows.log_level(moves, discounts, graph.outwards[begin:end], graph.distance, potential)

        self._run(("potential",), make)
        return potential

    def renew(self, t: int, potential: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        alive = value > NEVER
        renewed = potential.clone()
        renewed[: len(value)] = torch.where(alive, value, renewed[: len(value)])
        layer = self._space.layer(t)
        layer.copy_(alive)
        return renewed, layer

    def stop_weights(self, potential: Tensor, scale: Scale) -> Tensor:
        stop = self._space.stop
        if not self._graph.stops_early:
            return stop.zero_()
        # Everywhere and then only at ends: to pick these out would mean waiting for the device.
        return stop.copy_(torch.exp(-potential - self._scale(scale)).masked_fill_(~self._graph.accepting[:, None], 0.0))

    def _scale(self, scale: Scale) -> Tensor:
        return torch.as_tensor(scale, dtype=torch.float64, device=self.device)

    def base(self, epoch: int, t: int, potential: Tensor) -> Base:
        return Base(epoch, t, potential, [])

    def _log_moves(self, t: int) -> Moves:
        return Moves(self._graph.leaving, self.weights.log_dynamics, self.weights.reward, self._space.factors(t, t))

    def _filled(self, base: Base, entering: bool) -> Tensor:
        """The weights of a base in the order of the edges that leave nodes, or of those that enter them."""
        rows = self._graph.entering if entering else self._graph.leaving
        weights, fresh = self._space.weights(entering, (base.epoch, base.t))
        if fresh:
            ends = base.weights, base.room[0] if base.epoch < 0 else base.weights
            self._rows.relative(rows, self.weights.at(base.t), ends, entering, self.span.most, weights)
        return weights

    def _moves(self, t: int, base: Base, weights: Tensor, entering: bool) -> Moves:
        """Edges with their weights as of action t, from those that a base was filled with."""
        rows = self._graph.entering if entering else self._graph.leaving
        return Moves(rows, weights, self._space.reward, self._space.factors(t, t if base.epoch < 0 else base.t))

    def backward(self, begin: int, end: int, base: Base, stop: Tensor, after: Tensor) -> Made:
        space, weights, n_layers = self._space, self._filled(base, entering=False), begin - end
        layers = [space.layer(t) for t in range(begin - 1, end - 1, -1)]

        def make() -> None:
            space.least[:n_layers] = float("inf")
            space.largest[:n_layers] = 0.0
            there = after
            for i, layer in enumerate(layers):
                moves = self._moves(begin - 1 - i, base, weights, entering=False)
                self._rows.backward(moves, stop, there, layer, space.least[i], space.largest[i])
                there = layer

        self._run(("backward", begin, end, base.t), make)
        ranges = torch.stack([space.least[:n_layers].amin(1), space.largest[:n_layers].amax(1)])
        return Made(layers, *ranges.double().cpu().numpy())

    def _run(self, key: tuple[Any, ...], make: Callable[[], None]) -> None:
        """Carry out a sequence of operations; where memory stays in its place, it can be replayed without Python."""
        if self._rows.records and self.device.type == "cuda" and self.stride == 1:
            self._space.replay(key, make)
        else:
            make()

    def scaled(self, layer: Tensor, factor: Scale) -> Tensor:
        return layer.mul_(self._scale(factor).to(layer.dtype))

    def keep(self, layer: Tensor) -> Tensor:
        if self.stride == 1:  # nothing writes over it
            return layer
        return layer.to("cpu", copy=True) if self._space.plan.on_host else layer.clone()

    def fetch(self, kept: Tensor) -> Tensor:
        return kept.to(self.device)

    def log_values(self, layer: Tensor, potential: Tensor, scale: Scale) -> Tensor:
        return torch.log(layer.double()) + potential[: len(layer)] + self._scale(scale)

    def log_layer(self, t: int, log_after: Tensor) -> Tensor:
        value = torch.empty_like(self._space.layer(t), dtype=torch.float64)
        stop = self._log_ends() if self._graph.stops_early else torch.full_like(value, NEVER)
        self._rows.log_rows(self._log_moves(t), stop, log_after, value)
        return value

    def conditional(self, t: int, log_after: Tensor, log_value: Tensor) -> Base:
        nodes = (self._graph.n_nodes, self._space.columns)
        before, there = (torch.full(nodes, -sign * NEVER, dtype=torch.float64, device=self.device) for sign in (1, -1))
        # Edges of a node without message have no share: it is as if infinitely much would leave it.
        before[: len(log_value)] = torch.where(log_value > NEVER, log_value, -NEVER)
        there[: len(log_after)] = log_after
        return Base(-1, t, before, [there])

    def ones(self, t: int) -> Tensor:
        return torch.ones_like(self._space.layer(t))

    # --- forward ---------------------------------------------------------------------------------------------------

    def begin(self, starts: Floats) -> Passing:
        space = self._space
        here, _, _, *flows = space.flow()
        for array in (here, *flows):
            array.zero_()
        nodes = torch.as_tensor(self.product.starts.astype(np.int64), device=self.device)
        chances = torch.as_tensor(starts.reshape(len(nodes), -1), device=self.device)
        here.index_add_(0, nodes, chances.to(here.dtype))
        entropy = torch.zeros(space.columns, dtype=torch.float64, device=self.device)
        return Passing(here, flows, entropy, np.zeros((0, 0)))

    def forward(
        self, flow: Passing, t: int, base: Base, layers: Sequence[Tensor], factor: Scale | None, with_entropy: bool
    ) -> None:
        space, weights, first = self._space, self._filled(base, entering=True), layers[0]
        if factor is not None:
            flow.here.mul_(self._scale(factor).to(flow.here.dtype))
        if with_entropy or base.epoch < 0:
            weights_out = self._filled(base, entering=False)
        if base.epoch < 0:  # logs are rounded by as much as they are large: chances add up to 1 all the same
            _, ones, nothing, *_ = space.flow()  # room of what follows
            totals = self._rows.products(self._graph.leaving, weights_out, ones.fill_(1.0), nothing.zero_())
            first = totals[: len(first)]
        last = t + len(layers) - 1

        def push() -> None:
            _, share, there, *_ = space.flow()
            share.zero_()
            there.zero_()
            n = len(first)
            # What a node passes on per unit of message; a node without message has nothing to pass on.
            share[:n] = torch.where(first > 0, flow.here[:n] / first, torch.zeros_like(first))
            for i, after in enumerate(layers[1:]):
                moves = self._moves(t + i, base, weights, entering=True)
                if with_entropy:
                    self._add_entropy(flow, t + i, weights_out, moves.factors.drift, share, after)
                self._rows.forward(moves, share, after, there, flow.flows)
                share, there = there, share
            flow.here.zero_()
            flow.here[: len(layers[-1])] = share[: len(layers[-1])] * layers[-1]

        if with_entropy or base.epoch < 0:  # asked for rarely, and with arrays of its own
            push()
        else:
            self._run(("forward", t, last, base.t), push)

    def _add_entropy(self, flow: Passing, t: int, weights: Tensor, drift: float, share: Tensor, after: Tensor) -> None:
        """- sum over edges of (what goes through) * log(its share of what leaves the node)."""
        rows, n = self._graph.leaving, self._graph.layer_ends[t]
        e = rows.n_entries(n)
        row = rows.row[:e]
        w = weights[:e].double() * after[rows.other[:e]]
        if drift != 0.0:
            w = w * torch.exp(drift * self.weights.reward[rows.edge[:e]])
        w = torch.where(share[row] > 0, w, torch.zeros_like(w))  # a node without message may have any weights
        total = torch.zeros_like(share, dtype=torch.float64).index_add_(0, row, w)[row]
        through = share[row] * w
        choice = torch.where(through > 0, w / total, torch.ones_like(w))
        flow.entropy -= (through * torch.log(choice)).sum(0)

    def totals(self, flow: Passing) -> tuple[Tensor, Tensor, Floats, Floats]:
        order, ends = self._graph.by_world_edge, self._graph.world_edge_ends
        totals = [self._rows.world_totals(flows, order, ends) for flows in flow.flows]
        return totals[0], totals[-1], flow.entropy.cpu().numpy(), flow.kept

    # --- samples, the mode -------------------------------------------------------------------------------------------

    def choose(self, t: int, base: Base, after: Tensor, rng: np.random.Generator, node: Walkers) -> Tensor | None:
        moves, (at, column) = self._moves(t, base, self._filled(base, entering=False), entering=False), node
        taken = self._rows.choose(moves, after, column, uniforms(rng, len(at), self.device), at)
        return None if bool((taken < 0).all()) else taken

    def walkers(self, starts: Nodes, column: int) -> Walkers:
        return torch.as_tensor(starts.view(np.int32), device=self.device).clone(), column

    def best_layer(self, t: int, after: Tensor) -> tuple[Tensor, Tensor]:
        rows, n = self._graph.leaving, self._graph.layer_ends[t]
        e = rows.n_entries(n)
        row = rows.row[:e]
        values = self.weights.at(t)[rows.edge[:e], 0] + after[rows.other[:e]]
        best = torch.full((n,), NEVER, dtype=torch.float64, device=self.device)
        if self._graph.stops_early:
            best[self._graph.accepting[:n]] = 0.0
        best.scatter_reduce_(0, row, values, "amax")
        place = torch.arange(e, device=self.device) - rows.indptr[:n].long()[row]
        first = torch.where(values == best[row], place, torch.full_like(place, e))  # e is beyond all places
        choice = torch.full((n,), e, device=self.device).scatter_reduce_(0, row, first, "amin")
        return best, torch.where(choice < e, choice, torch.zeros_like(choice))

    def best_last(self) -> Tensor:
        return self._log_ends()[:, 0]

    def values(self, array: Tensor, nodes: Nodes) -> Floats:
        return np.asarray(array[torch.as_tensor(nodes.astype(np.int64), device=self.device)].double().cpu().numpy())
