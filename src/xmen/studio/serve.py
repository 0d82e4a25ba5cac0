"""The server: one address on this machine, which is printed before anything else happens."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvicorn

from xmen.errors import FileFormatError
from xmen.studio.app import make_app
from xmen.studio.desk import Desk
from xmen.studio.guard import Guard
from xmen.studio.session import Session

HERE = "127.0.0.1"


def serve(desk: Desk, port: int, browser: bool, announce: Callable[[str], None]) -> None:
    """Answer until Ctrl-C; `announce` gets the address as soon as it is known."""
    with _bound(port) as bound:
        token, number = secrets.token_urlsafe(24), int(bound.getsockname()[1])
        address = f"http://{HERE}:{number}/{token}/"
        announce(address)
        session = Session(desk)
        app: Any = Guard(make_app(session), token, number)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        session.warm()
        try:
            with leading_to(address) if browser else nullcontext() as file:
                if file is not None:
                    threading.Thread(target=webbrowser.open, args=(file,), daemon=True).start()
                _Server(config, session).run(sockets=[bound])
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


class _Server(uvicorn.Server):
    """Ends its streams of events first: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, session: Session) -> None:
        super().__init__(config)
        self._session = session

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._session.hub.close()
        super().handle_exit(sig, frame)


def _bound(port: int) -> socket.socket:
    """A socket at this port, or at any if it is 0."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HERE, port))
        bound.listen()  # whoever reads the address and connects at once waits, and is not refused
    except OSError as error:
        bound.close()
        raise FileFormatError(f"--port {port}: {error.strerror or error}; choose another, or leave it out") from None
    return bound
