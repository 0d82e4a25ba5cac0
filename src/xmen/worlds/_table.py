"""From transition rows as users write them to the sorted, merged, exact columns engines read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.errors import WorldError
from xmen.worlds._checks import SUM_TOLERANCE

_FIELDS = ("state", "action", "next_state", "probability")


class Columns(NamedTuple):
    """Transitions as four columns of equal length (E,)."""

    source: NDArray[np.int32]
    action: NDArray[np.int32]
    target: NDArray[np.int32]
    probability: NDArray[np.float64]


def read_rows(transitions: Any, n_states: int, n_actions: int) -> Columns:
    """Rows (state, action, next_state, probability), checked one by one; errors name the row."""
    table = _as_table(transitions)
    for column, limit in ((0, n_states), (1, n_actions), (2, n_states)):
        values = table[:, column]
        # NaN compares false with everything, so it is caught here as well.
        wrong = np.flatnonzero(~((values >= 0) & (values < limit) & (values == np.floor(values))))
        if wrong.size:
            kind = "action" if column == 1 else "state"
            raise WorldError(
                f"transition row {wrong[0]} {_row(table[wrong[0]])}: {_FIELDS[column]} is "
                f"{values[wrong[0]]:.12g}, but {kind}s are the integers 0 to {limit - 1}"
            )
    probability = table[:, 3]
    wrong = np.flatnonzero(~((probability >= 0) & (probability < np.inf)))
    if wrong.size:
        raise WorldError(
            f"transition row {wrong[0]} {_row(table[wrong[0]])}: the probability is "
            f"{probability[wrong[0]]:.12g}, it must be between 0 and 1"
        )
    source, action, target = (table[:, column].astype(np.int32) for column in range(3))
    return Columns(source, action, target, probability)


def normalise(
    columns: Columns,
    terminal: NDArray[np.bool_],
    n_actions: int,
    describe_state: Callable[[int], str],
    describe_action: Callable[[int], str],
) -> Columns:
    """Sorted by (source, action, target), duplicates added up, rows that cannot happen dropped.

    Probabilities of each (state, action) must sum to 1 within `SUM_TOLERANCE`; they are then
    divided by their sum, so that a certain transition has probability exactly 1.
    """
    source, action, target, probability = columns
    if terminal[source].any():
        kept = ~terminal[source]
        source, action, target, probability = source[kept], action[kept], target[kept], probability[kept]
    n_states = len(terminal)
    key = (source.astype(np.int64) * n_actions + action) * n_states + target
    if np.any(key[1:] <= key[:-1]):
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        source, action, target = source[order][first], action[order][first], target[order][first]
        probability = np.add.reduceat(probability[order], first)
    if not len(source):
        return Columns(source, action, target, probability)

    pair = source.astype(np.int64) * n_actions + action
    first = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    total = np.add.reduceat(probability, first)
    wrong = np.flatnonzero(np.abs(total - 1.0) > SUM_TOLERANCE)
    if wrong.size:
        row = first[wrong[0]]
        more = f" ({wrong.size - 1} more such pairs)" if wrong.size > 1 else ""
        raise WorldError(
            f"probabilities of {describe_action(int(action[row]))} in {describe_state(int(source[row]))} "
            f"sum to {total[wrong[0]]:.12g}, not to 1{more}"
        )
    probability = probability / np.repeat(total, np.diff(np.append(first, len(source))))
    kept = probability > 0
    if kept.all():
        return Columns(source, action, target, probability)
    return Columns(source[kept], action[kept], target[kept], probability[kept])


def _as_table(transitions: Any) -> NDArray[np.float64]:
    """Anything made of rows as a float array of shape (n, 4)."""
    if isinstance(transitions, np.ndarray):
        rows: Any = transitions
    elif isinstance(transitions, Iterable) and not isinstance(transitions, str | bytes | dict):
        rows = list(transitions)
    else:
        raise WorldError(f"transitions must be rows {_header()}, got {type(transitions).__name__} {transitions!r:.60}")
    if not len(rows):
        return np.empty((0, 4))
    try:
        table = np.asarray(rows)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] != 4 or table.dtype.kind not in "iuf":
        table = _row_by_row(rows)
    return table.astype(np.float64)


def _row_by_row(rows: Sequence[Any]) -> NDArray[np.float64]:
    """The slow way, for exact fractions and the like, and to say which row is wrong."""
    table = np.empty((len(rows), 4))
    for index, row in enumerate(rows):
        try:
            fields = list(row)
        except TypeError:
            raise WorldError(f"transition row {index} must be {_header()}, got {row!r:.60}") from None
        if len(fields) != 4:
            raise WorldError(f"transition row {index} must have 4 entries {_header()}, got {len(fields)}: {row!r:.60}")
        for column, field in enumerate(fields):
            try:
                if isinstance(field, str | bytes | bool | np.bool_):
                    raise TypeError
                table[index, column] = float(field)
            except (TypeError, ValueError, OverflowError):
                raise WorldError(
                    f"transition row {index}: {_FIELDS[column]} must be a number, "
                    f"got {type(field).__name__} {field!r:.60}"
                ) from None
    return table


def _header() -> str:
    return f"({', '.join(_FIELDS)})"


def _row(values: NDArray[np.float64]) -> str:
    return f"({', '.join(f'{value:.12g}' for value in values)})"
