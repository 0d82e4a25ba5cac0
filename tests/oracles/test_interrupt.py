"""Ctrl-C while a solver is at work, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from waiting import DEADLINE, wait_for, wait_for_work
from xmen.oracles import installed_oracles

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX"),
]

# The second formula has 2^60 models: each is found in microseconds, and nearly every signal arrives inside a search.
SCRIPT = """
import sys
import numpy as np  # its threads take any signal
from oracles.formulas import formula_of, hard_formula
from xmen.oracles import make_oracle

hard, easy = make_oracle(sys.argv[1], hard_formula()), make_oracle(sys.argv[1], formula_of([[1, 2]], 60))
next(easy.solutions())  # starts a process for the solver
for question in [hard.solve, lambda: sum(1 for _ in easy.solutions())] * 5:
    try:
        print("asking", flush=True)
        question()
    except KeyboardInterrupt:
        print("heard", flush=True)
"""


SOLVERS = [name for name, version in installed_oracles().items() if version and name != "listed"]


@pytest.fixture(params=SOLVERS)
def child(request: pytest.FixtureRequest) -> object:
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, request.param],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests},
    ) as process:
        alarm = threading.Timer(DEADLINE, process.kill)
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
        wait_for_work(child.pid)
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "heard\n"
    assert child.wait() == 0
    assert child.stderr.read() == ""


def test_the_handler_is_pythons_during_and_after_a_search() -> None:
    """Also one the user has set: it is called, and the search goes on when it raises nothing."""
    from oracles.formulas import hard_formula
    from xmen.oracles import make_oracle

    heard: list[int] = []

    def handler(number: int, frame: object) -> None:
        heard.append(number)
        if len(heard) == 2:
            raise LookupError

    def send_two() -> None:
        for n_sent in range(2):
            wait_for_work(os.getpid())
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda n=n_sent: len(heard) > n)

    before = signal.signal(signal.SIGINT, handler)
    sender = threading.Thread(target=send_two)
    try:
        sender.start()
        with pytest.raises(LookupError):
            make_oracle("cryptominisat", hard_formula(), time_limit=2 * DEADLINE).solve()
        sender.join()
        assert heard == [signal.SIGINT, signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
