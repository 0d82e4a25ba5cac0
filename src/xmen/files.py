"""Files that are read within a limit, and written whole or not at all.

A kill, Ctrl-C or a full disk leaves what was there before, or the new. Whatever is half done is called `.xmen-...`: it
is never taken for anything else, and never in the way.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, MissingFileError, PathError, XmenError, foreign_errors
from xmen.limits import MEMORY

OURS = ".xmen-"
PENDING = ".xmen-saved"  # files that were written together, on their way to their places
FORGOTTEN = 3600.0  # seconds after which half of a file belongs to nobody any more
TEXT, XML, NUMBERS = 25, 60, 4  # bytes of memory for each byte of a table or document, of a graph, of numbers
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def as_path(value: Any, what: str) -> Path:
    """The path that a user gave, or a PathError that says what it was to be the name of.

    >>> as_path(3, "load(path)")
    Traceback (most recent call last):
    xmen.errors.PathError: load(path) takes the name of a file or folder, a text or a Path; got 3 (int).
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise PathError(
            f"{what} takes the name of a file or folder, a text or a Path; got {value!r:.60} ({type(value).__name__})."
        )
    return Path(value)


def read_whole(path: str | os.PathLike[str], appetite: float = TEXT, into: type[XmenError] = FileFormatError) -> bytes:
    """The content of a plain file, if what becomes of it fits: `appetite` bytes of memory for each of its bytes.

    A pipe or a device is refused: it may have no end, or never begin.
    """
    file = Path(path)
    try:
        status = file.stat()
    except FileNotFoundError:
        raise MissingFileError(str(file)) from None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(status.st_mode):
        raise into(f"{file} is a pipe or a device, not a plain file: copy what it holds into a file.")
    MEMORY.require(appetite * status.st_size, _named(file, status.st_size), into)
    return file.read_bytes()


def read_text(path: str | os.PathLike[str]) -> str:
    """The content of a plain file that fits, as UTF-8 text with its line ends, without Notepad's byte order mark."""
    try:
        return read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: expected UTF-8 text, got byte {error.object[error.start]:#04x}") from None


def unpack_whole(path: str | os.PathLike[str], appetite: float = TEXT) -> bytes:
    """`read_whole`, of what a .gz or .bz2 file unpacks to; unpacking ends where the limit is passed."""
    file = Path(path)
    packed = read_whole(file, appetite)
    if file.suffix not in _PACKED:
        return packed
    room = int(min(MEMORY.most / appetite, 2**62))
    with foreign_errors(str(file)), _PACKED[file.suffix](io.BytesIO(packed)) as stream:
        data: bytes = stream.read(room + 1)
    MEMORY.require(appetite * len(data), f"{_named(file, len(data))} or more once unpacked,", FileFormatError)
    return data


def _named(file: Path, size: int) -> str:
    return f"{file}, with {size:,} bytes,"


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file by one rename; what is not a plain file (a pipe, a device) is written into."""
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with target.open("wb", buffering=0) as stream:
                stream.write(data)
            return
        scratch = target.with_name(f"{OURS}{secrets.token_hex(8)}")
        try:
            _write(scratch, data)
            with contextlib.suppress(FileNotFoundError):
                os.chmod(scratch, stat.S_IMODE(target.stat().st_mode))
            os.replace(scratch, target)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the user's name for it
        raise


def write_together(folder: Path, files: Mapping[str, bytes], instead_of: Iterable[str] = ()) -> None:
    """Write files of one folder by one rename: whoever calls `settle` first sees all of them, or none.

    They are written into a folder of their own inside, which then gets the name of the one that `settle` empties.
    Files named in `instead_of` that are not among the new ones are removed afterwards.
    """
    _forget(folder)
    scratch = folder / f"{OURS}{secrets.token_hex(8)}"
    try:
        scratch.mkdir()
        for name, data in files.items():
            _write(scratch / name, data)
        while True:
            settle(folder)
            try:
                scratch.rename(folder / PENDING)
                break
            except FileExistsError:  # another save was quicker: it goes first
                continue
            except OSError:
                if not (folder / PENDING).exists():
                    raise
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    settle(folder)
    for name in set(instead_of) - set(files):
        (folder / name).unlink(missing_ok=True)


def settle(folder: Path) -> None:
    """Put files that were written together into their places, if a save was stopped before it had done so itself."""
    pending = folder / PENDING
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for file in list(pending.iterdir()):
            with contextlib.suppress(FileNotFoundError):  # another process does the same
                os.replace(file, folder / file.name)
        with contextlib.suppress(OSError):
            pending.rmdir()


def half_written(name: str) -> bool:
    """Whether a file of this name is what a killed run may have left behind."""
    return name.startswith(OURS) or (name.startswith(".") and name.endswith(".tmp"))


def _write(file: Path, data: bytes) -> None:
    with file.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _forget(folder: Path) -> None:
    """Remove what killed runs have left in the folder."""
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.startswith(OURS) and entry.name != PENDING:
                old = time.time() - entry.stat().st_mtime > FORGOTTEN or entry.name == f"{OURS}saving"  # of version 0.1
                if old and entry.is_dir():
                    shutil.rmtree(entry)
                elif old:
                    entry.unlink()
