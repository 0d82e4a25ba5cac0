"""The page's files themselves: types that hold, nothing from other hosts, nothing that its content policy forbids."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from studio.browser.tools import NO_PRETTIER, NO_TSC, PRETTIER, TSC

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "src" / "xmen" / "studio" / "page"


def run_by_node(script: Path, missing: str, *arguments: str) -> None:
    if not script.exists() or not shutil.which("node"):
        pytest.skip(missing)
    answer = subprocess.run(["node", script, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_types_hold():
    run_by_node(TSC, NO_TSC, "--project", "jsconfig.json")


def test_modules_have_one_form():
    run_by_node(PRETTIER, NO_PRETTIER, "--check", "src/xmen/studio/page/**/*.js")


def test_nothing_is_inline_or_from_elsewhere():
    names = {"http://www.w3.org/2000/svg"}  # of a kind of element, not an address
    for file in PAGE.rglob("*.*"):
        text = file.read_text("utf-8")
        assert set(re.findall(r"https?://[^\"'\s]+", text)) <= names, file
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), file
    index = (PAGE / "index.html").read_text("utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\bsrc=)", index)
