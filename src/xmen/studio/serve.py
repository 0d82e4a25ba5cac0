"""The server, and the guard before it: one address on this machine, with a random token in it."""

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
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmen.errors import FileFormatError
from xmen.studio import document as limits
from xmen.studio.app import make_app
from xmen.studio.document import Desk
from xmen.studio.session import Session

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
    with _bound(port) as bound:
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
