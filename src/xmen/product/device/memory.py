"""How much of the messages fits on a device, and what is done with the rest."""

from __future__ import annotations

import gc
from typing import NamedTuple

import torch

from xmen.errors import EngineError
from xmen.product.device.graph import DeviceGraph

HEADROOM = 0.9  # of the free memory is planned with: fragments and what others take in between need some
LOG_LAYERS = 4  # that are planned with: how many there will be is known when it is too late
HOST_BYTES = 4_000_000_000  # where the device is the CPU


class MemoryPlan(NamedTuple):
    """Which layers of messages are kept, and where; the others are made again from the next one that is."""

    n_layers: int
    stride: int  # every so many are kept
    on_host: bool  # in the memory of the host
    device: str

    def __str__(self) -> str:
        if self.stride == 1:
            return f"all {self.n_layers} layers of messages on {self.device}"
        where = "in host memory" if self.on_host else f"on {self.device}"
        return f"every {self.stride}th of {self.n_layers} layers of messages {where}, the others made again"


def free_bytes(device: torch.device) -> int:
    """What can still be taken on a device."""
    if device.type != "cuda":
        return HOST_BYTES
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + cached


def in_log_space(graph: DeviceGraph, columns: int, item: int) -> int:
    """What layers that are done in log space take beside the others.

    One at work has six numbers per node in double precision: values before and after it, the ends, and what these are
    made of. Of each the layer is kept, and the potential that follows from it.
    """
    return graph.n_nodes * (6 * 8 * columns + LOG_LAYERS * (8 * columns + item))


def plan_memory(graph: DeviceGraph, columns: int, discount: float, dtype: torch.dtype) -> MemoryPlan:
    """The most layers that fit beside edge weights, flows and potentials; EngineError where not even those do.

    With every layer kept nothing is done twice; with every square root of their number, backward is done twice, and
    so many layers are kept and made again at a time. Should that be too much, those that are kept go to the host.
    """
    item = columns * torch.empty(0, dtype=dtype).element_size()
    flows = 1 if discount == 1.0 else 2
    fixed = graph.n_edges * item * (2 + flows) + graph.n_nodes * (4 * item + 3 * 8 * columns)
    fixed += in_log_space(graph, columns, item)
    left = int(HEADROOM * free_bytes(graph.device)) - fixed
    if graph.device.type == "cuda" and item * sum(graph.layer_ends) > left:
        gc.collect()  # what nobody uses any more may still be there
        left = int(HEADROOM * free_bytes(graph.device)) - fixed
    ends, name = graph.layer_ends, graph.device.type
    stride = max(2, int(len(ends) ** 0.5))
    kept, again = item * sum(ends[::stride]), item * (stride + 1) * graph.n_nodes
    if item * sum(ends) <= left:
        return MemoryPlan(len(ends), 1, False, name)
    if kept + again <= left:
        return MemoryPlan(len(ends), stride, False, name)
    if again <= left:
        return MemoryPlan(len(ends), stride, True, name)
    raise EngineError(
        f"a product of {graph.n_nodes:,} nodes and {graph.n_edges:,} edges needs {(fixed + again) / 1e9:.2f} GB on "
        f"{name} beside the graph itself, and {free_bytes(graph.device) / 1e9:.2f} GB are free: use "
        'precision="float32", fewer rewards at a time, or leave out device.'
    )
