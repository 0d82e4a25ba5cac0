"""Files that are written whole or not at all: a kill, Ctrl-C or a full disk leaves what was there before, or the new.

Whatever is half done is called `.xmen-...`: it is never taken for anything else, and never in the way.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

OURS = ".xmen-"
PENDING = ".xmen-saved"  # files that were written together, on their way to their places
FORGOTTEN = 3600.0  # seconds after which half of a file belongs to nobody any more


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
