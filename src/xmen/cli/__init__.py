"""The command line: from a problem file to a model and its trajectories.

    xmen new grid.toml                              a commented problem to start from, with demonstrations
    xmen check grid.toml                            can the rules hold together, do demonstrations keep them
    xmen engines                                    engines, and the oracles that are installed
    xmen engines grid.toml                          which engine answers, why, how large it gets and what it costs
    xmen fit grid.toml --out model                  learn the reward; Ctrl-C saves, --resume goes on
    xmen sample model -n 10 --seed 0 --also "never(mud)" --out samples.csv
    xmen check grid.toml samples.csv                demonstrations from another file
    xmen plot model --out model.png                 the world, demonstrations, expected visits and learned reward

Every command takes `--json` for scripts, and leaves stderr to notes, progress and errors. Exit codes: 0 fine, 1 the
answer is "no" (rules that cannot hold together, demonstrations that break them), 2 a mistake in what was asked (a bad
file, an unknown name), 130 stopped by Ctrl-C (`fit` has saved its model by then, and says so), 141 nobody reads on.
"""

import io
import json
import os
import signal
import sys
from types import FrameType

import lazy_loader

STOPPED = 130  # what shells give for Ctrl-C
NOTHING_KEPT = "stopped by Ctrl-C before there was anything to keep"

# The work of each command is loaded when it is asked for, as `__init__.pyi` lists it: `xmen --help` stays quick.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def main() -> None:
    """Run the command line on the arguments of this process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)  # an exception could be lost in a library that is half loaded
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a name still shows the rest
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # also for processes that libraries start: see xmen.processes
    from xmen.cli.app import app

    app(prog_name="xmen")


def end_loading() -> None:
    """From here on Ctrl-C is an exception again, and no longer the end of the process."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    if "--json" in sys.argv:
        report = json.dumps({"error": NOTHING_KEPT, "kind": "KeyboardInterrupt"}, indent=2)
        os.write(1, f"{report}\n".encode())
    os.write(2, f"error: {NOTHING_KEPT}\n".encode())
    os._exit(STOPPED)
