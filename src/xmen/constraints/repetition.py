"""Constraints on runs and repetitions: longest stretches, equal moves in a row, states seen twice."""

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xmen.constraints.arithmetic import Comparable, integer
from xmen.constraints.constraint import Constraint, Leaf, Sure, word
from xmen.events import NO_ACTION, Bools, Event, Ints, anytime, require_event
from xmen.worlds.mdp import MDP


@dataclass(frozen=True, eq=False, repr=False)
class LongestStretch(Comparable):
    """The length of the longest stretch that a kind of runs finds."""

    runs: "Runs"

    def compare(self, op: str, other: object) -> Constraint:
        k = integer(other, f"`{self} {op} ...`")
        if op in ("==", "!="):
            both = StretchAtMost(self.runs, k) & ~StretchAtMost(self.runs, k - 1)
            return both if op == "==" else ~both
        if op in ("<=", "<"):
            return StretchAtMost(self.runs, k if op == "<=" else k - 1)
        return ~StretchAtMost(self.runs, k if op == ">" else k - 1)

    def __str__(self) -> str:
        return str(self.runs)


class Runs:
    """How stretches are read: a symbol other than `BREAK` continues the stretch of the same symbol."""

    BREAK = -1

    @abstractmethod
    def symbols(self, states: Ints, actions: Ints) -> Ints:
        """What is repeated at each position, or `BREAK` where every stretch ends."""

    def check_world(self, world: MDP) -> None:
        """Raise ConstraintError when something is mentioned that the world does not have."""


@dataclass(frozen=True)
class EventRuns(Runs):
    """Stretches of consecutive positions at which the event holds."""

    event: Event

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        return np.where(self.event.holds(states, actions), 0, self.BREAK)

    def check_world(self, world: MDP) -> None:
        self.event.check_world(world)

    def __str__(self) -> str:
        return f"longest_run({self.event})"


@dataclass(frozen=True)
class ActionRuns(Runs):
    """Stretches of the same action."""

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        return np.where(actions == NO_ACTION, self.BREAK, actions)

    def __str__(self) -> str:
        return "longest_repeat()"


@dataclass(frozen=True, repr=False)
class StretchAtMost(Leaf):
    """No stretch is longer than k; the state is (what is repeated, how often so far)."""

    runs: Runs
    k: int
    _is_operator = True

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        return self.runs.symbols(states, actions)

    def check_world(self, world: MDP) -> None:
        self.runs.check_world(world)

    def start(self) -> Hashable:
        return Sure.FAILS if self.k < 0 else (Runs.BREAK, 0)

    def step(self, state: tuple[int, int], symbol: int) -> Hashable:
        if symbol == Runs.BREAK:
            return (Runs.BREAK, 0)
        repeated, so_far = state
        run = so_far + 1 if symbol == repeated else 1
        return Sure.FAILS if run > self.k else (symbol, run)

    def accepting(self, state: Any) -> bool:
        return True

    def _text(self) -> str:
        return f"{self.runs} <= {self.k}"


@dataclass(frozen=True, repr=False)
class VisitedStates(Leaf):
    """What `no_revisit` and its relaxations read: the state where the event holds, `ELSEWHERE` where it does not."""

    event: Event

    ELSEWHERE: ClassVar = -1

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        return np.where(self.event.holds(states, actions), states, self.ELSEWHERE)

    def check_world(self, world: MDP) -> None:
        self.event.check_world(world)

    def accepting(self, state: Any) -> bool:
        return True

    def _text(self) -> str:
        return f"no_revisit({'' if self.event == anytime else self.event})"


@dataclass(frozen=True, repr=False)
class NoRevisit(VisitedStates):
    """No state twice among the positions at which the event holds; the state is the set of those visited."""

    WINDOWS: ClassVar = (8, 6, 4, 3, 2)  # how many recent states its relaxations remember

    def start(self) -> Hashable:
        return frozenset()

    def step(self, state: frozenset[int], symbol: int) -> Hashable:
        if symbol == self.ELSEWHERE:
            return state
        return Sure.FAILS if symbol in state else state | {symbol}

    def judge(self, symbols: Ints, inside: Bools) -> Bools | None:
        """Equal neighbours after sorting: the machine's answer without its exponentially many states."""
        ordered = np.sort(np.where(inside, symbols, self.ELSEWHERE), axis=1)
        again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != self.ELSEWHERE)
        once: Bools = ~np.any(again, axis=1)
        return once

    def relaxations(self) -> tuple[Constraint, ...]:
        return tuple(NoRecentRevisit(self.event, window) for window in self.WINDOWS)


@dataclass(frozen=True, repr=False)
class NoRecentRevisit(VisitedStates):
    """What `no_revisit` implies for a short memory: no state among the last few at which the event held."""

    window: int

    def start(self) -> Hashable:
        return ()

    def step(self, state: tuple[int, ...], symbol: int) -> Hashable:
        if symbol == self.ELSEWHERE:
            return state
        return Sure.FAILS if symbol in state else (*state, symbol)[-self.window :]

    def _text(self) -> str:
        return f"{super()._text()} among the last {self.window}"


@word("longest_run(event)")
def longest_run(event: Event) -> LongestStretch:
    """The length of the longest stretch of consecutive positions at which the event holds.

    Parameters
    ----------
    event
        What is repeated.

    Returns
    -------
    LongestStretch
        A number that depends on the trajectory; compare it with a whole number.

    Examples
    --------
    >>> from xmen import at, longest_run
    >>> longest_run(at(1, 2)) <= 3
    longest_run(at(1, 2)) <= 3
    """
    return LongestStretch(EventRuns(require_event(event, "longest_run(event)")))


@word("longest_repeat()")
def longest_repeat() -> LongestStretch:
    """The length of the longest stretch of the same action.

    Returns
    -------
    LongestStretch
        A number that depends on the trajectory; compare it with a whole number.

    Examples
    --------
    >>> from xmen import Trajectory, longest_repeat
    >>> (longest_repeat() <= 2).accepts(Trajectory([0, 1, 2, 3], [0, 0, 0]))
    False
    """
    return LongestStretch(ActionRuns())


@word("no_revisit() or no_revisit(event)")
def no_revisit(e: Event = anytime) -> Constraint:
    """No state is visited twice.

    Parameters
    ----------
    e
        Only positions at which this event holds count.

    Returns
    -------
    Constraint
        Kept when the states at those positions are all different.

    Examples
    --------
    >>> from xmen import Trajectory, no_revisit
    >>> no_revisit().accepts(Trajectory([0, 1, 0], [0, 0]))
    False
    """
    return NoRevisit(require_event(e, "no_revisit(e)"))
