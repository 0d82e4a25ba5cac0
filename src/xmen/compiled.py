"""The one way in which loops are compiled: by numba, kept on disk between runs, without Python's lock."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function, any_order: bool = False) -> Function:
    """The function as machine code, compiled for the types of its first call.

    `any_order`: sums may be taken in another order than written, several terms at a time. Where neither the
    installation nor the home can be written to, every process compiles for itself; under NUMBA_DISABLE_JIT=1 it stays
    Python, whose lines can be counted and changed.
    """
    freedom = {"reassoc"} if any_order else False
    kept: Any
    try:
        kept = njit(cache=True, nogil=True, fastmath=freedom)(function)
    except RuntimeError:  # numba has no place for it
        kept = njit(nogil=True, fastmath=freedom)(function)
    else:
        if kept is function:
            return np.errstate(all="ignore")(function)  # machine code does not warn where numbers wrap round
        # A private name: what numba offers (NUMBA_CACHE_DIR, locators) says where kernels are kept, and where one
        # cannot be written (a full disk) the call that compiles it fails. Nothing public lets it go on.
        save = kept._cache.save_overload

        def save_if_there_is_room(*code: object) -> None:
            with suppress(OSError):
                save(*code)

        kept._cache.save_overload = save_if_there_is_room
    return cast(Function, kept)
