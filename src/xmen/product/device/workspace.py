"""Memory on a device that one reward after the other uses, and sequences of kernels recorded over it."""

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from xmen.errors import EngineError
from xmen.product.device.plain import SLOTS, DeviceGraph, Factors
from xmen.sharing import Lock

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
    for needed, every, on_host in ((item * sum(ends), 1, False), (kept + again, stride, False), (again, stride, True)):
        if needed <= left:
            return MemoryPlan(len(ends), every, on_host, name)
    raise EngineError(
        f"a product of {graph.n_nodes:,} nodes and {graph.n_edges:,} edges needs {(fixed + again) / 1e9:.2f} GB on "
        f"{name} beside the graph itself, and {free_bytes(graph.device) / 1e9:.2f} GB are free: use "
        'precision="float32", fewer rewards at a time, or leave out device.'
    )


LOOKAHEAD = 128  # layers that are made before anyone looks at them: looking means waiting for the device
MOST_RECORDINGS = 64  # of one workspace; rewards that need more stretches than this are not worth recording


class Workspace:
    """Arrays of one run: edge weights, layers, flows. Made when they are first needed, then kept.

    Recordings are sequences of kernels with the addresses of these arrays in them, so arrays never move, and what
    changes from reward to reward is copied in.
    """

    def __init__(self, graph: DeviceGraph, columns: int, discount: float, dtype: torch.dtype) -> None:
        self._graph, self.columns, self.discount, self.dtype = graph, columns, discount, dtype
        self.plan: MemoryPlan = plan_memory(graph, columns, discount, dtype)
        self.stop = self._empty(graph.n_nodes)
        self.least, self.largest = (self._empty(LOOKAHEAD * SLOTS).view(LOOKAHEAD, SLOTS, columns) for _ in range(2))
        self.potential = torch.empty((graph.n_nodes, columns), dtype=torch.float64, device=graph.device)
        self.node_discounts = discount ** graph.depth.double()
        self.reward = torch.empty((len(graph.world_edge_ends) - 1, columns), dtype=torch.float64, device=graph.device)
        self._layers: dict[int, Tensor] = {}
        self._weights: dict[bool, Tensor] = {}
        self._weights_of: dict[bool, Any] = {}
        self._flow: list[Tensor] = []
        self._factors: dict[int, Tensor] = {}
        self._recordings: dict[Any, torch.cuda.CUDAGraph | None] = {}

    def _empty(self, n: int) -> Tensor:
        return torch.empty((n, self.columns), dtype=self.dtype, device=self._graph.device)

    def begin(self, reward: Tensor) -> None:
        """Start on another reward."""
        self.reward.copy_(reward)
        self._weights_of.clear()

    def layer(self, t: int) -> Tensor:
        """Room for layer t; without room for all, shared with layers that are never needed together with it."""
        n, stride = self._graph.layer_ends[t], self.plan.stride
        slot, size = (t, n) if stride == 1 else (t % (stride + 1), self._graph.n_nodes)
        if slot not in self._layers:
            self._layers[slot] = self._empty(size)
        return self._layers[slot][:n]

    def weights(self, entering: bool, key: tuple[int, int]) -> tuple[Tensor, bool]:
        """Room for edge weights, and whether they have to be made: whether it holds others than those of `key`."""
        if entering not in self._weights:
            self._weights[entering] = self._empty(self._graph.n_edges)
        fresh = self._weights_of.get(entering) != key
        self._weights_of[entering] = key
        return self._weights[entering], fresh

    def factors(self, t: int, base: int) -> Factors:
        """The factors of action t, for weights of action `base`."""
        if base not in self._factors:
            powers = self.discount ** torch.arange(len(self._graph.layer_ends), dtype=torch.float64)
            self._factors[base] = torch.stack([powers - self.discount**base, powers], dim=1).to(self._graph.device)
        return Factors(self.discount**t - self.discount**base, self.discount**t, self._factors[base][t])

    def flow(self) -> list[Tensor]:
        """Node probabilities and two arrays of shares per node; what goes through each edge, also discounted."""
        if not self._flow:
            n_flows = 1 if self.discount == 1.0 else 2
            sizes = [self._graph.n_nodes] * 3 + [self._graph.n_edges] * n_flows
            self._flow = [self._empty(n) for n in sizes]
        return self._flow

    def replay(self, key: tuple[Any, ...], make: Callable[[], None]) -> None:
        """Carry out a sequence of kernels: itself at first, recorded when it comes again, from then on replayed.

        240 launches from Python take longer than 240 sweeps over three million edges.
        """
        if key not in self._recordings:
            if len(self._recordings) < MOST_RECORDINGS:
                self._recordings[key] = None
            make()
            return
        recording = self._recordings[key]
        if recording is None:
            recording = torch.cuda.CUDAGraph()
            with torch.cuda.graph(recording):
                make()
            self._recordings[key] = recording
        recording.replay()


class Workspaces:
    """The workspaces of one graph: taken by a run, given back when it is gone, so that most work needs only one."""

    def __init__(self, graph: DeviceGraph, dtype: torch.dtype) -> None:
        self.graph, self.dtype = graph, dtype
        self._free: list[Workspace] = []
        self._last_plan: MemoryPlan | None = None
        self._lock = Lock()

    def take(self, columns: int, discount: float) -> Workspace:
        """One that nobody uses, made if there is none."""
        with self._lock:
            for space in self._free:
                if (space.columns, space.discount) == (columns, discount):
                    self._free.remove(space)
                    return space
            self._free.clear()  # what fits nobody's needs now makes room
        space = Workspace(self.graph, columns, discount, self.dtype)
        self._last_plan = space.plan
        return space

    @property
    def plan(self) -> MemoryPlan:
        """Where the messages of the last run are, or those of one reward would be."""
        return self._last_plan or plan_memory(self.graph, 1, 1.0, self.dtype)

    def give_back(self, space: Workspace) -> None:
        """Nobody uses it any more."""
        with self._lock:
            self._free.append(space)
