"""What the parts of a linear form add at each position: counts, lengths, totals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xmen.errors import ConstraintError, TrajectoryError
from xmen.events import NO_ACTION, Event, Ints
from xmen.worlds.mdp import MDP


class Term(ABC):
    """What one part of a linear form adds at each position."""

    @abstractmethod
    def values(self, states: Ints, actions: Ints) -> Ints:
        """The integer added at each pair; `NO_ACTION` at the last position."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """The least and the most that one position can add."""

    def check_world(self, world: MDP) -> None:
        """Raise ConstraintError when the term mentions something that the world does not have."""


@dataclass(frozen=True)
class CountTerm(Term):
    """1 where the event holds."""

    event: Event

    bounds = (0, 1)

    def values(self, states: Ints, actions: Ints) -> Ints:
        return self.event.holds(states, actions).astype(np.int64)

    def check_world(self, world: MDP) -> None:
        self.event.check_world(world)

    def __str__(self) -> str:
        return f"count({self.event})"


@dataclass(frozen=True)
class LengthTerm(Term):
    """1 at every position."""

    bounds = (1, 1)

    def values(self, states: Ints, actions: Ints) -> Ints:
        return np.ones(states.shape, dtype=np.int64)

    def __str__(self) -> str:
        return "length()"


@dataclass(frozen=True)
class TotalTerm(Term):
    """The weight of the state at t = 0 .. L, or of the state and action at t < L."""

    weights: tuple[Any, ...]  # integers, or one row of integers per state

    @property
    def per_action(self) -> bool:
        """Whether the weights are per state and action."""
        return isinstance(self.weights[0], tuple)

    @property
    def bounds(self) -> tuple[int, int]:
        least, most = int(self._table.min()), int(self._table.max())
        return (min(least, 0), max(most, 0)) if self.per_action else (least, most)

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.weights, dtype=np.int64)

    def values(self, states: Ints, actions: Ints) -> Ints:
        table = self._table
        if states.size and states.max() >= len(table):
            raise TrajectoryError(
                f"total(weights) has weights for {len(table)} states (0 .. {len(table) - 1}), "
                f"but the trajectory visits state {states.max()}."
            )
        if not self.per_action:
            return table[states]
        if actions.size and actions.max() >= table.shape[1]:
            raise TrajectoryError(
                f"total(weights) has weights for {table.shape[1]} actions (0 .. {table.shape[1] - 1}), "
                f"but the trajectory takes action {actions.max()}."
            )
        return np.where(actions == NO_ACTION, 0, table[states, actions])

    def check_world(self, world: MDP) -> None:
        shape = self._table.shape
        if shape not in ((world.n_states,), (world.n_states, world.n_actions)):
            raise ConstraintError(
                f"total(weights): the weights have shape {shape}, but the world needs ({world.n_states},) "
                f"for states or ({world.n_states}, {world.n_actions}) for states and actions.{_hint(shape, world)}"
            )

    def meant(self, world: MDP) -> str:
        """A form that says what weights of another shape were probably meant to say; '' where nothing is likely."""
        table = self._table
        if table.shape == (world.n_actions,):
            return _sum([(int(weight), f"count(doing({action}))") for action, weight in enumerate(table)])
        return ""

    def __str__(self) -> str:
        rows = [list(row) for row in self.weights] if self.per_action else list(self.weights)
        return f"total({rows})"


def _hint(shape: tuple[int, ...], world: MDP) -> str:
    """Which other order of the same numbers was probably meant."""
    if shape == (world.n_actions, world.n_states):
        return " These are turned round: write total(weights.T)."
    size = getattr(world, "height", 0), getattr(world, "width", 0)
    if shape in (size, size[::-1]):
        turned = "weights" if shape == size else "weights.T"
        return f" For a map with a row for each y, from below: total({turned}.ravel())."
    if len(shape) == 1 and shape[0] == len(world.source):
        return " For a weight per transition, give each of them its state and action."
    return ""


def _sum(parts: list[tuple[int, str]]) -> str:
    """The text of a sum, without what is 0."""
    kept = [(weight, part if abs(weight) == 1 else f"{abs(weight)}*{part}") for weight, part in parts if weight]
    text = " ".join(f"{'-' if weight < 0 else '+'} {part}" for weight, part in kept)
    return text.removeprefix("+ ")
