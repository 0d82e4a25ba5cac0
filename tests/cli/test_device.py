"""Where answers are computed: `device` and `precision` of a problem file, and --device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import PROBLEM, report, run
from xmen.problem import Problem, Settings, read_problem

pytest.importorskip("torch")


@pytest.fixture
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem file with demonstrations."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "p.toml"
    file.write_text(PROBLEM)
    xm.write_demos(read_problem(file).distribution().sample(40, seed=0), tmp_path / "demos.csv")
    return file


def test_samples_fits_and_plans_are_the_same(problem: Path) -> None:
    for command in ("sample p.toml -n 5 --seed 1", "plan p.toml", "fit p.toml --l2 0.1 --out {}", "sample {} -n 3"):
        host, ours = report(command.format("host")), report(command.format("moved") + " --device cpu")
        for name in ("trajectories", "validity"):
            assert ours.get(name) == host.get(name)
        if "weights" in host:
            assert ours["weights"] == pytest.approx(host["weights"], abs=1e-6)
    assert xm.load("moved").device == "cpu"
    assert xm.load("host").device is None


def test_a_file_says_where(problem: Path) -> None:
    problem.write_text(PROBLEM + 'device = "cpu"\nprecision = "float32"\n')
    read = read_problem(problem)
    assert read.settings == Settings(seed=1, device="cpu", precision="float32")
    assert "in float32" in repr(read.distribution())
    assert read.plan().behaviour.game.device is not None
    read.write(problem.parent / "again.toml")
    assert Problem.read(problem.parent / "again.toml").settings == read.settings
    assert run("sample p.toml -n 2").exit_code == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('device = "gpu"', "[settings], device: unknown device 'gpu'"),
        ('precision = "float32"', "[settings], precision: precision='float32' is for a device"),
        ('device = "cpu"\nengine = "xor"', "[settings], device: device='cpu' is for engine='exact'"),
        ("device = 1", "[settings], device: expected a text"),
    ],
)
def test_mistakes_are_named(problem: Path, settings: str, said: str) -> None:
    problem.write_text(f"{PROBLEM}{settings}\n")
    found = run("sample p.toml")
    assert found.exit_code == 2
    assert said in found.stderr


def test_learners_that_compute_on_the_host_say_so(problem: Path) -> None:
    found = run("fit p.toml --learner relative-entropy --device cpu")
    assert found.exit_code == 2
    assert "--device is no option of --learner relative-entropy; these have it: xmen, causal, maxent" in found.stderr
    world = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    demos = xm.distribution(world, None, np.zeros((9, 2))).sample(20, seed=0)
    xm.RelativeEntropyIRL(world, n_samples=200, seed=0).fit(demos).save("by_rollouts")
    found = run("sample by_rollouts --device cpu")
    assert found.exit_code == 2
    assert "--device: a RelativeEntropyIRL computes on the host" in found.stderr
