"""The document on which all windows work: its versions, and its files."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError
from xmen.files import settle, write_together, write_whole
from xmen.problem import toml_text
from xmen.studio.document import Document, open_document
from xmen.studio.settings import read_settings
from xmen.studio.words import Unreadable, read_all
from xmen.worlds.demo_tables import RecordedDemos
from xmen.worlds.demos import demos_csv

_COMMENT = re.compile(rb"^[^\"'\n]*#", re.MULTILINE)


class Conflict(Exception):
    """Somebody else was first: another window (`version` is the newer document), or another program on disk."""

    def __init__(self, message: str, version: int, on_disk: bool = False) -> None:
        super().__init__(message)
        self.version, self.on_disk = version, on_disk


class Desk:
    """One document, counted up with every change, and where it is saved."""

    def __init__(self, path: Path, document: Document, saved: bool) -> None:
        self.path = path.resolve()
        self._lock = threading.Lock()
        self._document, self._version = document, 1
        self._saved_version = 1 if saved else None
        self._on_disk = self._read() if saved else None

    @classmethod
    def opened(cls, path: Path) -> Desk:
        """The desk of a problem file."""
        settle(path.resolve().parent)  # a save that was killed in the middle is finished first
        return cls(path, open_document(path), saved=True)

    def _read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    @property
    def versions(self) -> dict[str, int | None]:
        """The version on the desk, and the one on disk."""
        with self._lock:
            return {"version": self._version, "saved_version": self._saved_version}

    def look(self) -> tuple[int, Document]:
        """The document and its version."""
        with self._lock:
            return self._version, self._document

    def put(self, base: int, document: Document) -> int:
        """Replace version `base`; raises Conflict where that is no longer what lies here."""
        with self._lock:
            if base != self._version:
                raise Conflict("another window has changed the problem in the meantime", self._version)
            self._document, self._version = document, self._version + 1
            return self._version

    def save(self, force: bool = False) -> list[str]:
        """Write problem file and demonstrations by one rename; returns the names of the files."""
        with self._lock:
            if not force and self._read() != self._on_disk:
                raise Conflict(
                    f"{self.path.name} was changed by another program since it was opened here", self._version, True
                )
            files = saved_files(self._document, self.path)
            if self._on_disk is not None and _COMMENT.search(self._on_disk):
                backup = f"{self.path.name}.bak"
                if not (self.path.parent / backup).exists():
                    files[backup] = self._on_disk  # comments do not come back from a page
            below = {name: content for name, content in files.items() if "/" in name}
            for name, content in below.items():
                write_whole(self.path.parent / name, content)
            write_together(self.path.parent, {name: data for name, data in files.items() if name not in below})
            self._on_disk, self._saved_version = files[self.path.name], self._version
            return list(files)


def saved_files(document: Document, path: Path) -> dict[str, bytes]:
    """The files of a document by their names in its folder; FileFormatError where something is wrong in it."""
    problem, mistakes = document.read(path)
    if problem is None or mistakes:
        found = mistakes[0]
        what = f"rule {found.index + 1}" if found.index is not None else found.name or found.part
        raise FileFormatError(f"not saved: {what}: {found.message}. Correct it, or switch the rule off.")
    read_settings(document.problem.get("studio", {}))
    values = _in_order(document.problem)
    files: dict[str, bytes] = {}
    if document.demonstrations:
        name = values.get("demonstrations", "")
        name = name if name.lower().endswith(".csv") else f"{path.stem}_demos.csv"
        values["demonstrations"] = name
        files[name] = csv_text(document.demonstrations, problem.world).encode()
    else:
        values.pop("demonstrations", None)
    return {**files, path.name: toml_text(values).encode()}


def _in_order(values: Mapping[str, Any]) -> dict[str, Any]:
    """Single values first, then tables as files have them; what is empty is left out."""
    order = ("format", "demonstrations", "validation", "world", "events", "costs", "constraints", "reward", "settings")
    return {key: values[key] for key in dict.fromkeys([*order, *values]) if values.get(key) not in (None, {}, [])}


def csv_text(demonstrations: list[dict[str, Any]], world: Any) -> str:
    """Demonstrations as the text of a .csv file: numbers, or the world's words where there is more to say."""
    trajectories, about = [], []
    for index, (record, one) in enumerate(zip(demonstrations, read_all(world, demonstrations), strict=True)):
        if isinstance(one, Unreadable):
            raise FileFormatError(f"demonstration {index + 1} cannot be written: {one}")
        trajectories.append(one)
        weight = record.get("weight", 1.0)
        about.append({**record.get("about", {}), **({"sample_weight": weight} if weight != 1.0 else {})})
    if any(about):
        return demos_csv(RecordedDemos(trajectories, about), world)
    return demos_csv(trajectories)
