"""Python processes that this one starts to do part of its work."""

from __future__ import annotations

import os
import sys


def python_command(module: str, function: str) -> list[str]:
    """The command of a child that calls `module.function()`, with the interpreter and the xmen of this process.

    Its path is safe (-P): a numpy.py or queue.py that lies in the current folder is data, and is not run. The folder in
    which this xmen lies comes last, in case the parent found it by a path of its own: nothing there hides a library.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = f"import sys; sys.path.append({home!r}); from {module} import {function}; {function}()"
    return [sys.executable, "-P", "-c", code]
