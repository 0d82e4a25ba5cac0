"""What events and constraints share as trees: how deep they may be, and rows of operands as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xmen.errors import ConstraintError

LONGEST_ROW = 800  # operands without brackets


def join_texts(texts: Sequence[str], operator: str) -> str:
    """Operands in a row; many of them in groups, because Python reads a row of thousands as a tree as deep."""
    while len(texts) > LONGEST_ROW:
        groups = [texts[i : i + LONGEST_ROW] for i in range(0, len(texts), LONGEST_ROW)]
        texts = [f"({f' {operator} '.join(group)})" if len(group) > 1 else group[0] for group in groups]
    return f" {operator} ".join(texts)


def levels_above(parts: Sequence[Any], most: int, what: str, measure: str = "levels") -> int:
    """How many operators are inside one another above these parts; refused where nothing could be done with it."""
    levels: int = 1 + max((getattr(part, measure) for part in parts), default=0)
    if levels > most:
        raise ConstraintError(
            f"more than {most} operators are inside one another in this {what}: no text could spell it. Join parts "
            "side by side, as in a & b & c, or at_least(1, a, b, c), instead of one around the other."
        )
    return levels
