"""Processes that xmen starts run nothing that happens to lie in the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.commands import write_problem
from xmen.oracles import killable
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.formula import Formula

pytestmark = pytest.mark.system

# Libraries that children import, ours included, and modules of Python that they import before and after these.
BAIT = ["numpy", "scipy", "numba", "xmen", "queue", "struct", "pickle", "signal", "contextlib", "pycryptosat", "typing"]

XMEN = str(Path(sys.executable).with_name("xmen"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a problem, and files that leave a trace when they are run."""
    write_problem(tmp_path)
    for name in BAIT:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("engine", ["exact", "xor"])
def test_engines_are_timed_by_a_process_that_runs_no_bait(folder, engine):
    done = subprocess.run([XMEN, "engines", "p.toml", "--engine", engine], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (folder / "was-run").exists()


def test_the_process_of_a_solver_runs_no_bait(folder, monkeypatch):
    monkeypatch.setattr(killable, "_idle", [])  # a new process, not one that was started elsewhere
    formula = Formula(2, np.array([1, 2, 0], dtype=np.int32), (1, 2))
    assert len(list(killable.KillableOracle(CryptoMiniSatOracle(formula)).solutions())) == 3
    assert not (folder / "was-run").exists()


def test_workers_of_the_command_line_run_no_bait(folder):
    """Loky starts its workers by itself, as `python -m`, whose path begins with the current folder."""
    script = """
import joblib
import xmen.cli.app

xmen.cli.app.app = lambda **_: print(sum(joblib.Parallel(2)(joblib.delayed(abs)(-i) for i in range(4))))
xmen.cli.main()
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("6\n", 0), done.stderr
    assert not (folder / "was-run").exists()
