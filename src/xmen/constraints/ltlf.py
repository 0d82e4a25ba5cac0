"""Linear temporal logic on finite traces, by formula progression.

The machine's state says what has to hold from the next position on, and whether the trajectory may end here
instead. Reading a position rewrites each pending obligation by what it asks of that position and leaves for
the next one:

    phi U psi  =  psi | (phi & X(phi U psi))          phi R psi  =  psi & (phi | N(phi R psi))

where X (strong next) asks for a next position and N (weak next) does not.
"""

import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from keyword import iskeyword
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn, TypeAlias

from xmen.constraints.constraint import Constraint, Sure, word
from xmen.constraints.monitor import RowLeaf, RowMachine, settle
from xmen.errors import COMPARISONS, ConstraintError, ConstraintSyntaxError, with_type
from xmen.events import Event, require_event

# ---- Reading the text of a temporal formula: tokens, then a tree by recursive descent.
#
# From tightest to loosest: the unary ! X N F G; then U and R (right associative); &; |; -> (right associative); <->.
# `&&` and `||` are read as & and |.

UNARY = {"!", "X", "N", "F", "G"}
LEVELS = {"<->": 0, "->": 1, "|": 2, "&": 3, "U": 4, "R": 4}  # a larger number binds tighter
OPERAND = 5  # tighter than every binary operator
RIGHT_ASSOCIATIVE = {"->", "U", "R"}
CONSTANTS = {"true", "false"}
RESERVED = {"X", "N", "F", "G", "U", "R"} | CONSTANTS
NAME = "name"  # the operator of a leaf that names an event

MAX_DEPTH = 100  # nested operators; each takes a few Python frames here and in the progression

_TOKEN = re.compile(r"\s*(?:(<->|->|&&|\|\||[!&|()])|([^\W\d]\w*)|(\S))")
_SPELLINGS = {"&&": "&", "||": "|"}
_HINTS = {
    "~": "; negation is written !",
    "=": "; write -> for `implies` and <-> for `if and only if`",
    "<": "; write <-> for `if and only if`",
    "-": "; write -> for `implies`",
    "1": "; the constants are true and false",
    "0": "; the constants are true and false",
}


@dataclass(frozen=True, slots=True)
class TemporalFormula:
    """An operator with its operands; the name of an event where the operator is `NAME`."""

    operator: str
    parts: "tuple[TemporalFormula, ...]" = ()
    name: str = ""

    def names(self) -> set[str]:
        """The events that the formula mentions."""
        return {self.name} if self.operator == NAME else {n for part in self.parts for n in part.names()}


class _Token(NamedTuple):
    text: str
    offset: int
    is_word: bool


class FormulaReader:
    """Reads the tree of a text in which only the `known` names of events may appear.

    >>> FormulaReader("F a", ["a"]).read()
    TemporalFormula(operator='F', parts=(TemporalFormula(operator='name', parts=(), name='a'),), name='')
    """

    def __init__(self, text: str, known: Collection[str]) -> None:
        self.text, self.known = text, known
        self.tokens = self._split()
        self.position = self.depth = 0

    def _split(self) -> list[_Token]:
        tokens = []
        for match in _TOKEN.finditer(self.text):
            symbol, word, other = match.groups()
            offset = match.start(match.lastindex or 0)
            if other:
                self._fail(f"`{other}` means nothing in a temporal formula{_HINTS.get(other, '')}", offset)
            # Names as Python reads those of keywords, so that ltlf("F \ufb01", \ufb01=...) finds its event.
            spelled = _SPELLINGS.get(symbol, symbol) or unicodedata.normalize("NFKC", word)
            tokens.append(_Token(spelled, offset, word is not None))
        tokens.append(_Token("", len(self.text.rstrip()), False))
        return tokens

    def _fail(self, message: str, offset: int) -> NoReturn:
        raise ConstraintSyntaxError(f"ltlf(formula, ...): {message}", self.text, offset)

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def _take(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def read(self) -> TemporalFormula:
        formula = self._binary(0)
        if self.token.text == ")":
            self._fail("this bracket closes nothing", self.token.offset)
        if self.token.text:
            self._fail(f"an operator (& | -> <-> U R) must stand before `{self.token.text}`", self.token.offset)
        return formula

    def _binary(self, loosest: int) -> TemporalFormula:
        """Operands joined by operators that bind as tightly as level `loosest`, or more."""
        formula = self._operand()
        while LEVELS.get(self.token.text, -1) >= loosest:
            operator = self._take().text
            sides: Any = formula, self._nested(LEVELS[operator] + (operator not in RIGHT_ASSOCIATIVE))
            if operator in ("&", "|"):  # a & b & c is one node with three parts
                sides = tuple(f for side in sides for f in (side.parts if side.operator == operator else (side,)))
            formula = TemporalFormula(operator, sides)
        return formula

    def _nested(self, loosest: int) -> TemporalFormula:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(f"more than {MAX_DEPTH} operators are nested; split the formula", self.token.offset)
        formula = self._binary(loosest)
        self.depth -= 1
        return formula

    def _operand(self) -> TemporalFormula:
        token = self._take()
        if token.text in UNARY:
            return TemporalFormula(token.text, (self._nested(OPERAND),))
        if token.text == "(":
            formula = self._nested(0)
            if self._take().text != ")":
                self.position -= 1
                if not self.token.text:
                    self._fail("this bracket is never closed", token.offset)
                self._fail(f"expected an operator or `)` before `{self.token.text}`", self.token.offset)
            return formula
        if token.text in CONSTANTS:
            return TemporalFormula(token.text)
        if not token.is_word or token.text in RESERVED:
            found = f"found `{token.text}`" if token.text else "the formula ends"
            self._fail(f"expected an event name, true, false, ! X N F G or `(`, but {found}", token.offset)
        if token.text not in self.known:
            self._unknown(token)
        return TemporalFormula(NAME, name=token.text)

    def _unknown(self, token: _Token) -> NoReturn:
        known = ", ".join(sorted(self.known)) or "none; give them as in ltlf('F(a)', a=at(3))"
        close = get_close_matches(token.text, self.known, n=1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        if set(token.text) <= {"X", "N", "F", "G"}:
            hint = f"; write operators apart: `{' '.join(token.text)}`"
        elif token.text.lower() in CONSTANTS:
            hint = f"; did you mean `{token.text.lower()}`?"
        self._fail(f"unknown event `{token.text}`{hint} (known events: {known})", token.offset)


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
        self._normal, self._progress = cache(self._normalise), cache(self._rewrite)
        self._compared = 0
        start: Pending = (False, frozenset([frozenset([self._normal(formula, True)])]))
        # Each step is worked out once, so that all work together can be limited.
        self.machine = RowMachine(start, cache(self.step), accepting=itemgetter(0))

    def step(self, state: Pending, row: int) -> Hashable:
        after = self._any_of(self._all_of(self._progress(number, row) for number in clause) for clause in state[1])
        return Sure.HOLDS if after == TRUE else Sure.FAILS if after == FALSE else after

    def _node(self, operator: str, *operands: int) -> int:
        number = self._numbers.setdefault((operator, operands), len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append((operator, operands))
        return number

    def _normalise(self, formula: TemporalFormula, positive: bool) -> int:
        """The number of the formula, or of its negation, in negation normal form."""
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

    def _rewrite(self, number: int, row: int) -> Pending:
        """What the formula leaves for later once the row at its position has been read."""
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
                many = f"more than {MAX_CLAUSES} alternatives are open at once"
                raise ConstraintError(f"ltlf(formula, ...): {many}. {SPLIT}.")
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
        return settle(Progression(formula, names).machine, len(names))
    except ConstraintError:  # too large to list whole; the steps of one trajectory may still be few
        return Progression(formula, names).machine


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
        raise ConstraintError(f"ltlf(formula, ...) takes a text such as 'F(a)'; got {with_type(formula)}.")
    for name, event in events.items():
        if name in RESERVED or iskeyword(name) or not name.isidentifier():
            names = f"names are Python identifiers other than {' '.join(sorted(RESERVED))} (lower case is fine)"
            raise ConstraintError(f"ltlf(formula, ...): {name!r} cannot name an event: {names}.")
        require_event(event, f"ltlf(formula, {name}=event)")
    events = {unicodedata.normalize("NFKC", name): event for name, event in events.items()}  # as Python's keywords
    tree = FormulaReader(formula, events).read()
    used = tuple(sorted(tree.names()))
    return Ltlf(tuple(events[name] for name in used), tree, used, formula)
