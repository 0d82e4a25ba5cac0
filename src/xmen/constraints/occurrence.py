"""Constraints on whether, and in which order, events happen."""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from xmen.constraints.constraint import Constraint, Leaf, Sure, word
from xmen.errors import ConstraintError
from xmen.events import LARGEST, Event, Ints, require_event
from xmen.options import require_whole
from xmen.worlds.mdp import MDP

WAITING = 0  # the one open state of machines that only wait for something


class EventLeaf(Leaf):
    """A machine that reads a row of events at each position: bit i of the symbol is event i."""

    MAX_EVENTS = 62  # bits that a symbol has room for
    may_end: ClassVar = True  # whether a trajectory is accepted that ends while nothing is sure

    def __post_init__(self) -> None:
        if (n_events := len(self.events)) > self.MAX_EVENTS:
            most = f"one constraint can watch at most {self.MAX_EVENTS} events"
            raise ConstraintError(f"{most}; got {n_events}. Join several constraints instead.")

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events that the machine watches: those among its fields, in their order."""
        values = [getattr(self, field.name) for field in fields(self)]
        return tuple(value for value in values if isinstance(value, Event))

    def start(self) -> Hashable:
        return WAITING

    def accepting(self, state: Any) -> bool:
        return self.may_end

    def _text(self) -> str:
        return f"{type(self).__name__.lower()}({', '.join(map(str, self.events))})"

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        rows = np.zeros(states.shape, dtype=np.int64)
        for bit, event in enumerate(self.events):
            rows |= event.holds(states, actions).astype(np.int64) << bit
        return rows

    def check_world(self, world: MDP) -> None:
        for event in self.events:
            event.check_world(world)


@dataclass(frozen=True, repr=False)
class Visit(EventLeaf):
    """The event happens at some position."""

    event: Event
    may_end = False

    def step(self, state: int, symbol: int) -> Hashable:
        return Sure.HOLDS if symbol else WAITING


@dataclass(frozen=True, repr=False)
class Never(EventLeaf):
    """The event happens at no position."""

    event: Event

    def step(self, state: int, symbol: int) -> Hashable:
        return Sure.FAILS if symbol else WAITING


@dataclass(frozen=True, repr=False)
class Always(EventLeaf):
    """The event happens at every position, the last one included."""

    event: Event

    def step(self, state: int, symbol: int) -> Hashable:
        return WAITING if symbol else Sure.FAILS

    def impossible(self) -> str:
        if self.event.holds_without_action() is not False:
            return ""
        advice = f"for all positions but the last write ltlf('G(N(false) | e)', e={self.event})"
        return f"it can never hold: at the last position there is no action; {advice}"


@dataclass(frozen=True, repr=False)
class Before(EventLeaf):
    """The late event does not happen before the early one; at one position is fine, and so is neither."""

    early: Event
    late: Event

    def step(self, state: int, symbol: int) -> Hashable:
        early, late = symbol & 1, symbol & 2
        return Sure.HOLDS if early else Sure.FAILS if late else WAITING


@dataclass(frozen=True, repr=False)
class Sequence(EventLeaf):
    """The events happen at strictly increasing positions; the state is how many have happened."""

    steps: tuple[Event, ...]
    may_end = False

    @property
    def events(self) -> tuple[Event, ...]:
        return self.steps

    def step(self, state: int, symbol: int) -> Hashable:
        done = state + (symbol >> state & 1)
        return Sure.HOLDS if done == len(self.steps) else done


@dataclass(frozen=True, repr=False)
class Response(EventLeaf):
    """Every trigger at t has an answer at some t <= u <= t + within.

    The state is how many further positions the oldest unanswered trigger may wait: an answer settles all
    pending triggers, so only the oldest matters. ANSWERED: nothing is pending.
    """

    trigger: Event
    answer: Event
    within: int | None

    ANSWERED = -1

    def start(self) -> Hashable:
        return self.ANSWERED

    def step(self, state: int, symbol: int) -> Hashable:
        trigger, answer = symbol & 1, symbol & 2
        if answer or (state == self.ANSWERED and not trigger):
            return self.ANSWERED
        if self.within is None:
            return WAITING
        left = self.within if state == self.ANSWERED else state - 1
        return left if left > 0 else Sure.FAILS

    def accepting(self, state: int) -> bool:
        return state == self.ANSWERED

    def _text(self) -> str:
        return f"response({self.trigger}, {self.answer}, within={self.within})"


@word("visit(event)")
def visit(event: Event) -> Constraint:
    """The event happens at some position.

    Parameters
    ----------
    event
        What has to happen.

    Returns
    -------
    Constraint
        Kept by trajectories on which the event happens at least once.

    Examples
    --------
    >>> from xmen import Trajectory, at, visit
    >>> visit(at(3)).accepts(Trajectory([0, 3, 1], [0, 0]))
    True
    """
    return Visit(require_event(event, "visit(event)"))


@word("never(event)")
def never(event: Event) -> Constraint:
    """The event happens at no position.

    Parameters
    ----------
    event
        What must not happen.

    Returns
    -------
    Constraint
        Kept by trajectories on which the event never happens.

    Examples
    --------
    >>> from xmen import Trajectory, at, never
    >>> never(at(3)).accepts(Trajectory([0, 3, 1], [0, 0]))
    False
    """
    return Never(require_event(event, "never(event)"))


@word("always(event)")
def always(event: Event) -> Constraint:
    """The event happens at every position, the last one included.

    No action is taken at the last position, so `always(doing(...))` can never hold, and says so.

    Parameters
    ----------
    event
        What has to happen everywhere.

    Returns
    -------
    Constraint
        Kept by trajectories on which the event happens at all L + 1 positions.
    """
    return Always(require_event(event, "always(event)"))


@word("before(event, event)")
def before(early: Event, late: Event) -> Constraint:
    """One event does not happen before another has happened.

    Parameters
    ----------
    early
        The event that has to come first.
    late
        The event that has to wait. The same position is fine, and so is neither.

    Returns
    -------
    Constraint
        Kept when no `late` comes before the first `early`.

    Examples
    --------
    >>> from xmen import Trajectory, at, before
    >>> key_first = before(at(1), at(2))
    >>> [key_first.accepts(Trajectory(states, [0, 0])) for states in ([1, 2, 0], [2, 1, 0], [0, 0, 0])]
    [True, False, True]
    """
    return Before(require_event(early, "before(a, b)"), require_event(late, "before(a, b)"))


@word("first(event, among=event)")
def first(event: Event, among: Event) -> Constraint:
    """An event happens, and nothing of a second one happens before it.

    Parameters
    ----------
    event
        The event that has to come first, and has to come.
    among
        What must not happen before it. The same position is fine.

    Returns
    -------
    Constraint
        The same as `visit(event) & before(event, among)`.
    """
    return visit(require_event(event, "first(a, among=b)")) & before(event, require_event(among, "first(a, among=b)"))


@word("sequence(event, event, ...)")
def sequence(*events: Event) -> Constraint:
    """The events happen at strictly increasing positions, in this order.

    Parameters
    ----------
    *events
        The events in their order. Others may happen in between.

    Returns
    -------
    Constraint
        Kept when there are positions t_1 < t_2 < ... at which they hold one after the other.
    """
    if not events:
        raise ConstraintError("sequence(a, b, ...) needs at least one event.")
    return Sequence(tuple(require_event(event, "sequence(a, b, ...)") for event in events))


@word("response(event, event, within=k)")
def response(trigger: Event, answer: Event, within: int | None = None) -> Constraint:
    """Every trigger is answered in time.

    Parameters
    ----------
    trigger
        The event that asks for an answer, each time it happens.
    answer
        The event that answers it, at the same position or later.
    within
        How many positions later at most: a trigger at t needs an answer at some u with t <= u <= t + within. None: at
        any later time.

    Returns
    -------
    Constraint
        Kept when no trigger is left without an answer.

    Raises
    ------
    ConstraintError
        When `within` is not a whole number from 0.
    """
    where = "response(a, b, within=k)"
    limit = require_whole(f"{where}: k", within, least=0, most=LARGEST, optional=True, refusal=ConstraintError)
    return Response(require_event(trigger, where), require_event(answer, where), limit)
