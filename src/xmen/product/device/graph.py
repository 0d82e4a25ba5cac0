"""The product graph as tensors, moved to a device once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from xmen.product.graph import Product


@dataclass(frozen=True)
class Rows:
    """A sparse matrix in compressed rows: those of `target` for the edges that leave a node, of source for those that
    enter it."""

    indptr: torch.Tensor  # (n_nodes + 1,) int32
    other: torch.Tensor  # (E,) int32, the node at the other end
    edge: torch.Tensor  # (E,) int32, the world edge
    degree: int  # the longest row

    @cached_property
    def row(self) -> torch.Tensor:
        """The row of each entry, for operations on whole arrays; (E,) int64."""
        counts = (self.indptr[1:] - self.indptr[:-1]).long()
        return torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.indptr) - 1

    def n_entries(self, n_rows: int) -> int:
        """How many entries the first rows have."""
        return int(self.indptr[n_rows])

    @property
    def bytes_used(self) -> int:
        """The memory it takes."""
        return 4 * (len(self.indptr) + 2 * len(self.other))


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
        self.leaving = Rows(indptr, target, edge, _longest(indptr))
        order = torch.argsort(target, stable=True)
        entering = torch.zeros_like(indptr)
        entering[1:] = torch.cumsum(torch.bincount(target, minlength=self.n_nodes), 0)
        counts = (indptr[1:] - indptr[:-1]).long()
        source = torch.repeat_interleave(torch.arange(self.n_nodes, dtype=torch.int32, device=device), counts)
        self.entering = Rows(entering, source[order], edge[order], _longest(entering))
        del order, source, counts
        n_world = len(product.world.source)
        self.by_world_edge = torch.argsort(self.entering.edge, stable=True).int()
        self.world_edge_ends = torch.zeros(n_world + 1, dtype=torch.int64, device=device)
        self.world_edge_ends[1:] = torch.cumsum(torch.bincount(edge, minlength=n_world), 0)
        self.accepting = torch.as_tensor(product.accepting, device=device)
        self.stops_early = not product.fixed_length
        self.distance = self._moved(product.distance)
        self.outwards = self._moved(product.outwards)
        levels = np.bincount(product.distance, minlength=1)[1:]
        self.level_ends: list[int] = np.cumsum(levels).tolist()  # of `outwards`, by distance to acceptance
        self.depth = self._moved(product.depth)
        pairs = product.world.source.astype(np.int64) * product.world.n_actions + product.world.action
        self.pair = torch.as_tensor(pairs, device=device)  # of each world edge: state * n_actions + action
        n_pairs = product.world.n_states * product.world.n_actions
        self.pair_ends = torch.as_tensor(np.searchsorted(pairs, np.arange(n_pairs + 1)), device=device)

    def _moved(self, values: NDArray[np.uint32] | NDArray[np.int32]) -> torch.Tensor:
        return torch.as_tensor(values.view(np.int32), device=self.device)

    @property
    def bytes_used(self) -> int:
        """The memory it takes."""
        return self.leaving.bytes_used + self.entering.bytes_used + 4 * self.n_edges + 13 * self.n_nodes


def _longest(indptr: torch.Tensor) -> int:
    return int((indptr[1:] - indptr[:-1]).max()) if len(indptr) > 1 else 0
