"""The package under its own name: what an index page shows, and what is said where another project is in the way."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import xmen as xm
from xmen.errors import note_other_project, refuse_other_project

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
        for named in re.findall(r"xmen(?:-irl)?\[([\w,]+)\]", text):
            assert set(named.split(",")) <= set(extras), page
    for page in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        first = re.search(r"```console\n(.*?)```", page.read_text("utf-8"), re.S)
        assert first.group(1).startswith("$ pip install xmen-irl")
        assert ".venv/bin/activate" in page.read_text("utf-8")


@pytest.fixture(scope="module")
def index_page():
    pytest.importorskip("hatchling", reason="the page is made by the build backend")
    return runpy.run_path(str(ROOT / "hatch_build.py"))["index_page"]


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


def mixed(tmp_path: Path, init: str | None) -> Path:
    """Our modules in a folder where another project's `__init__.py` lies, or (None) where it has taken ours along."""
    package = tmp_path / "xmen"
    shutil.copytree(Path(xm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    if init is None:
        (package / "__init__.py").unlink()
    else:
        (package / "__init__.py").write_text(init)
    return tmp_path


@pytest.mark.parametrize("init", ["__version__ = '9.9'\n", None], ids=["replaced", "removed"])
@pytest.mark.system
def test_our_modules_in_another_package_say_so(tmp_path, init):
    folder = mixed(tmp_path, init)
    # Python prefers every real package to a folder without __init__.py: ours must not be found elsewhere.
    start = "import sys; from pathlib import Path; sys.argv = ['xmen', 'engines']; "
    start += "sys.path = [p for p in sys.path if not Path(p, 'xmen/__init__.py').exists()]; "
    start += f"sys.path.insert(0, {str(folder)!r}); "
    for code in ("import xmen.worlds", "from xmen.cli import main; main()"):
        answer = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, check=False)
        last = answer.stderr.strip().splitlines()[-1]
        assert "`import xmen` gave another project" in last
        assert "pip uninstall xmen xmen-irl, then pip install xmen-irl" in last
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr


def test_a_name_that_fails_to_load_says_that_another_project_shares_the_folder(tmp_path, monkeypatch):
    record = tmp_path / "xmen-9.9.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: xmen\nVersion: 9.9\n")
    (record / "RECORD").write_text("xmen/__init__.py,,\nxmen/kb.py,,\n")
    (tmp_path / "xmen").mkdir()
    (tmp_path / "xmen" / "__init__.py").touch()  # some readers of RECORD leave out files that are not there
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AttributeError) as raised:
        _ = xm.KnowledgeBase
    assert "xmen 9.9 is installed as well" in raised.value.__notes__[0]


def test_nothing_is_said_without_the_other_project():
    error = AttributeError("no such name")
    note_other_project(error)
    assert not getattr(error, "__notes__", [])
    refuse_other_project(xm)
    other = ModuleType("xmen")
    other.__file__ = "elsewhere/xmen/__init__.py"
    with pytest.raises(ImportError, match="another project, from elsewhere"):
        refuse_other_project(other)
