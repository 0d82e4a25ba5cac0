"""Linear temporal logic on finite traces, by formula progression.

The machine's state says what has to hold from the next position on, and whether the trajectory may end here
instead. Reading a position rewrites each pending obligation by what it asks of that position and leaves for
the next one:

    phi U psi  =  psi | (phi & X(phi U psi))          phi R psi  =  psi & (phi | N(phi R psi))

where X (strong next) asks for a next position and N (weak next) does not.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from keyword import iskeyword
from typing import TypeAlias

from xmen.constraints._formula import NAME, RESERVED, TemporalFormula, read_formula
from xmen.constraints._sure import RowLeaf, RowMachine, settle
from xmen.constraints.constraint import Constraint
from xmen.constraints.verdict import Sure
from xmen.constraints.words import word
from xmen.errors import ConstraintError
from xmen.events import Event, require_event
from xmen.limits import COMPARISONS

Clauses: TypeAlias = frozenset[frozenset[int]]
"""One set of obligations or another must hold; no set contains another one."""

Pending: TypeAlias = tuple[bool, Clauses]
"""Whether the trajectory may end here, and what must hold at the next position if it does not."""

NOTHING: Clauses = frozenset([frozenset()])
NEVER: Clauses = frozenset()
TRUE: Pending = (True, NOTHING)
FALSE: Pending = (False, NEVER)

MAX_CLAUSES = 4096  # alternatives in one state
SPLIT = "Split the formula at its outermost & into several constraints, as in ltlf(...) & ltlf(...)"

_NEGATED = {"true": "false", "false": "true", "&": "|", "|": "&", "U": "R", "R": "U", "X": "N", "N": "X"}


class Progression:
    """The machine of one formula: its states are `Pending` values over numbered subformulas.

    Formulas are kept in negation normal form, each one once, as (operator, operands): the operands are the
    numbers of subformulas, and for the literals "+" and "-" the number of the event.
    """

    def __init__(self, formula: TemporalFormula, names: tuple[str, ...]) -> None:
        self._events = {name: bit for bit, name in enumerate(names)}
        self._nodes: list[tuple[str, tuple[int, ...]]] = []
        self._numbers: dict[tuple[str, tuple[int, ...]], int] = {}
        self._normal_forms: dict[tuple[TemporalFormula, bool], int] = {}
        self._read: dict[tuple[int, int], Pending] = {}
        self._steps: dict[tuple[Pending, int], Hashable] = {}
        self._compared = 0
        self._start: Pending = (False, frozenset([frozenset([self._normal(formula, True)])]))

    def start(self) -> Hashable:
        return self._start

    def step(self, state: Pending, row: int) -> Hashable:
        key = (state, row)
        if key not in self._steps:  # each is worked out once, so that all work together can be limited
            after = self._any_of(self._all_of(self._progress(number, row) for number in clause) for clause in state[1])
            self._steps[key] = Sure.HOLDS if after == TRUE else Sure.FAILS if after == FALSE else after
        return self._steps[key]

    def accepting(self, state: Pending) -> bool:
        return state[0]

    def _node(self, operator: str, *operands: int) -> int:
        key = (operator, operands)
        if key not in self._numbers:
            self._numbers[key] = len(self._nodes)
            self._nodes.append(key)
        return self._numbers[key]

    def _normal(self, formula: TemporalFormula, positive: bool) -> int:
        """The number of the formula, or of its negation, in negation normal form."""
        key = (formula, positive)
        if key not in self._normal_forms:
            self._normal_forms[key] = self._normalise(formula, positive)
        return self._normal_forms[key]

    def _normalise(self, formula: TemporalFormula, positive: bool) -> int:
        operator, parts = formula.operator, formula.parts
        if operator == NAME:
            return self._node("+" if positive else "-", self._events[formula.name])
        if operator == "!":
            return self._normal(parts[0], not positive)
        if operator in ("F", "G"):  # F phi = true U phi, G phi = false R phi
            until = (operator == "F") == positive
            left = self._node("true" if until else "false")
            return self._node("U" if until else "R", left, self._normal(parts[0], positive))
        if operator == "->":
            sides = (self._normal(parts[0], not positive), self._normal(parts[1], positive))
            return self._node("|" if positive else "&", *sides)
        if operator == "<->":
            yes, no = (tuple(self._normal(part, sign) for part in parts) for sign in (True, False))
            right, wrong = (yes[1], no[1]) if positive else (no[1], yes[1])
            return self._node("|", self._node("&", yes[0], right), self._node("&", no[0], wrong))
        operands = tuple(self._normal(part, positive) for part in parts)
        return self._node(operator if positive else _NEGATED[operator], *operands)

    def _progress(self, number: int, row: int) -> Pending:
        """What the formula leaves for later once the row at its position has been read."""
        key = (number, row)
        if key not in self._read:
            self._read[key] = self._rewrite(number, row)
        return self._read[key]

    def _rewrite(self, number: int, row: int) -> Pending:
        operator, operands = self._nodes[number]
        if operator in ("+", "-"):
            return TRUE if (row >> operands[0] & 1) == (operator == "+") else FALSE
        if operator in ("true", "false"):
            return TRUE if operator == "true" else FALSE
        if operator in ("X", "N"):
            return operator == "N", self._obligations(operands[0])
        parts = (self._progress(operand, row) for operand in operands)
        if operator in ("&", "|"):
            return self._all_of(parts) if operator == "&" else self._any_of(parts)
        left, right = parts
        again = frozenset([frozenset([number])])
        if operator == "U":
            return self._any_of([right, self._all_of([left, (False, again)])])
        return self._all_of([right, self._any_of([left, (True, again)])])

    def _obligations(self, number: int) -> Clauses:
        operator, operands = self._nodes[number]
        if operator in ("true", "false"):
            return NOTHING if operator == "true" else NEVER
        if operator == "&":
            return self._joined(self._obligations(operand) for operand in operands)
        return frozenset([frozenset([number])])

    def _any_of(self, parts: Iterable[Pending]) -> Pending:
        may_end, clauses = False, NEVER
        for part_may_end, part in parts:
            may_end, clauses = may_end or part_may_end, self._smallest(clauses | part)
        return may_end, clauses

    def _all_of(self, parts: Iterable[Pending]) -> Pending:
        known = list(parts)
        return all(may_end for may_end, _ in known), self._joined(clauses for _, clauses in known)

    def _joined(self, parts: Iterable[Clauses]) -> Clauses:
        joined = NOTHING
        for part in parts:
            if len(joined) * len(part) > MAX_CLAUSES:
                raise ConstraintError(
                    f"ltlf(formula, ...): more than {MAX_CLAUSES} alternatives are open at once. {SPLIT}."
                )
            joined = self._smallest(one | other for one in joined for other in part)
        return joined

    def _smallest(self, clauses: Iterable[frozenset[int]]) -> Clauses:
        """The clauses without those that contain another one."""
        kept: list[frozenset[int]] = []
        for clause in sorted(set(clauses), key=len):
            self._compared += 1 + len(kept)
            if not any(smaller <= clause for smaller in kept):
                kept.append(clause)
        COMPARISONS.require(self._compared, "ltlf(formula, ...)", ConstraintError, SPLIT)
        return frozenset(kept)


@lru_cache(maxsize=256)
def _machine(formula: TemporalFormula, names: tuple[str, ...]) -> RowMachine:
    try:
        return settle(Progression(formula, names), len(names))
    except ConstraintError:  # too large to list whole; the steps of one trajectory may still be few
        return Progression(formula, names)


@dataclass(frozen=True, repr=False)
class Ltlf(RowLeaf):
    """A temporal formula holds at position 0; bit i of a row is the i-th name in alphabetical order."""

    formula: TemporalFormula
    names: tuple[str, ...]
    spelling: str = field(compare=False)

    @cached_property
    def machine(self) -> RowMachine:
        return _machine(self.formula, self.names)

    def _text(self) -> str:
        events = "".join(f", {name}={event}" for name, event in zip(self.names, self.watched, strict=True))
        return f"ltlf({self.spelling!r}{events})"


@word("ltlf('formula', name=event, ...)")
def ltlf(formula: str, /, **events: Event) -> Constraint:
    """A formula of linear temporal logic on finite traces.

    Parameters
    ----------
    formula
        Operators from tightest to loosest: the unary ! X (strong next) N (weak next) F G, then U and R, &, |, ->, <->;
        the constants true and false; the names of the events.
    **events
        The events by the names that the formula uses. Those that it does not mention are left out.

    Returns
    -------
    Constraint
        Kept when the formula holds at position 0.

    Raises
    ------
    ConstraintError
        When the formula cannot be read or names an event that is not given.

    Examples
    --------
    >>> from xmen import at, ltlf
    >>> ltlf("F(a) & (!b U c)", a=at(3), b=at(4), c=at(5))
    ltlf('F(a) & (!b U c)', a=at(3), b=at(4), c=at(5))
    """
    if not isinstance(formula, str):
        raise ConstraintError(
            f"ltlf(formula, ...) takes a text such as 'F(a)'; got {formula!r} ({type(formula).__name__})."
        )
    for name, event in events.items():
        if name in RESERVED or iskeyword(name) or not name.isidentifier():
            raise ConstraintError(
                f"ltlf(formula, ...): {name!r} cannot name an event: names are Python identifiers other than "
                f"{' '.join(sorted(RESERVED))} (lower case is fine)."
            )
        require_event(event, f"ltlf(formula, {name}=event)")
    events = {unicodedata.normalize("NFKC", name): event for name, event in events.items()}  # as Python's keywords
    tree = read_formula(formula, events)
    names = tuple(sorted(tree.names()))
    return Ltlf(tuple(events[name] for name in names), tree, names, formula)
