"""The document on which all windows work: its versions, and its files."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError
from xmen.files import write_together
from xmen.problem import toml_text
from xmen.problem.document import fenced, within_fence
from xmen.studio.document import Document, Unreadable, open_document, read_all
from xmen.studio.settings import read_settings
from xmen.worlds.demos import demos_csv
from xmen.worlds.tables import RecordedDemos


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
            files_at = cache(self._files_at)
            files = {file.name: data for file, data in files_at(self.path).items()}
            changed = [name for name in files if self._read(name) != self._seen.get(name)]
            if changed and not force:
                words = f"{changed[0]} was written by another program since the problem was opened here"
                raise Conflict(words, self._version, on_disk=True)
            write_together(self.path, files_at)
            self._seen |= files
            self._saved_version = self._version
            return [*files]

    def _files_at(self, path: Path) -> dict[Path, bytes]:
        """The files of the document; with demonstrations called after `path` where that is not its own.

        FileFormatError where something is wrong in it.
        """
        document = self._document
        world = document.problem_at(path).world
        read_settings(document.problem.get("studio", {}))
        values = {key: value for key, value in document.problem.items() if value not in (None, {}, [])}
        named, files = values.pop("demonstrations", ""), dict[Path, bytes]()
        if document.demonstrations:
            own = path == self.path and named.lower().endswith(".csv")
            values["demonstrations"] = name = named if own else f"{path.stem}_demos.csv"
            with fenced(path.parent):
                files[within_fence(path.parent / name)] = csv_text(document.demonstrations, world).encode()
        before = (self._read(self.path.name) or b"").decode("utf-8-sig", "replace")
        return {**files, path: toml_text(values, before).encode()}


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
