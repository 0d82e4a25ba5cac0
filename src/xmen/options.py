"""Choices as values: frozen records of settings that are checked when they are made."""

import operator
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from xmen.errors import EngineError, XmenError, with_type


@dataclass(frozen=True, repr=False)
class Options:
    """A base of frozen dataclasses (with repr=False); subclasses check their fields in `__post_init__`.

    Equal records are equal choices, so they can be compared, hashed and stored. `kinds` has every subclass by name:
    what a saved model may hold.
    """

    kinds: ClassVar[dict[str, "type[Options]"]] = {}

    def __init_subclass__(cls) -> None:
        Options.kinds[cls.__name__] = cls

    def chosen(self) -> dict[str, Any]:
        """All fields by name, as they were given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def changed(self, **choices: Any) -> Self:
        """A copy with some fields changed, and checked again."""
        known = [field.name for field in fields(self)]
        for name in choices:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no setting {name!r}; it has {listed(known)}.")
        return replace(self, **choices)

    def __repr__(self) -> str:
        changed = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed)})"


@dataclass(frozen=True, repr=False)
class Unsaved:
    """Stands in a loaded model where a function was: those are not stored."""

    name: str

    def __repr__(self) -> str:
        return f"'{self.name}, a function that was not saved'"


def listed(names: Iterable[str]) -> str:
    """'a', 'b', 'c', as messages show what there is to choose from."""
    return ", ".join(map(repr, names))


def require_number(
    name: str, value: Any, *, least: float = -inf, above: float = -inf, below: float = inf, optional: bool = False
) -> None:
    """Refuse what is no finite number from `least` on, above `above` and below `below`; None passes if `optional`."""
    if value is None and optional:
        return
    if not (is_number(value) and value >= least and above < value < below):
        low = f", above {above:g}" if above > -inf else f", {least:g} or more" if least > -inf else ""
        high = f" and below {below:g}" if below < inf else ""
        raise EngineError(f"{name} is a finite number{low}{high}; got {value!r:.60}.")


def is_number(value: Any) -> bool:
    """Whether a value is one finite number that a float can hold."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def as_int(value: Any) -> int | None:
    """A whole number as Python has it; None for anything else, truth values too."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def require_whole(
    name: str,
    value: Any,
    *,
    least: int,
    most: float = inf,
    optional: bool = False,
    refusal: type[XmenError] = EngineError,
    hint: str = "",
) -> Any:
    """The value as a Python int from `least` to `most`, or a refusal with a hint; None passes if `optional`."""
    number = as_int(value)
    if number is None and not (value is None and optional):
        raise refusal(f"{name} is a whole number, {least} or more; got {with_type(value)}.{hint}")
    if number is not None and not least <= number <= most:
        shown = f"; got {number!r:.60}." if number < least else f" and at most {most}; got a larger one."
        raise refusal(f"{name} is a whole number, {least} or more{shown}{hint}")
    return number


def require_choice(name: str, value: Any, known: Iterable[str]) -> None:
    """Refuse a name that is not among those there are, and offer the closest."""
    choices = list(known)
    if not isinstance(value, str) or value not in choices:
        close = get_close_matches(value, choices, n=1) if isinstance(value, str) else []
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise EngineError(f"unknown {name} {value!r:.60}{hint}: choose one of {listed(choices)}.")
