"""The machines of a constraint as tables on a device: whether walks are valid, by running every machine over them.

Independent of the product, as `CompiledConstraint.check` is: only states, edges and the machines' tables are used.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from xmen.machines.tables import UNKNOWN, CompiledConstraint, MachineTable

Tensor = torch.Tensor

MOST_CELLS = 50_000_000  # machines times walks that are run side by side


class DeviceMachines:
    """All tables in a row. What is not filled in yet is, by the host, when a walk comes to it."""

    def __init__(self, compiled: CompiledConstraint, device: torch.device) -> None:
        self._compiled, self._device = compiled, device
        tables = compiled.tables
        self._letters = self._stacked(lambda table: table.edge_letters)
        self._last_letters = self._stacked(lambda table: table.letters[:, -1])
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

    def _stacked(self, part: Callable[[MachineTable], NDArray[np.int32]]) -> Tensor:
        """A row of letters per machine."""
        return torch.as_tensor(np.stack([part(table) for table in self._compiled.tables]), device=self._device)

    def _column(self, values: Iterable[int]) -> Tensor:
        """A number per machine."""
        return torch.tensor(list(values), dtype=torch.int64, device=self._device)[:, None]

    def check(self, edges: Tensor, going: Tensor, last: Tensor) -> NDArray[np.bool_]:
        """Which walks are valid: edges (longest, n) as far as they are `going`, and the states in which they end."""
        size, answers = max(1, MOST_CELLS // len(self._compiled.tables)), []
        for begin in range(0, len(last), size):
            part = slice(begin, begin + size)
            answers.append(self._run(edges[:, part], going[:, part], last[part]).t().cpu().numpy())
        return self._compiled.judge(np.concatenate(answers))

    def _run(self, edges: Tensor, going: Tensor, last: Tensor) -> Tensor:
        """The final answer of each machine (machines, n)."""
        rows = self._start.expand(-1, len(last))
        for taken, moves in zip(edges, going, strict=True):
            rows = self._step(rows, self._letters[:, taken], moves)
        rows = self._step(rows, self._last_letters[:, last], torch.ones_like(last, dtype=torch.bool))
        return self._accepting[self._first_row + rows]

    def _step(self, rows: Tensor, letters: Tensor, moves: Tensor) -> Tensor:
        """The rows that machines come to, of the walks that still move."""
        while True:
            cell = self._begin + rows * self._width + letters
            after = torch.where(moves, self._next[cell], rows)
            missing = after == UNKNOWN
            if not bool(missing.any()):
                return after
            self._fill(torch.unique(cell[missing]).cpu().numpy())

    def _fill(self, cells: NDArray[np.int64]) -> None:
        machines = np.searchsorted(self._ends, cells, side="right") - 1
        for number, table in enumerate(self._compiled.tables):
            own = cells[machines == number] - self._ends[number]
            rows, letters = np.divmod(own, table.next.shape[1])
            table.step(rows.astype(np.int32), letters.astype(np.int32))
        self._read()
