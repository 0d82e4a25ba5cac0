"""A folder with a problem, one whose rules clash, and demonstrations."""

from __future__ import annotations

from pathlib import Path

import pytest

import xmen as xm
from cli.problems import CLASH, PROBLEM
from xmen.problem import read_problem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.toml").write_text(PROBLEM)
    (tmp_path / "clash.toml").write_text(CLASH)
    xm.write_demos(read_problem("problem.toml").distribution().sample(4, seed=1), "demos.csv")
    return tmp_path
