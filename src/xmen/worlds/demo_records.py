"""Demonstrations as JSON: one object per line, or the list that `xmen sample --json` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, XmenError
from xmen.files import read_text
from xmen.worlds.demo_tables import RecordedDemos, from_record
from xmen.worlds.names import Names


def read_records(file: Path, names: Names) -> RecordedDemos:
    """The demonstrations of a .jsonl file, or of a .json file with a list or with the key `trajectories`."""
    demos = RecordedDemos()
    for where, record in _records(file):
        if not isinstance(record, dict):
            expected = 'an object {"states": [...], "actions": [...]}'
            raise FileFormatError(f"{where}: expected {expected}, got {record!r:.60}")
        try:
            demos.add(*from_record(record, names))
        except XmenError as error:
            raise FileFormatError(f"{where}: {error}") from None
    return demos


def _records(file: Path) -> Iterator[tuple[str, Any]]:
    if file.suffix.lower() != ".json":
        yield from json_lines(file)
        return
    whole = _parse(read_text(file), str(file))
    listed = whole.get("trajectories") if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise FileFormatError(f'{file}: expected a list of demonstrations, or an object with "trajectories"')
    yield from ((f"{file}, demonstration {index}", record) for index, record in enumerate(listed))


def json_lines(file: Path) -> Iterator[tuple[str, Any]]:
    """Every line that is not blank, and the words for where it is."""
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if line.strip():
            yield f"{file}, line {number}", _parse(line, f"{file}, line {number}")


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: expected JSON, got {text.strip()!r:.60} ({error})") from None
