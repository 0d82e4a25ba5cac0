"""The public face: names, documentation that runs, and what importing loads."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xmen as xm
from xmen import errors as errors_module

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
    assert all(issubclass(error, xm.XmenError) for error in errors)
    assert {notice.__name__ for notice in notices} == {name for name in vars(errors_module) if name.endswith("Warning")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
@pytest.mark.system
def test_python_in_documents_prints_what_its_comments_say(document):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.S):
        printed: dict[int, list[str]] = {}
        names["print"] = lambda *values, printed=printed: printed.setdefault(sys._getframe(1).f_lineno, []).append(
            " ".join(map(str, values))
        )
        exec(compile(block, str(document), "exec"), names)
        expected = commented(block)
        assert expected.keys() <= printed.keys(), (
            f"never printed: {[expected[k] for k in expected.keys() - printed.keys()]}"
        )
        for line, comment in expected.items():
            assert alike(comment, "\n".join(printed[line]))


def commented(block: str) -> dict[int, str]:
    """What comments behind prints, and in the lines right under them, say that is printed: by the print's line."""
    expected, line = {}, None
    for number, text in enumerate(block.split("\n"), start=1):
        code, sign, comment = text.rpartition("# ") if "# " in text else (text, "", "")
        if code.strip().startswith("print("):
            line = number
            expected[line] = [comment] if sign else []
        elif sign and not code.strip() and line is not None:
            expected[line].append(comment)
        else:
            line = None
    return {line: "\n".join(comments) for line, comments in expected.items() if comments}


def alike(expected: str, printed: str) -> bool:
    """The same text, in which `...` is anything, spaces are spaces, and numbers agree in the digits that are shown."""
    number = r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
    pieces = [re.escape(piece) for piece in re.split(number, " ".join(expected.split()))]
    pattern = f"({number})".join(pieces).replace(re.escape("..."), ".*?")
    found = re.fullmatch(pattern, " ".join(printed.split()))
    shown = re.findall(number, expected)
    return found is not None and all(
        abs(float(one) - float(other)) <= 0.5 * 10.0 ** -len(one.partition(".")[2]) * (1 + 1e-9)
        if "." in one
        else one == other
        for one, other in zip(shown, found.groups(), strict=True)
    )


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("[-0.5 -1. ] True", "[-0.5 -1. ] True", True),
        ("0.95 x", "0.9501 x", True),
        ("0.95 x", "0.96 x", False),
        ("17753 exact", "17752 exact", False),
        ("a grid needs 4 GB. ...", "a grid needs 4 GB. Use\nless", True),
        ("('b', 'a')", "('a', 'b')", False),
    ],
)
def test_outputs_that_are_alike(expected, printed, same):
    assert alike(expected, printed) is same


@pytest.mark.system
def test_import_loads_nothing_slow():
    """numba, matplotlib and torch load when they are used: `import xmen` stays quick."""
    slow = ("numba", "matplotlib", "torch", "tensorboard", "gymnasium", "networkx", "joblib", "sklearn")
    code = f"import sys, xmen; print([m for m in {slow!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
