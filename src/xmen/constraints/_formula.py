"""Reading the text of a temporal formula: tokens, then a tree by recursive descent.

From tightest to loosest: the unary ! X N F G; then U and R (right associative); &; |; -> (right associative);
<->. `&&` and `||` are read as & and |.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple, NoReturn

from xmen.constraints._source import syntax_error

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
    parts: tuple[TemporalFormula, ...] = ()
    name: str = ""

    def names(self) -> set[str]:
        """The events that the formula mentions."""
        return {self.name} if self.operator == NAME else {n for part in self.parts for n in part.names()}


class _Token(NamedTuple):
    text: str
    offset: int
    is_word: bool


def read_formula(text: str, known: Collection[str]) -> TemporalFormula:
    """The tree of the text, in which only the `known` event names may appear.

    >>> read_formula("F a", ["a"])
    TemporalFormula(operator='F', parts=(TemporalFormula(operator='name', parts=(), name='a'),), name='')
    """
    return _Reader(text, known).read()


class _Reader:
    def __init__(self, text: str, known: Collection[str]) -> None:
        self.text = text
        self.known = known
        self.tokens = self._split()
        self.position = 0
        self.depth = 0

    def _split(self) -> list[_Token]:
        tokens = []
        for match in _TOKEN.finditer(self.text):
            symbol, word, other = match.groups()
            offset = match.start(match.lastindex or 0)
            if other:
                hint = _HINTS.get(other, "")
                self._fail(f"`{other}` means nothing in a temporal formula{hint}", offset)
            # Names as Python reads those of keywords, so that ltlf("F \ufb01", \ufb01=...) finds its event.
            spelled = _SPELLINGS.get(symbol, symbol) or unicodedata.normalize("NFKC", word)
            tokens.append(_Token(spelled, offset, word is not None))
        tokens.append(_Token("", len(self.text.rstrip()), False))
        return tokens

    def _fail(self, message: str, offset: int) -> NoReturn:
        raise syntax_error(f"ltlf(formula, ...): {message}", self.text, offset)

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
            level = LEVELS[operator]
            rest = self._nested(level if operator in RIGHT_ASSOCIATIVE else level + 1)
            formula = _join(operator, formula, rest)
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


def _join(operator: str, left: TemporalFormula, right: TemporalFormula) -> TemporalFormula:
    if operator not in ("&", "|"):
        return TemporalFormula(operator, (left, right))
    flat = (f for side in (left, right) for f in (side.parts if side.operator == operator else (side,)))
    return TemporalFormula(operator, tuple(flat))
