"""Settings shared by all tests: the same cases on every machine, more of them under XMEN_VERIFY=1."""

import os
import signal

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")

settings.register_profile(
    "xmen",
    deadline=None,
    derandomize=True,
    max_examples=1000 if os.environ.get("XMEN_VERIFY") == "1" else 60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("xmen")

# A shell without job control starts background jobs with Ctrl-C ignored, and what they start inherits that: tests of
# Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of the page needs a browser and a server."""
    for item in items:
        if item.nodeid.startswith("tests/studio/browser/"):
            item.add_marker("system")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests of the page did not run, and why: a browser that is missing must not look like a success."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "studio/browser" in report.nodeid]
    for reason in sorted({report.longrepr[2].removeprefix("Skipped: ") for report in skipped}):
        terminalreporter.write_line(f"tests of the studio's page were skipped: {reason}")
