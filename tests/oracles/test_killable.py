"""Oracles in a process of their own, with faults put in on purpose."""

from __future__ import annotations

import os
import queue
import signal
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from oracles.formulas import as_set, formula_of
from xmen.errors import OracleError, OracleTimeoutError
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.formula import Answer, Bits, Stopwatch
from xmen.oracles.gf2 import Reduced
from xmen.oracles.killable import KillableOracle
from xmen.processes import Child

pytestmark = pytest.mark.system

FORMULA = formula_of([[1, 2]], 2)


class Faulty(CryptoMiniSatOracle):
    """Hangs, dies or fails in `solve`, and after the first model."""

    fault = "hang"

    def _solve(self, assumptions: list[int], watch: Stopwatch) -> Answer:
        if self.fault == "hang":
            signal.pause()
        elif self.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "print":
            print("solvers print")
        else:
            raise OracleError("no luck")
        return super()._solve(assumptions, watch)

    def _models(self, parities: Reduced, watch: Stopwatch) -> Iterator[Bits]:
        for bits in super()._models(parities, watch):
            yield bits
            self._solve([], watch)


def faulty(fault: str, monkeypatch: pytest.MonkeyPatch) -> KillableOracle:
    # Children have to find this module, as it is named here, and what it imports.
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tests.parent, tests))))
    monkeypatch.setattr("xmen.oracles.killable._idle", defaultdict(list))
    oracle = Faulty(FORMULA, time_limit=60.0)
    oracle.fault = fault
    return KillableOracle(oracle)


def test_what_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent's clock: all but a tenth of a second has gone when the question is asked that is never answered."""

    def clock(n_looks: int) -> None:
        times = chain(repeat(0.0, n_looks), repeat(59.9))
        monkeypatch.setattr("xmen.oracles.formula.time", SimpleNamespace(perf_counter=lambda: next(times)))

    oracle = faulty("hang", monkeypatch)
    clock(1)
    with pytest.raises(OracleTimeoutError, match="60 s"):
        oracle.solve()
    clock(4)  # the first model takes three looks
    solutions = oracle.solutions()
    next(solutions)
    with pytest.raises(OracleTimeoutError):
        next(solutions)


@pytest.mark.parametrize(("fault", "message"), [("die", "cryptominisat died"), ("fail", "no luck")])
def test_what_dies_or_fails_says_so(fault: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = faulty(fault, monkeypatch)
    with pytest.raises(OracleError, match=message):
        oracle.solve()
    with pytest.raises(OracleError, match=message):
        list(oracle.solutions())


def test_what_prints_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = faulty("print", monkeypatch)
    assert oracle.solve([-1]).bits is not None
    assert len(as_set(oracle.solutions())) == 3


def test_children_are_used_again_and_replaced_when_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: defaultdict[str, list[object]] = defaultdict(list)
    monkeypatch.setattr("xmen.oracles.killable._idle", waiting)
    idle = waiting["pycryptosat"]
    oracle = KillableOracle(CryptoMiniSatOracle(FORMULA))
    oracle.solve()
    (child,) = idle
    assert len(list(oracle.solutions())) == 3
    assert idle == [child]
    child._process.kill()  # type: ignore[attr-defined]
    child._process.wait()  # type: ignore[attr-defined]
    assert len(list(oracle.solutions())) == 3
    assert idle != [child]
    assert np.array_equal(oracle.solve([-1]).bits, [False, True])


@pytest.mark.skipif(os.name != "posix", reason="stops a process")
def test_a_child_that_was_stopped_keeps_nobody_waiting_for_a_long_question():
    """A pipe takes some 64 KB from a writer whom nobody reads; the write of more waited for ever."""
    child = Child("xmen.oracles.killable")
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(queue.Empty):
        child.ask(bytes(1_000_000), 0.2)
    child.kill()
    assert not child.alive
