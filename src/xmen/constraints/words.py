"""The functions that constraint text may use: whoever writes one says beside it how it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {}
"""By name: the function, and how it is written."""


def word(usage: str) -> Callable[[Function], Function]:
    """Let constraint text call a function, as `usage` shows; its name is what stands before the bracket."""

    def remember(function: Function) -> Function:
        FUNCTIONS[usage.partition("(")[0]] = (function, usage)
        return function

    return remember
