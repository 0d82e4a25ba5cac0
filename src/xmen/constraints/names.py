"""What names of the user's own may stand for in constraint text."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.constraints._vocabulary import ANYTIME, WITHOUT_TEXT
from xmen.constraints.arithmetic import Comparable
from xmen.constraints.constraint import Constraint
from xmen.constraints.words import FUNCTIONS
from xmen.errors import ConstraintError
from xmen.events import Event

Name: TypeAlias = "Event | Constraint | NDArray[Any] | Sequence[Any] | Mapping[Event, int]"
"""What a name of the user's own may stand for in text."""

COSTS = (np.ndarray, list, tuple, Mapping)  # what total(...) takes


def check_names(names: object, where: str) -> dict[str, Name]:
    """The names, if text can use all of them; otherwise a ConstraintError that says which it cannot."""
    prefix = f"{where}: " if where else ""
    if not isinstance(names, Mapping):
        raise ConstraintError(f"{prefix}names maps names to events and constraints; got {names!r}.")
    found: dict[str, Name] = {}
    for given, value in names.items():
        name = as_identifier(given)
        if name is None:
            raise ConstraintError(f"{prefix}{given!r} cannot be written in the text; use a Python identifier.")
        if name in FUNCTIONS or name in WITHOUT_TEXT or name == ANYTIME:
            raise ConstraintError(f"{prefix}the name {name!r} is taken by xmen's own {name}; choose another.")
        if not isinstance(value, (Event, Constraint, *COSTS)):
            raise ConstraintError(
                f"{prefix}{name!r} must stand for an event or a constraint, or for costs in an array; got "
                f"{value!r:.60} ({type(value).__name__})."
            )
        if name in found:
            raise ConstraintError(f"{prefix}{given!r} and another are the same to Python: {name!r}; choose others.")
        found[name] = value
    return found


def as_identifier(name: object) -> str | None:
    """The name as Python reads it (letters in their NFKC form), or None where it cannot be an identifier."""
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
        return None
    return unicodedata.normalize("NFKC", name)


def kind_of(value: object) -> str:
    """What a value is, as messages call it."""
    if isinstance(value, Event):
        return f"the event `{value}`"
    if isinstance(value, Constraint):
        return f"the constraint `{value}`"
    if isinstance(value, Comparable):
        return f"`{value}`, a number that depends on the trajectory"
    if isinstance(value, COSTS):
        return "costs, which stand in total(...)"
    return f"{value!r}"
