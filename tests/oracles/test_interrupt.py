"""Ctrl-C while a solver is at work, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")

PATIENCE = 60.0  # seconds: for a search that would take hours

# The second formula has 2^60 models: each is found in microseconds, and nearly every signal arrives inside a search.
SCRIPT = """
import sys
import numpy as np  # its threads take any signal
from oracles.formulas import formula_of, hard_formula
from xmen.oracles import make_oracle

hard, easy = make_oracle("cryptominisat", hard_formula()), make_oracle("cryptominisat", formula_of([[1, 2]], 60))
next(easy.solutions())  # starts a process for the solver
for question in [hard.solve, lambda: sum(1 for _ in easy.solutions())] * 5:
    try:
        print("asking", flush=True)
        question()
    except KeyboardInterrupt:
        print("heard", flush=True)
"""


@pytest.fixture
def child() -> object:
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests},
    ) as process:
        alarm = threading.Timer(PATIENCE, process.kill)
        alarm.start()
        yield process
        alarm.cancel()
        process.kill()


def test_every_ctrl_c_is_heard_and_the_solver_says_nothing(child: subprocess.Popen[str]) -> None:
    """Without the care that is taken, four in five of these signals are lost."""
    assert child.stdout is not None
    assert child.stderr is not None
    for _ in range(10):
        assert child.stdout.readline() == "asking\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "heard\n"
    assert child.wait() == 0
    assert child.stderr.read() == ""


def test_the_handler_is_pythons_during_and_after_a_search() -> None:
    """Also one the user has set: it is called, and the search goes on when it raises nothing."""
    from oracles.formulas import hard_formula
    from xmen.errors import OracleTimeoutError
    from xmen.oracles import make_oracle

    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(OracleTimeoutError):
            make_oracle("cryptominisat", hard_formula(), time_limit=1.0).solve()
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
