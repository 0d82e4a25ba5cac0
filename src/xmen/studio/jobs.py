"""Jobs, one at a time, and what came of them."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xmen.processes import Child
from xmen.studio import document as limits
from xmen.studio.document import Document
from xmen.studio.live import empty_report
from xmen.studio.worker import Question

# ---- The processes that do the work, and the live status that one of them keeps up


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
                # What was found by then stays; the rest is said to take its time.
                late = f"this takes longer than {limits.CHECK:g} s, so that it is not counted while you draw"
                if report["feasible"] is not None:
                    report["notes"] = [*report["notes"], "what more there is to say takes too long while you draw"]
                elif any(one["valid"] for one in report["demonstrations"]):
                    report |= {"feasible": True, "message": f"a demonstration keeps all rules; {late}"}
                else:
                    report["message"] = late
            report["seconds"] = time.perf_counter() - began
            return report


# ---- Jobs, one at a time, and what came of them


MOST_RECORDS = 5_000  # iterations that are remembered while a job runs
BETWEEN = 0.05  # seconds between two iterations that windows are told of
MOST_FINISHED = 20  # jobs that are remembered


class Busy(Exception):
    """Another job runs."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"a job ({job.kind}) is running: wait for it, or cancel it")
        self.job = job


@dataclass
class Job:
    """One piece of work and what came of it."""

    name: str
    kind: str
    version: int
    document: Document
    state: str = "running"
    records: list[Record] = field(default_factory=list)
    result: Record | None = None
    error: Record | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    told: float = -1.0  # when windows were last told of an iteration

    def summary(self) -> Record:
        """What lists of jobs and events show."""
        return {"job": self.name, "kind": self.kind, "state": self.state, "version": self.version}

    def report(self) -> Record:
        """The summary, with what was told on the way and what came of it."""
        return {**self.summary(), "records": list(self.records), "result": self.result, "error": self.error}


class Jobs:
    """Runs jobs in the worker, tells windows about them, and keeps what was learned."""

    def __init__(self, worker: Worker, tell: Callable[[str, Record], None]) -> None:
        self._worker, self._tell = worker, tell
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._jobs: dict[str, Job] = {}
        self.models: dict[str, tuple[Document, bytes]] = {}  # "model" and "compare", and what they were learned for

    def start(self, version: int, question: Question) -> Job:
        """Begin a job; Busy where another one runs."""
        with self._lock:
            running = next((job for job in self._jobs.values() if job.state == "running"), None)
            if running is not None:
                raise Busy(running)
            job = Job(f"j{next(self._numbers)}", question.kind, version, question.document)
            self._jobs[job.name] = job
            finished = [name for name, other in self._jobs.items() if other.state != "running"]
            for name in finished[:-MOST_FINISHED]:
                del self._jobs[name]
            child = self._worker.warm()  # of this job, however late its thread begins
        threading.Thread(target=self._run, args=(job, child, question), daemon=True).start()
        return job

    def _run(self, job: Job, child: Child, question: Question) -> None:
        try:
            kind, *rest = work(child, question, lambda record: self._note(job, record))
        except (EOFError, queue.Empty):
            kind, rest = "gone", []
            child.kill()  # what it still says is nobody's answer
        with self._lock:
            if kind == "done":
                job.result, models = rest
                if models:
                    self.models = {name: (job.document, model) for name, model in models.items()}
                job.state = "done"
            elif job.state == "running":
                died = {"error": "the worker process died: out of memory, or killed?", "kind": "EngineError"}
                job.state, job.error = "failed", rest[0] if kind == "failed" else died
        job.ended.set()
        self._worker.warm()
        self._tell("job", job.summary())

    def _note(self, job: Job, record: Record) -> None:
        if len(job.records) < MOST_RECORDS:
            job.records.append(record)
        now = time.monotonic()
        if now - job.told >= BETWEEN:
            job.told = now
            self._tell("job", {**job.summary(), "record": record})

    def cancel(self, name: str) -> Job | None:
        """End a job with its process; None where there is no such job."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.state != "running":
                return job
            job.state = "cancelled"
            self._worker.stop()  # before another job can be given this process
        job.ended.wait(limits.WAIT)
        return job

    def get(self, name: str) -> Job | None:
        """The job of this name."""
        return self._jobs.get(name)

    def last(self) -> list[Job]:
        """The running job, and the last one of each kind that has ended."""
        with self._lock:
            newest = {job.kind: job for job in self._jobs.values() if job.state != "running"}
            return [*(job for job in self._jobs.values() if job.state == "running"), *newest.values()]
