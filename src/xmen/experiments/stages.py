"""What the long stages of an experiment have found, kept in a file until the experiment is finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xmen.errors import StorageError
from xmen.files import read_whole, write_whole
from xmen.storage.sealing import check_seal, sealed_json

FORMAT = 1  # of the file


class Stages:
    """Findings of stages by label, in plain numbers, texts and lists.

    `asked` says what the experiment is run with: findings of a run with anything else are not taken up.
    """

    def __init__(self, path: Path, asked: list[Any], resume: bool) -> None:
        self._path, self._asked = path, asked
        self._found: dict[str, Any] = self._read() if resume else {}

    def _read(self) -> dict[str, Any]:
        try:
            data = read_whole(self._path, into=StorageError)
            check_seal(data, self._path)
            document = json.loads(data)
            same = (document["format"], document["asked"]) == (FORMAT, self._asked)
            return dict(document["found"]) if same else {}
        except (OSError, StorageError, ValueError, KeyError, TypeError, RecursionError):
            return {}

    def get(self, label: str) -> Any:
        """What the stage has found, or None."""
        return self._found.get(label)

    def keep(self, label: str, found: Any) -> None:
        """Write down what a stage has found."""
        self._found[label] = found
        write_whole(self._path, sealed_json({"format": FORMAT, "asked": self._asked, "found": self._found}))

    def forget(self) -> None:
        """The experiment is finished, and has a record of its own."""
        self._path.unlink(missing_ok=True)
