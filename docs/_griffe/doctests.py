"""Examples in prose: lines that begin with >>> outside an Examples section become code blocks, not quotations."""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

# From a line with >>> to the next empty line (or the end), indentation included.
# What an Examples section holds is left to the parser of numpy-style docstrings.
EXAMPLE = re.compile(r"^[ ]*>>> .*?(?=\n[ ]*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Fences the examples of docstrings without sections."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None and "Examples\n---" not in inspect.cleandoc(obj.docstring.value):
            obj.docstring.value = EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0]}\n```", obj.docstring.value)
