"""The machines of a constraint as tables on a device: whether walks are valid, by running every machine over them.

Independent of the product, as `CompiledConstraint.check` is: only states, edges and the machines' tables are used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from xmen.machines.tables import UNKNOWN, CompiledConstraint, MachineTable

Tensor = torch.Tensor

MOST_CELLS = 50_000_000  # machines times walks that are run side by side


class DeviceMachines:
    """All tables in a row, as far as they are filled in; they grow while machines are explored.

    A machine's state is the place where its row begins, so that a step is one look at `next`, at that place and the
    letter of the edge.
    """

    def __init__(self, compiled: CompiledConstraint, device: torch.device) -> None:
        self._compiled, self._device = compiled, device
        self._read()

    def _read(self) -> None:
        tables = self._compiled.tables
        ends = np.cumsum([0, *(table.next.size for table in tables)])
        next_place, accepting = np.full(ends[-1], UNKNOWN, dtype=np.int32), np.zeros(ends[-1], dtype=np.bool_)
        for table, begin, end in zip(tables, ends, ends[1:], strict=False):
            width, rows = table.next.shape[1], table.next.ravel()
            next_place[begin:end] = np.where(rows == UNKNOWN, UNKNOWN, begin + rows * width)
            accepting[begin:end:width] = table.accepting
        self._next, self._accepting = (torch.as_tensor(array, device=self._device) for array in (next_place, accepting))
        starts = [begin + table.start * table.next.shape[1] for table, begin in zip(tables, ends, strict=False)]
        self._starts = torch.tensor(starts, dtype=torch.int32, device=self._device)
        self._letters = self._stacked(lambda table: table.edge_letters)
        self._last_letters = self._stacked(lambda table: table.letters[:, -1])

    def _stacked(self, part: Callable[[MachineTable], NDArray[np.int32]]) -> Tensor:
        """A row of letters per machine."""
        arrays = [part(table) for table in self._compiled.tables]
        return torch.as_tensor(np.stack(arrays), device=self._device) if arrays else torch.empty(0)

    def check(self, edges: Tensor, going: Tensor, last: Tensor) -> NDArray[np.bool_] | None:
        """Which walks are valid: edges (longest, n) as far as they are `going`, and the states in which they end.

        None where a walk comes to an entry that is not filled in: the host knows how, and from then on so does this.
        """
        n, machines = len(last), len(self._compiled.tables)
        if machines == 0:
            return np.ones(n, dtype=np.bool_)
        answers, size = [], max(1, MOST_CELLS // machines)
        for begin in range(0, n, size):
            part = slice(begin, begin + size)
            found = self._run(edges[:, part], going[:, part], last[part])
            if found is None:
                return None
            answers.append(found.t().cpu().numpy())
        return self._compiled.judge(np.concatenate(answers) if answers else np.empty((0, machines), dtype=np.bool_))

    def _run(self, edges: Tensor, going: Tensor, last: Tensor) -> Tensor | None:
        """The final answer of each machine (machines, n)."""
        place = self._starts[:, None].expand(-1, len(last))
        for taken, moves in zip(edges, going, strict=True):
            place = torch.where(moves, self._step(place, self._letters[:, taken]), place)
        place = self._step(place, self._last_letters[:, last])
        return None if bool((place == UNKNOWN).any()) else self._accepting[place]

    def _step(self, place: Tensor, letters: Tensor) -> Tensor:
        """Where machines come to; who is nowhere stays there."""
        return torch.where(place == UNKNOWN, place, self._next[torch.clamp(place + letters, min=0)])

    def learn(self) -> None:
        """Read the tables again: the host has filled in what was missing."""
        self._read()
