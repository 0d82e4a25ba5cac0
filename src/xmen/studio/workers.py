"""The processes that do the work, and the live status that one of them keeps up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from xmen.children import Child
from xmen.studio import limits
from xmen.studio.live import empty_report
from xmen.studio.worker import Question

Record = dict[str, Any]

START = 120.0  # seconds in which a process has to be ready


class Worker:
    """A process that is there before it is needed, and again after it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None

    def warm(self) -> Child:
        """The process, which is started if there is none; it loads while nobody waits."""
        with self._lock:
            if self._child is None or not self._child.alive:
                self._child = Child("xmen.studio.worker")
            return self._child

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return None if self._child is None else self._child.pid

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            if self._child is not None:
                self._child.kill()
                self._child = None


def work(child: Child, question: Question, heard: Callable[[Record], None], seconds: float | None = None) -> Any:
    """The last message of an answer; queue.Empty when the time was up, EOFError when the process was ended."""
    try:
        child.send(question)
    except (OSError, ValueError):  # its end of the pipe is gone, or this one
        raise EOFError from None
    child.receive(START)  # it has loaded, and begins
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        message = child.receive(None if end is None else max(0.0, end - time.monotonic()))
        if message[0] != "part":
            return message
        heard(message[1])


class LiveStatus:
    """Checks documents, one at a time, each within a few seconds."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._turn = worker, threading.Lock()

    def check(self, look: Callable[[], tuple[int, Question]]) -> Record:
        """The status of what `look` shows when it is its turn; what takes too long is said to be so."""
        asked, _ = look()
        with self._turn:
            version, question = look()
            report: Record = {"version": version, "superseded": version != asked, **empty_report(), "seconds": 0.0}
            if version != asked:
                return report
            began = time.perf_counter()
            try:
                kind, *rest = work(self._worker.warm(), question, report.update, limits.CHECK)
                if kind == "failed":
                    report["message"] = rest[0]["error"]
            except (queue.Empty, EOFError):
                self._worker.stop()
                self._worker.warm()
                _say_late(report)
            report["seconds"] = time.perf_counter() - began
            return report


def _say_late(report: Record) -> None:
    """What was found by then stays; the rest is said to take its time."""
    late = f"this takes longer than {limits.CHECK:g} s, so that it is not counted while you draw"
    if report["feasible"] is not None:
        report["notes"] = [*report["notes"], "what more there is to say takes too long while you draw"]
    elif any(one["valid"] for one in report["demonstrations"]):
        report |= {"feasible": True, "message": f"a demonstration keeps all rules; {late}"}
    else:
        report["message"] = late
