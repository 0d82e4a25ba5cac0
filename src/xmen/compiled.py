"""The one way in which loops are compiled: by numba, kept on disk between runs, without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function as machine code, compiled for the types of its first call."""
    return cast(Function, njit(cache=True, nogil=True)(function))
