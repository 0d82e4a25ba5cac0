"""Reads the text of a rule as a description for `reference`: a second reading, without xmen's parser or machines."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class _Event:
    def __init__(self, description: tuple) -> None:
        self.description = description

    def __or__(self, other: _Event) -> _Event:
        return _Event(("either", self.description, other.description))


class _Rule:
    def __init__(self, description: tuple) -> None:
        self.description = description

    def __and__(self, other: _Rule) -> _Rule:
        return _Rule(("and", self.description, other.description))


class _Number:
    """Something that is compared with a number: `make` turns operator and number into a description."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __le__(self, k: Any) -> _Rule:
        return _Rule(self.make("<=", k))

    def __ge__(self, k: Any) -> _Rule:
        return _Rule(self.make(">=", k))

    def __eq__(self, k: Any) -> _Rule:  # type: ignore[override]
        return _Rule(self.make("==", k))


def _quantity(what: tuple) -> _Number:
    return _Number(lambda op, k: ("linear", ((1, what),), op, k))


def _leaf(word: str) -> Any:
    return lambda *events: _Rule((word, *(e.description for e in events)))


ANYTIME = _Event(("anytime",))

NAMES = {
    "never": _leaf("never"),
    "visit": _leaf("visit"),
    "always": _leaf("always"),
    "before": _leaf("before"),
    "sequence": _leaf("sequence"),
    "no_revisit": lambda e=ANYTIME: _Rule(("no_revisit", e.description)),
    "response": lambda a, b, within: _Rule(("response", a.description, b.description, within)),
    "count": lambda e: _quantity(("count", e.description)),
    "length": lambda: _quantity(("length",)),
    "share": lambda e: _Number(lambda op, k: ("share", e.description, op, Fraction(k).limit_denominator(1000))),
    "longest_run": lambda e: _Number(lambda op, k: ("longest_run", e.description, op, k)),
    "longest_repeat": lambda: _Number(lambda op, k: ("longest_repeat", op, k)),
    "exactly": lambda k, *rules: _Rule(("exactly", k, *(r.description for r in rules))),
}


def description(text: str, events: dict[str, tuple]) -> tuple:
    """What `reference.holds` understands, from a text and the descriptions of its events."""
    names = {**NAMES, **{name: _Event(event) for name, event in events.items()}, "__builtins__": {}}
    return eval(text, names).description
