"""Constraints on runs and repetitions: longest stretches, equal moves in a row, states seen twice."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from xmen.constraints.arithmetic import Comparable, integer
from xmen.constraints.constraint import Constraint, Sure, word
from xmen.constraints.occurrence import EventLeaf
from xmen.events import NO_ACTION, Bools, Event, Ints, anytime, require_event
from xmen.worlds.mdp import MDP


@dataclass(frozen=True, eq=False, repr=False)
class LongestStretch(Comparable):
    """The length of the longest stretch of positions at which the event holds; of the same action without an event."""

    event: Event | None

    def compare(self, op: str, other: object) -> Constraint:
        k = integer(other, f"`{self} {op} ...`")
        if op in ("==", "!="):
            both = StretchAtMost(self.event, k) & ~StretchAtMost(self.event, k - 1)
            return both if op == "==" else ~both
        if op in ("<=", "<"):
            return StretchAtMost(self.event, k if op == "<=" else k - 1)
        return ~StretchAtMost(self.event, k if op == ">" else k - 1)

    def __str__(self) -> str:
        return "longest_repeat()" if self.event is None else f"longest_run({self.event})"


@dataclass(frozen=True, repr=False)
class StretchAtMost(EventLeaf):
    """No stretch is longer than k; the state is (what is repeated, how often so far)."""

    event: Event | None
    k: int
    _is_operator = True

    BREAK: ClassVar = -1  # the symbol at which every stretch ends; any other continues the stretch of the same symbol

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        if self.event is None:
            return np.where(actions == NO_ACTION, self.BREAK, actions)
        return np.where(self.event.holds(states, actions), 0, self.BREAK)

    def start(self) -> Hashable:
        return Sure.FAILS if self.k < 0 else (self.BREAK, 0)

    def step(self, state: tuple[int, int], symbol: int) -> Hashable:
        if symbol == self.BREAK:
            return (self.BREAK, 0)
        repeated, so_far = state
        run = so_far + 1 if symbol == repeated else 1
        return Sure.FAILS if run > self.k else (symbol, run)

    def _text(self) -> str:
        return f"{LongestStretch(self.event)} <= {self.k}"


@dataclass(frozen=True, repr=False)
class VisitedStates(EventLeaf):
    """What `no_revisit` and its relaxations read: the state where the event holds, `ELSEWHERE` where it does not."""

    event: Event

    ELSEWHERE: ClassVar = -1

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        return np.where(self.event.holds(states, actions), states, self.ELSEWHERE)

    def _text(self) -> str:
        return f"no_revisit({'' if self.event == anytime else self.event})"


@dataclass(frozen=True, repr=False)
class NoRevisit(VisitedStates):
    """No state twice among the positions at which the event holds; the state is the set of those visited."""

    LOOPS: ClassVar = range(2, 9)  # of so many moves that its relaxations remember who was there: up to 4 away
    MOST_STATES: ClassVar = 10_000  # of a world whose sets of states are the bits of a number
    WINDOWS: ClassVar = (2, 3, 4, 6, 8)  # recent states that are remembered where even these are too many

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
        return np.asarray(~np.any(again, axis=1))

    def relaxations(self, world: MDP) -> Iterator[Iterator[Constraint]]:
        if world.n_states <= self.MOST_STATES:
            yield self._near(world)
        yield (NoRecentRevisit(self.event, window) for window in self.WINDOWS)

    def _near(self, world: MDP) -> Iterator[Constraint]:
        before: list[int] = []
        for loop, near in enumerate(round_trips(world, self.event, self.LOOPS.stop - 1)):
            if loop in self.LOOPS and near != before:
                after: dict[int, int] = {}
                pairs = world.source.astype(np.int64) * (world.n_actions + 1) + world.action + 1
                for pair, target in zip(pairs.tolist(), world.target.tolist(), strict=True):
                    after[pair] = after.get(pair, 0) | near[target]
                yield NoNearRevisit(self.event, loop, world.n_actions, after)
            before = near


def round_trips(world: MDP, event: Event, most: int) -> Iterator[list[int]]:
    """For 0, 1, ... `most`: of each state the bits of those on a loop through it of so many moves at which it holds."""
    n, edges = world.n_states, np.stack([world.source, world.target], axis=1).tolist()
    counts = event.holds(world.source.astype(np.int64), world.action.astype(np.int64)).tolist()
    onward: list[list[int]] = []  # by number of such moves: where one gets from each state
    back: list[list[int]] = []  # from where one gets to each state
    for number in range(most + 1):
        for levels, way in ((onward, 1), (back, -1)):
            now = list(levels[-1]) if number else [1 << state for state in range(n)]
            for (here, there), counted in zip((edge[::way] for edge in edges), counts, strict=True):
                if number and counted:
                    now[here] |= levels[-1][there]
            free = [edge[::way] for edge, counted in zip(edges, counts, strict=True) if not counted]
            while any(now[there] & ~now[here] for here, there in free):
                for here, there in free:
                    now[here] |= now[there]
            levels.append(now)
        near = [0] * n
        for there, here in zip(onward, reversed(back), strict=True):
            near = [known | (one & other) for known, one, other in zip(near, there, here, strict=True)]
        yield near


@dataclass(frozen=True, repr=False)
class NoNearRevisit(VisitedStates):
    """What `no_revisit` implies for a local memory (ng: Baldacci, Mingozzi and Roberti 2011), made for one world.

    Of the states at which the event held it remembers those on a loop of so many moves through here: no such loop is
    closed, nor a longer one that stays near by. The state is the set of them, with regard to the next place.
    """

    loop: int
    n_actions: int
    after: dict[int, int] = field(compare=False)  # what is near to where each pair may lead

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        pairs = states * (self.n_actions + 1) + np.where(actions == NO_ACTION, 0, actions + 1)
        return 2 * pairs + self.event.holds(states, actions)

    def start(self) -> Hashable:
        return 0

    def step(self, state: int, symbol: int) -> Hashable:
        pair = symbol >> 1
        if symbol & 1:
            here = 1 << pair // (self.n_actions + 1)
            if state & here:
                return Sure.FAILS
            state |= here
        return state & self.after.get(pair, 0)

    def _text(self) -> str:
        return f"{super()._text()} among the states within {self.loop / 2:g} moves of here"


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
    return LongestStretch(require_event(event, "longest_run(event)"))


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
    return LongestStretch(None)


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
