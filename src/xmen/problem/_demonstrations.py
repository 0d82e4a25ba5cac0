"""The keys `demonstrations` and `validation`: names of files beside the problem file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, MissingFileError, TrajectoryError
from xmen.problem.fence import within_fence
from xmen.worlds import Trajectory, read_demos
from xmen.worlds.names import is_missing

WEIGHT = "sample_weight"  # the column; `weight` may be a traveller's, or a van's

SHORT = {"demonstrations": "demos", "validation": "validation"}  # in names of files


def read_demonstrations(file: Path | None, world: Any = None, key: str = "demonstrations") -> list[Trajectory]:
    """What is in the file, at least one; says what to do when there is none."""
    if file is None:
        raise FileFormatError(
            f'this problem names no {key}: write {key} = "{SHORT[key]}.csv" at the top of the problem file, or give '
            "the file itself"
        )
    try:
        demos = read_demos(within_fence(file), world)
    except MissingFileError as error:
        raise MissingFileError(
            error.filename, {"validation": "demonstrations to validate with"}.get(key, key)
        ) from None
    if not demos:
        raise TrajectoryError(f"{file}: there are no demonstrations in this file")
    return demos


def demo_weights(demos: Iterable[Trajectory]) -> list[float] | None:
    """The column `sample_weight` of the file from which demonstrations were read, for `fit`; None without one.

    >>> from xmen.worlds import read_demos
    >>> demo_weights(read_demos({"demo": [0, 1], "state": [3, 3], "sample_weight": [2.0, None]}))
    [2.0, 1.0]
    """
    records = [record.get(WEIGHT) for record in getattr(demos, "metadata", ())]
    if all(map(is_missing, records)):
        return None
    return [_weight(value) for value in records]


def _weight(value: Any) -> float:
    try:
        return 1.0 if is_missing(value) else float(value)
    except (TypeError, ValueError):
        raise TrajectoryError(f"the column {WEIGHT} holds a number per demonstration, got {value!r:.60}") from None


def write_demonstrations(
    file: Path | None, target: Path, key: str = "demonstrations"
) -> tuple[str | None, dict[Path, bytes]]:
    """The value of the key, and the file that goes with it: a file in another folder comes along."""
    if file is None:
        return None, {}
    if file.parent.resolve() == target.parent.resolve():
        return file.name, {}
    if not file.is_file():  # nothing to copy yet
        return Path(os.path.relpath(file, target.parent)).as_posix(), {}
    name = f"{target.stem}_{SHORT[key]}{file.suffix}"
    return name, {target.with_name(name): file.read_bytes()}
