"""The studio as its users start it: a process of its own that prints its address."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Literal

from waiting import DEADLINE, wait_for
from xmen.cli.new import write_starter


class Server:
    """`xmen studio` on a starter in a folder, or on the paper's memory map; it can be killed and started again."""

    def __init__(self, folder: Path, kind: Literal["grid", "graph", "demo"] = "grid") -> None:
        self.folder, self.log = folder, folder / "studio.log"
        self.arguments = ["--demo", "--no-browser"]
        if kind != "demo":
            self.arguments = ["grid.toml", "--no-browser"]
            write_starter(folder / "grid.toml", kind)
        self.address = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it and give its address, which ends with a slash."""
        command = [sys.executable, "-m", "xmen.cli", "studio", *self.arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
        wait_for(lambda: b"http://" in self.log.read_bytes() or self.process.poll() is not None)
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*", self.log.read_text("utf-8"))
        assert found, f"no address: {self.log.read_text('utf-8')}"
        self.address = found.group()
        return self.address

    def kill(self) -> None:
        """End it as a crash would: nothing is said to it before."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the page's interface."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}api/{path}", data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return json.loads(answer.read())

    @property
    def document(self) -> Any:
        return self.ask("GET", "document")

    def put(self, problem: Any, demonstrations: Any) -> None:
        """Another document, as a further window would send it."""
        body = {"window": "test", "problem": problem, "demonstrations": demonstrations}
        self.ask("PUT", "document", {"base": self.document["version"], **body})

    def change(self, demonstrations: Any = None, **tables: Any) -> None:
        """The document with some tables of its problem replaced."""
        now = self.document
        demonstrations = now["demonstrations"] if demonstrations is None else demonstrations
        self.put({**now["problem"], **tables}, demonstrations)
