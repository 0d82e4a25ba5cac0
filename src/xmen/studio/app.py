"""The requests that the page makes, each a few lines over the desk, the jobs and the hub."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from xmen.answers.plain import error_record, plain
from xmen.errors import FileFormatError, XmenError
from xmen.studio.bodies import AnyJob, Demonstrations, PutDocument, Save, Text
from xmen.studio.desk import Conflict, csv_text
from xmen.studio.document import described, received
from xmen.studio.hub import TooManyWindows
from xmen.studio.jobs import Busy, Job
from xmen.studio.layout import layout
from xmen.studio.live import judge
from xmen.studio.python_text import python_text
from xmen.studio.session import Session
from xmen.studio.settings import read_settings
from xmen.studio.vocabulary import vocabulary
from xmen.studio.words import read_all
from xmen.worlds import read_demos

PAGE = Path(__file__).parent / "page"

Record = dict[str, Any]


def make_app(session: Session) -> FastAPI:
    """The application; the guard stands before it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_errors(app)
    _add_document(app, session)
    _add_jobs(app, session)
    _add_texts(app, session)
    app.mount("/", StaticFiles(directory=PAGE, html=True, check_dir=False))
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(XmenError)
    @app.exception_handler(OSError)
    @app.exception_handler(RecursionError)
    def _refused(request: Request, error: Exception) -> Response:
        return _json(error_record(error), 422)

    @app.exception_handler(HTTPException)
    def _no_such_thing(request: Request, error: HTTPException) -> Response:
        return _json({"error": error.detail, "kind": "Refused"}, error.status_code)

    @app.exception_handler(RequestValidationError)
    def _malformed(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return _json({"error": f"{where}: {first['msg']}", "kind": "Malformed"}, 422)

    @app.exception_handler(Conflict)
    def _conflict(request: Request, error: Conflict) -> Response:
        record = {"error": str(error), "kind": "Conflict", "version": error.version, "on_disk": error.on_disk}
        return _json(record, 409)

    @app.exception_handler(Busy)
    def _busy(request: Request, error: Busy) -> Response:
        return _json({"error": str(error), "kind": "Busy", **error.job.summary()}, 409)

    @app.exception_handler(TooManyWindows)
    def _crowded(request: Request, error: TooManyWindows) -> Response:
        return _json({"error": str(error), "kind": "TooManyWindows"}, 503)


def _json(content: Any, status: int = 200) -> JSONResponse:
    return JSONResponse(plain(content), status)


def _add_document(app: FastAPI, session: Session) -> None:
    desk, hub = session.desk, session.hub

    @app.get("/api/document")
    def get_document() -> Response:
        version, document = desk.look()
        problem, _ = document.read(desk.path)
        record = {
            **desk.versions,
            "version": version,
            "file": desk.path.name,
            "folder": str(desk.path.parent),
            "problem": document.problem,
            "demonstrations": document.demonstrations,
            "layout": None if problem is None else layout(problem),
        }
        return _json(record)

    @app.put("/api/document")
    def put_document(body: PutDocument) -> Response:
        version = desk.put(body.base, received(body.problem, body.demonstrations, desk.look()[1]))
        hub.tell("document", {**desk.versions, "version": version, "window": body.window})
        return _json({"version": version})

    @app.post("/api/save")
    def save(body: Save) -> Response:
        files = desk.save(body.force)
        hub.tell("saved", desk.versions)
        return _json({"saved_version": desk.versions["saved_version"], "files": files})

    @app.post("/api/check")
    def check() -> Response:
        return _json(session.check())

    @app.get("/api/events")
    async def events() -> Response:
        stream = await hub.listen({**desk.versions, "window": None})
        return StreamingResponse(stream, media_type="text/event-stream")


def _add_jobs(app: FastAPI, session: Session) -> None:
    jobs = session.jobs

    @app.post("/api/jobs")
    def start(body: AnyJob) -> Response:
        job = jobs.start(*session.question(body))
        job.ended.wait(body.wait)
        return _json(job.report() if job.state != "running" else job.summary(), 202 if job.state == "running" else 200)

    @app.get("/api/jobs")
    def listed() -> Response:
        return _json({"jobs": [job.summary() for job in jobs.last()]})

    @app.get("/api/jobs/{name}")
    def get_job(name: str) -> Response:
        return _found(jobs.get(name))

    @app.delete("/api/jobs/{name}")
    def cancel(name: str) -> Response:
        return _found(jobs.cancel(name))


def _found(job: Job | None) -> Response:
    return _json({"error": "there is no such job", "kind": "NoJob"}, 404) if job is None else _json(job.report())


def _add_texts(app: FastAPI, session: Session) -> None:
    desk = session.desk

    @app.get("/api/vocabulary")
    def words() -> Response:
        return _json(vocabulary())

    @app.post("/api/csv/read")
    def read_csv(body: Text) -> Response:
        world = desk.look()[1].world_at(desk.path)
        with TemporaryDirectory() as folder:
            file = Path(folder) / "demonstrations.csv"
            file.write_text(body.text, encoding="utf-8", errors="replace")
            try:
                return _json({"demonstrations": described(read_demos(file, world), world)})
            except XmenError as error:
                raise FileFormatError(str(error).replace(str(file), file.name)) from None

    @app.post("/api/csv/write")
    def write_csv(body: Demonstrations) -> Response:
        before = desk.look()[1]
        document = received(before.problem, body.demonstrations, before)
        return _json({"text": csv_text(document.demonstrations, document.world_at(desk.path))})

    @app.get("/api/python")
    def python() -> Response:
        version, document = desk.look()
        problem = document.problem_at(desk.path)
        settings = read_settings(document.problem.get("studio", {}))
        verdicts = judge(problem, read_all(problem.world, document.demonstrations))
        n_valid = sum(one["valid"] for one in verdicts)
        text = python_text(problem, settings, desk.path, len(verdicts), n_valid)
        return _json({"text": text, "saved": desk.versions["saved_version"] == version})
