"""Damaged model folders and checkpoints: each is an answer or an XmenError (see limits.py).

Damage to bytes is caught by the checksum; to look behind it, documents are also rewritten and sealed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import xmen as xm
from fuzz.edits import PLACES, edited, edits, rewritten
from fuzz.limits import fuzzing, limited
from storage.resealed import opened, put
from xmen.storage.codec import sealed_arrays
from xmen.storage.models import MODEL, read_checkpoint

GRID = xm.GridWorld(3, 3, (0, 0), (2, 2), moves=("up", "right"))
FEATURES = np.zeros((9, 2, 2))
FEATURES[:, 0, 0] = 1.0
FEATURES[4, :, 1] = 1.0
WALK = xm.Trajectory([0, 1, 4, 7, 8], [1, 0, 0, 1])
OTHER = xm.Trajectory([0, 3, 6, 7, 8], [0, 0, 1, 1])


def learner(**settings: Any) -> xm.XMEN:
    return xm.XMEN(GRID, [xm.never(GRID.at((2, 0)))], features=FEATURES, l2=0.1, **settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    learner().fit([WALK, OTHER]).save(folder / "model")
    learner(checkpoint=folder / "run.safetensors", checkpoint_every=1).fit([WALK, OTHER])
    return folder


def use(folder: Path) -> None:
    """Load the model and ask it something."""
    with limited():
        model = xm.load(folder)
        model.score([WALK])
        model.sample(1, seed=0)


@given(changes=edits())
@fuzzing(2)
def test_models_with_other_bytes(saved, changes):
    folder = saved / "bytes"
    folder.mkdir(exist_ok=True)
    (folder / MODEL).write_bytes(edited((saved / "model" / MODEL).read_bytes(), changes))
    use(folder)


@given(changes=PLACES)
@fuzzing(2)
def test_models_that_say_something_else(saved, changes):
    folder = saved / "sealed"
    folder.mkdir(exist_ok=True)
    document, arrays = opened(saved / "model")
    kept = {key: document.pop(key) for key in ("format", "format_version", "files", "class")}
    document = rewritten(document, changes)
    if isinstance(document, dict):
        put(folder, {**kept, **document}, arrays)
        use(folder)


def resume(file: Path) -> None:
    """Go on from a checkpoint, for a few iterations at most."""
    with limited():
        learner(checkpoint=file, checkpoint_every=1, resume=True, max_iter=3).fit([WALK, OTHER])


@given(changes=edits())
@fuzzing(2)
def test_checkpoints_with_other_bytes(saved, changes):
    file = saved / "bytes.safetensors"
    file.write_bytes(edited((saved / "run.safetensors").read_bytes(), changes))
    resume(file)


@given(changes=PLACES)
@fuzzing(2)
def test_checkpoints_that_say_something_else(saved, changes):
    file = saved / "sealed.safetensors"
    document, arrays = read_checkpoint(saved / "run.safetensors")
    kept = {key: document.pop(key) for key in ("format", "format_version", "identity")}
    document = rewritten(document, changes)
    if isinstance(document, dict):
        file.write_bytes(sealed_arrays(arrays, {**kept, **document}))
        resume(file)
