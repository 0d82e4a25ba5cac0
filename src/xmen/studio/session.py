"""One running Studio: the desk, the worker processes, and who listens."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from xmen.errors import FileFormatError, plain
from xmen.studio import document as limits
from xmen.studio.bodies import Acting, AnyJob
from xmen.studio.desk import Desk
from xmen.studio.jobs import Jobs, LiveStatus, Worker
from xmen.studio.worker import Question

# ---- Server-sent events: every window hears what any of them, or the worker, has done


MOST_WAITING = 1_000  # events for a window that does not read
BEAT = 15.0  # seconds of silence after which something is sent, to find out who is gone


class TooManyWindows(Exception):
    """More windows listen than Studio serves."""


class Hub:
    """Passes events on to all who listen; `tell` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[asyncio.Queue[str | None]] = set()

    def tell(self, event: str, data: dict[str, Any]) -> None:
        """Send an event to all windows."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the server is going down
                self._loop.call_soon_threadsafe(self._pass_on, _message(event, data))

    def close(self) -> None:
        """Let all streams end, so that the server can."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass_on, None)

    def _pass_on(self, message: str | None) -> None:
        for listener in self._listeners:
            with contextlib.suppress(asyncio.QueueFull):
                listener.put_nowait(message)

    async def listen(self, first: dict[str, Any]) -> AsyncIterator[str]:
        """The stream of one window, which begins with the event `document`."""
        self._loop = asyncio.get_running_loop()
        if len(self._listeners) >= limits.LISTENERS:
            raise TooManyWindows(f"{limits.LISTENERS} windows are open already")
        listener: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        self._listeners.add(listener)
        return self._stream(listener, _message("document", first))

    async def _stream(self, listener: asyncio.Queue[str | None], first: str) -> AsyncIterator[str]:
        try:
            yield first
            while True:
                try:
                    message = await asyncio.wait_for(listener.get(), BEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if message is None:
                    return
                yield message
        finally:
            self._listeners.discard(listener)


def _message(event: str, data: dict[str, Any]) -> str:
    return f"event: {event}\ndata: {json.dumps(plain(data))}\n\n"


# ---- One running Studio: the desk, the worker processes, and who listens


class Session:
    """Everything behind the page."""

    def __init__(self, desk: Desk, live_worker: Worker | None = None, jobs_worker: Worker | None = None) -> None:
        self.desk, self.hub = desk, Hub()
        self.live_worker, self.jobs_worker = live_worker or Worker(), jobs_worker or Worker()
        self.live = LiveStatus(self.live_worker)
        self.jobs = Jobs(self.jobs_worker, self.hub.tell)

    def warm(self) -> None:
        """Start the processes before anybody waits for them."""
        self.live_worker.warm()
        self.jobs_worker.warm()

    def close(self) -> None:
        """End the processes, and let windows know."""
        self.hub.close()
        self.jobs_worker.stop()
        self.live_worker.stop()

    def question(self, asked: AnyJob) -> tuple[int, Question]:
        """A job as the worker takes it, about the document as it is now."""
        version, document = self.desk.look()
        arguments = asked.model_dump(exclude={"wait", "kind", "source"})
        model = None
        if isinstance(asked, Acting) and asked.source != "uniform":
            if asked.source not in self.jobs.models:
                raise FileFormatError("nothing has been learned yet: learn first")
            learned_for, model = self.jobs.models[asked.source]
            if document.problem["world"] != learned_for.problem["world"]:
                document = learned_for  # the model knows that world, and no other
        return version, Question(asked.kind, document, self.desk.path, arguments, model)

    def check(self) -> dict[str, object]:
        """The live status of the document."""

        def look() -> tuple[int, Question]:
            version, document = self.desk.look()
            return version, Question("check", document, self.desk.path)

        return self.live.check(look)
