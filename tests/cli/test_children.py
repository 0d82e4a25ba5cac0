"""Processes that xmen starts run nothing that happens to lie in the current folder."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from xmen.oracles import killable
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.formula import Formula

pytestmark = pytest.mark.system

# Libraries that children import, ours included, and modules of Python that they import before and after these.
BAIT = ["numpy", "scipy", "numba", "xmen", "queue", "struct", "pickle", "signal", "contextlib", "pycryptosat", "typing"]

XMEN = str(Path(sys.executable).with_name("xmen"))


@pytest.fixture(autouse=True)
def trace(folder: Path) -> Iterator[None]:
    """Beside the problem are files that would leave a trace when they are run."""
    for name in BAIT:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'was-run')!r}, 'a').write({name!r})\n")
    yield
    assert not (folder / "was-run").exists()


@pytest.mark.parametrize("engine", ["exact", "xor"])
def test_engines_are_timed_by_a_process_that_runs_no_bait(engine):
    done = subprocess.run([XMEN, "engines", "p.toml", "--engine", engine], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_process_of_a_solver_runs_no_bait(monkeypatch):
    monkeypatch.setattr(killable, "_idle", defaultdict(list))  # a new process, not one that was started elsewhere
    formula = Formula(2, np.array([1, 2, 0], dtype=np.int32), (1, 2))
    assert len(list(killable.KillableOracle(CryptoMiniSatOracle(formula)).solutions())) == 3


def test_workers_of_the_command_line_run_no_bait():
    """Loky starts its workers by itself, as `python -m`, whose path begins with the current folder."""
    script = """
import joblib
import xmen.cli.app

xmen.cli.app.app = lambda **_: print(sum(joblib.Parallel(2)(joblib.delayed(abs)(-i) for i in range(4))))
xmen.cli.main()
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("6\n", 0), done.stderr
