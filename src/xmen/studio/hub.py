"""Server-sent events: every window hears what any of them, or the worker, has done."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from xmen.answers.plain import plain
from xmen.studio import limits

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
