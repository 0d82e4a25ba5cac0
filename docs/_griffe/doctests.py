"""Docstrings as Markdown: examples that begin with >>> become code blocks instead of quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a line with >>> to the next empty line (or the end), indentation included.
EXAMPLE = re.compile(r"^[ ]*>>> .*?(?=\n[ ]*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0]}\n```", obj.docstring.value)
