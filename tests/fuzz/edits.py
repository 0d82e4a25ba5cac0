"""Small damage to good inputs, drawn by Hypothesis so that what fails shrinks: to bytes, to texts, to JSON."""

from __future__ import annotations

import copy
import re
from typing import Any

from hypothesis import strategies as st

HUGE = "9" * 5000
TOKENS = [
    "", " ", "\n", "\t", "\x00", "\r\n", "#", '"', "'", "'''", "\\", "(", ")", "[", "]", "{", "}", ",", ";",
    ".", "=", "==", "<=", "=<", "&", "|", "~", ">>", "->", "-", "+", "*", "**", "/", "//", "%", "@", "0", "1",
    "-1", "2", "1e999", "-0.0", "nan", "inf", "0x" + "f" * 400, HUGE, "1_000", "10**9", "true", "None", "null",
    "\ud800", "\ufeff", "\ufb01", "\xe9", "\U0001d518", "\ufe0f", "at(1)", "at()", "at(99999)", "doing(0)",
    "anytime", "never(", "visit(key)", "count(key)", "length()", "total([1, 2])", "share(key)",
    "first(key, among=door)", "sequence(key, door, key)", "response(key, door, within=2)", "no_revisit()",
    "longest_run(key) <= 1", "longest_repeat()", "exactly(1, ", "at_least(2, ",
    'ltlf("F(a) & G !b", a=key, b=door)', '.named("x")', "X(", " U ", "lambda: 0", "__import__('os')", "key",
    "door", "import os", "within=", "format = 2", "[world]", "kind", "horizon", "1000000000", "1e9", "states",
    "actions", "demo", "../../etc/passwd", "<!ENTITY a 'b'>", "&a;", "<node id='n9'/>",
    "<edge source='n0' target='n9'/>",
]  # fmt: skip


NUMBERS = ["0", "1", "2", "-1", "0.5", "7", "70000", "1000000000", "1e300", "1e-300", "1e999", "nan", "[]", '"1"', HUGE]
_NUMBER, _WORD = re.compile(rb"\d+(?:\.\d+)?"), re.compile(rb"[A-Za-z_]+")


def edits(most: int = 4) -> st.SearchStrategy[list[tuple[int, float, float, str]]]:
    """What `edited` does: (how, where, how much, what)."""
    place = st.floats(0, 1, exclude_max=True)
    return st.lists(st.tuples(st.integers(0, 6), place, place, st.sampled_from(TOKENS)), min_size=1, max_size=most)


def edited(data: bytes, changes: list[tuple[int, float, float, str]]) -> bytes:
    """Cut, replaced, repeated, inserted into, with bits turned, or with other numbers and words."""
    for how, where, share, token in changes:
        start = int(where * (len(data) + 1))
        end = start + int(share**3 * (len(data) - start))
        piece = token.encode("utf-8", "surrogatepass")
        if how == 0:
            data = data[:start] + piece + data[start:]
        elif how == 1:
            data = data[:start] + piece + data[end:]
        elif how == 2:
            data = data[:start] + data[end:]
        elif how == 3:
            data = data[:end] + data[start:end] * 3 + data[end:]
        elif how >= 5:
            spots = list(_NUMBER.finditer(data)) if how == 5 else list(_WORD.finditer(data))
            if spots:
                spot = spots[int(where * len(spots))]
                new = NUMBERS[int(share * len(NUMBERS))].encode() if how == 5 else piece
                data = data[: spot.start()] + new + data[spot.end() :]
        elif start < len(data):
            data = data[:start] + bytes([data[start] ^ (1 << int(8 * share))]) + data[start + 1 :]
    return data


VALUES = st.sampled_from(
    [None, True, False, -1, 0, 1, 10**9, 10**30, -(2**63), 1e308, 5e-324, float("nan"), float("inf"), "", "x", [], {},
     [[]], [0], [0] * 50, {"": 0}, "\ud800", "/etc/passwd", "../x", [None], {"kind": "array"}]
)  # fmt: skip
PLACES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), VALUES), min_size=1, max_size=3)


def rewritten(document: Any, changes: list[tuple[float, Any]]) -> Any:
    """JSON in which some values, at any depth, are others; a value that is a str is also the name of a key to drop."""
    document = copy.deepcopy(document)
    for where, value in changes:
        spots = list(_spots(document))
        if not spots:
            return value
        holder, key = spots[int(where * len(spots))]
        if isinstance(value, str) and isinstance(holder, dict) and value == "x":
            del holder[key]
        else:
            holder[key] = copy.deepcopy(value)
    return document


def _spots(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _spots(inner)
