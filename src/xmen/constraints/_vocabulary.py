"""What constraint text may consist of: functions (`words`), and how they are joined and compared."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from xmen.constraints.words import FUNCTIONS
from xmen.events import at, doing

FUNCTIONS["at"] = (at, "at(place, ...)")
FUNCTIONS["doing"] = (doing, "doing(action, ...)")
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
