"""How many of several constraints hold: exactly, at least, at most."""

from __future__ import annotations

from dataclasses import dataclass

from xmen.constraints.constraint import Constraint, HowMany, require_constraint, word
from xmen.errors import ConstraintError
from xmen.events import LARGEST
from xmen.options import require_whole


@dataclass(frozen=True, repr=False)
class Cardinality(HowMany):
    """`exactly`, `at_least` or `at_most` k of the parts hold."""

    word: str = "exactly"
    k: int = 1
    _is_operator = False

    @property
    def least(self) -> int:
        return 0 if self.word == "at_most" else self.k

    @property
    def most(self) -> int:
        return len(self.parts) if self.word == "at_least" else self.k

    def _text(self) -> str:
        return f"{self.word}({', '.join([str(self.k), *map(str, self.parts)])})"

    def impossible(self) -> str:
        if self.least > len(self.parts):
            return f"it asks for {self.least} of only {len(self.parts)} constraints"
        return ""


def _cardinality(word: str, k: int, constraints: tuple[Constraint, ...]) -> Constraint:
    where = f"{word}(k, *constraints)"
    number = require_whole(f"{where}: k", k, least=0, most=LARGEST, refusal=ConstraintError)
    if not constraints:
        raise ConstraintError(f"{where} needs at least one constraint after k = {number}.")
    return Cardinality(tuple(require_constraint(c, where) for c in constraints), word, number)


@word("exactly(k, constraint, ...)")
def exactly(k: int, *constraints: Constraint) -> Constraint:
    """Exactly k of these constraints hold.

    Parameters
    ----------
    k
        How many.
    *constraints
        The constraints that are counted.

    Returns
    -------
    Constraint
        Kept when k of them are kept and the others are broken.

    Raises
    ------
    ConstraintError
        When k is not a whole number from 0, or no constraint is given.

    Examples
    --------
    >>> from xmen import at, exactly, visit
    >>> exactly(1, visit(at(1)), visit(at(2)))
    exactly(1, visit(at(1)), visit(at(2)))
    """
    return _cardinality("exactly", k, constraints)


@word("at_least(k, constraint, ...)")
def at_least(k: int, *constraints: Constraint) -> Constraint:
    """k or more of these constraints hold.

    Parameters
    ----------
    k
        How many at least.
    *constraints
        The constraints that are counted.

    Returns
    -------
    Constraint
        Kept when k or more of them are kept.
    """
    return _cardinality("at_least", k, constraints)


@word("at_most(k, constraint, ...)")
def at_most(k: int, *constraints: Constraint) -> Constraint:
    """k or fewer of these constraints hold.

    Parameters
    ----------
    k
        How many at most.
    *constraints
        The constraints that are counted.

    Returns
    -------
    Constraint
        Kept when k or fewer of them are kept.
    """
    return _cardinality("at_most", k, constraints)
