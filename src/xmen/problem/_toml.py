"""Writing TOML: just what a problem file consists of. Python's standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from xmen.errors import FileFormatError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, Any]) -> str:
    """The document as TOML; tables one level deep get a header, deeper ones stay on one line.

    >>> print(toml_text({"format": 1, "world": {"start": (0, 1)}, "events": {"key": {"cells": [[2, 3]]}}}), end="")
    format = 1
    <BLANKLINE>
    [world]
    start = [0, 1]
    <BLANKLINE>
    [events]
    key = { cells = [[2, 3]] }
    """
    lines = [f"{_key(key)} = {_value(value)}" for key, value in document.items() if not _is_table(value)]
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_value(item)}" for name, item in value.items())]
        elif _is_table(value):
            for entry in value:
                lines += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {_value(item)}" for name, item in entry.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FileFormatError(f"{text!r} holds half a character pair, which no text file can hold") from None
    # JSON's escapes are TOML's, except that JSON leaves DEL alone.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)  # inf and nan are spelled as Python does
        case str():
            return _string(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{ {', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())} }}"
    raise FileFormatError(f"{value!r:.60} ({type(value).__name__}) has no place in a problem file")
