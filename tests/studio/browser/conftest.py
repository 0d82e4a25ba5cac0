"""A real Chromium for the tests of the page; where there is none they are skipped, and the summary says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from studio.browser.tools import NO_CHROMIUM, find_chromium

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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a process."""
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = find_chromium()
    if executable is None:
        pytest.skip(NO_CHROMIUM)
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile, which may use the clipboard."""
    fresh = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    fresh.set_default_timeout(10_000)
    yield fresh
    fresh.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
