"""Shares of the visited states, compared with thresholds that are read as exact fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from xmen.constraints.arithmetic import Comparable, LinearComparison, integer
from xmen.constraints.constraint import Constraint
from xmen.constraints.terms import CountTerm, LengthTerm
from xmen.constraints.words import word
from xmen.errors import ConstraintError
from xmen.events import LARGEST, Event, require_event


@dataclass(frozen=True, eq=False, repr=False)
class Share(Comparable):
    """The share of visited states at which the event holds: share(e) >= p/q is q*count(e) >= p*length()."""

    event: Event

    def compare(self, op: str, other: object) -> Constraint:
        threshold = exact_fraction(other, f"`{self} {op} ...`")
        if max(abs(threshold.numerator), threshold.denominator) > LARGEST:
            raise ConstraintError(
                f"`{self} {op} ...`: as a fraction, the threshold needs numbers above {LARGEST}; round it."
            )
        terms = ((threshold.denominator, CountTerm(self.event)), (-threshold.numerator, LengthTerm()))
        return LinearComparison(
            tuple((c, term) for c, term in terms if c),
            op,
            0,
            spelling=f"{self} {op} {_fraction_text(threshold)}",
        )

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


def _fraction_text(value: Fraction) -> str:
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else f"{value.numerator}/{value.denominator}"


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
