"""A fence around the folder of a problem: where others may edit it, it opens no file outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from xmen.errors import FileFormatError

_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)


@contextmanager
def fenced(folder: Path) -> Iterator[None]:
    """Inside, a problem that names a file outside of this folder, or one that a link leads to, is refused."""
    token = _folder.set(folder.resolve())
    try:
        yield
    finally:
        _folder.reset(token)


def within_fence(file: Path) -> Path:
    """The file, if there is no fence or it lies within."""
    folder = _folder.get()
    if folder is not None and not file.resolve().is_relative_to(folder):
        raise FileFormatError(f"{str(file)!r} lies outside the folder of the problem, where nothing is read here")
    return file
