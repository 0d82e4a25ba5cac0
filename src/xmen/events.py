"""Events: what can be true at one position of a trajectory.

A trajectory s_0 a_0 s_1 ... s_L has the positions t = 0 .. L. An event looks at (s_t, a_t); at the last
position there is no action (`NO_ACTION` in arrays, None for a user's function). Events combine with & | ~.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NoReturn, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import ConstraintError, MisuseError, with_type, words_here
from xmen.options import require_whole

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

NO_ACTION = -1
LARGEST = 2**62  # numbers up to here, and one sum of them, fit the arrays that machines read
FEW = 200  # numbers
MOST_LEVELS = 60  # operators inside one another in an event; far below what Python reads
LONGEST_ROW = 800  # operands without brackets

EVENT_IS_NO_CONSTRAINT = (
    "an event is true or false at one position; a constraint judges a whole trajectory. "
    "Wrap the event first: visit(event), never(event), always(event) or count(event) >= 1"
)
NO_NUMBER = (
    "`{event}` is an event, not a number: compare how often it happens, count({event}), as in 2*count({event}) + "
    "length() <= 62"
)
PRECEDENCE = (
    "&, | and >> bind tighter than comparisons in Python, so `count(e) == 1 & x` means `count(e) == (1 & x)`. "
    "Put the comparison in brackets: `(count(e) == 1) & x`"
)


class Operand:
    """What operators join: events, constraints, and numbers that depend on the trajectory."""

    levels = 0  # operators inside one another
    parts: tuple[Any, ...]  # of an operator
    __array_ufunc__ = None  # numpy's numbers leave operators to the methods of operands

    def __deepcopy__(self, memo: object) -> Self:
        return self  # nothing in it ever changes

    def _checked(self, other: object, operator: str) -> Any:
        """The other operand, if it is of the same kind; otherwise MisuseError."""
        raise NotImplementedError

    def __rand__(self, other: object) -> Any:
        return self._checked(other, "&")  # which refuses it: two of a kind meet in __and__

    def __ror__(self, other: object) -> Any:
        return self._checked(other, "|")

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def side_by_side(cls, *parts: Any) -> tuple[Any, ...]:
        """Operands of this kind of operator, where those of one that has it too, and no name, stand in its place."""
        opened = (part.parts if type(part) is cls and not getattr(part, "name", None) else (part,) for part in parts)
        return tuple(chain.from_iterable(opened))

    @staticmethod
    def in_a_row(texts: Sequence[str], operator: str) -> str:
        """Texts with the operator between them; many of them in groups, because Python reads a row as a tree."""
        while len(texts) > LONGEST_ROW:
            groups = [texts[i : i + LONGEST_ROW] for i in range(0, len(texts), LONGEST_ROW)]
            texts = [f"({f' {operator} '.join(group)})" if len(group) > 1 else group[0] for group in groups]
        return f" {operator} ".join(texts)

    def _set_levels(self, parts: Sequence[Any], most: int, what: str, measure: str = "levels") -> None:
        """Note how many operators are inside one another; refused where nothing could be done with it."""
        levels: int = 1 + max((getattr(part, measure) for part in parts), default=0)
        if levels > most:
            many = f"more than {most} operators are inside one another in this {what}: no text could spell it"
            advice = "as in a & b & c, or at_least(1, a, b, c), instead of one around the other"
            raise ConstraintError(f"{many}. Join parts side by side, {advice}.")
        object.__setattr__(self, measure, levels)


class Numbered(Protocol):
    """What an event has to know of a world: how many states and actions there are."""

    @property
    def n_states(self) -> int: ...

    @property
    def n_actions(self) -> int: ...


class Event(Operand, ABC):
    """Something that holds or does not hold at one position (s_t, a_t) of a trajectory.

    Made by `at`, `doing`, `when` and `anytime`, and combined with & | ~. Constraints such as `visit` and `count` are
    made from events.
    """

    @abstractmethod
    def holds(self, states: Ints, actions: Ints) -> Bools:
        """Whether the event holds at each pair of two arrays of one shape; `NO_ACTION` at the end."""

    def holds_without_action(self) -> bool | None:
        """True or False when that is sure at the last position, whatever the state; None when it depends."""
        return None

    def check_world(self, world: Numbered) -> None:
        """Raise ConstraintError when the event mentions states or actions that the world does not have."""

    def __and__(self, other: object) -> Event:
        return AllOf(AllOf.side_by_side(self, self._checked(other, "&")))

    def __or__(self, other: object) -> Event:
        return AnyOf(AnyOf.side_by_side(self, self._checked(other, "|")))

    def __invert__(self) -> Event:
        return self.part if isinstance(self, Otherwise) else Otherwise(self)

    def _checked(self, other: object, operator: str) -> Event:
        if isinstance(other, Event):
            return other
        if isinstance(other, int | float | np.number):
            raise MisuseError(f"cannot apply {operator} to an event and {other!r}: {PRECEDENCE}.")
        kind = type(other).__name__
        raise MisuseError(f"cannot apply {operator} to an event and {other} ({kind}): {EVENT_IS_NO_CONSTRAINT}.")

    def __rshift__(self, other: object) -> NoReturn:
        raise MisuseError(f"`{self} >> ...`: >> joins constraints; {EVENT_IS_NO_CONSTRAINT}.")

    __rrshift__ = __rshift__

    def __lt__(self, other: object) -> NoReturn:
        raise MisuseError(NO_NUMBER.format(event=self))

    __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lt__

    def __bool__(self) -> NoReturn:
        advice = "combine events with & | ~ (not with `and`, `or`, `not`)"
        raise MisuseError(f"the event `{self}` has no truth value of its own: {advice}.")

    @abstractmethod
    def _text(self) -> str:
        """The Python spelling, in the words of whoever reads it."""

    def __str__(self) -> str:
        names = words_here().events
        return (names and names.get(self)) or self._text()


def require_event(value: object, where: str) -> Event:
    """The value, if it is an event; otherwise an error that says where an event was expected."""
    if isinstance(value, Event):
        return value
    raise ConstraintError(f"{where} takes an event such as at(3), doing(0) or anytime; got {with_type(value)}.")


def _numbers(values: tuple[object, ...], function: str, what: str) -> tuple[int, ...]:
    if not values:
        raise ConstraintError(f"{function}() needs at least one {what}; write ~anytime for an event that never holds.")
    several = any(hasattr(value, "__len__") for value in values)
    hint = " Several are given one by one: f(1, 2), or f(*list)." if several else ""
    name = f"{function}(...): each {what}"
    return tuple(require_whole(name, v, least=0, most=LARGEST, refusal=ConstraintError, hint=hint) for v in values)


def _check_range(numbers: tuple[int, ...], limit: int, event: Event, what: str) -> None:
    for number in numbers:
        if number >= limit:
            known = f"the {what}s 0 .. {limit - 1}"
            raise ConstraintError(f"`{event}` mentions {what} {number}, but the world has only {known}.")


def _among(values: Ints, members: tuple[int, ...]) -> Bools:
    """Which of the values are members; one trajectory is quicker in Python than np.isin is to start."""
    if values.size > FEW:
        return np.isin(values, members)
    wanted = frozenset(members)
    return np.array([value in wanted for value in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def _names(numbers: tuple[int, ...], what: str) -> str:
    """States or actions by number, or as the world calls them in whose words an event is printed."""
    world, most = (words := words_here()).world, words.most
    if world is None or max(numbers) >= getattr(world, f"n_{what}s"):
        return ", ".join(map(str, numbers))
    names = [getattr(world, f"{what}_name")(number) for number in numbers[:most]]
    if most is None:
        return ", ".join(names)
    more = [f"... {len(numbers)} in all"] if len(numbers) > most else []
    return ", ".join([*(name.strip("'") for name in names), *more])  # messages have rules in quotes


@dataclass(frozen=True, repr=False)
class At(Event):
    """The state at this position is one of these."""

    states: tuple[int, ...]

    def holds(self, states: Ints, actions: Ints) -> Bools:
        return _among(states, self.states)

    def check_world(self, world: Numbered) -> None:
        _check_range(self.states, world.n_states, self, "state")

    def _text(self) -> str:
        return f"at({_names(self.states, 'state')})"


@dataclass(frozen=True, repr=False)
class Doing(Event):
    """The action at this position is one of these; false at the last position."""

    actions: tuple[int, ...]

    def holds(self, states: Ints, actions: Ints) -> Bools:
        return _among(actions, self.actions)

    def holds_without_action(self) -> bool | None:
        return False

    def check_world(self, world: Numbered) -> None:
        _check_range(self.actions, world.n_actions, self, "action")

    def _text(self) -> str:
        return f"doing({_names(self.actions, 'action')})"


@dataclass(frozen=True, repr=False)
class When(Event):
    """A user's own test fn(state, action); it has no text form."""

    function: Callable[[int, int | None], object]
    name: str

    def holds(self, states: Ints, actions: Ints) -> Bools:
        answers = []
        for state, number in zip(states.ravel().tolist(), actions.ravel().tolist(), strict=True):
            action = None if number == NO_ACTION else number
            try:
                answers.append(bool(self.function(state, action)))
            except Exception as error:
                hint = " (at the last position the action is None)" if action is None else ""
                place = f"state {state} and action {action}{hint}"
                raise ConstraintError(f"`{self}` failed for {place}: {type(error).__name__}: {error}") from error
        return np.array(answers, dtype=bool).reshape(states.shape)

    def _text(self) -> str:
        return f"when({self.name!r})"


@dataclass(frozen=True, repr=False)
class Anytime(Event):
    """Holds at every position."""

    def holds(self, states: Ints, actions: Ints) -> Bools:
        return np.ones(states.shape, dtype=bool)

    def holds_without_action(self) -> bool | None:
        return True

    def _text(self) -> str:
        return "anytime"


@dataclass(frozen=True, repr=False)
class _Joined(Event):
    parts: tuple[Event, ...]

    operator: ClassVar[str]
    decisive: ClassVar[bool]  # what one part that is so makes of the whole

    def __post_init__(self) -> None:
        self._set_levels(self.parts, MOST_LEVELS, "event")

    def check_world(self, world: Numbered) -> None:
        for part in self.parts:
            part.check_world(world)

    def holds(self, states: Ints, actions: Ints) -> Bools:
        held = [part.holds(states, actions) for part in self.parts]
        return np.asarray(np.any(held, axis=0) if self.decisive else np.all(held, axis=0))

    def holds_without_action(self) -> bool | None:
        sure = [part.holds_without_action() for part in self.parts]
        return self.decisive if self.decisive in sure else None if None in sure else not self.decisive

    def _text(self) -> str:
        return self.in_a_row([f"({p})" if isinstance(p, _Joined) else str(p) for p in self.parts], self.operator)


@dataclass(frozen=True, repr=False)
class AllOf(_Joined):
    """All parts hold at this position."""

    operator, decisive = "&", False


@dataclass(frozen=True, repr=False)
class AnyOf(_Joined):
    """At least one part holds at this position."""

    operator, decisive = "|", True


@dataclass(frozen=True, repr=False)
class Otherwise(Event):
    """The part does not hold at this position."""

    part: Event

    def __post_init__(self) -> None:
        self._set_levels([self.part], MOST_LEVELS, "event")

    def holds(self, states: Ints, actions: Ints) -> Bools:
        return ~self.part.holds(states, actions)

    def holds_without_action(self) -> bool | None:
        sure = self.part.holds_without_action()
        return None if sure is None else not sure

    def check_world(self, world: Numbered) -> None:
        self.part.check_world(world)

    def _text(self) -> str:
        return f"~({self.part})" if isinstance(self.part, _Joined) else f"~{self.part}"


anytime: Event = Anytime()


def at(*states: int) -> Event:
    """The event that the state here is one of these.

    Parameters
    ----------
    *states
        Numbers of states; at least one.

    Returns
    -------
    Event
        True at every position whose state is one of them.

    Raises
    ------
    ConstraintError
        When a state is not a whole number from 0.

    Examples
    --------
    >>> visit_either = at(3, 7)
    >>> visit_either & ~at(7)
    at(3, 7) & ~at(7)
    """
    return At(_numbers(states, "at", "state"))


def doing(*actions: int) -> Event:
    """The event that the action taken here is one of these.

    Parameters
    ----------
    *actions
        Numbers of actions; at least one.

    Returns
    -------
    Event
        True at every position at which one of them is taken; false at the last position, where no action is taken.

    Raises
    ------
    ConstraintError
        When an action is not a whole number from 0.
    """
    return Doing(_numbers(actions, "doing", "action"))


def when(fn: Callable[[int, int | None], object], name: str) -> Event:
    """The event that a function of yours is true of the state and the action here.

    Parameters
    ----------
    fn
        `fn(state, action)`; at the last position the action is None. It may depend on its arguments alone.
    name
        What messages call the event. An event of this kind has no text form, so it cannot be saved.

    Returns
    -------
    Event
        True at every position at which the function gives something true.

    Raises
    ------
    ConstraintError
        When `fn` cannot be called or the name is empty.

    Examples
    --------
    >>> when(lambda state, action: state % 2 == 0, name="even")
    when('even')
    """
    if not callable(fn):
        raise ConstraintError(f"when(fn, name=...) takes a function fn(state, action); got {fn!r}.")
    if not isinstance(name, str) or not name:
        raise ConstraintError(f"when(fn, name=...) needs a name that messages can show; got {name!r}.")
    return When(fn, name)
