"""Walkers on a device that become walks: their world edges, checked by the machines of the constraint."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from xmen.machines.on_device import DeviceMachines
from xmen.product.device.graph import DeviceGraph
from xmen.product.graph import Product
from xmen.sharing import once
from xmen.worlds.walks import Walks

Tensor = torch.Tensor


class WalkChecker:
    """What walks on one product are made and checked with."""

    def __init__(self, product: Product, graph: DeviceGraph) -> None:
        self._product, self._graph = product, graph
        self._target = torch.as_tensor(product.world.target.astype(np.int64), device=graph.device)

    @once
    def machines(self) -> DeviceMachines:
        """The machines of the constraint."""
        return DeviceMachines(self._product.compiled, self._graph.device)

    def finish(self, starts: NDArray[np.uint32], steps: list[Tensor]) -> tuple[Walks, NDArray[np.bool_]]:
        """Walks from start nodes along product edges, -1 where a walker has arrived; and which of them are valid."""
        product, device = self._product, self._graph.device
        first = product.state[starts]
        taken = torch.stack(steps) if steps else torch.empty((0, len(starts)), dtype=torch.int32, device=device)
        going = taken >= 0
        edges = self._graph.leaving.edge[torch.clamp(taken, min=0)] if steps else taken
        lengths = going.sum(0)
        ends = torch.as_tensor(first.astype(np.int64), device=device)
        if steps:
            last = edges.gather(0, torch.clamp(lengths - 1, min=0)[None])[0]
            ends = torch.where(lengths > 0, self._target[last], ends)
        unruled = not product.compiled.tables or not len(starts)
        valid = np.ones(len(starts), dtype=np.bool_) if unruled else self.machines.check(edges, going, ends)
        flat = torch.masked_select(edges.t(), going.t()).cpu().numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths.cpu().numpy())])
        return Walks(product.world, first, flat, offsets), valid
