"""Constraints on numbers: counts, lengths, shares and totals, as comparisons of integer linear forms.

`2*count(e) >= length()` adds one integer at each position and compares the sum with a bound at the end, so
every comparison here is one machine whose state is the running sum.
"""

from __future__ import annotations

import math
import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, Leaf, Sure, word
from xmen.errors import ConstraintError, CostsWarning, Message, MisuseError, TrajectoryError, notify, with_type
from xmen.events import LARGEST, NO_ACTION, PRECEDENCE, Event, Ints, doing, require_event
from xmen.options import as_int
from xmen.worlds import MDP, GridWorld
from xmen.worlds.tables import read_costs
from xmen.worlds.transitions import Transitions

# ---- What the parts of a linear form add at each position: counts, lengths, totals


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
    def bounds(self) -> tuple[int, int]:
        least, most = int(self._table.min()), int(self._table.max())
        return (min(least, 0), max(most, 0)) if self._table.ndim == 2 else (least, most)

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.weights, dtype=np.int64)

    def values(self, states: Ints, actions: Ints) -> Ints:
        table = self._table
        for numbers, size, what in zip((states, actions), table.shape, ("visits state", "takes action"), strict=False):
            if numbers.size and numbers.max() >= size:
                has = f"weights for {size} {what.split()[1]}s (0 .. {size - 1})"
                raise TrajectoryError(f"total(weights) has {has}, but the trajectory {what} {numbers.max()}.")
        return table[states] if table.ndim == 1 else np.where(actions == NO_ACTION, 0, table[states, actions])

    def check_world(self, world: MDP) -> None:
        shape = self._table.shape
        if shape not in ((world.n_states,), (world.n_states, world.n_actions)):
            needed = f"({world.n_states},) for states or ({world.n_states}, {world.n_actions}) for states and actions"
            has = f"the weights have shape {shape}, but the world needs {needed}"
            raise ConstraintError(f"total(weights): {has}.{_hint(shape, world)}")

    def meant(self, world: MDP) -> str:
        """A form that says what weights of another shape were probably meant to say; '' where nothing is likely."""
        table = self._table
        if table.shape == (world.n_actions,):
            return _sum([(int(weight), f"count({doing(action)})") for action, weight in enumerate(table)])
        return ""

    def __str__(self) -> str:
        return f"total({self._table.tolist()})"


def _hint(shape: tuple[int, ...], world: MDP) -> str:
    """Which other order of the same numbers was probably meant."""
    if shape == (world.n_actions, world.n_states):
        return " These are turned round: write total(weights.T)."
    size = (world.height, world.width) if isinstance(world, GridWorld) else ()
    if size and shape in (size, size[::-1]):
        turned = "weights" if shape == size else "weights.T"
        return f" For a map with a row for each y, from below: total({turned}.ravel())."
    if len(shape) == 1 and shape[0] == len(world.source):
        return " For a weight per transition, give each of them its state and action."
    return ""


def _sum(parts: list[tuple[int, str]]) -> str:
    """The text of a sum, without what is 0."""
    kept = [(weight, part if abs(weight) == 1 else f"{abs(weight)}*{part}") for weight, part in parts if weight]
    text = " ".join(f"{'-' if weight < 0 else '+'} {part}" for weight, part in kept)
    return "-" + text[2:] if text.startswith("- ") else text[2:]


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def _comparison(op: str) -> Callable[[Any, object], Constraint]:
    return lambda left, right: left.compare(op, right)


class Comparable(ABC):
    """Something that becomes a constraint when it is compared with a number."""

    @abstractmethod
    def compare(self, op: str, other: object) -> Constraint:
        """The constraint `self op other`."""

    __le__ = _comparison("<=")
    __lt__ = _comparison("<")
    __ge__ = _comparison(">=")
    __gt__ = _comparison(">")
    __eq__ = _comparison("==")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: object) -> NoReturn:
        raise MisuseError(f"`{self}` is a number, not a constraint: {PRECEDENCE}.")

    __or__ = __rand__ = __ror__ = __rshift__ = __rrshift__ = __and__

    def __invert__(self) -> NoReturn:
        raise MisuseError(f"`{self}` is a number, not a constraint: compare it first, as in ~({self} >= 1).")

    def __add__(self, other: object) -> LinearForm:
        raise ConstraintError(f"`{self}` cannot stand in a linear form: compare it with a number by itself.")

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__

    def __neg__(self) -> LinearForm:
        return self * -1

    def __truediv__(self, other: object) -> NoReturn:
        instead = "write share(e) >= 0.5, or multiply out: 2*count(e) >= length()"
        raise ConstraintError(f"`{self}` cannot be divided: {instead}.")

    __rtruediv__ = __floordiv__ = __rfloordiv__ = __truediv__
    __array_ufunc__ = None  # numpy's numbers leave operators to the methods above

    def __bool__(self) -> NoReturn:
        raise MisuseError(f"`{self}` is a number that depends on the trajectory: compare it, as in `{self} >= 1`.")

    def __repr__(self) -> str:
        return str(self)


def integer(value: object, where: str) -> int:
    """The value as a Python int, or a ConstraintError that shows what was given."""
    number = as_int(value)
    if number is None:
        instead = "For fractions of the visited states write share(e) >= 0.5, or multiply out: 2*count(e) >= length()."
        raise ConstraintError(f"{where} works with whole numbers; got {with_type(value)}. {instead}")
    if abs(number) > LARGEST:
        raise ConstraintError(f"{where} works with numbers up to {LARGEST}; got a larger one.")
    return number


@dataclass(frozen=True, eq=False, repr=False)
class LinearForm(Comparable):
    """An integer combination of counts, lengths and totals, plus a constant."""

    terms: tuple[tuple[int, Term], ...]
    constant: int = 0

    def __add__(self, other: object) -> LinearForm:
        right = _form(other, "+")
        coefficients: dict[Term, int] = {}
        for coefficient, term in (*self.terms, *right.terms):
            coefficients[term] = coefficients.get(term, 0) + coefficient
        kept = tuple((c, term) for term, c in coefficients.items() if c)
        return LinearForm(kept, self.constant + right.constant)

    def __mul__(self, other: object) -> LinearForm:
        if isinstance(other, Comparable):
            raise ConstraintError(f"`{self} * {other}` is not linear: multiply counts by whole numbers only.")
        factor = integer(other, f"`{self} * ...`")
        return LinearForm(tuple((c * factor, term) for c, term in self.terms if factor), self.constant * factor)

    def __sub__(self, other: object) -> LinearForm:
        return self + -_form(other, "-")

    def __rsub__(self, other: object) -> LinearForm:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def compare(self, op: str, other: object) -> Constraint:
        difference = self - _form(other, op)
        return LinearComparison(difference.terms, op, -difference.constant)

    def __str__(self) -> str:
        return _form_text(self.terms, self.constant)


def _form(value: object, op: str) -> LinearForm:
    if isinstance(value, Comparable):
        return value if isinstance(value, LinearForm) else value + 0  # which is refused
    return LinearForm((), integer(value, f"`{op}` on counts, lengths and totals"))


def _form_text(terms: Sequence[tuple[int, Term]], constant: int) -> str:
    parts = [(c, str(term)) for c, term in terms]
    nothing = [(1, "0*length()")]  # a comparison of bare numbers would not be a constraint in Python
    return _sum([*(parts or nothing), (int(np.sign(constant)), str(abs(constant)))])


@dataclass(frozen=True, repr=False)
class LinearComparison(Leaf):
    """sum over positions of the terms, compared with a bound; the state is the running sum."""

    terms: tuple[tuple[int, Term], ...]
    op: str
    bound: int
    spelling: Message | None = field(default=None, compare=False, kw_only=True)  # of a share
    _is_operator = True

    def __post_init__(self) -> None:
        most = sum(abs(c) * max(map(abs, term.bounds)) for c, term in self.terms)
        if max(most, abs(self.bound)) > LARGEST:
            both = f"One position could add {most} and the bound is {self.bound}; both may be at most {LARGEST}"
            raise ConstraintError(f"`{self}`: the numbers are too large. {both}.")

    def symbols(self, states: Ints, actions: Ints) -> Ints:
        added = np.zeros(states.shape, dtype=np.int64)
        for coefficient, term in self.terms:
            added += coefficient * term.values(states, actions)
        return added

    def check_world(self, world: MDP) -> None:
        for coefficient, term in self.terms:
            try:
                term.check_world(world)
            except ConstraintError as error:
                meant = term.meant(world) if isinstance(term, TotalTerm) else ""
                if not meant:
                    raise
                rest = tuple(pair for pair in self.terms if pair != (coefficient, term))
                whole = meant if not rest and coefficient == 1 else f"{_form_text(rest, 0)} + {coefficient}*({meant})"
                raise ConstraintError(f"{error} Did you mean `{whole} {self.op} {self.bound}`?") from None

    @cached_property
    def step_bounds(self) -> tuple[int, int]:
        """The least and the most that one position can add."""
        ends = [sorted((c * term.bounds[0], c * term.bounds[1])) for c, term in self.terms]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def start(self) -> Hashable:
        return self._settled(0)

    def step(self, state: int, symbol: int) -> Hashable:
        return self._settled(state + symbol)

    def accepting(self, state: int) -> bool:
        return COMPARE[self.op](state, self.bound)

    def impossible(self) -> str:
        least, most = self.step_bounds
        # At least one position adds something: without an upward step, the sum is largest after exactly one.
        too_small = most <= 0 and (most < self.bound or (most == self.bound and self.op == ">"))
        too_large = least >= 0 and (least > self.bound or (least == self.bound and self.op == "<"))
        above = too_small and self.op in (">=", ">", "==")
        below = too_large and self.op in ("<=", "<", "==")
        if not (above or below):
            return ""
        if self.spelling is not None:
            return "it can never hold: a share lies between 0 and 1, so that 15 % is 0.15"
        bound = f"at most {most}" if above else f"at least {least}"
        return Message("it can never hold: {} is {}", LinearForm(self.terms, 0), bound)

    def _settled(self, total: int) -> Hashable:
        """The sum, or the answer once no further position can change it."""
        least, most = self.step_bounds
        compare = COMPARE[self.op]
        if least >= 0:  # the sum only grows: it will pass through no value below this one
            settled = total > self.bound or (total == self.bound and self.op in (">=", "<"))
        else:
            settled = most <= 0 and (total < self.bound or (total == self.bound and self.op in ("<=", ">")))
        if settled or least == most == 0:
            return Sure.HOLDS if compare(total, self.bound) else Sure.FAILS
        return total

    def _text(self) -> str:
        return str(self.spelling or f"{_form_text(self.terms, 0)} {self.op} {self.bound}")


@word("count(event)")
def count(event: Event) -> LinearForm:
    """The number of positions t = 0 .. L at which the event holds.

    Parameters
    ----------
    event
        What is counted.

    Returns
    -------
    LinearForm
        A number that depends on the trajectory. Compare it to get a constraint; add, subtract and multiply by whole
        numbers first if you like.

    Examples
    --------
    >>> from xmen import at, count, length
    >>> 2 * count(at(3, 4)) >= length()
    2*count(at(3, 4)) - length() >= 0
    """
    return LinearForm(((1, CountTerm(require_event(event, "count(event)"))),))


@word("length()")
def length() -> LinearForm:
    """The number of visited states, L + 1.

    Returns
    -------
    LinearForm
        A number that depends on the trajectory; compare it to get a constraint.

    Examples
    --------
    >>> from xmen import length
    >>> length() <= 10
    length() <= 10
    """
    return LinearForm(((1, LengthTerm()),))


@word("total([weight, ...])")
def total(
    weights: ArrayLike | Mapping[Event, int] | str | os.PathLike[str], world: Transitions | None = None
) -> LinearForm:
    """The sum of whole-number weights along the trajectory: a cost, compared with a budget.

    Parameters
    ----------
    weights
        Shape (n_states,), summed over all positions t = 0 .. L, or (n_states, n_actions), summed over the actions t <
        L. Or events with what each adds wherever it holds, as in {aisle: 3, dock: 5}. Or the name of a .csv file with a
        column for the state (and for the action, or for the next state), and one for the cost.
    world
        For a file: whose cells, moves and nodes the table names. What it does not name costs 0, with a warning.

    Returns
    -------
    LinearForm
        A number that depends on the trajectory; compare it to get a constraint.

    Raises
    ------
    ConstraintError
        When the weights are not whole numbers of one of these shapes. Scale fractions up first.
    FileFormatError
        When a file is no table of costs.

    Examples
    --------
    >>> from xmen import Trajectory, total
    >>> (total([3, 5, 1]) <= 8).accepts(Trajectory([0, 1, 2], [0, 0]))
    False
    """
    if isinstance(weights, Mapping):
        form = LinearForm(())
        for event, weight in weights.items():
            if not isinstance(event, Event):
                raise ConstraintError(f"total({{event: weight, ...}}) takes events such as at(3); got {event!r:.60}.")
            form = form + count(event) * integer(weight, f"total({{{event}: ...}})")
        return form
    if isinstance(weights, str | os.PathLike):
        weights, note = read_costs(Path(weights), world)
        if note is not None:
            notify(note, CostsWarning)
    if isinstance(weights, Event):
        advice = f"write count({weights}) for how often it holds, total({{{weights}: 2}}) for what it costs"
        raise ConstraintError(f"total(weights) takes weights, and this is the event `{weights}`: {advice}.")
    if isinstance(weights, Comparable):
        raise ConstraintError(f"`{weights}` is a sum already: compare it itself, as in `{weights} <= 10`.")
    try:
        table = np.array(weights)
    except ValueError:
        raise ConstraintError("total(weights): the rows of the weights differ in length.") from None
    if table.dtype.kind == "f" and np.all(np.abs(table) < 2.0**53) and np.all(table == np.rint(table)):
        table = table.astype(np.int64)  # 3.0 is as whole as 3
    if table.dtype == bool or not np.issubdtype(table.dtype, np.integer) or table.ndim not in (1, 2) or not table.size:
        takes = "total(weights) takes whole numbers of shape (n_states,) or (n_states, n_actions)"
        got = f"got shape {table.shape} of {table.dtype}. Scale fractions up first, as in total([3, 5]) <= 20"
        raise ConstraintError(f"{takes}; {got}.")
    if table.min() < -LARGEST or table.max() > LARGEST:
        raise ConstraintError(f"total(weights) takes weights from -{LARGEST} to {LARGEST}.")
    rows = table.tolist()
    return LinearForm(((1, TotalTerm(tuple(tuple(r) for r in rows) if table.ndim == 2 else tuple(rows))),))


# ---- Shares of the visited states, compared with thresholds that are read as exact fractions


@dataclass(frozen=True, eq=False, repr=False)
class Share(Comparable):
    """The share of visited states at which the event holds: share(e) >= p/q is q*count(e) >= p*length()."""

    event: Event

    def compare(self, op: str, other: object) -> Constraint:
        threshold = exact_fraction(other, f"`{self} {op} ...`")
        if max(abs(threshold.numerator), threshold.denominator) > LARGEST:
            raise ConstraintError(f"`{self} {op} ...`: the threshold's fraction exceeds {LARGEST}; round it.")
        terms = ((threshold.denominator, CountTerm(self.event)), (-threshold.numerator, LengthTerm()))
        decimal = repr(float(threshold))
        shown = decimal if Fraction(decimal) == threshold else f"{threshold.numerator}/{threshold.denominator}"
        spelling = Message("{} {} {}", self, op, shown)
        return LinearComparison(tuple((c, term) for c, term in terms if c), op, 0, spelling=spelling)

    def __str__(self) -> str:
        return f"share({self.event})"


def exact_fraction(value: object, where: str) -> Fraction:
    """The simplest fraction within rounding of the given number: 0.1 means 1/10, 1 / 3 a third, 0.1 + 0.2 three tenths.

    >>> exact_fraction(0.1, "here"), exact_fraction(1 / 3, "here"), exact_fraction(0.1 + 0.2, "here")
    (Fraction(1, 10), Fraction(1, 3), Fraction(3, 10))
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise ConstraintError(f"{where}: compare a share with a number such as 0.5; got {value!r}.")
    if isinstance(value, int | np.integer):
        return Fraction(integer(value, where))
    if not math.isfinite(value):
        raise ConstraintError(f"{where}: compare a share with a finite number; got {value!r}.")
    number = float(str(value))  # the shortest decimal, which for single precision is not float(value)
    rounding = 1e-15 * abs(number)
    limit = 1
    while True:
        simple = Fraction(number).limit_denominator(limit)
        if abs(float(simple) - number) <= rounding:
            return simple
        limit *= 10


@word("share(event)")
def share(event: Event) -> Share:
    """The share of visited states at which the event holds.

    Parameters
    ----------
    event
        What is counted.

    Returns
    -------
    Share
        A number from 0 to 1 that depends on the trajectory. Compare it with a threshold, which is read as an exact
        fraction: 0.1 means one tenth.

    Examples
    --------
    >>> from xmen import at, share
    >>> share(at(3, 4)) >= 0.5
    share(at(3, 4)) >= 0.5
    """
    return Share(require_event(event, "share(event)"))
