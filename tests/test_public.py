"""The public face: names, documentation that runs, and what importing loads."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xmen as xm

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def test_all_is_sorted_and_complete():
    # Classes and constants before functions, each in alphabetical order, as ruff sorts them.
    assert len(set(xm.__all__)) == len(xm.__all__)
    assert all(hasattr(xm, name) for name in xm.__all__)
    public = {name for name in dir(xm) if not name.startswith("_") and not inspect.ismodule(getattr(xm, name))}
    assert public == set(xm.__all__)


def test_public_functions_and_classes_are_documented_and_annotated():
    for name in xm.__all__:
        item = getattr(xm, name)
        if inspect.isfunction(item) or inspect.isclass(item):
            assert inspect.getdoc(item), f"{name} has no docstring"
        if inspect.isfunction(item):
            assert "return" in item.__annotations__, f"{name} does not say what it returns"


def test_every_error_is_an_xmen_error():
    raised = [item for name in xm.__all__ if inspect.isclass(item := getattr(xm, name)) and issubclass(item, Exception)]
    notices = [item for item in raised if issubclass(item, Warning)]
    errors = [item for item in raised if item not in notices]
    assert errors
    assert notices
    assert all(issubclass(error, xm.XmenError) for error in errors)
    assert all(issubclass(notice, xm.LearningWarning) for notice in notices)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_documents_runs(document):
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.S)
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)


def test_import_loads_nothing_slow():
    """numba, matplotlib and torch load when they are used: `import xmen` stays quick."""
    slow = ("numba", "matplotlib", "torch", "tensorboard", "gymnasium", "networkx", "joblib")
    code = f"import sys, xmen; print([m for m in {slow!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
