"""One running Studio: the desk, the worker processes, their jobs one at a time, and the windows that listen."""

import asyncio
import contextlib
import itertools
import json
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from xmen.errors import plain
from xmen.processes import Child
from xmen.studio import document as limits
from xmen.studio.document import Desk, Document, Refusal
from xmen.studio.worker import Question, empty_report

Record = dict[str, Any]

# ---- The processes that do the work

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


# ---- Jobs, one at a time, and what came of them

MOST_RECORDS = 5_000  # iterations that are remembered while a job runs
BETWEEN = 0.05  # seconds between two iterations that windows are told of
MOST_FINISHED = 20  # jobs that are remembered


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
        """Begin a job; a Refusal where another one runs."""
        with self._lock:
            running = next((job for job in self._jobs.values() if job.state == "running"), None)
            if running is not None:
                raise Refusal(f"a job ({running.kind}) is running: wait for it, or cancel it", **running.summary())
            job = Job(f"j{next(self._numbers)}", question.kind, version, question.document)
            for name in [*self._jobs][:-MOST_FINISHED]:
                del self._jobs[name]
            self._jobs[job.name] = job
            child = self._worker.warm()  # of this job, however late its thread begins
        threading.Thread(target=self._run, args=(job, child, question), daemon=True).start()
        return job

    def _run(self, job: Job, child: Child, question: Question) -> None:
        def note(record: Record) -> None:
            if len(job.records) < MOST_RECORDS:
                job.records.append(record)
            now = time.monotonic()
            if now - job.told >= BETWEEN:
                job.told = now
                self._tell("job", {**job.summary(), "record": record})

        try:
            kind, *rest = work(child, question, note)
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


# ---- Server-sent events: every window hears what any of them, or the worker, has done

MOST_WAITING = 1_000  # events for a window that does not read
BEAT = 15.0  # seconds of silence after which something is sent, to find out who is gone


class Hub:
    """Passes events on to all who listen; `tell` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[asyncio.Queue[str | None]] = set()

    def tell(self, event: str | None, data: Record | None = None) -> None:
        """Send an event to all windows; None lets their streams end, so that the server can."""
        message = None if event is None else _message(event, data or {})

        def put() -> None:
            for listener in self._listeners:
                with contextlib.suppress(asyncio.QueueFull):
                    listener.put_nowait(message)

        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server is going down
                self._loop.call_soon_threadsafe(put)

    async def listen(self, first: Record) -> AsyncIterator[str]:
        """The stream of one window, which begins with the event `document`."""
        self._loop = asyncio.get_running_loop()
        if len(self._listeners) >= limits.LISTENERS:
            raise Refusal(f"{limits.LISTENERS} windows are open already", 503, kind="TooManyWindows")
        listener: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        self._listeners.add(listener)

        async def stream() -> AsyncIterator[str]:
            message: str | None = _message("document", first)
            try:
                while message is not None:
                    yield message
                    try:
                        message = await asyncio.wait_for(listener.get(), BEAT)
                    except TimeoutError:
                        message = ": still here\n\n"
            finally:
                self._listeners.discard(listener)

        return stream()


def _message(event: str, data: Record) -> str:
    return f"event: {event}\ndata: {json.dumps(plain(data))}\n\n"


class Session:
    """Everything behind the page."""

    def __init__(self, desk: Desk, live_worker: Worker | None = None, jobs_worker: Worker | None = None) -> None:
        self.desk, self.hub = desk, Hub()
        self.live_worker, self.jobs_worker = live_worker or Worker(), jobs_worker or Worker()
        self.jobs, self._checking = Jobs(self.jobs_worker, self.hub.tell), threading.Lock()

    def warm(self) -> None:
        """Start the processes before anybody waits for them."""
        self.live_worker.warm()
        self.jobs_worker.warm()

    def close(self) -> None:
        """End the processes, and let windows know."""
        self.hub.tell(None)
        self.jobs_worker.stop()
        self.live_worker.stop()

    def check(self) -> Record:
        """The live status of the document, one at a time and within a few seconds; what takes longer is said to."""
        asked, _ = self.desk.look()
        with self._checking:
            version, document = self.desk.look()
            report: Record = {"version": version, "superseded": version != asked, **empty_report(), "seconds": 0.0}
            if version != asked:
                return report
            began, question = time.perf_counter(), Question("check", document, self.desk.path)
            try:
                kind, *rest = work(self.live_worker.warm(), question, report.update, limits.CHECK)
                if kind == "failed":
                    report["message"] = rest[0]["error"]
            except (queue.Empty, EOFError):
                self.live_worker.stop()
                self.live_worker.warm()
                late = f"this takes longer than {limits.CHECK:g} s, so that it is not counted while you draw"
                if report["feasible"] is not None:
                    report["notes"] = [*report["notes"], "what more there is to say takes too long while you draw"]
                elif any(one["valid"] for one in report["demonstrations"]):
                    report |= {"feasible": True, "message": f"a demonstration keeps all rules; {late}"}
                else:
                    report["message"] = late
            report["seconds"] = time.perf_counter() - began
            return report
