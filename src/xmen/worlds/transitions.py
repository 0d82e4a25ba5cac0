"""The transitions of a world as sorted columns, and how to find a step among them: what worlds and networks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import TrajectoryError, WorldError
from xmen.limits import MEMORY
from xmen.worlds._checks import LARGEST
from xmen.worlds._table import Columns, normalise
from xmen.worlds.trajectory import Trajectory

STATE_BYTES, PAIR_BYTES = 36, 9  # of a table while it is made: per state, and per state and action
MOST_SHOWN = 4  # places or actions that a message names


class Transitions:
    """States, actions, and rows (state, action, next_state, probability), read-only; see `MDP` for the arrays."""

    n_states: int
    n_actions: int
    horizon: int | None
    terminal: NDArray[np.bool_]
    has_terminal: bool
    source: NDArray[np.int32]
    action: NDArray[np.int32]
    target: NDArray[np.int32]
    probability: NDArray[np.float64]
    row_start: NDArray[np.int64]
    available: NDArray[np.bool_]
    deterministic: bool
    step_word = "action"  # what messages call one step

    def _build_table(self, n_states: int, n_actions: int, columns: Columns, terminal: NDArray[np.bool_]) -> None:
        """Set all arrays from checked columns; rows that leave a terminal state are dropped."""
        require_size(n_states, n_actions)
        self.n_states = n_states
        self.n_actions = n_actions
        self.terminal = terminal
        self.has_terminal = bool(terminal.any())
        columns = normalise(columns, terminal, n_actions, self.describe_state, self.describe_action)
        self.source, self.action, self.target, self.probability = columns
        self.row_start = np.searchsorted(self.source, np.arange(n_states + 1)).astype(np.int64)
        self.available = np.zeros((n_states, n_actions), dtype=np.bool_)
        self.available[self.source, self.action] = True
        self.deterministic = bool(np.all(self.probability == 1.0))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_states={self.n_states}, n_actions={self.n_actions}, "
            f"{len(self.source)} transitions, horizon={self.horizon})"
        )

    def _freeze(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # pickle forgets that the arrays were read-only

    @property
    def transitions(self) -> NDArray[np.float64]:
        """The transitions as rows (state, action, next_state, probability), shape (E, 4)."""
        return np.column_stack([self.source, self.action, self.target, self.probability])

    def describe_state(self, state: int) -> str:
        """The state as messages call it."""
        return f"state {state}"

    def describe_action(self, action: int) -> str:
        """The action as messages call it."""
        return f"action {action}"

    numbers_are_states = True  # in the text of rules, where they could mean nothing else

    def state_name(self, state: int) -> str:
        """The state as the text of a rule has it inside at(...)."""
        return str(state)

    def read_state(self, name: Any) -> int:
        """The state that a cell, or a name in quotes, means in the text of a rule."""
        raise WorldError(
            f"this world has no names for states, only numbers from 0 to {self.n_states - 1}: got {name!r}"
        )

    def action_name(self, action: int) -> str:
        """The action as the text of a rule has it inside doing(...)."""
        return str(action)

    def read_action(self, name: str) -> int:
        """The action that a name means in the text of a rule."""
        raise WorldError(
            f"this world has no names for actions, only numbers from 0 to {self.n_actions - 1}: got {name}"
        )

    def find_transitions(self, states: ArrayLike, actions: ArrayLike, next_states: ArrayLike) -> NDArray[np.int64]:
        """Index of each (state, action, next_state) into the transition columns, -1 where there is none.

        The three arrays have one shape, which the answer has too. O(log E) each.
        """
        state, action, target = (np.asarray(x, dtype=np.int64) for x in (states, actions, next_states))
        known = (
            (state >= 0)
            & (state < self.n_states)
            & (action >= 0)
            & (action < self.n_actions)
            & (target >= 0)
            & (target < self.n_states)
        )
        wanted = np.where(known, self._key(state, action, target), -1)
        if not len(self._keys):
            return np.full(wanted.shape, -1, dtype=np.int64)
        index = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[index] == wanted, index, -1)

    def find_steps(self, trajectory: Trajectory) -> NDArray[np.int64]:
        """Index of each step of a trajectory into the transition columns, -1 where impossible; shape (L,)."""
        states, actions = trajectory.states, trajectory.actions
        if max(states) > LARGEST or max(actions, default=0) > LARGEST:
            states = tuple(min(state, LARGEST) for state in states)
            actions = tuple(min(action, LARGEST) for action in actions)
        return self.find_transitions(states[:-1], actions, states[1:])

    def action_between(self, state: int, successor: int, position: int) -> int:
        """The one action that leads from a state to the next; TrajectoryError where there is none, or a choice."""
        for number in (state, successor):
            if not 0 <= number < self.n_states:
                raise TrajectoryError(
                    f"position {position}: state {number} does not exist: there are states 0 to {self.n_states - 1}"
                )
        steps, word = self._steps_from(state), self.step_word
        fitting = [action for action, after in steps if after == successor]
        if len(fitting) == 1:
            return fitting[0]
        ends = f"from {self.describe_state(state)} to {self.describe_state(successor)}"
        if fitting:
            raise TrajectoryError(
                f"position {position}: {len(fitting)} {word}s lead {ends} "
                f"({_some(map(self.describe_action, fitting))}), expected exactly one: write down which one was taken, "
                "as xm.Trajectory(states, actions) does"
            )
        reached = _some(map(self.describe_state, sorted({after for _, after in steps})))
        rest = f"; from there one gets to {reached}" if reached else "; nothing leads on from there"
        raise TrajectoryError(f"position {position}: no {word} leads {ends}, expected exactly one{rest}")

    def _steps_from(self, state: int) -> list[tuple[int, int]]:
        """The actions of a state with where they may lead."""
        row = slice(self.row_start[state], self.row_start[state + 1])
        return list(zip(self.action[row].tolist(), self.target[row].tolist(), strict=True))

    def along(self, states: Sequence[int]) -> Trajectory:
        """The trajectory through these states; TrajectoryError where a step is not possible by exactly one action."""
        pairs = enumerate(pairwise(states))
        return Trajectory(states, [self.action_between(*pair, position) for position, pair in pairs])

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self._key(self.source, self.action, self.target)

    def _key(self, source: NDArray[Any], action: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int64]:
        key: NDArray[np.int64] = (source.astype(np.int64) * self.n_actions + action) * self.n_states + target
        return key


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:MOST_SHOWN]) + (", ..." if len(listed) > MOST_SHOWN else "")


def require_size(n_states: int, n_actions: int) -> None:
    """Refuse tables that do not fit in memory, and those whose (state, action, next_state) have no number of their own.

    Each state and each pair of a state and an action has its place, whether or not anything happens there.
    """
    if n_states * n_states * n_actions >= 2**63:
        raise WorldError(
            f"a table of {n_states} states and {n_actions} actions is too large: "
            "n_states * n_states * n_actions must stay below 2**63"
        )
    what = f"a table of {n_states:,} states and {n_actions:,} actions"
    MEMORY.require(STATE_BYTES * n_states + PAIR_BYTES * n_states * n_actions, what, WorldError)
