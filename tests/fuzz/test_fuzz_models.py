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
from xmen.storage.codec import read_sealed, sealed_arrays
from xmen.storage.models import CHECKPOINT_FORMAT, FORMAT, MODEL

GRID = xm.GridWorld(3, 3, (0, 0), (2, 2), moves=("up", "right"))
FEATURES = np.zeros((9, 2, 2))
FEATURES[:, 0, 0] = 1.0
FEATURES[4, :, 1] = 1.0
WALK = xm.Trajectory([0, 1, 4, 7, 8], [1, 0, 0, 1])
OTHER = xm.Trajectory([0, 3, 6, 7, 8], [0, 0, 1, 1])
KEPT = ("format", "format_version", "files", "class", "identity")  # without these nobody looks any further


def learner(**settings: Any) -> xm.XMEN:
    return xm.XMEN(GRID, [xm.never(GRID.at((2, 0)))], features=FEATURES, l2=0.1, **settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    learner().fit([WALK, OTHER]).save(folder / "model")
    learner(checkpoint=folder / "run.safetensors", checkpoint_every=1).fit([WALK, OTHER])
    (folder / "damaged" / "model").mkdir(parents=True)
    return folder


def ask(file: Path) -> None:
    """Load the model and ask it something."""
    model = xm.load(file.parent)
    model.score([WALK])
    model.sample(1, seed=0)


def resume(file: Path) -> None:
    """Go on from a checkpoint, for a few iterations at most."""
    learner(checkpoint=file, checkpoint_every=1, resume=True, max_iter=3).fit([WALK, OTHER])


each_file = pytest.mark.parametrize(
    ("file", "kind", "use"),
    [(f"model/{MODEL}", FORMAT, ask), ("run.safetensors", CHECKPOINT_FORMAT, resume)],
    ids=["model", "checkpoint"],
)


@each_file
@given(changes=edits())
@fuzzing(2)
def test_files_with_other_bytes(saved, file, kind, use, changes):
    damaged = saved / "damaged" / file
    damaged.write_bytes(edited((saved / file).read_bytes(), changes))
    with limited():
        use(damaged)


@each_file
@given(changes=PLACES)
@fuzzing(2)
def test_files_that_say_something_else(saved, file, kind, use, changes):
    document, arrays = read_sealed((saved / file).read_bytes(), saved / file, kind)
    kept = {key: document.pop(key) for key in KEPT if key in document}
    document = rewritten(document, changes)
    if isinstance(document, dict):
        damaged = saved / "damaged" / file
        damaged.write_bytes(sealed_arrays(arrays, {**kept, **document}))
        with limited():
            use(damaged)
