"""The document on which all windows work: its versions, and its files."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError
from xmen.files import write_together, write_whole
from xmen.problem import toml_text
from xmen.problem.document import fenced, within_fence
from xmen.studio.document import Document, Unreadable, open_document, read_all
from xmen.studio.settings import read_settings
from xmen.worlds.demos import demos_csv
from xmen.worlds.tables import RecordedDemos

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
        names = [self.path.name, document.problem.get("demonstrations")] if saved else []
        self._seen = {name: self._read(name) for name in names if name is not None}

    @classmethod
    def opened(cls, path: Path) -> Desk:
        """The desk of a problem file."""
        return cls(path, open_document(path), saved=True)

    def _read(self, name: str) -> bytes | None:
        """What is on disk under this name; None if nothing is."""
        try:
            return (self.path.parent / name).read_bytes()
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
        """Write problem file and demonstrations, the old or the new at every moment; returns the names of the files."""
        with self._lock:
            files = saved_files(self._document, self.path)
            changed = [name for name in files if self._read(name) != self._seen.get(name)]
            if changed and not force:
                words = f"{changed[0]} was written by another program since the problem was opened here"
                raise Conflict(words, self._version, on_disk=True)
            before, backup = self._read(self.path.name), self.path.with_name(f"{self.path.name}.bak")
            kept = before is not None and _COMMENT.search(before) and not os.path.lexists(backup)
            if before is not None and kept:
                write_whole(backup, before)  # comments do not come back from a page
            write_together(self.path, self._files_at)
            self._seen |= files
            self._saved_version = self._version
            return [*files, backup.name] if kept else [*files]

    def _files_at(self, path: Path) -> dict[Path, bytes]:
        """The files of the document; with demonstrations called after `path` where that is not its own."""
        name = None if path == self.path else f"{path.stem}_demos.csv"
        return {path.parent / name: data for name, data in saved_files(self._document, path, name).items()}


def saved_files(document: Document, path: Path, demonstrations: str | None = None) -> dict[str, bytes]:
    """The files of a document by their names in its folder; FileFormatError where something is wrong in it."""
    problem = document.problem_at(path)
    read_settings(document.problem.get("studio", {}))
    values = _in_order(document.problem)
    files: dict[str, bytes] = {}
    if document.demonstrations:
        name = demonstrations or values.get("demonstrations", "")
        name = name if name.lower().endswith(".csv") else f"{path.stem}_demos.csv"
        values["demonstrations"] = name
        with fenced(path.parent):
            within_fence(path.parent / name)
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
