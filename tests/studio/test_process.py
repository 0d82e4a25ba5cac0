"""`xmen studio` as its users start it: an address, events for every window, an end by Ctrl-C or by a crash."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.commands import refused
from studio.browser.server import Server
from waiting import DEADLINE


def events(server: Server) -> Iterator[tuple[str, Any]]:
    """What a window hears, one event after the other."""
    with urllib.request.urlopen(f"{server.address}api/events", timeout=DEADLINE) as stream:
        name = ""
        for line in stream:
            field, _, value = line.decode().strip().partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)


def wait_for_the_end(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=DEADLINE)
    assert not alive


@pytest.mark.system
def test_from_the_first_address_to_a_crash_a_restart_and_ctrl_c(tmp_path):
    server = Server(tmp_path)
    address = server.start()
    try:
        with urllib.request.urlopen(address) as answer:
            assert (answer.status, answer.geturl()) == (200, address)
        assert server.log.read_text().startswith(f"Studio: {address}\n")
        process = psutil.Process(server.process.pid)
        listening = [one.laddr.ip for one in process.net_connections() if one.status == psutil.CONN_LISTEN]
        assert listening == ["127.0.0.1"]
        _refuses_a_large_body_unread(address)

        heard = events(server)
        document = server.document
        assert next(heard) == ("document", {"version": 1, "saved_version": 1, "window": None})
        problem = document["problem"]
        problem["constraints"].append({"name": "dry", "rule": "never(mud)"})
        demos = document["demonstrations"][:40]
        server.put(problem, demos)
        assert next(heard) == ("document", {"version": 2, "saved_version": 1, "window": "test"})
        server.ask("POST", "save", {})
        assert next(heard) == ("saved", {"version": 2, "saved_version": 2, "file": "grid.toml"})
        job = server.ask("POST", "jobs", {"kind": "learn"})["job"]
        told = []
        while not told or told[-1]["state"] == "running":
            told.append(next(heard)[1])
        assert told[-1] == {"job": job, "kind": "learn", "state": "done", "version": 2}
        assert {"iteration", "loss", "gradient_norm", "seconds", "model"} == set(told[0]["record"])
        problem["constraints"].pop()
        server.put(problem, [])  # and not saved
        workers = process.children()
        assert len(workers) == 2
    finally:
        server.kill()
    wait_for_the_end(workers)

    server.start()
    try:
        again = server.document
        assert again["demonstrations"] == demos
        assert [rule["name"] for rule in again["problem"]["constraints"]][-1] == "dry"
        workers = psutil.Process(server.process.pid).children()
        next(events(server))  # a window that is still open
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(DEADLINE) == 130
        wait_for_the_end(workers)
        assert "Traceback" not in server.log.read_text()
        assert "Studio has ended" in server.log.read_text()
    finally:
        server.kill()


def test_the_token_is_not_among_the_arguments_of_the_browser(tmp_path, monkeypatch):
    """The browser is a script here: it notes its arguments, and what the file has for this user and for others."""
    script, noted = tmp_path / "browser.py", tmp_path / "noted"
    script.write_text(
        "import json, os, sys, urllib.request\n"
        f"out = open({str(noted)!r}, 'w')\n"
        "path = urllib.request.url2pathname(urllib.request.urlparse(sys.argv[1]).path)\n"
        "record = [sys.argv, path, os.stat(path).st_mode & 0o777, open(path).read()]\n"
        "json.dump(record, out)\n"
    )
    os.mkfifo(noted)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} %s")
    server = Server(tmp_path)
    server.arguments = ["grid.toml"]
    address = server.start()
    try:
        arguments, path, mode, content = json.loads(noted.read_text())  # waits for the browser
        token = urllib.parse.urlsplit(address).path.strip("/")
        assert not any(token in argument for argument in arguments)
        assert mode == 0o600
        assert f"url={address}" in content
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(DEADLINE) == 130
        assert not Path(path).parent.exists()
    finally:
        server.kill()


def _refuses_a_large_body_unread(address: str) -> None:
    """The answer comes before any of the 100 MB has been sent."""
    parts = urllib.parse.urlsplit(address)
    head = (
        f"PUT {parts.path}api/document HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        "Content-Length: 100000000\r\n\r\n"
    )
    with socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE) as line:
        line.sendall(head.encode())
        assert line.recv(1000).startswith(b"HTTP/1.1 413")


def test_a_port_that_is_taken_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(f"studio --no-browser --port {port}", f"--port {port}")


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ("nothing.toml", "no file 'nothing.toml'"),
        ("--demo nothing.toml", "--demo"),
        ("nothing.graphml", "nothing.graphml"),
        ("broken.toml", "not valid TOML"),
        ("torn.graphml", "GraphML file"),
    ],
)
def test_what_cannot_be_opened_is_said_before_anything_is_served(tmp_path, monkeypatch, asked, fact):
    monkeypatch.chdir(tmp_path)
    for name in ("broken.toml", "torn.graphml"):
        (tmp_path / name).write_text("[[[")
    refused(f"studio {asked} --no-browser", fact)


@pytest.mark.parametrize("module", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_named(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    refused("studio --no-browser", "xmen-irl[studio]")
