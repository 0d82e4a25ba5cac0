"""Attacks: wrong token, foreign origin, foreign host, other files, bodies without end, scripts in names."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from studio.conftest import ADDRESS, PORT, TOKEN
from studio.problems import changed
from xmen.studio import document as limits
from xmen.studio.app import HEADERS

ROOT = f"http://127.0.0.1:{PORT}"
DOCUMENT = f"{ADDRESS}api/document"


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        (ADDRESS, {}, 200),
        (f"{ROOT}/", {}, 404),
        (f"{ROOT}/api/document", {}, 404),
        (f"{ROOT}/wrong/api/document", {}, 404),
        (f"{ROOT}/{TOKEN}x/api/document", {}, 404),
        (f"{ROOT}/{TOKEN}", {}, 404),
        (f"{ROOT}/wrong/", {}, 404),
        (DOCUMENT, {"host": "evil.example"}, 421),
        (DOCUMENT, {"host": f"evil.example:{PORT}"}, 421),
        (DOCUMENT, {"host": "127.0.0.1"}, 421),
        (DOCUMENT, {"origin": "http://evil.example"}, 403),
        (DOCUMENT, {"origin": "null"}, 403),
        (DOCUMENT, {"origin": f"https://127.0.0.1:{PORT}"}, 403),
        (DOCUMENT, {"host": f"localhost:{PORT}"}, 200),
        (DOCUMENT, {"origin": ROOT}, 200),
    ],
)
def test_only_the_right_address_from_the_right_page_is_answered(window, address, headers, status):
    answer = window.request("GET", address, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html") == (address == ADDRESS)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "'unsafe-inline'" not in answer.headers["content-security-policy"]
    if status != 200:
        assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/%2e%2e/cli/app.py",
        "..%5capp.py",
        "/etc/passwd",
        "//etc/passwd",
        "api/../../../../etc/passwd",
        "api/jobs/..%2f..%2fdocument",
        "p.toml",
    ],
)
def test_no_other_file_is_served(window, path):
    answer = window.request("GET", ADDRESS + path)
    assert answer.status_code in (404, 405)
    assert "import" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_of_another_page_cannot_speak_json(window, content_type):
    answer = window.request("POST", f"{ADDRESS}api/save", content="{}", headers={"content-type": content_type})
    assert answer.status_code == 415


def scope(length: int | None) -> dict:
    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"content-type", b"application/json")]
    headers += [] if length is None else [(b"content-length", str(length).encode())]
    path = f"/{TOKEN}/api/csv/read"
    common = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "query_string": b""}
    return {**common, "method": "POST", "path": path, "raw_path": path.encode(), "root_path": "", "headers": headers}


@pytest.mark.parametrize("length", [100_000_000, None, 10])
def test_a_body_without_end_is_not_read(window, length):
    """100 MB that are announced are refused unread; what was not announced is read up to the limit."""
    read, sent, piece = 0, [], b"x" * 65536

    async def receive() -> dict:
        nonlocal read
        read += len(piece)
        assert read <= limits.BODY + len(piece)
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(message: dict) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, window.app(scope(length), receive, send)).result()
    assert sent[0]["status"] == 413
    assert (read == 0) is (length == 100_000_000)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "document", {"base": 1, "window": "w", "problem": 3, "demonstrations": []}),
        ("PUT", "document", {"base": 1, "window": "w" * 1000, "problem": {}, "demonstrations": []}),
        ("PUT", "document", {"base": 1, "problem": {}}),
        ("POST", "jobs", {"kind": "learn", "command": "rm"}),
        ("POST", "jobs", {"kind": "delete"}),
        ("POST", "jobs", {"kind": "generate", "n": 10**9}),
        ("POST", "jobs", {"kind": "generate", "best": -1}),
        ("POST", "jobs", {"kind": "learn", "wait": 1e9}),
        ("POST", "save", {"path": "/etc/passwd"}),
    ],
)
def test_what_is_not_asked_properly_is_refused(window, method, path, body):
    assert window.ask(method, path, body, 422)["error"]


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '{"base": NaN}', "\x00"])
def test_what_is_no_json_is_refused(window, content):
    headers = {"content-type": "application/json"}
    answer = window.request("PUT", DOCUMENT, content=content, headers=headers)
    assert 400 <= answer.status_code < 500


def test_a_script_in_a_name_stays_data(window, tmp_path):
    script = "<script>alert(1)</script>"
    problem = window.get("document")["problem"]
    rules = [{"name": script, "rule": "never(mud)"}]
    window.change(events={script: {"cells": [[1, 0]]}}, constraints=rules)
    answer = window.request("GET", DOCUMENT)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert script in json.loads(answer.text)["problem"]["events"]
    (mistake,) = window.check()["errors"]
    assert (mistake["part"], mistake["name"]) == ("event", script)
    window.put(changed(problem, constraints=rules))
    window.save()
    assert script in (tmp_path / "p.toml").read_text()
