"""Studio behind its page: worker processes and their jobs, the requests, the guard before them, and the server."""

import asyncio
import itertools
import json
import os
import queue
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated, Any, Literal

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmen.answers import node_places
from xmen.constraints.constraint import FUNCTIONS
from xmen.errors import FileFormatError, MissingExtraError, XmenError, error_record, extra_module, plain
from xmen.learners.xmen import METHODS
from xmen.problem import Problem
from xmen.processes import Child
from xmen.registry import LEARNERS
from xmen.rewards import Floats
from xmen.studio import document as limits
from xmen.studio.document import Desk, Document, Refusal, csv_text, described, empty_document, received, state_word
from xmen.studio.worker import Question, python_text
from xmen.worlds import MDP, MOVES, GridWorld
from xmen.worlds.names import Names
from xmen.worlds.tables import from_table, read_table

Record = dict[str, Any]
PAGE = Path(__file__).parent / "page"

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

    def forget(self) -> None:
        """End what runs, and forget what was learned: the problem is another one."""
        for job in self.last():
            self.cancel(job.name)
        with self._lock:
            self._jobs, self.models = {}, {}

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
                with suppress(asyncio.QueueFull):
                    listener.put_nowait(message)

        if self._loop is not None:
            with suppress(RuntimeError):  # the server is going down
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
            report: Record = {name: [] for name in ("errors", "conflict", "demonstrations", "features", "notes")}
            report |= dict.fromkeys(("feasible", "engine", "trajectories", "product", "policy"))
            report |= {"message": "", "version": version, "superseded": version != asked, "seconds": 0.0}
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


# ---- The bodies of requests, checked by pydantic


class Body(BaseModel):
    """What a request may hold, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Demonstrations(Body):
    demonstrations: list[Any]


class PutDocument(Demonstrations):
    """A whole document, and the version that it replaces."""

    base: int
    window: str = Field(max_length=100)
    problem: dict[str, Any]


class Save(Body):
    force: bool = False  # also over what another program wrote
    name: str | None = Field(None, max_length=limits.NAME)  # of another file in the folder


class New(Body):
    name: str = Field(max_length=limits.NAME)
    width: int = Field(ge=1)
    height: int = Field(ge=1)


class Text(Body):
    text: str  # of a .csv file


class Ask(Body):
    wait: float = Field(0.0, ge=0.0, le=limits.WAIT)  # seconds for which the request waits for the job's end


class Learn(Ask):
    kind: Literal["learn"]
    compare: bool = False  # with MaxEnt


class Find(Ask):
    kind: Literal["find"]
    max_rules: int = Field(8, ge=0, le=50)
    level: float = Field(0.01, gt=0.0, lt=1.0)


class Acting(Ask):
    """Something that a model, or the problem as it is, does under further rules."""

    source: Literal["model", "compare", "uniform"] = Field("uniform", alias="from")
    also: list[str] = Field(default_factory=list, max_length=limits.RULES)


class Generate(Acting):
    kind: Literal["generate"]
    n: int = Field(20, ge=1, le=limits.SAMPLES)
    best: int = Field(0, ge=0, le=limits.BEST)  # so many of the most likely trajectories, in place of samples
    seed: int | None = Field(None, ge=0)


class Promises(Acting):
    kind: Literal["policy"]
    p: float | None = Field(None, ge=0.0, le=1.0)


class Step(Acting):
    kind: Literal["step"]
    promise: Literal["sure", "best"] | float = "best"
    states: list[Any] = Field(max_length=limits.HORIZON)
    actions: list[Any] = Field(max_length=limits.HORIZON)


class Complete(Acting):
    """The likeliest trajectories given what was seen of one."""

    kind: Literal["complete"]
    states: list[Any] = Field(max_length=limits.HORIZON)


class Mend(Ask):
    """The valid trajectory nearest to one that is not."""

    kind: Literal["mend"]
    states: list[Any] = Field(max_length=limits.HORIZON)
    actions: list[Any] = Field(max_length=limits.HORIZON)


AnyJob = Annotated[Learn | Find | Generate | Promises | Step | Complete | Mend, Field(discriminator="kind")]


# ---- The requests


def failed(request: Request, error: Any) -> Response:
    """What went wrong, with the status of HTTP for it."""
    match error:
        case RequestValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part != "body")
            return _json({"error": f"{where}: {first['msg']}", "kind": "Malformed"}, 422)
        case HTTPException():
            return _json({"error": error.detail, "kind": "Refused"}, error.status_code)
        case Refusal():
            return _json({"error": str(error), **error.facts}, error.status)
    return _json(error_record(error), 422)


def make_app(session: Session) -> FastAPI:
    """The application; the guard stands before it."""
    handled = (XmenError, OSError, RecursionError, RequestValidationError, HTTPException, Refusal)
    handlers: Any = dict.fromkeys(handled, failed)
    quiet: Any = {"docs_url": None, "redoc_url": None, "openapi_url": None, "redirect_slashes": False}
    app = FastAPI(exception_handlers=handlers, **quiet)
    desk, hub, jobs = session.desk, session.hub, session.jobs

    @app.get("/api/document")
    def get_document() -> Response:
        version, document = desk.look()
        problem, _ = document.read(desk.path)
        drawn = None if problem is None else layout(problem)
        place = {"file": desk.path.name, "folder": str(desk.path.parent)}
        return _json({**desk.versions, "version": version, **place, **vars(document), "layout": drawn})

    @app.put("/api/document")
    def put_document(body: PutDocument) -> Response:
        version = desk.put(body.base, received(body.problem, body.demonstrations, desk.look()[1]))
        hub.tell("document", {**desk.versions, "version": version, "window": body.window})
        return _json({"version": version})

    @app.post("/api/save")
    def save(body: Save) -> Response:
        files = desk.save(body.force, body.name)
        hub.tell("saved", {**desk.versions, "file": desk.path.name})
        return _json({"saved_version": desk.versions["saved_version"], "files": files, "file": desk.path.name})

    @app.post("/api/new")
    def new(body: New) -> Response:
        desk.begin(body.name, empty_document(body.width, body.height))
        jobs.forget()
        hub.tell("new", {"file": desk.path.name})
        return _json({"file": desk.path.name})

    @app.post("/api/check")
    def check() -> Response:
        return _json(session.check())

    @app.get("/api/events")
    async def events() -> Response:
        stream = await hub.listen({**desk.versions, "window": None})
        return StreamingResponse(stream, media_type="text/event-stream")

    @app.post("/api/jobs")
    def start(body: AnyJob) -> Response:
        version, document = desk.look()
        model = None
        if isinstance(body, Acting) and body.source != "uniform":
            if body.source not in jobs.models:
                raise FileFormatError("nothing has been learned yet: learn first")
            learned_for, model = jobs.models[body.source]
            if document.problem["world"] != learned_for.problem["world"]:
                document = learned_for  # the model knows that world, and no other
        arguments = body.model_dump(exclude={"wait", "kind", "source"})
        job = jobs.start(version, Question(body.kind, document, desk.path, arguments, model))
        job.ended.wait(body.wait)
        return _json(job.report() if job.state != "running" else job.summary(), 202 if job.state == "running" else 200)

    @app.get("/api/jobs")
    def listed() -> Response:
        return _json({"jobs": [job.summary() for job in jobs.last()]})

    @app.api_route("/api/jobs/{name}", methods=["GET", "DELETE"])
    def get_or_cancel(name: str, request: Request) -> Response:
        job = jobs.cancel(name) if request.method == "DELETE" else jobs.get(name)
        return _json({"error": "there is no such job", "kind": "NoJob"}, 404) if job is None else _json(job.report())

    @app.get("/api/vocabulary")
    def words() -> Response:
        return _json(vocabulary())

    @app.post("/api/csv/read")
    def read_csv(body: Text) -> Response:
        world = desk.look()[1].problem_at(desk.path, world_only=True).world
        table = read_table(Path("demonstrations.csv"), body.text.removeprefix("\ufeff"))  # Notepad's byte order mark
        return _json({"demonstrations": described(from_table(table, Names(world)), world)})

    @app.post("/api/csv/write")
    def write_csv(body: Demonstrations) -> Response:
        before = desk.look()[1]
        document = received(before.problem, body.demonstrations, before)
        world = document.problem_at(desk.path, world_only=True).world
        return _json({"text": csv_text(document.demonstrations, world)})

    @app.get("/api/python")
    def python() -> Response:
        version, document = desk.look()
        text = python_text(document.problem_at(desk.path), document, desk.path)
        return _json({"text": text, "saved": desk.versions["saved_version"] == version})

    app.mount("/", StaticFiles(directory=PAGE, html=True, check_dir=False))
    return app


def _json(content: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(plain(content), status)


# ---- Where the states of a graph or a table are drawn

MOST_SPRUNG = 300  # states up to which springs find places


def layout(problem: Problem) -> dict[str, Any] | None:
    """Places in the unit square and the edges between them; None for a grid, which is its own layout."""
    world = problem.world
    if isinstance(world, GridWorld):
        return None
    given = node_places(problem)
    places: Floats = _places(world) if given is None else given
    places = (places - places.min(axis=0)) / (float(np.ptp(places, axis=0).max()) or 1.0)  # in the unit square
    names = [str(state_word(world, state)) for state in range(world.n_states)]
    states = [{"name": name, "x": x, "y": y} for name, (x, y) in zip(names, places.tolist(), strict=True)]
    columns = (world.source, world.action, world.target, world.probability)
    edges = [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    ends = {"start": np.flatnonzero(world.start).tolist(), "goal": np.flatnonzero(world.terminal).tolist()}
    return {"states": states, "edges": edges, **ends, "computed": given is None}


def _places(world: MDP) -> Floats:
    """Springs between neighbours where that is quick, else a circle."""
    angles = np.linspace(0.0, 2.0 * np.pi, world.n_states, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    if world.n_states > MOST_SPRUNG:
        return circle
    try:
        networkx = extra_module("networkx", "a layout by springs")
    except MissingExtraError:
        return circle
    graph = networkx.Graph(zip(world.source.tolist(), world.target.tolist(), strict=True))
    graph.add_nodes_from(range(world.n_states))
    found = networkx.spring_layout(graph, seed=0, pos=dict(enumerate(circle)), iterations=100)
    return np.array([found[state] for state in range(world.n_states)])


# ---- What rules can be made of, with a sentence for each: for completion, and for the palette

OPERATORS = {"&": "both hold", "|": "at least one of them holds", "~": "it does not hold"}
OPERATORS |= {">>": "if the first holds, the second does", "<=": "at most", ">=": "at least", "==": "exactly"}
TEMPLATES = (
    ("Never", "never({a})", "No position of the trajectory is at {a}."),
    ("Visit", "visit({a})", "Some position of the trajectory is at {a}."),
    ("Always", "always({a})", "Every position, the first and the last included, is at {a}."),
    ("First", "first({a}, among={b})", "{a} is reached, and {b} not before it."),
    ("Before", "before({a}, {b})", "{b} does not happen before {a} has happened; neither has to happen."),
    ("In this order", "sequence({a}, {b})", "{a}, and later {b}."),
    ("Answer", "response({a}, {b}, within=5)", "Every {a} is followed by {b} at most five moves later."),
    ("At most so often", "count({a}) <= 2", "{a} at most twice."),
    ("Exactly once", "count({a}) == 1", "{a} exactly once."),
    ("At least a share", "share({a}) >= 0.5", "At least half of all positions are at {a}."),
    ("No long stay", "longest_run({a}) <= 3", "Never more than three positions in a row at {a}."),
    ("No long straights", "longest_repeat() <= 3", "Never more than three equal moves in a row."),
    ("No place twice", "no_revisit()", "No state is visited twice."),
    ("Short", "length() <= 20", "At most twenty visited states, the first and the last included."),
    ("If this, then that", "visit({a}) >> visit({b})", "Whoever visits {a} also visits {b}."),
    ("One of two", "exactly(1, visit({a}), visit({b}))", "Exactly one of {a} and {b} is visited."),
    ("Temporal logic", "ltlf('G(!a | F(b))', a={a}, b={b})", "After every {a} there is {b}, sooner or later."),
)
METHOD_WORDS = {
    "auto": ("automatic", "exactly where that is possible, else from samples"),
    "exact": ("exact", "all trajectories are counted, to the optimum"),
    "cells": ("from samples", "rounds of samples, until others agree that the optimum is near"),
    "paper": ("as in the paper", "Algorithm 1 of the paper, to compare with"),
}


def vocabulary() -> dict[str, Any]:
    """Everything that does not depend on the document."""

    def rows(keys: str, *lines: Any) -> list[dict[str, Any]]:
        return [dict(zip(keys.split(), line, strict=True)) for line in lines]

    usages = [
        (name, usage, (function.__doc__ or "").strip().partition("\n")[0])
        for name, (function, usage) in FUNCTIONS.items()
    ]
    marks = [(*template, sum(f"{{{mark}}}" in template[1] for mark in "abc")) for template in TEMPLATES]
    learners = [(name, one.label, one.description) for name, one in LEARNERS.items() if "features" in one.takes]
    of_pages = [name for name in ("auto", *METHODS) if name != "reject"]  # which is of trips
    methods = [(name, *METHOD_WORDS.get(name, (name, ""))) for name in of_pages]
    shown = ("cells", "demonstrations", "samples", "best", "body")
    return {
        "primitives": rows("name usage sentence", *usages),
        "templates": rows("title rule sentence marks", *marks),
        "operators": rows("name sentence", *OPERATORS.items()),
        "moves": list(MOVES),
        "learners": rows("name label sentence", *learners),
        "methods": rows("name label sentence", *methods),
        "limits": {name: getattr(limits, name.upper()) for name in shown},
    }


# ---- What stands before every request: the right host, the right origin, the token, and a body of reasonable size

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # the address holds the token
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
TOO_LARGE = f"a request has at most {limits.BODY:,} bytes"


class Guard:
    """Wraps the application, which then lives under /TOKEN/ and nowhere else."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or hand it on."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            raise RuntimeError(f"Studio speaks HTTP only, not {scope['type']}")
        read = 0

        async def counted() -> Message:
            """Read on only while the body is not too large, whatever its header says."""
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limits.BODY:
                raise HTTPException(413, TOO_LARGE)
            return message

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            return await self._app({**scope, "root_path": f"/{self._token}"}, counted, protected)
        status, words = refusal
        headers = {"connection": "close"} if status == 413 else {}  # what is left of a large body is not read
        await JSONResponse({"error": words, "kind": "Refused"}, status, headers)(scope, receive, protected)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host") not in self._hosts:
            return 421, "this is not the address at which Studio answers"
        if headers.get("origin") not in [None, *(f"http://{host}" for host in self._hosts)]:
            return 403, "a page from elsewhere has no business here"
        first, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(first.encode("utf-8", "replace"), self._token.encode()):
            return 404, "there is nothing here: use the whole address that xmen studio printed, to its last slash"
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > limits.BODY:
            return 413, TOO_LARGE
        if scope["method"] in ("POST", "PUT") and headers.get("content-type", "").split(";")[0] != "application/json":
            return 415, "requests are JSON: content-type application/json"
        return None


# ---- The server: one address on this machine, which is printed before anything else happens

HERE = "127.0.0.1"


def serve(desk: Desk, port: int, browser: bool, announce: Callable[[str], None]) -> None:
    """Answer until Ctrl-C; `announce` gets the address as soon as it is known."""
    try:  # it listens: whoever reads the address and connects at once waits, and is not refused
        bound = socket.create_server((HERE, port))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise FileFormatError(f"--port {port}: {why}; choose another, or leave it out") from None
    with bound:
        token, number = secrets.token_urlsafe(24), int(bound.getsockname()[1])
        address = f"http://{HERE}:{number}/{token}/"
        announce(address)
        session = Session(desk)

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                session.hub.tell(None)  # streams of events would never end by themselves
                super().handle_exit(sig, frame)

        app: Any = Guard(make_app(session), token, number)
        quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False, "proxy_headers": False}
        server = Server(uvicorn.Config(app, timeout_graceful_shutdown=2, **quiet))
        session.warm()
        try:
            with leading_to(address) if browser else nullcontext() as file:
                if file is not None:
                    threading.Thread(target=webbrowser.open, args=(file,), daemon=True).start()
                server.run(sockets=[bound])
        finally:
            session.close()


@contextmanager
def leading_to(address: str) -> Iterator[str]:
    """The address of a file that leads to `address` and that nobody else can read.

    With what a browser was started everybody on the machine can see: that must not be the token.
    """
    with TemporaryDirectory(prefix="xmen-studio-") as folder:
        file = Path(folder) / "open.html"
        file.touch(0o600)
        file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8")
        yield file.as_uri()
