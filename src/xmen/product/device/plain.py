"""Row operations in plain torch: the truth that fused kernels are tested against, and what runs where those cannot.

Arrays have one row per node or edge and one column per reward. Weights w_e are relative to a potential; those of
another action differ from them by exp((gamma^t - gamma^t0) * reward): see `Factors`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from xmen.product.device.graph import Rows

NEVER = -float("inf")
SLOTS = 32  # places for the least and the largest value of a layer, so that many programs do not queue for one


class Factors(NamedTuple):
    """gamma^t - gamma^t0 and gamma^t for action t and weights of action t0; `pair` has both, on the device."""

    drift: float
    discount: float
    pair: torch.Tensor


class Moves(NamedTuple):
    """The edges of rows with their weights as of one action: those of another, and the factors between the two."""

    rows: Rows
    weights: torch.Tensor  # (E, columns)
    reward: torch.Tensor  # (world edges, columns)
    factors: Factors


class LogMoves(NamedTuple):
    """The edges of rows with log-weights, log_dynamics + discount * reward of the world edge below each."""

    rows: Rows
    log_dynamics: torch.Tensor  # (world edges, 1)
    reward: torch.Tensor  # (world edges, columns)


def row_sums(values: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """The sum of the entries of each row, always in the same order."""
    return _reduced(values, indptr, "sum", 0.0)


def _reduced(values: torch.Tensor, indptr: torch.Tensor, how: str, empty: float) -> torch.Tensor:
    if not len(values):
        return values.new_full((len(indptr) - 1, *values.shape[1:]), empty)
    return torch.segment_reduce(values, how, offsets=indptr.long(), axis=0, unsafe=True, initial=empty)


class PlainRows:
    """One operation per method; each writes into `out`."""

    records = False  # whether a sequence of these may be recorded and replayed

    def relative(
        self,
        rows: Rows,
        log_weight: torch.Tensor,
        ends: tuple[torch.Tensor, ...],
        entering: bool,
        most: float,
        out: torch.Tensor,
    ) -> None:
        """exp(log_weight + there[target] - before[source]), at most exp(most); `ends` are before and there."""
        before, there = ends
        source, target = (rows.other, rows.row) if entering else (rows.row, rows.other)
        step = there[target] - before[source]
        out.copy_(torch.exp((log_weight[rows.edge] + step).clamp_(max=most)))

    def _weights(self, moves: Moves, n: int) -> torch.Tensor:
        e, drift = moves.rows.n_entries(n), moves.factors.drift
        if drift == 0.0:
            return moves.weights[:e]
        return moves.weights[:e] * torch.exp(drift * moves.reward[moves.rows.edge[:e]]).to(moves.weights.dtype)

    def backward(
        self, moves: Moves, stop: torch.Tensor, after: torch.Tensor, out: torch.Tensor, *ranges: torch.Tensor
    ) -> None:
        """out = stop + sum over edges of weight * after[target], for as many nodes as `out` has.

        `ranges`: the least and the largest of the nonzero values (SLOTS of each column), which begin as inf and 0. The
        least is 0 when a value that cannot be zero was rounded to zero, the largest inf when something is not finite.
        """
        rows, n, (least, largest) = moves.rows, len(out), ranges
        w = self._weights(moves, n)
        there = after[rows.other[: len(w)]]
        out.copy_(row_sums(w * there, rows.indptr[: n + 1]) + stop[:n])
        fed = _reduced(there, rows.indptr[: n + 1], "max", 0.0) > 0
        infinite = torch.full_like(out, float("inf"))
        low = torch.where(out > 0, out, torch.where(fed & (out == 0), torch.zeros_like(out), infinite))
        least[0] = low.amin(0)
        largest[0] = torch.where(out < float("inf"), out, infinite).amax(0)

    def forward(
        self, moves: Moves, share: torch.Tensor, after: torch.Tensor, out: torch.Tensor, flows: list[torch.Tensor]
    ) -> None:
        """out[n'] = sum over the edges that enter n' of weight * share[source], 0 where after[n'] is.

        `share` is the probability of a node over its message, so that weight * share * after[n'] goes through an edge:
        this is added to the first of `flows`, and discounted to the second, if there is one.
        """
        rows, n = moves.rows, len(after)
        w = self._weights(moves, n)
        here, there = share[rows.other[: len(w)]], after[rows.row[: len(w)]]
        arriving = torch.where((here > 0) & (there > 0), w * here, torch.zeros_like(here))
        out[:n] = row_sums(arriving, rows.indptr[: n + 1])
        through = arriving * there
        for flow, factor in zip(flows, (1.0, moves.factors.discount), strict=False):
            flow[: len(w)] += factor * through

    def log_rows(
        self, moves: LogMoves, factors: Factors, stop: torch.Tensor, after: torch.Tensor, out: torch.Tensor
    ) -> None:
        """out = log(exp(stop) + sum over edges of exp(log_dynamics + discount * reward + after[target]))."""
        rows, n = moves.rows, len(out)
        e = rows.n_entries(n)
        edge = rows.edge[:e]
        values = moves.log_dynamics[edge] + factors.discount * moves.reward[edge] + after[rows.other[:e]]
        out.copy_(self._log_sum(values, rows.indptr[: n + 1], stop[:n]))

    def _log_sum(self, values: torch.Tensor, indptr: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        largest = torch.maximum(_reduced(values, indptr, "max", NEVER), first)
        base = torch.where(largest > NEVER, largest, torch.zeros_like(largest))
        counts = (indptr[1:] - indptr[:-1]).long()
        total = row_sums(torch.exp(values - torch.repeat_interleave(base, counts, dim=0)), indptr)
        return base + torch.log(total + torch.exp(first - base))

    def log_level(
        self, moves: LogMoves, discounts: torch.Tensor, nodes: torch.Tensor, rank: torch.Tensor, value: torch.Tensor
    ) -> None:
        """`log_rows` of some nodes in place, over their edges to nodes of lower rank; one discount per node."""
        rows = moves.rows
        begin, counts = rows.indptr[nodes].long(), (rows.indptr[nodes + 1] - rows.indptr[nodes]).long()
        row = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        entry = torch.arange(len(row), device=nodes.device) - (torch.cumsum(counts, 0) - counts - begin)[row]
        lower = rank[rows.other[entry]] < rank[nodes[row]]
        row, entry = row[lower], entry[lower]
        edge = rows.edge[entry]
        values = moves.log_dynamics[edge] + discounts[nodes[row], None] * moves.reward[edge] + value[rows.other[entry]]
        indptr = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=nodes.device)
        indptr[1:] = torch.cumsum(torch.bincount(row, minlength=len(nodes)), 0)
        value[nodes] = self._log_sum(values, indptr, value[nodes])

    def choose(
        self, moves: Moves, after: torch.Tensor, column: int, uniforms: torch.Tensor, node: torch.Tensor
    ) -> torch.Tensor:
        """The entry that each walker takes from its node, in proportion to weight * after[target]; moves `node`.

        -1 where a node has no entries. Weights are added and taken off one after the other, as the compiled loops do,
        so that the same uniform numbers give the same choices.
        """
        rows, factors = moves.rows, moves.factors
        if not len(moves.weights):
            return torch.full_like(node, -1)
        weights, reward, after = moves.weights[:, column], moves.reward[:, column], after[:, column]
        begin, end = rows.indptr[node].long(), rows.indptr[node + 1].long()

        def weight(offset: int) -> torch.Tensor:
            e = torch.clamp(begin + offset, max=len(weights) - 1)
            w = weights[e] * after[torch.clamp(rows.other[e], max=len(after) - 1)]
            if factors.drift != 0.0:
                w = w * torch.exp(factors.drift * reward[rows.edge[e]]).to(w.dtype)
            return torch.where(begin + offset < end, w, torch.zeros_like(w))

        longest = int((end - begin).max()) if len(node) else 0
        total = sum((weight(offset) for offset in range(longest)), torch.zeros_like(uniforms))
        left, chosen = uniforms * total, torch.full_like(begin, -1)
        looking = torch.ones_like(begin, dtype=torch.bool)
        for offset in range(longest):
            w = weight(offset)
            here = looking & (w > 0)
            chosen = torch.where(here, begin + offset, chosen)
            left = torch.where(here, left - w, left)
            looking &= ~(here & (left < 0))
        node.copy_(torch.where(chosen >= 0, rows.other[torch.clamp(chosen, min=0)], node))
        return chosen.to(node.dtype)

    def products(self, rows: Rows, weights: torch.Tensor, values: torch.Tensor, plus: torch.Tensor) -> torch.Tensor:
        """plus + sum over the entries of each row of weight * values[other]; (rows, columns)."""
        begin, end = int(rows.indptr[0]), int(rows.indptr[-1])
        return plus + row_sums(weights[begin:end] * values[rows.other[begin:end]], rows.indptr - begin)

    def soften(self, first: torch.Tensor, logits: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """log sum exp of each row of logits, which become their shares in it; of empty rows what `ends` says."""
        value = self._log_sum(logits, first, torch.full_like(ends, NEVER))
        counts = (first[1:] - first[:-1]).long()
        base = torch.repeat_interleave(torch.where(value > NEVER, value, torch.zeros_like(value)), counts, dim=0)
        torch.exp(logits - base, out=logits)
        return torch.where((counts > 0)[:, None], value, ends)

    def best(self, first: torch.Tensor, odds: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        """Which odds are the largest of their row, or at least `near` times that."""
        least = near * _reduced(odds, first, "max", 0.0)
        return odds >= torch.repeat_interleave(least, (first[1:] - first[:-1]).long(), dim=0)

    def world_totals(self, flows: torch.Tensor, order: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """The sum over each world edge's entries, in double precision."""
        return row_sums(flows[order].double(), ends)
