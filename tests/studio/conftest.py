"""Studio behind its guard, asked in this process; worker processes are shared by all tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from studio.problems import changed, write_problem
from waiting import wait_for
from xmen.studio.app import Guard, Session, Worker, make_app
from xmen.studio.document import Desk

TOKEN, PORT = "t0ken", 8765
ADDRESS = f"http://127.0.0.1:{PORT}/{TOKEN}/"


@dataclass
class Window:
    """What a window of the browser does, in a few words."""

    session: Session
    app: Any

    def request(self, method: str, address: str, **more: Any) -> httpx.Response:
        """Any request, below the address of the page or anywhere else."""

        async def sent() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=ADDRESS) as client:
                return await client.request(method, address, **more)

        with ThreadPoolExecutor(1) as thread:  # a browser that is driven elsewhere keeps this one's loop
            return thread.submit(asyncio.run, sent()).result()

    def get(self, path: str) -> Any:
        answer = self.request("GET", f"api/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.request(method, f"api/{path}", **({} if body is None else {"json": body}))
        assert answer.status_code == status, answer.text
        return answer.json()

    def put(self, problem: Any, demonstrations: Any = None, status: int = 200, base: int | None = None) -> Any:
        now = self.get("document")
        body = {
            "base": now["version"] if base is None else base,
            "window": "w",
            "problem": problem,
            "demonstrations": now["demonstrations"] if demonstrations is None else demonstrations,
        }
        return self.ask("PUT", "document", body, status)

    def change(self, demonstrations: Any = None, status: int = 200, **tables: Any) -> Any:
        """Put the problem with some of its tables changed."""
        return self.put(changed(self.get("document")["problem"], **tables), demonstrations, status)

    def check(self) -> Any:
        return self.ask("POST", "check", {})

    def save(self, status: int = 200, force: bool = False) -> Any:
        return self.ask("POST", "save", {"force": force}, status)

    def job(self, kind: str, **arguments: Any) -> Any:
        found = self.finished(kind, **arguments)
        assert found["state"] == "done", found["error"]
        return found["result"]

    def finished(self, kind: str, **arguments: Any) -> Any:
        """The report of a job that has ended, one way or another."""
        job = self.request("POST", "api/jobs", json={"kind": kind, "wait": 5, **arguments}).json()["job"]
        wait_for(lambda: self.get(f"jobs/{job}")["state"] != "running")
        return self.get(f"jobs/{job}")


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    shared = Worker()
    yield shared
    shared.stop()


def window_of(desk: Desk, worker: Worker) -> Window:
    session = Session(desk, worker, worker)
    return Window(session, Guard(make_app(session), TOKEN, PORT))


@pytest.fixture
def window(tmp_path: Path, worker: Worker) -> Window:
    return window_of(Desk(write_problem(tmp_path)), worker)


@pytest.fixture
def document(window: Window) -> Any:
    """What the window opens with."""
    return window.get("document")
