"""A machine of the user's own, for rules that no other constraint can say."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint, Sure
from xmen.constraints.occurrence import EventLeaf
from xmen.errors import ConstraintError, with_type
from xmen.events import Event, require_event

# ---- Machines over rows of events, and how they learn early that their answer can no longer change.
#
# A machine given by a function (a formula that progresses, a user's own step) does not say when no continuation can
# change its answer. Where its states can be listed, this module lists them over all rows, merges those that no
# continuation can tell apart, and marks the two states in which the answer is sure.

MAX_STEPS = 4_096  # (state, row) pairs tried before a machine counts as too large to list


class RowMachine(NamedTuple):
    """A deterministic machine that reads one row of events, an integer below 2**n_events, per position.

    `start` is its state before position 0; `step(state, row)` and `accepting(state)` are never asked of a `Sure` one.
    """

    start: Hashable
    step: Callable[[Any, int], Hashable]
    accepting: Callable[[Any], bool]


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
        return self.machine.start

    def step(self, state: Hashable, symbol: int) -> Hashable:
        return self.machine.step(state, symbol)

    def accepting(self, state: Hashable) -> bool:
        return self.machine.accepting(state)


def settle(machine: RowMachine, n_events: int, max_steps: int = MAX_STEPS) -> RowMachine:
    """The smallest machine with the same answers, or the machine itself where listing it takes too many steps.

    States of the smallest are numbers, and `Sure` where nothing is open; the machine itself may be sure only later.
    Any row counts as possible at any position, and a trajectory may end after any of them. Costs at most `max_steps`
    steps, and as many table entries times the number of rounds in which states are told apart.
    """
    if n_events > max_steps.bit_length():
        return machine
    n_rows, states = 2**n_events, [machine.start]
    index: dict[Hashable, int] = {machine.start: 0}
    table: list[list[int]] = []
    for state in states:  # which grow on the way
        if len(states) * n_rows > max_steps:
            return machine
        successors = [state if isinstance(state, Sure) else machine.step(state, row) for row in range(n_rows)]
        for after in successors:
            if after not in index:
                index[after] = len(states)
                states.append(after)
        table.append([index[after] for after in successors])
    accepting = [s is Sure.HOLDS if isinstance(s, Sure) else machine.accepting(s) for s in states]
    return _smallest(np.array(table), np.array(accepting))


def _smallest(table: NDArray[np.int64], accepting: NDArray[np.bool_]) -> RowMachine:
    """Moore's algorithm: split the states (0 is the start) by acceptance, then by the classes of their successors."""
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
    steps = [[states[s] for s in row] for row in successors.tolist()]
    return RowMachine(states[start], lambda state, row: steps[state][row], accepts.__getitem__)


StepFunction: TypeAlias = Callable[[Any, tuple[bool, ...]], Hashable]
Accepts: TypeAlias = Callable[[Any], object]

WHERE = "monitor(start, step, accepts, events)"


def _require_hashable(value: object, what: str) -> None:
    try:
        hash(value)
    except TypeError:
        advice = "use numbers, strings, tuples or frozensets (a tuple instead of a list)"
        compared = f"which is not hashable. States are compared and stored: {advice}"
        raise ConstraintError(f"{WHERE}: {what} is {with_type(value)}, {compared}.") from None


@dataclass(frozen=True, repr=False)
class MonitorLeaf(RowLeaf):
    """A user's own machine; it has no text form."""

    first: Hashable
    function: StepFunction
    accepts_state: Accepts

    def given_step(self, state: Any, row: int) -> Hashable:
        """The step as the user wrote it, on a row as numbers."""
        bits = tuple(bool(row >> bit & 1) for bit in range(len(self.watched)))
        after = self.function(state, bits)
        _require_hashable(after, f"the state that step({state!r}, {bits}) returned")
        return after

    @cached_property
    def machine(self) -> RowMachine:
        given = RowMachine(self.first, self.given_step, lambda state: bool(self.accepts_state(state)))
        try:
            return settle(given, len(self.watched))
        except Exception:
            # Listing tries every row in every state. A user's function may refuse rows that never occur; if
            # it also refuses one that does, its own error is raised there.
            return given

    def _text(self) -> str:
        title = getattr(self.function, "__name__", "<lambda>")
        if title == "<lambda>":
            try:
                title = f"from {self.first!r:.40}"
            except Exception:  # a user's repr; messages must not fail because of it
                title = f"from a {type(self.first).__name__}"
        return f"monitor({str(title)!r}, events=[{', '.join(map(str, self.watched))}])"


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
            raise ConstraintError(f"{WHERE}: {role} is a function {usage}; got {with_type(function)}.")
    for role, value in (("the start", start), ("step", step), ("accepts", accepts)):
        _require_hashable(value, role)
    if isinstance(events, Event) or not isinstance(events, Iterable):
        raise ConstraintError(f"{WHERE}: events is a list of events, such as [at(3)]; got {events!r}.")
    watched = tuple(require_event(event, WHERE) for event in events)
    return MonitorLeaf(watched, start, step, accepts)
