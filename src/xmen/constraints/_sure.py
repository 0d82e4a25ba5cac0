"""Machines over rows of events, and how they learn early that their answer can no longer change.

A machine given by a function (a formula that progresses, a user's own step) does not say when no continuation
can change its answer. Where its states can be listed, this module lists them over all rows, merges those that
no continuation can tell apart, and marks the two states in which the answer is sure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.occurrence import EventLeaf
from xmen.constraints.verdict import Sure
from xmen.events import Event

MAX_STEPS = 4_096  # (state, row) pairs tried before a machine counts as too large to list


class RowMachine(Protocol):
    """A deterministic machine that reads one row of events, an integer below 2**n_events, per position."""

    def start(self) -> Hashable:
        """The state before position 0."""

    def step(self, state: Any, row: int) -> Hashable:
        """The state after one more position; `state` is never a `Sure` one."""

    def accepting(self, state: Any) -> bool:
        """Whether the trajectory may end here; `state` is never a `Sure` one."""


@dataclass(frozen=True, repr=False)
class RowLeaf(EventLeaf):
    """A leaf whose machine is a row machine over the events it watches."""

    watched: tuple[Event, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return self.watched

    @property
    @abstractmethod
    def machine(self) -> RowMachine:
        """The machine, settled where that can be done."""

    def start(self) -> Hashable:
        return self.machine.start()

    def step(self, state: Hashable, symbol: int) -> Hashable:
        return self.machine.step(state, symbol)

    def accepting(self, state: Hashable) -> bool:
        return self.machine.accepting(state)


class SettledMachine:
    """The smallest machine with the same answers: its states are numbers, and `Sure` where nothing is open.

    Any row counts as possible at any position, and a trajectory may end after any of them.
    """

    def __init__(self, start: Hashable, table: list[list[Hashable]], accepting: list[bool]) -> None:
        self._start = start
        self._table = table
        self._accepting = accepting

    def start(self) -> Hashable:
        return self._start

    def step(self, state: int, row: int) -> Hashable:
        return self._table[state][row]

    def accepting(self, state: int) -> bool:
        return self._accepting[state]


def settle(machine: RowMachine, n_events: int, max_steps: int = MAX_STEPS) -> RowMachine:
    """The listed machine, or the machine itself where listing takes more than `max_steps` steps.

    The machine itself answers the same; it may only be sure of its answer later. Costs at most `max_steps`
    steps, and as many table entries times the number of rounds in which states are told apart.
    """
    listed = _list(machine, n_events, max_steps)
    return machine if listed is None else _smallest(*listed)


def _list(machine: RowMachine, n_events: int, max_steps: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
    """Successors (n, 2**n_events) and acceptance (n,) of all states; state 0 is the start."""
    if n_events > max_steps.bit_length():
        return None
    rows = range(2**n_events)
    states: list[Hashable] = [machine.start()]
    index: dict[Hashable, int] = {states[0]: 0}
    table: list[list[int]] = []
    while len(table) < len(states):
        if len(states) * len(rows) > max_steps:
            return None
        state = states[len(table)]
        successors: list[int] = []
        for row in rows:
            after = state if isinstance(state, Sure) else machine.step(state, row)
            if after not in index:
                index[after] = len(states)
                states.append(after)
            successors.append(index[after])
        table.append(successors)
    accepting = [s is Sure.HOLDS if isinstance(s, Sure) else machine.accepting(s) for s in states]
    return np.array(table), np.array(accepting)


def _smallest(table: NDArray[np.int64], accepting: NDArray[np.bool_]) -> SettledMachine:
    """Moore's algorithm: split the states by acceptance, then by the classes of their successors."""
    n_classes, classes = 0, accepting.astype(np.int64)
    while True:
        futures = np.column_stack([classes, classes[table]])
        _, first, classes = np.unique(futures, axis=0, return_index=True, return_inverse=True)
        classes = classes.reshape(-1)  # some versions of numpy return a column here
        if len(first) == n_classes:
            break
        n_classes = len(first)
    successors, accepts = classes[table[first]], accepting[first].tolist()
    states: list[Hashable] = list(range(n_classes))
    for state in range(n_classes):
        if np.all(successors[state] == state):
            states[state] = Sure.HOLDS if accepts[state] else Sure.FAILS
    # No trajectory ends before position 0, so any state with the same successors can be the start. Another one
    # than the given start is better: that one may be needed for nothing else.
    same_future = np.flatnonzero(np.all(successors == successors[classes[0]], axis=1)).tolist()
    start = min(same_future, key=lambda state: (not isinstance(states[state], Sure), state == classes[0]))
    return SettledMachine(states[start], [[states[s] for s in row] for row in successors.tolist()], accepts)
