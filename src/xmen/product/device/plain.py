"""Row operations in plain torch: the truth that fused kernels are tested against, and what runs where those cannot.

Arrays have one row per node or edge and one column per reward. Weights w_e are relative to a potential; those of
another action differ from them by exp((gamma^t - gamma^t0) * reward): see `Factors`.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmen.product.graph import Product

# ---- The product graph as tensors, moved to a device once


@dataclass(frozen=True)
class Rows:
    """A sparse matrix in compressed rows: those of `target` for the edges that leave a node, of source for those that
    enter it."""

    indptr: Tensor  # (n_nodes + 1,) int32
    other: Tensor  # (E,) int32, the node at the other end
    edge: Tensor  # (E,) int32, the world edge

    @cached_property
    def row(self) -> Tensor:
        """The row of each entry, for operations on whole arrays; (E,) int64."""
        return along(self.indptr, torch.arange(self.n_rows, device=self.indptr.device))

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    def n_entries(self, n_rows: int) -> int:
        """How many entries the first rows have."""
        return int(self.indptr[n_rows])


class DeviceGraph:
    """Everything about a product that does not depend on the reward.

    `leaving` has the edges by the node they leave, `entering` by the node they enter, so that both directions are row
    sums and no two threads add to the same number: results do not depend on who comes first. `by_world_edge` lists the
    entries of `entering` by the world edge below them, those of world edge i up to world_edge_ends[i + 1].
    """

    def __init__(self, product: Product, device: torch.device) -> None:
        self.device, self.n_nodes, self.n_edges = device, product.n_nodes, product.n_edges
        self.layer_ends: list[int] = product.layer_ends.tolist()
        indptr, target, edge = (self._moved(a) for a in (product.indptr, product.target, product.edge))
        self.leaving = Rows(indptr, target, edge)
        order = torch.argsort(target, stable=True)
        source = along(indptr, torch.arange(self.n_nodes, dtype=torch.int32, device=device))
        self.entering = Rows(bounds(target, self.n_nodes).int(), source[order], edge[order])
        del order, source
        self.by_world_edge = torch.argsort(self.entering.edge, stable=True).int()
        self.world_edge_ends = bounds(edge, len(product.world.source))
        self.accepting = torch.as_tensor(product.accepting, device=device)
        self.stops_early = not product.fixed_length
        self.distance = self._moved(product.distance)
        self.outwards = self._moved(product.outwards)
        levels = np.bincount(product.distance, minlength=1)[1:]
        self.level_ends: list[int] = np.cumsum(levels).tolist()  # of `outwards`, by distance to acceptance
        self.depth = self._moved(product.depth)
        pairs = product.world.source.astype(np.int64) * product.world.n_actions + product.world.action
        self.pair = torch.as_tensor(pairs, device=device)  # of each world edge: state * n_actions + action
        self.pair_ends = bounds(self.pair, product.world.n_states * product.world.n_actions)

    def _moved(self, values: NDArray[np.uint32] | NDArray[np.int32]) -> Tensor:
        return torch.as_tensor(values.view(np.int32), device=self.device)


NEVER = -float("inf")
SLOTS = 32  # places for the least and the largest value of a layer, so that many programs do not queue for one


class Factors(NamedTuple):
    """gamma^t - gamma^t0 and gamma^t for action t and weights of action t0; `pair` has both, on the device."""

    drift: float
    discount: float
    pair: Tensor


class Moves(NamedTuple):
    """The edges of rows with their weights as of one action: those of another, and the factors between the two.

    In log space `weights` are log_dynamics (world edges, 1): an edge has log_dynamics + discount * reward.
    """

    rows: Rows
    weights: Tensor  # (E, columns)
    reward: Tensor  # (world edges, columns)
    factors: Factors


def bounds(rows: Tensor, n: int) -> Tensor:
    """Where the entries of each of n rows begin, and the last of them end (n + 1,), where these are sorted by rows."""
    return torch.nn.functional.pad(torch.bincount(rows, minlength=n).cumsum(0), (1, 0))


def along(indptr: Tensor, values: Tensor) -> Tensor:
    """The value of its row for every entry."""
    return torch.repeat_interleave(values, torch.diff(indptr).long(), dim=0)


def row_sums(values: Tensor, indptr: Tensor) -> Tensor:
    """The sum of the entries of each row, always in the same order."""
    return _reduced(values, indptr, "sum", 0.0)


def _reduced(values: Tensor, indptr: Tensor, how: str, empty: float) -> Tensor:
    if not len(values):
        return values.new_full((len(indptr) - 1, *values.shape[1:]), empty)
    return torch.segment_reduce(values, how, offsets=indptr.long(), axis=0, unsafe=True, initial=empty)


class PlainRows:
    """One operation per method; each writes into `out`."""

    records = False  # whether a sequence of these may be recorded and replayed

    def relative(
        self, rows: Rows, log_weight: Tensor, ends: tuple[Tensor, ...], entering: bool, most: float, out: Tensor
    ) -> None:
        """exp(log_weight + there[target] - before[source]), at most exp(most); `ends` are before and there."""
        before, there = ends
        source, target = (rows.other, rows.row) if entering else (rows.row, rows.other)
        step = there[target] - before[source]
        out.copy_(torch.exp((log_weight[rows.edge] + step).clamp_(max=most)))

    def _weights(self, moves: Moves, n: int) -> Tensor:
        e, drift = moves.rows.n_entries(n), moves.factors.drift
        if drift == 0.0:
            return moves.weights[:e]
        return moves.weights[:e] * torch.exp(drift * moves.reward[moves.rows.edge[:e]]).to(moves.weights.dtype)

    def backward(self, moves: Moves, stop: Tensor, after: Tensor, out: Tensor, *ranges: Tensor) -> None:
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

    def forward(self, moves: Moves, share: Tensor, after: Tensor, out: Tensor, flows: list[Tensor]) -> None:
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

    def log_rows(self, moves: Moves, stop: Tensor, after: Tensor, out: Tensor) -> None:
        """out = log(exp(stop) + sum over edges of exp(log_dynamics + discount * reward + after[target]))."""
        rows, n = moves.rows, len(out)
        e = rows.n_entries(n)
        edge = rows.edge[:e]
        values = moves.weights[edge] + moves.factors.discount * moves.reward[edge] + after[rows.other[:e]]
        out.copy_(self._log_sum(values, rows.indptr[: n + 1], stop[:n]))

    def _log_sum(self, values: Tensor, indptr: Tensor, first: Tensor) -> Tensor:
        largest = torch.maximum(_reduced(values, indptr, "max", NEVER), first)
        base = torch.where(largest > NEVER, largest, torch.zeros_like(largest))
        total = row_sums(torch.exp(values - along(indptr, base)), indptr)
        return base + torch.log(total + torch.exp(first - base))

    def log_level(self, moves: Moves, discounts: Tensor, nodes: Tensor, rank: Tensor, value: Tensor) -> None:
        """Log-sums over the edges of some nodes to nodes of lower rank, in place; one discount per node."""
        rows = moves.rows
        begin, counts = rows.indptr[nodes].long(), (rows.indptr[nodes + 1] - rows.indptr[nodes]).long()
        row = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        entry = torch.arange(len(row), device=nodes.device) - (torch.cumsum(counts, 0) - counts - begin)[row]
        lower = rank[rows.other[entry]] < rank[nodes[row]]
        row, entry = row[lower], entry[lower]
        edge = rows.edge[entry]
        values = moves.weights[edge] + discounts[nodes[row], None] * moves.reward[edge] + value[rows.other[entry]]
        value[nodes] = self._log_sum(values, bounds(row, len(nodes)), value[nodes])

    def choose(self, moves: Moves, after: Tensor, column: int, uniforms: Tensor, node: Tensor) -> Tensor:
        """The entry that each walker takes from its node, in proportion to weight * after[target]; moves `node`.

        -1 where a node has no entries. Weights are added and taken off one after the other, as the compiled loops do,
        so that the same uniform numbers give the same choices.
        """
        rows, factors = moves.rows, moves.factors
        if not len(moves.weights):
            return torch.full_like(node, -1)
        weights, reward, after = moves.weights[:, column], moves.reward[:, column], after[:, column]
        begin, end = rows.indptr[node].long(), rows.indptr[node + 1].long()

        def weight(offset: int) -> Tensor:
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

    def products(self, rows: Rows, weights: Tensor, values: Tensor, plus: Tensor) -> Tensor:
        """plus + sum over the entries of each row of weight * values[other]; (rows, columns)."""
        begin, end = int(rows.indptr[0]), int(rows.indptr[-1])
        return plus + row_sums(weights[begin:end] * values[rows.other[begin:end]], rows.indptr - begin)

    def soften(self, first: Tensor, logits: Tensor, ends: Tensor) -> Tensor:
        """log sum exp of each row of logits, which become their shares in it; of empty rows what `ends` says."""
        value = self._log_sum(logits, first, torch.full_like(ends, NEVER))
        torch.exp(logits - along(first, torch.where(value > NEVER, value, torch.zeros_like(value))), out=logits)
        return torch.where((torch.diff(first) > 0)[:, None], value, ends)

    def best(self, first: Tensor, odds: Tensor, near: Tensor) -> Tensor:
        """Which odds are the largest of their row, or at least `near` times that."""
        return odds >= along(first, near * _reduced(odds, first, "max", 0.0))

    def world_totals(self, flows: Tensor, order: Tensor, ends: Tensor) -> Tensor:
        """The sum over each world edge's entries, in double precision."""
        return row_sums(flows[order].double(), ends)


# ---- The uniform numbers that a numpy generator gives next, worked out on a device: the same bits, nothing to move.
#
# numpy's default generator is PCG64: s <- a s + c modulo 2^128, and a number is made from the bits of s alone
# (O'Neill, HMC-CS-2014-0905). So the i-th state from here is a^i s + c (1 + a + ... + a^(i-1)), and all of them can
# be worked out side by side. Numbers of 128 bits are pairs of 64, high and low.

Wide: TypeAlias = tuple[Tensor, Tensor]

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
ALL = (1 << 128) - 1
LOW = 0xFFFFFFFF
SIGN = -(1 << 63)


def uniforms(rng: np.random.Generator, n: int, device: torch.device) -> Tensor:
    """The next n uniform numbers of a generator, as a tensor on the device; the generator goes on after them."""
    generator = rng.bit_generator
    if not isinstance(generator, np.random.PCG64):
        return torch.as_tensor(rng.random(n), device=device)
    with generator.lock:  # two threads must not begin with the same state
        found = generator.state
        state, step = found["state"]["state"], found["state"]["inc"]
        found["state"]["state"] = _after(state, step, n)
        generator.state = found
    size = 1 << max(0, n - 1).bit_length()
    powers, offsets = _jumps(size, step, device)
    first = _wide(state, device)
    high, low = _add(_times((powers[0][:n], powers[1][:n]), first), (offsets[0][:n], offsets[1][:n]))
    mixed, turn = high ^ low, (high >> 58) & 63
    back = (64 - turn) & 63
    bits = ((mixed >> turn) & ((torch.ones_like(back) << back) - 1)) | (mixed << back)  # rotated to the right
    return ((bits >> 11) & ((1 << 53) - 1)).double() * 2.0**-53


def _after(state: int, step: int, n: int) -> int:
    """The state n numbers on."""
    power, total, a, c = 1, 0, MULTIPLIER, step
    while n:
        if n & 1:
            power, total = power * a & ALL, (total * a + c) & ALL
        a, c = a * a & ALL, (a + 1) * c & ALL
        n >>= 1
    return (power * state + total) & ALL


@lru_cache(maxsize=2)
def _jumps(size: int, step: int, device: torch.device) -> tuple[Wide, Wide]:
    """a^i and c (1 + a + ... + a^(i-1)) for i = 1 .. size, by doubling."""
    powers, offsets = _wide(MULTIPLIER, device), _wide(step, device)
    power, n = MULTIPLIER, 1
    while n < size:
        total = _wide(_after(0, step, n), device)
        more = _times(powers, _wide(power, device)), _add(_times(powers, total), offsets)
        powers, offsets = (
            (torch.cat([old[0], new[0]]), torch.cat([old[1], new[1]]))
            for old, new in zip((powers, offsets), more, strict=True)
        )
        power, n = power * power & ALL, 2 * n
    return powers, offsets


def _wide(number: int, device: torch.device) -> Wide:
    """A number of 128 bits: its high and its low half, one entry each."""
    halves = np.array([number >> 64, number & (ALL >> 64)], dtype=np.uint64).view(np.int64)
    high, low = torch.as_tensor(halves[:, None], device=device)
    return high, low


def _half(x: Tensor) -> Tensor:
    return (x >> 32) & LOW


def _add(x: Wide, y: Wide) -> Wide:
    low = x[1] + y[1]
    carried = (low ^ SIGN) < (x[1] ^ SIGN)  # as numbers without a sign
    return x[0] + y[0] + carried, low


def _times(x: Wide, y: Wide) -> Wide:
    """The lower 128 bits of a product, by halves of 32 bits."""
    (x1, x0), (y1, y0) = ((_half(low), low & LOW) for low in (x[1], y[1]))
    cross = x1 * y0, x0 * y1
    middle = _half(x0 * y0) + (cross[0] & LOW) + (cross[1] & LOW)
    high = x1 * y1 + _half(cross[0]) + _half(cross[1]) + _half(middle)
    return high + x[0] * y[1] + x[1] * y[0], x[1] * y[1]
