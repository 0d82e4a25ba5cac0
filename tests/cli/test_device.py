"""Where answers are computed: `device` and `precision` of a problem file, and --device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import PROBLEM, refused, report, told
from xmen.problem import Problem, Settings, read_problem

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("folder")


def test_samples_fits_and_plans_are_the_same() -> None:
    for command in ("sample p.toml -n 5 --seed 1", "plan p.toml", "fit p.toml --l2 0.1 --out {}", "sample {} -n 3"):
        host, ours = report(command.format("host")), report(command.format("moved") + " --device cpu")
        for name in ("trajectories", "validity"):
            assert ours.get(name) == host.get(name)
        if "weights" in host:
            assert ours["weights"] == pytest.approx(host["weights"], abs=1e-6)
    assert xm.load("moved").device == "cpu"
    assert xm.load("host").device is None


def test_a_file_says_where() -> None:
    Path("p.toml").write_text(PROBLEM + 'device = "cpu"\nprecision = "float32"\n')
    read = read_problem("p.toml")
    assert read.settings == Settings(seed=1, device="cpu", precision="float32")
    assert "float32" in repr(read.distribution())
    assert read.plan().behaviour.game.device is not None
    read.write("again.toml")
    assert Problem.read("again.toml").settings == read.settings
    told("sample p.toml -n 2")


def test_models_that_compute_on_the_host_say_so() -> None:
    world = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    demos = xm.distribution(world, None, np.zeros((9, 2))).sample(20, seed=0)
    xm.RelativeEntropyIRL(world, n_samples=200, seed=0).fit(demos).save("by_rollouts")
    refused("sample by_rollouts --device cpu", "--device", "RelativeEntropyIRL")
