"""Files that are read within a limit, and written whole or not at all.

A kill, Ctrl-C or a full disk leaves what was there before, or the new. Whatever is half done is called `.xmen-...`: it
is never taken for anything else, and never in the way. Reading changes nothing on disk.
"""

import bz2
import contextlib
import errno
import gzip
import io
import itertools
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xmen import errors
from xmen.errors import MEMORY, FileFormatError, MissingFileError, PathError, StorageError, XmenError

_SCRATCH = re.compile(r"\.xmen-[0-9a-f]{16}")
FORGOTTEN = 3600.0  # seconds after which half of a file belongs to nobody any more
TEXT, XML, NUMBERS = 25, 60, 4  # bytes of memory for each byte of a table or document, of a graph, of numbers
FilesAt = Callable[[Path], Mapping[Path, bytes]]
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def as_path(value: Any, what: str) -> Path:
    """The path that a user gave, or a PathError that says what it was to be the name of.

    >>> as_path(3, "load(path)")
    Traceback (most recent call last):
    xmen.errors.PathError: load(path) takes the name of a file or folder, a text or a Path; got 3 (int).
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise PathError(f"{what} takes the name of a file or folder, a text or a Path; got {errors.with_type(value)}.")
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
    MEMORY.require(appetite * status.st_size, f"{file}, with {status.st_size:,} bytes,", into)
    return file.read_bytes()


def read_text(path: str | os.PathLike[str]) -> str:
    """The content of a plain file that fits, as UTF-8 text with its line ends, without Notepad's byte order mark."""
    try:
        return read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: expected UTF-8 text, got byte {error.object[error.start]:#04x}") from None


def unpack_whole(path: str | os.PathLike[str], appetite: float = TEXT) -> bytes:
    """The bytes that a .gz or .bz2 file unpacks to; unpacking ends where the limit of `read_whole` is passed."""
    file = Path(path)
    packed = read_whole(file, appetite)
    if file.suffix not in _PACKED:
        return packed
    room = int(min(MEMORY.most / appetite, 2**62))
    with errors.foreign_errors(str(file)), _PACKED[file.suffix](io.BytesIO(packed)) as stream:
        data: bytes = stream.read(room + 1)
    MEMORY.require(appetite * len(data), f"{file}, with {len(data):,} bytes or more once unpacked,", FileFormatError)
    return data


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file by one rename; what is not a plain file (a pipe, a device) is written into."""
    target = Path(os.path.realpath(path))
    scratch = target.with_name(f".xmen-{secrets.token_hex(8)}")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb", buffering=0) as stream:
                stream.write(data)
            return
        _write(scratch, data)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(scratch, stat.S_IMODE(target.stat().st_mode))
        os.replace(scratch, target)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the user's name for it
        raise
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()


def _write(file: Path, data: bytes) -> None:
    with file.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def write_together(target: Path, files_at: FilesAt) -> None:
    """Write a file and those that it names, so that whoever reads it at any moment finds the old or the new.

    `files_at(path)` has all of them, the file itself last, if it is called `path`: the names of the others follow from
    that. Every step is one rename. Where both the file and others change, it names copies of the others for a moment;
    a kill just then leaves it so, whole, and nothing is put over anything later.
    """

    def content(file: Path) -> bytes | None:
        return file.read_bytes() if file.is_file() else None

    files, copies = files_at(target), dict[Path, bytes]()
    changed = [file for file, data in files.items() if content(file) != data]
    naming_copies = None
    try:
        if len(changed) > 1 and any(file.exists() for file in changed if file != target):
            spare, copies = spare_files(target, files_at)
            naming_copies = copies.pop(spare)
            for file, data in copies.items():
                write_whole(file, data)
            write_whole(target, naming_copies)  # from here on the new is read
        for file, data in files.items():
            if content(file) != data:
                write_whole(file, data)
    finally:
        if content(target) != naming_copies:  # else the copies are what it names
            for file in copies:
                file.unlink(missing_ok=True)


def spare_files(target: Path, files_at: FilesAt) -> tuple[Path, dict[Path, bytes]]:
    """A name for the file under which neither it nor any that it names is there, and what they are then."""
    spares = (target.with_stem(f"{target.stem}-{number}") for number in itertools.count(2))
    return next((one, files) for one in spares if not any(map(os.path.lexists, files := dict(files_at(one)))))


def not_a_link(file: Path) -> Path:
    """The file, if the folder of a model holds it itself: where a link leads, nothing is read or written."""
    if file.is_symlink():
        advice = "a model's folder holds its files itself: put the file in place of the link"
        raise StorageError(f"{file} is a link, and {advice}.")
    return file


def half_written(name: str) -> bool:
    """Whether a file of this name is what a killed run may have left behind."""
    return _SCRATCH.fullmatch(name) is not None


def forget_half_written(folder: Path) -> None:
    """Remove the halves of files that killed runs have left in the folder."""
    for entry in os.scandir(folder):
        if half_written(entry.name) and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > FORGOTTEN:
                    os.unlink(entry)
