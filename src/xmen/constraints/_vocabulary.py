"""The words that constraint text may use, each with the function behind it and how it is written."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from xmen.constraints.arithmetic import count, length, total
from xmen.constraints.cardinality import at_least, at_most, exactly
from xmen.constraints.ltlf import ltlf
from xmen.constraints.occurrence import always, before, first, never, response, sequence, visit
from xmen.constraints.repetition import longest_repeat, longest_run, no_revisit
from xmen.constraints.shares import share
from xmen.events import at, doing

FUNCTIONS: dict[str, tuple[Callable[..., object], str]] = {
    "always": (always, "always(event)"),
    "at": (at, "at(state, ...)"),
    "at_least": (at_least, "at_least(k, constraint, ...)"),
    "at_most": (at_most, "at_most(k, constraint, ...)"),
    "before": (before, "before(event, event)"),
    "count": (count, "count(event)"),
    "doing": (doing, "doing(action, ...)"),
    "exactly": (exactly, "exactly(k, constraint, ...)"),
    "first": (first, "first(event, among=event)"),
    "length": (length, "length()"),
    "longest_repeat": (longest_repeat, "longest_repeat()"),
    "longest_run": (longest_run, "longest_run(event)"),
    "ltlf": (ltlf, "ltlf('formula', name=event, ...)"),
    "never": (never, "never(event)"),
    "no_revisit": (no_revisit, "no_revisit() or no_revisit(event)"),
    "response": (response, "response(event, event, within=k)"),
    "sequence": (sequence, "sequence(event, event, ...)"),
    "share": (share, "share(event)"),
    "total": (total, "total([weight, ...])"),
    "visit": (visit, "visit(event)"),
}
WITHOUT_TEXT = ("when", "monitor")
ANYTIME = "anytime"

JOINS: dict[type[ast.operator], tuple[str, Callable[[Any, Any], object]]] = {
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.RShift: (">>", operator.rshift),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], object]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.LtE: "<=",
    ast.Lt: "<",
    ast.GtE: ">=",
    ast.Gt: ">",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
