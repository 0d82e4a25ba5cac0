"""The folder that `xmen fit` writes: the model, the problem it answers, its demonstrations, and a checkpoint.

model.json, arrays.safetensors      the model: `xm.load(folder)` reads it
problem.toml                        the problem with the learned weights, a problem file like any other
problem_demos.csv, ...              what the problem file names
checkpoint.safetensors              while a fit is not finished: `xmen fit --resume` goes on from it
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from xmen.errors import StorageError
from xmen.learners.base import Learner
from xmen.learners.checkpoint import DOCUMENT
from xmen.learners.checkpoint import FORMAT as CHECKPOINT_FORMAT
from xmen.learners.checkpoint import FORMAT_VERSION as CHECKPOINT_VERSION
from xmen.learners.storage import FORMAT, FORMAT_VERSION, MODEL, read_document, unpack_arrays
from xmen.problem import Problem, write_problem

PROBLEM, CHECKPOINT = "problem.toml", "checkpoint.safetensors"
_SCRATCH = ".xmen-saving"


def claim(folder: Path) -> Path:
    """Make sure that a model may be written here, before any work is done; returns the checkpoint's path.

    The folder is new or empty, or holds a model or checkpoint of xmen; other files in it are left alone.
    """
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"--out {folder}: this is a file; a model is a folder. Choose another name.")
    if not folder.exists():
        if not folder.parent.is_dir():
            raise StorageError(f"--out {folder}: there is no folder {str(folder.parent)!r}; make it first")
        folder.mkdir()
    elif not (_is_free(folder) or _has_model(folder) or _has_checkpoint(folder)):
        raise StorageError(
            f"--out {folder}: this folder holds other things and no xmen model: nothing is written there. "
            "Choose another folder."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"--out {folder}: this folder cannot be written to")
    return folder / CHECKPOINT


def release(folder: Path) -> None:
    """Leave no empty folder behind when nothing came of it."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def save_model(model: Learner, problem: Problem, folder: Path) -> None:
    """Write model and problem. A crash leaves the old model, or one that says it is damaged, never a wrong one."""
    scratch = folder / _SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        model.save(scratch)
        write_problem(problem, scratch / PROBLEM)
        for file in sorted(scratch.iterdir(), key=lambda file: (file.name == MODEL, file.name)):
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_free(folder: Path) -> bool:
    """Whether nothing is there but what a killed run of xmen may have left half written."""
    return all(entry.name == _SCRATCH or entry.name.startswith(f".{CHECKPOINT}.") for entry in folder.iterdir())


def _has_model(folder: Path) -> bool:
    try:
        read_document((folder / MODEL).read_bytes(), folder / MODEL, FORMAT, FORMAT_VERSION)
    except (OSError, StorageError):
        return False
    return True


def _has_checkpoint(folder: Path) -> bool:
    file = folder / CHECKPOINT
    try:
        text = unpack_arrays(file.read_bytes(), file)[DOCUMENT].tobytes()
        read_document(text, file, CHECKPOINT_FORMAT, CHECKPOINT_VERSION)
    except (OSError, KeyError, StorageError):
        return False
    return True
