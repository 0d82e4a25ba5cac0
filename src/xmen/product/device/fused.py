"""Row operations as one kernel each."""

from __future__ import annotations

import torch

from xmen.product.device import kernels
from xmen.product.device.graph import Rows
from xmen.product.device.plain import SLOTS, Factors, PlainRows

ENTRIES = 1024  # numbers that a program holds at once
WIDEST = 32  # entries of a row that are read side by side


class FusedRows(PlainRows):
    """Each operation of `PlainRows` as one kernel, so that a sequence of them can be recorded and replayed."""

    records = True

    def relative(
        self, rows: Rows, log_weight: torch.Tensor, potential: torch.Tensor, entering: bool, out: torch.Tensor
    ) -> None:
        shape = _shape(rows, potential)
        n = len(rows.indptr) - 1
        kernels.relative[_grid(n, shape)](
            n, rows.indptr, rows.other, rows.edge, log_weight, potential, out, entering, **shape
        )

    def backward(
        self,
        rows: Rows,
        n: int,
        weights: torch.Tensor,
        reward: torch.Tensor,
        factors: Factors,
        stop: torch.Tensor,
        after: torch.Tensor,
        out: torch.Tensor,
        least: torch.Tensor,
        largest: torch.Tensor,
    ) -> None:
        shape = _shape(rows, out)
        graph = rows.indptr, rows.other, rows.edge
        whole = torch.int64 if out.dtype == torch.float64 else torch.int32
        bits = least.view(whole), largest.view(whole)
        kernels.backward[_grid(n, shape)](
            n, *graph, weights, reward, factors.pair, stop, after, out, *bits, factors.drift != 0.0, SLOTS, **shape
        )

    def forward(
        self,
        rows: Rows,
        n: int,
        weights: torch.Tensor,
        reward: torch.Tensor,
        factors: Factors,
        share: torch.Tensor,
        after: torch.Tensor,
        out: torch.Tensor,
        flows: torch.Tensor,
        discounted: torch.Tensor | None,
    ) -> None:
        shape = _shape(rows, out)
        graph = rows.indptr, rows.other, rows.edge
        also = flows if discounted is None else discounted
        flags = factors.drift != 0.0, discounted is not None
        kernels.forward[_grid(n, shape)](
            n, *graph, weights, reward, factors.pair, share, after, out, flows, also, *flags, **shape
        )

    def log_rows(
        self,
        rows: Rows,
        n: int,
        log_dynamics: torch.Tensor,
        reward: torch.Tensor,
        factors: Factors,
        stop: torch.Tensor,
        after: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        shape = _shape(rows, out)
        graph = rows.indptr, rows.other, rows.edge
        unused = rows.indptr, log_dynamics  # nodes, ranks and discounts of a level
        kernels.log_rows[_grid(n, shape)](
            n,
            unused[0],
            *graph,
            unused[0],
            log_dynamics,
            reward,
            unused[1],
            factors.pair,
            stop,
            after,
            out,
            False,
            **shape,
        )

    def log_level(
        self,
        rows: Rows,
        nodes: torch.Tensor,
        rank: torch.Tensor,
        log_dynamics: torch.Tensor,
        reward: torch.Tensor,
        discounts: torch.Tensor,
        value: torch.Tensor,
    ) -> None:
        shape = _shape(rows, value)
        graph = rows.indptr, rows.other, rows.edge
        kernels.log_rows[_grid(len(nodes), shape)](
            len(nodes),
            nodes,
            *graph,
            rank,
            log_dynamics,
            reward,
            discounts,
            discounts,
            value,
            value,
            value,
            True,
            **shape,
        )

    def choose(
        self,
        rows: Rows,
        weights: torch.Tensor,
        reward: torch.Tensor,
        factors: Factors,
        after: torch.Tensor,
        column: int,
        uniforms: torch.Tensor,
        node: torch.Tensor,
        taken: torch.Tensor,
    ) -> None:
        if len(node):
            kernels.choose[(_parts(len(node), 256),)](
                len(node),
                rows.indptr,
                rows.other,
                rows.edge,
                weights,
                reward,
                factors.pair,
                after,
                column,
                weights.shape[1],
                uniforms,
                node,
                taken,
                factors.drift != 0.0,
                R=256,
            )

    def world_totals(self, flows: torch.Tensor, order: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        n, columns = len(ends) - 1, flows.shape[1]
        out = torch.zeros((n, columns), dtype=torch.float64, device=flows.device)
        if n:
            kernels.world_totals[(n,)](flows, order, ends, out, C=columns, R=max(1, ENTRIES // columns))
        return out


def _shape(rows: Rows, values: torch.Tensor) -> dict[str, int]:
    """Columns, entries read side by side, and rows of a program: powers of two whose product is `ENTRIES`."""
    columns = values.shape[1]
    mean = max(1, round(len(rows.other) / max(1, len(rows.indptr) - 1)))
    width = min(WIDEST, 1 << (mean - 1).bit_length())
    return {"C": columns, "W": width, "R": max(1, ENTRIES // (width * columns))}


def _grid(n: int, shape: dict[str, int]) -> tuple[int]:
    return (max(1, _parts(n, shape["R"])),)


def _parts(n: int, size: int) -> int:
    return (n + size - 1) // size
