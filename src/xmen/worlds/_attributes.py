"""Attributes of links, as maps have them, as columns of numbers: lengths, classes, lists, text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import WorldError

MOST_CLASSES = 12  # different texts of an attribute that become one column each; names of streets have more
UNUSED = {"osmid": "not used", "id": "not used", "name": "not used", "geometry": "the shape of a link, for plots"}


def read_attributes(data: Sequence[dict[str, Any]]) -> tuple[dict[str, NDArray[np.float64]], dict[str, str]]:
    """Columns by name (n,), and what was done with each attribute, in words.

    Numbers and truth values are columns; so is text that reads as numbers. Other text is one column of 0 and 1 per
    class. Of a list the first entry counts. Where a number is missing its column is 0, and a column of its own is 1:
    a weight on both treats such links as a kind of their own, and not as links of length 0.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    notes: dict[str, str] = {}
    for name in dict.fromkeys(name for row in data for name in row):
        given = [row.get(name) for row in data]
        if name in UNUSED:
            notes[name] = UNUSED[name]
            continue
        lists = sum(isinstance(value, list | tuple) and len(value) > 1 for value in given)
        values = [value[0] if isinstance(value, list | tuple) and value else value for value in given]
        said = f"; of {lists} lists the first entry" if lists else ""
        missing = sum(value is None for value in values)
        if all(value is None or _number(value) is not None for value in values):
            columns[name] = np.array([_finite(value, name, i) for i, value in enumerate(values)])
            notes[name] = f"a number{said}"
            if missing:
                columns[absent(name)] = np.array([float(value is None) for value in values])
                notes[name] += f"; 0 for {missing} links without one, for which {absent(name)!r} is 1"
            continue
        counts = Counter(str(value) for value in values if value is not None)
        if len(counts) > MOST_CLASSES:
            notes[name] = f"not used: {len(counts)} different texts"
            continue
        for text in sorted(counts):
            columns[f"{name}={text}"] = np.array([float(str(value) == text) for value in values])
        notes[name] = f"one column for each of {len(counts)} classes{said}"
        notes[name] += f"; none for {missing} links without one" if missing else ""
    return columns, notes


def absent(name: str) -> str:
    """The column that says where a number is missing."""
    return f"{name} missing"


def shape_of(data: dict[str, Any], ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of a link (k, 2) from where it begins to where it ends, by its geometry if that can be read."""
    geometry = data.get("geometry")
    try:
        points = np.array(getattr(geometry, "coords", geometry), dtype=np.float64)
    except (TypeError, ValueError, NotImplementedError):
        return ends
    if points.ndim != 2 or len(points) < 2 or points.shape[1] < 2 or not np.isfinite(points).all():
        return ends
    points = points[:, :2]
    # A street that goes both ways may have one geometry for both of its links.
    there, back = (float(np.abs(points[[0, -1]] - order).sum()) for order in (ends, ends[::-1]))
    return points[::-1] if back < there else points


def _number(value: Any) -> float | None:
    if isinstance(value, Real | np.bool_):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _finite(value: Any, name: str, link: int) -> float:
    number = 0.0 if value is None else _number(value)
    assert number is not None
    if not math.isfinite(number):
        raise WorldError(f"link {link}: attribute {name!r} must be a finite number, got {value!r:.40}")
    return number
