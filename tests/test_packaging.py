"""The package under its own name: what an index page shows, and what the workflow tests."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest

import xmen as xm
from xmen.studio.app import PAGE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_it_is_published_under_a_name_of_its_own():
    assert PROJECT["project"]["name"] == xm.__distribution__ == "xmen-irl"
    extras = PROJECT["project"]["optional-dependencies"]
    assert 'pip install "xmen-irl[neural]"' in str(xm.MissingExtraError("torch", extra="neural", needed_for="it"))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").glob("**/*.py")]
    for page in pages:
        text = page.read_text("utf-8")
        assert not re.search(r"pip install (--upgrade )?[\"']?xmen\b(?!-irl)", text), page
        for named in re.findall(r"(?:xmen(?:-irl)?|\"\.)\[([\w,]+)\]", text):
            assert set(named.split(",")) <= set(extras), page
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        first = re.search(r"```console\n(.*?)```", page.read_text("utf-8"), re.S)
        assert first.group(1).startswith("$ make setup")  # what works before anything is published
        assert ".venv/bin/activate" in page.read_text("utf-8")


def test_messages_name_extras_that_exist():
    extras, named = PROJECT["project"]["optional-dependencies"], set()
    for page in (ROOT / "src").glob("**/*.py"):
        for call in ast.walk(ast.parse(page.read_text("utf-8"))):
            if isinstance(call, ast.Call) and "extra_module" in (getattr(call.func, key, "") for key in ("id", "attr")):
                extra = call.args[0 if len(call.args) < 3 else 2]
                named |= {extra.value.partition(".")[0]} if isinstance(extra, ast.Constant) else set()
    assert {"networkx", "pandas", "imitation", "minari", "gymnasium", "tensorboard", "neural"} <= named <= set(extras)
    error = xm.MissingExtraError("pandas", extra="pandas", needed_for="it")
    assert str(error).endswith('or in a checkout ".[pandas]"')  # what works before anything is published


def test_a_user_sets_up_what_the_readme_uses_and_a_developer_the_rest():
    recipe = subprocess.run(
        ["make", "-n", "-W", "pyproject.toml", "setup"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert '".[studio,gymnasium,networkx]"' in recipe
    assert "[dev]" not in recipe
    assert "pip install --quiet --disable" not in recipe  # downloads are seen
    tests = subprocess.run(
        ["make", "-n", "-W", "pyproject.toml", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert '".[dev]"' in tests


@pytest.fixture(scope="module")
def index_page():
    pytest.importorskip("hatchling", reason="the page is made by the build backend")
    return runpy.run_path(str(ROOT / "hatch_build.py"))["index_page"]


def test_every_file_of_the_studios_page_is_in_the_wheel():
    wheel = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    packed = {file.distribution_path for file in wheel.recurse_included_files()}
    page = {f"xmen/studio/page/{file.relative_to(PAGE).as_posix()}" for file in PAGE.rglob("*") if file.is_file()}
    assert "xmen/studio/page/index.html" in page
    assert page <= packed


@pytest.mark.parametrize("source", [None, "https://example.org/xmen"])
def test_links_on_the_index_page_lead_somewhere(index_page, source):
    page = index_page((ROOT / "README.md").read_text("utf-8"), source)
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert all(target.startswith("https://") for target in targets)
    assert "# xmen" in page
    assert "constraint language" in page
    assert ("![" in page) == (source is not None)
    if source:
        assert "https://example.org/xmen/blob/main/docs/cli.md" in targets
        assert "https://example.org/xmen/raw/main/docs/images/grid_generated_memory.png" in targets


def test_the_workflow_tests_every_version_that_is_promised():
    workflow = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert re.search(r"python: \[(.*)\]", workflow).group(1) == ", ".join(f'"{version}"' for version in promised)
    assert "make test" in workflow
