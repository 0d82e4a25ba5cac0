"""The public face: names, what their docstrings say, documentation that runs, and what importing loads."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from itertools import pairwise
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


# Nobody makes these by hand: functions and learners give them, and their docstrings say which.
GIVEN = {"Constraint", "Distribution", "Event", "Guarantee", "Repair", "Shield", "Violation"}
CALLABLE = [name for name in xm.__all__ if callable(getattr(xm, name)) and not name.endswith(("Error", "Warning"))]


def sections(text: str) -> dict[str, list[str]]:
    """The terms of each section of a numpy-style docstring."""
    found: dict[str, list[str]] = {}
    lines, section = [*inspect.cleandoc(text).splitlines(), ""], ""
    for line, following in pairwise(lines):
        if following and set(following) == {"-"}:
            section = line
            found[section] = []
        elif section and line and not line.startswith(" ") and set(line) != {"-"}:
            found[section] += [term.strip().lstrip("*") for term in re.split(r"[,:]", line.split(" : ")[0])]
    return found


@pytest.mark.parametrize("name", CALLABLE)
def test_parameters_are_those_of_the_signature(name: str) -> None:
    thing = getattr(xm, name)
    parameters = [parameter for parameter in inspect.signature(thing).parameters if parameter != "self"]
    found = sections(thing.__doc__ or "")
    if name in GIVEN or not parameters:
        assert "Parameters" not in found
    else:
        assert sorted(found.get("Parameters", [])) == sorted(parameters)


@pytest.mark.parametrize("name", [name for name in CALLABLE if not inspect.isclass(getattr(xm, name))])
def test_functions_say_what_they_return(name: str) -> None:
    function = getattr(xm, name)
    returns = inspect.signature(function).return_annotation not in (None, "None")
    assert ("Returns" in sections(function.__doc__ or "")) == returns


@pytest.mark.parametrize("owner", [xm.MDP, xm.GridWorld, xm.Distribution, xm.Constraint, xm.XMEN])
def test_methods_that_take_something_say_what(owner: type) -> None:
    for name, method in inspect.getmembers(owner, inspect.isfunction):
        if name.startswith("_") or method.__module__.startswith("xmen.learners.base"):
            continue
        parameters = [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
        found = sections(method.__doc__ or "").get("Parameters")
        if found is not None:
            assert sorted(found) == sorted(parameters), name


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
