"""Every test of a command runs in a folder of its own, where `folder` and `problems` write the files it works on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import xmen as xm
from cli.commands import write_problem
from cli.problems import CLASH, PROBLEM
from xmen.problem import read_problem


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    write_problem(folder)
    return folder


@pytest.fixture
def folder(here: Path, written: Path) -> Path:
    """With p.toml of commands.py and its demonstrations."""
    return shutil.copytree(written, here, dirs_exist_ok=True)


@pytest.fixture
def problems(here: Path) -> Path:
    """With a problem, one whose rules clash, and demonstrations."""
    (here / "problem.toml").write_text(PROBLEM)
    (here / "clash.toml").write_text(CLASH)
    xm.write_demos(read_problem("problem.toml").distribution().sample(4, seed=1), "demos.csv")
    return here
