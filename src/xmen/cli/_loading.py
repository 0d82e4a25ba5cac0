"""Ctrl-C while the command line is still loading: the same words and exit code as at any later moment."""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType

STOPPED = 130  # what shells give for Ctrl-C
NOTHING_KEPT = "stopped by Ctrl-C before there was anything to keep"


def begin_loading() -> None:
    """From here on Ctrl-C ends the process at once: an exception could be lost in a library that is half loaded."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def end_loading() -> None:
    """From here on Ctrl-C is an exception again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    if "--json" in sys.argv:
        report = json.dumps({"error": NOTHING_KEPT, "kind": "KeyboardInterrupt"}, indent=2)
        os.write(1, f"{report}\n".encode())
    os.write(2, f"error: {NOTHING_KEPT}\n".encode())
    os._exit(STOPPED)
