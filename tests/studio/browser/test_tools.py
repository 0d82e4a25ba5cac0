"""A Chromium starts; where none is, the tests of the page are skipped, and the summary of the run says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_chromium_starts(page):
    page.goto("data:text/html,<title>here</title>")
    assert page.title() == "here"


def test_a_missing_browser_is_said_in_the_summary():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::test_chromium_starts"]
    nowhere = {**os.environ, "XMEN_CHROMIUM": "no-such-browser"}
    answer = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "tests of the studio's page were skipped: no Chromium found: `make browser`" in answer.stdout
