"""Reading the small arguments of a world (counts, start, terminal states, horizon), strictly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import WorldError
from xmen.options import as_int

SUM_TOLERANCE = 1e-9  # how far probabilities may be from summing to 1 before it counts as a mistake
LARGEST = 2**31 - 1  # states and actions are stored as 32-bit integers


def whole_number(value: Any, name: str, *, at_least: int) -> int:
    """`value` as a Python int between `at_least` and `LARGEST`; truth values are refused."""
    number = as_int(value)
    if number is None:
        raise WorldError(f"{name} must be an integer, got {_shown(value)}")
    if number < at_least:
        raise WorldError(f"{name} must be at least {at_least}, got {number}")
    if number > LARGEST:
        raise WorldError(f"{name} must be at most {LARGEST}, got {number}")
    return number


def read_horizon(value: Any) -> int | None:
    return None if value is None else whole_number(value, "horizon", at_least=0)


def read_start(start: Any, n_states: int) -> NDArray[np.float64]:
    """A start state, or a probability vector, as a probability vector of shape (n_states,)."""
    state = as_int(start)
    if state is not None:
        _in_range(state, n_states, "start state")
        vector = np.zeros(n_states)
        vector[state] = 1.0
        return vector
    expected = f"start must be one state (an integer) or a probability vector of length {n_states}"
    try:
        vector = np.array(start if isinstance(start, np.ndarray) else list(start))
    except (TypeError, ValueError):
        raise WorldError(f"{expected}, got {_shown(start)}") from None
    if vector.ndim != 1 or (vector.size and vector.dtype.kind not in "iuf"):
        raise WorldError(f"{expected}, got {_shown(start)}")
    if len(vector) != n_states:
        raise WorldError(f"{expected}, got a vector of length {len(vector)}")
    vector = vector.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(vector) & (vector >= 0)))
    if wrong.size:
        raise WorldError(f"start: the probability of state {wrong[0]} is {vector[wrong[0]]}")
    total = float(vector.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise WorldError(f"start: the probabilities sum to {total:.12g}, not to 1")
    return vector / total


def read_terminal(terminal: Any, n_states: int) -> NDArray[np.bool_]:
    """One state, several states, or a boolean array over states, as a mask of shape (n_states,)."""
    if isinstance(terminal, np.ndarray) and terminal.dtype == np.bool_:
        if terminal.shape != (n_states,):
            raise WorldError(
                f"terminal: a boolean mask must have shape ({n_states},), got {terminal.shape}; "
                "or give the terminal states as integers"
            )
        return terminal.copy()
    mask = np.zeros(n_states, dtype=np.bool_)
    single = as_int(terminal)
    if single is None and (isinstance(terminal, str | bytes | dict) or not isinstance(terminal, Iterable)):
        raise WorldError(f"terminal must be states (integers), got {_shown(terminal)}")
    for value in terminal if single is None else (single,):
        state = as_int(value)
        if state is None:
            raise WorldError(f"terminal must be states (integers), got {_shown(value)} among them")
        _in_range(state, n_states, "terminal state")
        mask[state] = True
    return mask


def _in_range(state: int, n_states: int, what: str) -> None:
    if not 0 <= state < n_states:
        raise WorldError(
            f"{what} {state} does not exist: the world has {n_states} states, numbered 0 to {n_states - 1}"
        )


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.60}"
