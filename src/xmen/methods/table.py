"""The methods by name, and how a method is read: a name, a record, or a text such as "paper(n_samples=32)"."""

import ast

from xmen.errors import EngineError
from xmen.methods.cells import Cells
from xmen.methods.exact import Exact
from xmen.methods.paper import Paper
from xmen.methods.reject import Reject
from xmen.methods.runs import Method
from xmen.options import listed, require_choice

METHODS: dict[str, type[Method]] = {"exact": Exact, "cells": Cells, "paper": Paper, "reject": Reject}
"""Every way to the gradient of XMEN, by its name."""

AUTO = (Exact, Cells)
"""What method="auto" tries, in this order: the next where the product of world and constraint does not fit."""

AUTO_TRIPS = (Exact, Reject)
"""What method="auto" tries for trips through a network, in this order."""


def read_method(method: object) -> Method | None:
    """The record of a method that is given by name or as a record; None for "auto"."""
    if isinstance(method, Method):
        return method
    if isinstance(method, str) and method == "auto":
        return None
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    if isinstance(method, type) and issubclass(method, Method):
        raise EngineError(f"method={method.__name__} is the class: write method=xm.{method.__name__}().")
    raise EngineError(
        f"unknown method {method!r}: choose one of {listed(('auto', *METHODS))}, or a record such as "
        "xm.Paper(n_samples=32)."
    )


def parse_method(text: str) -> str | Method:
    """A method as it is written on a command line: "auto", "cells", "paper(n_samples=32, delta=1.05)".

    >>> parse_method("paper(n_samples=32)")
    Paper(n_samples=32)
    """
    name, bracket, _ = text.partition("(")
    name = name.strip().lower()
    require_choice("method", name, ("auto", *METHODS))
    if name == "auto":
        return name
    if not bracket:
        return METHODS[name]()
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise SyntaxError(text)
        choices = {str(part.arg): ast.literal_eval(part.value) for part in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise EngineError(f"a method is written as in paper(n_samples=32, delta=1.05); got {text!r:.60}.") from None
    try:
        return METHODS[name]().changed(**choices)
    except ValueError as error:
        raise EngineError(f"method {name}: {error}") from None
