"""Waiting for an event and not for a time: what never comes fails after one deadline, far beyond any busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")

DEADLINE = 180.0  # seconds


def wait_for(condition: Callable[[], T]) -> T:
    """What the condition says, as soon as it is true."""
    end = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


def wait_for_work(pid: int) -> None:
    """Until a child of the process computes, or it does so itself, childless: its solver is inside a search."""
    before = _computed(pid)
    wait_for(lambda: _computed(pid) > before + 0.05)


def _computed(pid: int) -> float:
    """Seconds of processor time that the children of a process have used; its own where it has none."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in process.children(recursive=True) or [process]]
    return sum(one.user + one.system for one in times)
