"""A plugin of pytest that records which lines of xmen each test runs: `pytest -p lines`, into the folder .lines.

Tests are contexts of coverage; what a fixture of a module runs counts for all its tests, as the module. Without
compilation some tests would take hours: each is left after TOO_LONG, with the lines it has run by then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import coverage
import pytest
from _pytest.config import parse_warning_filter

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".lines"
TOO_LONG = 15.0  # seconds of processor time


class Recorder:
    """What runs in this process, from the first import of xmen on."""

    def __init__(self) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        file = FOLDER / f".coverage.{name}"
        self.coverage = coverage.Coverage(data_file=str(file), source=[str(ROOT / "src" / "xmen")])
        self.coverage.set_option("run:disable_warnings", ["no-data-collected"])  # in the process that only distributes
        self.coverage.start()
        for module in [name for name in sys.modules if name.partition(".")[0] == "xmen"]:
            del sys.modules[module]  # pytest has loaded xmen.errors for its filters of warnings
        parse_warning_filter.cache_clear()
        self.test = ""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        signal.signal(signal.SIGVTALRM, self._too_long)

    def _too_long(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and Path(coverage.__file__).parent in Path(frame.f_code.co_filename).parents:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)  # the tracer may hold a lock, which nobody would release
            return
        pytest.fail(f"more than {TOO_LONG:g} s", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.test = item.nodeid
        self.coverage.switch_context(self.test)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_VIRTUAL, TOO_LONG)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(self.test.split("::")[0])
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that fails here, for its time or for a kernel in Python, would catch every mutant.
        self.seconds[report.nodeid] += report.duration if not report.failed else float("inf")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        if "PYTEST_XDIST_WORKER" not in os.environ:
            passed = {test: taken for test, taken in self.seconds.items() if taken < float("inf")}
            (FOLDER / "seconds.json").write_text(json.dumps(passed))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder())
