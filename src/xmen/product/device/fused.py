"""Row operations as one kernel each."""

from __future__ import annotations

import torch

from xmen.product.device import kernels
from xmen.product.device.graph import Rows
from xmen.product.device.plain import SLOTS, Factors, LogMoves, Moves, PlainRows

ENTRIES = 1024  # numbers that a program holds at once
WIDEST = 32  # entries of a row that are read side by side


class FusedRows(PlainRows):
    """Each operation of `PlainRows` as one kernel, so that a sequence of them can be recorded and replayed."""

    records = True

    def relative(
        self,
        rows: Rows,
        log_weight: torch.Tensor,
        ends: tuple[torch.Tensor, ...],
        entering: bool,
        most: float,
        out: torch.Tensor,
    ) -> None:
        n, shape, graph = rows.n_rows, _shape(rows, ends[0]), (rows.indptr, rows.other, rows.edge)
        kernels.relative[_grid(n, shape)](n, *graph, log_weight, *ends, out, most, entering, **shape)

    def backward(
        self, moves: Moves, stop: torch.Tensor, after: torch.Tensor, out: torch.Tensor, *ranges: torch.Tensor
    ) -> None:
        whole = torch.int64 if out.dtype == torch.float64 else torch.int32
        bits = [values.view(whole) for values in ranges]
        arrays, flags, shape = _arrays(moves), (moves.factors.drift != 0.0, SLOTS), _shape(moves.rows, out)
        kernels.backward[_grid(len(out), shape)](len(out), *arrays, stop, after, out, *bits, *flags, **shape)

    def forward(
        self, moves: Moves, share: torch.Tensor, after: torch.Tensor, out: torch.Tensor, flows: list[torch.Tensor]
    ) -> None:
        shape, flags = _shape(moves.rows, out), (moves.factors.drift != 0.0, len(flows) == 2)
        arrays, both = _arrays(moves), (flows[0], flows[-1])
        kernels.forward[_grid(len(after), shape)](len(after), *arrays, share, after, out, *both, *flags, **shape)

    def log_rows(
        self, moves: LogMoves, factors: Factors, stop: torch.Tensor, after: torch.Tensor, out: torch.Tensor
    ) -> None:
        unused = moves.rows.indptr, moves.log_dynamics  # nodes and ranks, and discounts, of a level
        self._log(moves, len(out), unused[0], unused[0], unused[1], factors.pair, stop, after, out, level=False)

    def log_level(
        self, moves: LogMoves, discounts: torch.Tensor, nodes: torch.Tensor, rank: torch.Tensor, value: torch.Tensor
    ) -> None:
        self._log(moves, len(nodes), nodes, rank, discounts, discounts, value, value, value, level=True)

    def _log(
        self,
        moves: LogMoves,
        n: int,
        nodes: torch.Tensor,
        rank: torch.Tensor,
        discounts: torch.Tensor,
        *arrays: torch.Tensor,
        level: bool,
    ) -> None:
        rows, shape = moves.rows, _shape(moves.rows, arrays[-1])
        graph = nodes, rows.indptr, rows.other, rows.edge, rank, moves.log_dynamics, moves.reward, discounts
        kernels.log_rows[_grid(n, shape)](n, *graph, *arrays, level, **shape)

    def choose(
        self, moves: Moves, after: torch.Tensor, column: int, uniforms: torch.Tensor, node: torch.Tensor
    ) -> torch.Tensor:
        taken = torch.empty_like(node)
        if len(node):
            which, walkers = (column, moves.weights.shape[1]), (uniforms, node, taken)
            drifts, grid = moves.factors.drift != 0.0, (_parts(len(node), 256),)
            kernels.choose[grid](len(node), *_arrays(moves), after, *which, *walkers, drifts, R=256)
        return taken

    def products(self, rows: Rows, weights: torch.Tensor, values: torch.Tensor, plus: torch.Tensor) -> torch.Tensor:
        n, shape, out = rows.n_rows, _shape(rows, values), torch.empty_like(plus)
        kernels.products[_grid(n, shape)](n, rows.indptr, rows.other, weights, values, plus, out, **shape)
        return out

    def best(self, first: torch.Tensor, odds: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        n, among = len(first) - 1, torch.empty_like(odds, dtype=torch.bool)
        shape = _row_shape(len(odds), n, odds.shape[1])
        kernels.best[_grid(n, shape)](n, first, odds, near, among, **shape)
        return among

    def soften(self, first: torch.Tensor, logits: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        n, value = len(ends), torch.empty_like(ends)
        shape = _row_shape(len(logits), n, logits.shape[1])
        kernels.soften[_grid(n, shape)](n, first, logits, ends, value, **shape)
        return value

    def world_totals(self, flows: torch.Tensor, order: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        n, columns = len(ends) - 1, flows.shape[1]
        out = torch.zeros((n, columns), dtype=torch.float64, device=flows.device)
        if n:
            kernels.world_totals[(n,)](flows, order, ends, out, C=columns, R=max(1, ENTRIES // columns))
        return out


def _arrays(moves: Moves) -> tuple[torch.Tensor, ...]:
    """What kernels read of edges and their weights."""
    rows = moves.rows
    return rows.indptr, rows.other, rows.edge, moves.weights, moves.reward, moves.factors.pair


def _shape(rows: Rows, values: torch.Tensor) -> dict[str, int]:
    return _row_shape(len(rows.other), rows.n_rows, values.shape[1])


def _row_shape(n_entries: int, n_rows: int, columns: int) -> dict[str, int]:
    """Columns, entries read side by side, and rows of a program: powers of two whose product is `ENTRIES`."""
    mean = max(1, round(n_entries / max(1, n_rows)))
    width = min(WIDEST, 1 << (mean - 1).bit_length())
    return {"C": columns, "W": width, "R": max(1, ENTRIES // (width * columns))}


def _grid(n: int, shape: dict[str, int]) -> tuple[int]:
    return (max(1, _parts(n, shape["R"])),)


def _parts(n: int, size: int) -> int:
    return (n + size - 1) // size
