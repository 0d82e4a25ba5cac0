"""The `demonstrations` key: the name of a file beside the problem file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, TrajectoryError
from xmen.worlds import Trajectory, read_demos


def read_demonstrations(file: Path | None, world: Any = None) -> list[Trajectory]:
    """What is in the file, at least one; says what to do when there is none."""
    if file is None:
        raise FileFormatError(
            'this problem names no demonstrations: write demonstrations = "demos.csv" at the top of the problem file, '
            "or give the file itself"
        )
    demos = read_demos(file, world)
    if not demos:
        raise TrajectoryError(f"{file}: there are no demonstrations in this file")
    return demos


def write_demonstrations(file: Path | None, target: Path) -> tuple[str | None, dict[Path, bytes]]:
    """The value of the key, and the file that goes with it: a file in another folder comes along."""
    if file is None:
        return None, {}
    if file.parent.resolve() == target.parent.resolve():
        return file.name, {}
    if not file.is_file():  # nothing to copy yet
        return Path(os.path.relpath(file, target.parent)).as_posix(), {}
    name = f"{target.stem}_demos{file.suffix}"
    return name, {target.with_name(name): file.read_bytes()}
