"""How an input may end: with an answer or an XmenError, within 5 s of computing and 1 GB of memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings

import xmen as xm

SECONDS = 5.0
GIGABYTE = 2**30

INPUTS = int(os.environ.get("XMEN_FUZZ", "200"))  # of every kind; `make fuzz` has more


def fuzzing(tests: int = 1) -> settings:
    """The settings of a test that is one of so many for its kind of input; the same inputs on every machine."""
    return settings(
        max_examples=INPUTS // tests,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def _too_long(number: int, frame: Any) -> None:
    raise AssertionError(f"this took more than {SECONDS} s of computing")


@contextmanager
def limited() -> Iterator[None]:
    """Anything but an answer or an XmenError gets out, and so do hours and gigabytes."""
    before = _peak()
    previous = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xm.LearningWarning)
            yield
    except xm.XmenError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    assert _peak() - before < GIGABYTE, "this took more than 1 GB of memory"


def _peak() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest
