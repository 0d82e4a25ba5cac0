"""A machine of the user's own, for rules that no other constraint can say."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from xmen.constraints._sure import RowLeaf, RowMachine, settle
from xmen.constraints.constraint import Constraint
from xmen.errors import ConstraintError
from xmen.events import Event, require_event

StepFunction: TypeAlias = Callable[[Any, tuple[bool, ...]], Hashable]
Accepts: TypeAlias = Callable[[Any], object]

WHERE = "monitor(start, step, accepts, events)"


@dataclass(frozen=True)
class _Given:
    """The machine as the user wrote it."""

    first: Hashable
    function: StepFunction
    accepts: Accepts
    n_events: int

    def start(self) -> Hashable:
        return self.first

    def step(self, state: Any, row: int) -> Hashable:
        bits = tuple(bool(row >> bit & 1) for bit in range(self.n_events))
        after = self.function(state, bits)
        try:
            hash(after)
        except TypeError:
            raise _unhashable(f"the state that step({state!r}, {bits}) returned", after) from None
        return after

    def accepting(self, state: Any) -> bool:
        return bool(self.accepts(state))


def _unhashable(what: str, value: object) -> ConstraintError:
    return ConstraintError(
        f"{WHERE}: {what} is {value!r} ({type(value).__name__}), which is not hashable. States are compared "
        "and stored: use numbers, strings, tuples or frozensets (a tuple instead of a list)."
    )


@dataclass(frozen=True, repr=False)
class MonitorLeaf(RowLeaf):
    """A user's own machine; it has no text form."""

    first: Hashable
    function: StepFunction
    accepts_state: Accepts

    @cached_property
    def machine(self) -> RowMachine:
        given = _Given(self.first, self.function, self.accepts_state, len(self.watched))
        try:
            return settle(given, given.n_events)
        except Exception:
            # Listing tries every row in every state. A user's function may refuse rows that never occur; if
            # it also refuses one that does, its own error is raised there.
            return given

    def _text(self) -> str:
        function = getattr(self.function, "__name__", "<lambda>")
        title = _start_text(self.first) if function == "<lambda>" else str(function)
        return f"monitor({title!r}, events=[{', '.join(map(str, self.watched))}])"


def _start_text(state: object) -> str:
    try:
        return f"from {state!r:.40}"
    except Exception:  # a user's repr; messages must not fail because of it
        return f"from a {type(state).__name__}"


def monitor(start: Hashable, step: StepFunction, accepts: Accepts, events: Iterable[Event]) -> Constraint:
    """A machine of your own.

    Both functions depend on their arguments alone: they may be called ahead of time, on any row. A machine with few
    states is listed, so that it knows early whether it is lost. A constraint of this kind has no text form, so it
    cannot be saved.

    Parameters
    ----------
    start
        The state before position 0. States are any hashable values.
    step
        `step(state, row)` gives the next state, at each of the L + 1 positions; `row` has one bool per event.
    accepts
        `accepts(state)`: whether the trajectory may end here.
    events
        What the machine sees, in the order of `row`.

    Returns
    -------
    Constraint
        Kept by trajectories whose last state is accepted.

    Examples
    --------
    >>> from xmen import at, monitor
    >>> even = monitor(0, lambda odd, row: odd ^ row[0], lambda odd: not odd, [at(3)]).named("even visits")
    >>> from xmen.worlds import Trajectory
    >>> even.accepts(Trajectory([3, 0, 3], [0, 0]))
    True
    """
    for role, function, usage in (("step", step, "step(state, row)"), ("accepts", accepts, "accepts(state)")):
        if not callable(function):
            raise ConstraintError(
                f"{WHERE}: {role} is a function {usage}; got {function!r} ({type(function).__name__})."
            )
    for role, value in (("the start", start), ("step", step), ("accepts", accepts)):
        try:
            hash(value)
        except TypeError:
            raise _unhashable(role, value) from None
    if isinstance(events, Event) or not isinstance(events, Iterable):
        raise ConstraintError(f"{WHERE}: events is a list of events, such as [at(3)]; got {events!r}.")
    watched = tuple(require_event(event, WHERE) for event in events)
    return MonitorLeaf(watched, start, step, accepts)
