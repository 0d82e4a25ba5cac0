"""The [studio] table of a problem file: colours, and how to learn."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xmen.answers import Choice
from xmen.errors import FileFormatError
from xmen.methods.table import parse_method
from xmen.problem import Problem
from xmen.registry import LEARNERS

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True)
class StudioSettings:
    """What the page asks of a fit, and how it shows events."""

    colours: Mapping[str, str] = field(default_factory=dict)
    learner: str = "xmen"
    method: str = "auto"
    l2: float = 0.0
    max_iter: int | None = None
    held_out: float = 0.0  # the share of the demonstrations on which a fit is judged

    def choice(self, problem: Problem, learner: str | None = None) -> Choice:
        """What is asked of a fit; a learner takes those settings that it has."""
        asked = {"method": self.method, "l2": self.l2, "max_iter": self.max_iter, "seed": problem.settings.seed}
        return Choice(learner or self.learner, {**asked, "validity": problem.settings.validity})


def read_settings(table: Mapping[str, Any]) -> StudioSettings:
    """The table, or a FileFormatError that names the key."""
    for key, value in table.items():
        if key not in _CHECKS:
            raise FileFormatError(f"[studio]: unknown key {key!r}; known: {', '.join(_CHECKS)}")
        if (expected := _CHECKS[key](value)) is not None:
            raise FileFormatError(f"[studio], {key}: expected {expected}, got {value!r:.60}")
    if "method" in table:
        parse_method(table["method"])
    return StudioSettings(**table)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _colours(value: object) -> str | None:
    right = isinstance(value, Mapping) and all(
        isinstance(colour, str) and _COLOUR.fullmatch(colour) for colour in value.values()
    )
    return None if right else 'colours by the name of an event, such as { key = "#E69F00" }'


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "colours": _colours,
    "learner": lambda value: None if value in tuple(LEARNERS) else f"one of {', '.join(LEARNERS)}",
    "method": lambda value: None if isinstance(value, str) else "the name of a method",
    "l2": lambda value: None if _number(value) else "a number, 0 or more",
    "max_iter": lambda value: None if type(value) is int and value > 0 else "a whole number, 1 or more",
    "held_out": lambda value: None if _number(value) and value < 1 else "a share from 0 up to 1",
}
"""What each key takes, in words where the value is something else."""
