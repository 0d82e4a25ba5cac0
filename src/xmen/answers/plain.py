"""Answers as JSON can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xmen.errors import InfeasibleError, InvalidDemonstrationError


def error_record(error: BaseException, message: str = "") -> dict[str, Any]:
    """What is said about an error: the message (its own, if none is given), its class, and what else it knows."""
    record: dict[str, Any] = {"error": message or str(error), "kind": type(error).__name__}
    if isinstance(error, InfeasibleError):
        record["conflict"] = list(error.conflict)
        if error.best is not None:
            record |= {"best": error.best, "dropping": list(error.dropping)}
    if isinstance(error, InvalidDemonstrationError):
        record |= {"demonstration": error.index, "constraint": error.constraint, "position": error.position}
    return record


def plain(value: Any) -> Any:
    """The same in dicts and lists; numbers that JSON does not know (nan, inf) become None.

    >>> plain({"share": float("nan"), 3: (1, 2)})
    {'share': None, '3': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
