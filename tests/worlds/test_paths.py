"""What is no path where a file or a folder is named: an error of xmen's, which is also Python's TypeError."""

from __future__ import annotations

from typing import Any

import pytest

import xmen as xm
from xmen.problem import Problem, read_problem, write_problem

GRID = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
DEMOS = [xm.Trajectory([0, 1, 3], [1, 0]), xm.Trajectory([0, 2, 3], [0, 1])]

DOORS: dict[str, Any] = {
    "load": xm.load,
    "save": lambda path: xm.XMEN(GRID, l2=0.1).fit(DEMOS).save(path),
    "policy": lambda path: xm.plan(GRID).save(path),
    "write_demos": lambda path: xm.write_demos(DEMOS, path),
    "read_trips": lambda path: xm.read_trips(path, xm.Network(2, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0)])),
    "read_problem": read_problem,
    "write_problem": lambda path: write_problem(Problem(GRID), path),
    "demonstrations": lambda path: Problem(GRID, demonstrations=path),
    "validation": lambda path: Problem(GRID, validation=path),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrong", [3, 2.5, b"bytes", ["list"]], ids=repr)
def test_what_is_no_path_is_refused(door, wrong):
    with pytest.raises(xm.PathError) as caught:
        DOORS[door](wrong)
    assert isinstance(caught.value, TypeError)
    assert f"got {wrong!r}" in str(caught.value)


def test_tensorboard_too():
    with pytest.raises(xm.PathError, match="the name of a file or folder"):
        xm.TensorBoard(3)  # type: ignore[arg-type]
    with pytest.raises(xm.XmenError, match="expected a file, a frame, or a list of trajectories, got int"):
        xm.read_demos(3)
