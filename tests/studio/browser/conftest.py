"""A real Chromium for the tests of the page; where there is none they are skipped, and the summary says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from studio.browser.server import Server
from studio.browser.tools import NO_CHROMIUM, find_chromium
from studio.browser.window import Window
from waiting import DEADLINE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

# Chromium must neither ask for a sandbox that containers do not have, nor talk to anybody.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

MILLISECONDS = 1000 * DEADLINE  # that anything may take on a busy machine; what is there at once is not waited for


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a process."""
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = find_chromium()
    if executable is None:
        pytest.skip(NO_CHROMIUM)
    sync_api.expect.set_options(timeout=MILLISECONDS)
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile, which may use the clipboard."""
    fresh = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    fresh.set_default_timeout(MILLISECONDS)
    yield fresh
    fresh.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture(scope="session")
def started(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Any]]:
    """One studio on the starter grid for all tests of a process, and the document that it began with."""
    with Server(tmp_path_factory.mktemp("studio")) as server:
        yield server, server.document


@pytest.fixture
def server(started: tuple[Server, Any]) -> Server:
    """The studio with ten demonstrations of the starter, whatever the test before did."""
    running, first = started
    running.put(first["problem"], first["demonstrations"][:10])
    return running


@pytest.fixture
def window(server: Server, context: BrowserContext) -> Iterator[Window]:
    """A window on it, which must not have logged an error."""
    opened = Window(context.new_page()).open(server.address)
    yield opened
    assert not opened.problems
