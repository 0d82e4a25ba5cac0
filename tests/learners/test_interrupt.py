"""Ctrl-C while a solver is at work behind a learner or a distribution, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from waiting import DEADLINE, wait_for_work

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the solver keeps its handler"),
]

FIT = """
import sys, warnings
from learners.tasks import grid_task
from xmen.errors import InterruptedWarning
from xmen.learners.xmen import XMEN
from xmen.methods.cells import Cells

grid, rule, features, demos = grid_task(9 if sys.argv[1] == "cells" else 6)
settings = dict(method=sys.argv[1], oracle="cryptominisat", engine="exact", seed=0, max_iter=1_000_000)
if sys.argv[1] == "cells":
    settings |= dict(tol=1e-4, method=Cells(n_cells=4, cell_size=48.0))  # thousands of cells
model = XMEN(grid, rule, features, **settings, callback=lambda record: print("at work", flush=True))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    model.fit(demos)
assert InterruptedWarning in [warning.category for warning in told], told
assert model.n_iter_ > 0 and not model.converged_
assert all(rule.accepts(tau) for tau in model.sample(10))
print("usable", flush=True)
"""

SAMPLE = """
import xmen as xm
from learners.tasks import grid_task

grid, rule, _, _ = grid_task(8)
d = xm.distribution(grid, rule, None, engine="xor", oracle="cryptominisat", seed=0)
d.sample(1)
print("at work", flush=True)
try:
    d.sample(1_000_000)
except KeyboardInterrupt:
    print("usable", flush=True)
"""


@pytest.mark.parametrize(("script", "argument"), [(FIT, "cells"), (FIT, "paper"), (SAMPLE, "")])
def test_ctrl_c_is_heard_through_the_solver(script: str, argument: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script, argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    alarm = threading.Timer(DEADLINE, process.kill)
    alarm.start()
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        wait_for_work(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    alarm.cancel()
    assert (process.returncode, out.replace("at work\n", ""), err) == (0, "usable\n", "")
