"""Where users look, sections they know: every public name says what it takes, as its signature has it."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise

import pytest

import xmen as xm

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
