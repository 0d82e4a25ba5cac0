"""A product on a device: one run of messages for one reward, or for several rewards side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmen.machines.on_device import DeviceMachines
from xmen.product.device.layers import DeviceLayers, DeviceWeights
from xmen.product.device.plain import DeviceGraph, row_sums
from xmen.product.device.workspace import Workspaces
from xmen.product.graph import Product
from xmen.product.layered import SIDE_BY_SIDE, Layered
from xmen.product.messages import Flow, as_columns
from xmen.sharing import Lock, once
from xmen.worlds.walks import EdgeWeights, Floats, Walks

DTYPES = {"float64": torch.float64, "float32": torch.float32}


class RoundingError(NamedTuple):
    """How far single precision was from double precision: log Z, and the largest difference of expected visits."""

    log_partition: float
    visits: float


class OnDevice:
    """The graph of a product, moved once, and what any reward on it needs."""

    def __init__(self, product: Product, device: torch.device, precision: str = "float64") -> None:
        self.product, self.device, self.precision = product, device, precision
        self.graph = DeviceGraph(product, device)
        self._spaces = Workspaces(self.graph, DTYPES[precision])
        self._target = torch.as_tensor(product.world.target.astype(np.int64), device=device)
        self.error: RoundingError | None = None  # of single precision, measured on the first pass
        self._lock = Lock()

    def weights(self, laws: Sequence[EdgeWeights]) -> DeviceWeights:
        """The weights of laws that differ in their rewards alone, one column each."""
        reward = np.stack([law.reward for law in laws], axis=1)
        dynamics = torch.as_tensor(laws[0].log_dynamics, device=self.device)[:, None]
        return DeviceWeights(dynamics, torch.as_tensor(reward, device=self.device), laws[0].discount)

    def run(self, law: EdgeWeights, weights: DeviceWeights) -> Run:
        """Messages under each column of rewards; `law` says where trajectories start."""
        if self.precision != "float64":
            self._measure(law, weights)
        return Run(self, law, weights, self._spaces)

    def _measure(self, law: EdgeWeights, weights: DeviceWeights) -> None:
        with self._lock:
            if self.error is not None:
                return
            single = Run(self, law, weights, self._spaces)
            double = Run(self, law, weights, Workspaces(self.graph, torch.float64))
            log_partition = float(np.abs(single.log_partition - double.log_partition).max())
            visits = float(np.abs(single.flow().discounted - double.flow().discounted).max(initial=0.0))
            self.error = RoundingError(log_partition, visits)

    def operations(self, law: EdgeWeights) -> DeviceLayers:
        """The operations under one reward."""
        return DeviceLayers(self.product, self.graph, self.weights([law]), self._spaces)

    def gradient(self, law: EdgeWeights) -> Callable[[Tensor], tuple[float, Tensor]]:
        """log Z and expected discounted visits as a function of tables (n_states, n_actions) that are on the device.

        `law` says everything but the reward.
        """
        graph, weights = self.graph, self.weights([law])

        def at(table: Tensor) -> tuple[float, Tensor]:
            reward = table.detach().to(graph.device, torch.float64).reshape(-1)[graph.pair]
            run = self.run(law, replace(weights, reward=reward[:, None]))
            _, discounted, _ = run.uses()
            return float(run.log_partition[0]), row_sums(discounted, graph.pair_ends).reshape(table.shape)

        return at

    @once
    def _machines(self) -> DeviceMachines:
        return DeviceMachines(self.product.compiled, self.device)

    def checked(self, starts: NDArray[np.uint32], steps: list[Tensor]) -> tuple[Walks, NDArray[np.bool_]]:
        """Walks from start nodes along product edges, -1 where a walker has arrived; and which of them are valid.

        The machines of the constraint say so, run on the device.
        """
        product, device = self.product, self.device
        first = product.state[starts]
        taken = torch.stack(steps) if steps else torch.empty((0, len(starts)), dtype=torch.int32, device=device)
        going = taken >= 0
        edges = self.graph.leaving.edge[torch.clamp(taken, min=0)] if steps else taken
        lengths = going.sum(0)
        ends = torch.as_tensor(first.astype(np.int64), device=device)
        if steps:
            last = edges.gather(0, torch.clamp(lengths - 1, min=0)[None])[0]
            ends = torch.where(lengths > 0, self._target[last], ends)
        unruled = not product.compiled.tables or not len(starts)
        valid = np.ones(len(starts), dtype=np.bool_) if unruled else self._machines.check(edges, going, ends)
        flat = torch.masked_select(edges.t(), going.t()).cpu().numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths.cpu().numpy())])
        return Walks(product.world, first, flat, offsets), valid

    def messages(self, laws: Sequence[EdgeWeights]) -> list[Column]:
        """Messages of several laws, worked out together when one of them is first asked."""
        shared = [Together(self, laws[i : i + SIDE_BY_SIDE]) for i in range(0, len(laws), SIDE_BY_SIDE)]
        return [Column(shared[i // SIDE_BY_SIDE], i % SIDE_BY_SIDE) for i in range(len(laws))]

    def __reduce__(self) -> tuple[type[OnDevice], tuple[Product, torch.device, str]]:
        return OnDevice, (self.product, self.device, self.precision)

    def describe(self) -> str:
        """Where messages are, and how exact; for people."""
        said = f"{self._spaces.plan} in {self.precision}"
        if self.error is not None:
            said += " (log Z off by {:.1e} and visits by at most {:.1e} on the first pass)".format(*self.error)
        return said


class Run(Layered):
    """`Layered` on a device, for one question at a time: they share their memory."""

    def __init__(self, place: OnDevice, law: EdgeWeights, weights: DeviceWeights, spaces: Workspaces) -> None:
        self._lock = Lock()
        super().__init__(place.product, law, DeviceLayers(place.product, place.graph, weights, spaces))

    def uses(self, with_entropy: bool = False, starts: Floats | None = None) -> tuple[Tensor, Tensor, Floats]:
        with self._lock:
            self._segment = {}
            return super().uses(with_entropy, starts)

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        with self._lock:
            return super().log_completions(t, nodes)

    def steps(self, n: int, rng: np.random.Generator, column: int = 0) -> tuple[NDArray[np.uint32], list[Tensor]]:
        with self._lock:
            self._segment = {}
            return super().steps(n, rng, column)


class Together:
    """Several laws whose messages are worked out at once."""

    def __init__(self, place: OnDevice, laws: Sequence[EdgeWeights]) -> None:
        self.place, self._laws = place, laws

    def __reduce__(self) -> tuple[type[Together], tuple[OnDevice, Sequence[EdgeWeights]]]:
        return Together, (self.place, self._laws)  # messages are worked out again where a copy arrives

    @once
    def run(self) -> Run:
        """The run of all of them; a number of columns that is no power of two is filled up."""
        laws = list(self._laws)
        filled = laws + [laws[0]] * ((1 << (len(laws) - 1).bit_length()) - len(laws))
        return self.place.run(laws[0], self.place.weights(filled))

    @once
    def flow(self) -> Flow:
        """What goes through every world edge, under each."""
        return self.run.flow()

    @once
    def flow_with_entropy(self) -> Flow:
        """What goes through every world edge, and the entropy, under each."""
        return self.run.flow(with_entropy=True)


class Column:
    """The messages of one law among several."""

    def __init__(self, together: Together, column: int) -> None:
        self._together, self._column = together, column

    @property
    def log_partition(self) -> float:
        """log Z."""
        return float(self._together.run.log_partition[self._column])

    def flow(self, with_entropy: bool = False) -> Flow:
        flow, k = self._together.flow_with_entropy if with_entropy else self._together.flow, self._column
        return Flow(flow.counts[:, k], flow.discounted[:, k], flow.starts[:, k], float(flow.entropy[k]))

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        completions: Floats = self._together.run.log_completions(t, nodes)[:, self._column]
        return completions

    def _steps(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], list[Tensor]]:
        product, run = self._together.place.product, self._together.run
        starts, steps = run.steps(n, rng, self._column)
        if len(steps) == product.horizon and product.timeless(run.discount):
            rng.random(n)  # on the host, one sweep serves all t and asks once more who still moves
        return starts, steps

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        starts, steps = self._steps(n, rng)
        return starts, as_columns([step.cpu().numpy().view(np.uint32) for step in steps], n)

    def checked_walks(self, n: int, rng: np.random.Generator) -> tuple[Walks, NDArray[np.bool_]]:
        """n independent walks, and which of them the machines of the constraint accept, run on the device."""
        return self._together.place.checked(*self._steps(n, rng))
