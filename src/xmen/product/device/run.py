"""A product on a device: one run of messages for one reward, or for several rewards side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmen.machines.tables import UNKNOWN, CompiledConstraint
from xmen.product.device.layers import DeviceLayers, DeviceWeights
from xmen.product.device.plain import DeviceGraph, row_sums
from xmen.product.device.workspace import Workspaces
from xmen.product.graph import Product
from xmen.product.layered import Layered
from xmen.product.messages import Flow, as_columns, entropy_of
from xmen.sharing import Lock, once
from xmen.worlds.walks import EdgeWeights, Floats, Walks

DTYPES = {"float64": torch.float64, "float32": torch.float32}


class RoundingError(NamedTuple):
    """How far single precision was from double precision: log Z, and the largest difference of expected visits."""

    log_partition: float
    visits: float


# ---- Whether walks are valid, by running the machines of the constraint over them, as tables on a device.
#
# Independent of the product, as `CompiledConstraint.check` is: only states, edges and the machines' tables are used.

MOST_CELLS = 50_000_000  # machines times walks that are run side by side


class DeviceMachines:
    """All tables in a row. What is not filled in yet is, by the host, when a walk comes to it."""

    def __init__(self, compiled: CompiledConstraint, device: torch.device) -> None:
        self._compiled, self._device = compiled, device
        tables = compiled.tables
        self._letters = torch.as_tensor(np.stack([table.edge_letters for table in tables]), device=device)
        self._last_letters = torch.as_tensor(np.stack([table.letters[:, -1] for table in tables]), device=device)
        self._start = self._column(table.start for table in tables)
        self._width = self._column(table.next.shape[1] for table in tables)
        self._read()

    def _read(self) -> None:
        """Move the tables as they are now."""
        tables = [(table.next, table.accepting) for table in self._compiled.tables]
        self._ends = np.cumsum([0, *(moves.size for moves, _ in tables)])
        self._begin = self._column(self._ends[:-1].tolist())
        self._next = torch.as_tensor(np.concatenate([moves.ravel() for moves, _ in tables]), device=self._device)
        first = np.cumsum([0, *(len(accepting) for _, accepting in tables)])
        self._first_row = self._column(first[:-1].tolist())
        accepting = np.concatenate([accepting for _, accepting in tables])
        self._accepting = torch.as_tensor(accepting, device=self._device)

    def _column(self, values: Iterable[int]) -> Tensor:
        """A number per machine."""
        return torch.tensor(list(values), dtype=torch.int64, device=self._device)[:, None]

    def check(self, edges: Tensor, going: Tensor, last: Tensor) -> NDArray[np.bool_]:
        """Which walks are valid: edges (longest, n) as far as they are `going`, and the states in which they end."""
        size, answers = max(1, MOST_CELLS // len(self._compiled.tables)), []
        for begin in range(0, len(last), size):
            part = slice(begin, begin + size)
            rows = self._start.expand(-1, len(last[part]))
            for taken, moves in zip(edges[:, part], going[:, part], strict=True):
                rows = self._step(rows, self._letters[:, taken], moves)
            rows = self._step(rows, self._last_letters[:, last[part]], torch.ones_like(last[part], dtype=torch.bool))
            answers.append(self._accepting[self._first_row + rows].t().cpu().numpy())
        return self._compiled.judge(np.concatenate(answers))

    def _step(self, rows: Tensor, letters: Tensor, moves: Tensor) -> Tensor:
        """The rows that machines come to, of the walks that still move."""
        while True:
            cell = self._begin + rows * self._width + letters
            after = torch.where(moves, self._next[cell], rows)
            missing = after == UNKNOWN
            if not bool(missing.any()):
                return after
            cells = torch.unique(cell[missing]).cpu().numpy()
            machines = np.searchsorted(self._ends, cells, side="right") - 1
            for number, table in enumerate(self._compiled.tables):
                own = np.divmod(cells[machines == number] - self._ends[number], table.next.shape[1])
                table.step(*(part.astype(np.int32) for part in own))
            self._read()


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
        law, reward = laws[0], torch.as_tensor(np.stack([law.reward for law in laws], axis=1), device=self.device)
        dynamics = torch.as_tensor(law.log_dynamics, device=self.device)[:, None]
        return DeviceWeights(dynamics, reward, law.log_start, law.discount, law.given_start)

    def run(self, weights: DeviceWeights) -> Run:
        """Messages under each column of rewards."""
        if self.precision != "float64":
            self._measure(weights)
        return Run(self.operations(weights))

    def _measure(self, weights: DeviceWeights) -> None:
        with self._lock:
            if self.error is not None:
                return
            spaces = self._spaces, Workspaces(self.graph, torch.float64)
            single, double = (Run(DeviceLayers(self.product, self.graph, weights, space)) for space in spaces)
            log_partition = float(np.abs(single.log_partition - double.log_partition).max())
            visits = float(np.abs(single.flow().discounted - double.flow().discounted).max(initial=0.0))
            self.error = RoundingError(log_partition, visits)

    def operations(self, weights: DeviceWeights) -> DeviceLayers:
        return DeviceLayers(self.product, self.graph, weights, self._spaces)

    def gradient(self, law: EdgeWeights) -> Callable[[Tensor], tuple[float, Tensor]]:
        """log Z and expected discounted visits of a table (n_states, n_actions) on the device; `law` says the rest."""
        graph, weights = self.graph, self.weights([law])

        def at(table: Tensor) -> tuple[float, Tensor]:
            reward = table.detach().to(graph.device, torch.float64).reshape(-1)[graph.pair]
            run = self.run(replace(weights, reward=reward[:, None]))
            _, discounted, _, _ = run.uses()
            return float(run.log_partition[0]), row_sums(discounted, graph.pair_ends).reshape(table.shape)

        return at

    @once
    def _machines(self) -> DeviceMachines:
        return DeviceMachines(self.product.compiled, self.device)

    def checked(self, starts: NDArray[np.uint32], steps: list[Tensor]) -> tuple[Walks, NDArray[np.bool_]]:
        """Walks along product edges, -1 after their ends, and which are valid: machines say so, run on the device."""
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
        """Messages of up to `SIDE_BY_SIDE` laws, worked out together when one of them is first asked."""
        together = Together(self, laws)
        return [Column(together, column) for column in range(len(laws))]

    def __reduce__(self) -> tuple[type[OnDevice], tuple[Product, torch.device, str]]:
        return OnDevice, (self.product, self.device, self.precision)

    def beside(self, product: Product) -> OnDevice:
        """Another product on the same device, in the same precision."""
        return OnDevice(product, self.device, self.precision)

    def describe(self) -> str:
        """Where messages are, and how exact; for people."""
        said = f"{self._spaces.plan} in {self.precision}"
        if self.error is not None:
            said += " (log Z off by {:.1e} and visits by at most {:.1e} on the first pass)".format(*self.error)
        return said


class Run(Layered):
    """The layers of a device, for one question at a time: questions share their memory."""

    def __init__(self, operations: DeviceLayers) -> None:
        self._lock, self._flows = Lock(), dict[bool, Flow]()
        super().__init__(operations)

    def flow(self, with_entropy: bool = False, starts: Floats | None = None) -> Flow:
        with self._lock:
            if starts is None and with_entropy in self._flows:  # the flow of the law is kept
                return self._flows[with_entropy]
            counts, discounted, entropy, kept = self.uses(with_entropy, starts)
            begun = self._starts if starts is None else starts
            flow = Flow(counts.cpu().numpy(), discounted.cpu().numpy(), begun, entropy_of(begun) + entropy, kept)
            if starts is None:
                self._flows[with_entropy] = flow
            return flow

    def uses(self, with_entropy: bool = False, starts: Floats | None = None) -> tuple[Tensor, Tensor, Floats, Floats]:
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
        return self.place.run(self.place.weights(filled))


class Column:
    """The messages of one law among several."""

    def __init__(self, together: Together, column: int) -> None:
        self._together, self._column = together, column

    @property
    def log_partition(self) -> float:
        """log Z."""
        return float(self._together.run.log_partition[self._column])

    def flow(self, with_entropy: bool = False, starts: Floats | None = None) -> Flow:
        run, k = self._together.run, self._column
        begun = None if starts is None else np.repeat(starts[:, None], len(run.log_partition), axis=1)
        flow = run.flow(with_entropy, begun)
        return Flow(flow.counts[:, k], flow.discounted[:, k], flow.starts[:, k], float(flow.entropy[k]), flow.kept)

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        return np.asarray(self._together.run.log_completions(t, nodes)[:, self._column])

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
