"""Why a trajectory is not valid, as a record that reads as a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xmen.constraints.constraint import Constraint


class Violation(NamedTuple):
    """Why a trajectory is not valid: the part that fails, and where its failure became certain.

    Attributes
    ----------
    name
        The name of the part, or its text.
    position
        The first position from which on no continuation could have saved it.
    constraint
        The part itself.
    note
        Why it can never hold, where that is so.
    """

    name: str
    position: int
    constraint: Constraint
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.name!r} fails, and is sure to fail from position {self.position} on"
        return f"{text} ({self.note})" if self.note else text
