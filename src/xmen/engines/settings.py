"""What a user may choose about hashing."""

from __future__ import annotations

from typing import NamedTuple

from xmen.errors import EngineError
from xmen.sampling.bounds import require_delta, require_probability

DEFAULT_DELTA = 1.19  # within the 2^(1/4) that the paper's Theorem 4 needs
DEFAULT_FAILURE = 0.001
DEFAULT_CELL_SIZE = 48.0


class XorSettings(NamedTuple):
    """What a user may choose."""

    delta: float = DEFAULT_DELTA
    failure: float = DEFAULT_FAILURE
    cell_size: float | None = None


def xor_settings(delta: float | None, failure: float | None, cell_size: float | None) -> XorSettings:
    """The user's choices, checked, with defaults for what was left out."""
    chosen = XorSettings(
        DEFAULT_DELTA if delta is None else delta, DEFAULT_FAILURE if failure is None else failure, cell_size
    )
    require_delta(chosen.delta)
    require_probability(chosen.failure)
    if cell_size is not None and not (isinstance(cell_size, int | float) and cell_size > 0):
        raise EngineError(f"cell_size is the expected number of solutions in a cell, above 0; got {cell_size!r}.")
    return chosen
