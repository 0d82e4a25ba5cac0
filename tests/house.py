"""How many doors a reader of the source passes: size, imports, and the modules whose functions run in everyday uses.

.venv/bin/python tests/house.py        the counts beside their bars
.venv/bin/python tests/house.py -v     with the modules that each use passes
"""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "xmen"

TASK = """
import numpy as np, xmen as xm
grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
features = np.zeros((16, 2, 2)); features[5, :, 0] = 1; features[10, :, 1] = 1
rule = xm.visit(grid.at((1, 2), (2, 1))).named("r")
demos = xm.distribution(grid, rule, None, seed=0).sample(20)
"""
COMMAND_LINE = """
import os, sys, tempfile
os.chdir(tempfile.mkdtemp())
from xmen.cli import main
def run(*words):
    sys.argv = ["xmen", *words]
    try:
        main()
    except SystemExit as end:
        assert end.code in (0, None), end.code
run("new", "grid.toml")
"""
USES = {  # what has to be there first, and what is watched
    "exact fit": (TASK, "xm.XMEN(grid, rule, features=features, l2=0.1).fit(demos)"),
    "sample(also=)": (
        TASK + "model = xm.XMEN(grid, rule, features=features, l2=0.1).fit(demos)",
        "model.sample(5, also=xm.never(grid.at((0, 3))), seed=0)",
    ),
    "fit by cells": (
        TASK,
        "xm.XMEN(grid, rule, features=features, l2=0.1, method=xm.Cells(), oracle='cryptominisat', seed=0).fit(demos)",
    ),
    "xmen fit": (COMMAND_LINE, "run('fit', 'grid.toml')"),
}
WATCH = """
import sys, threading
passed = set()
def watch(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("xmen.") and frame.f_code.co_name != "<module>":
        passed.add(name)
"""


def modules() -> dict[str, Path]:
    """Every module of the package with its file."""
    files = sorted(SOURCE.rglob("*.py"))
    return {
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


def size() -> dict[str, float]:
    """Lines, modules, the share of imports among lines of code, modules with one importer, the longest module."""
    known, importers = modules(), defaultdict(set)
    lines = code = imports = longest = 0
    for name, file in known.items():
        text = file.read_text("utf-8").splitlines()
        tree = ast.parse("\n".join(text))
        lines, longest = lines + len(text), max(longest, len(text))
        words = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                words |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += node.end_lineno - node.lineno + 1
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xmen"):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    importers[full if full in known else node.module].add(name)
        code += sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in words
            for number, line in enumerate(text, 1)
        )
    return {
        "lines": lines,
        "modules": len(known),
        "imports, % of code": round(100 * imports / code, 1),
        "modules with one importer": sum(len(importers[name]) == 1 for name in known),
        "lines of the longest module": longest,
    }


def private_imports() -> list[str]:
    """Private names that a module imports from another room."""
    found = []
    for name, file in modules().items():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xmen."):
                room = node.module.split(".")[1]
                if room != [*name.split("."), ""][1]:
                    found += [
                        f"{name}: {node.module}.{alias.name}" for alias in node.names if alias.name.startswith("_")
                    ]
    return found


def doors(use: str) -> list[str]:
    """The modules whose functions run in the second call of a use, when everything is loaded."""
    before, watched = USES[use]
    body = "\n".join([WATCH, before, watched, "sys.setprofile(watch); threading.setprofile(watch)", watched])
    code = f"{body}\nsys.setprofile(None)\nprint('PASSED', *sorted(passed))"
    environment = dict(os.environ, PYTHONWARNINGS="ignore", TERM="dumb", COLUMNS="80", PYTHONPATH=str(SOURCE.parent))
    if use == "xmen fit":
        code = code.replace("run('fit', 'grid.toml')", "run('fit', 'grid.toml', '--force')", 2)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    rows = [line for line in done.stdout.splitlines() if line.startswith("PASSED")]
    assert rows, done.stderr[-2000:]
    return rows[-1].split()[1:]


BARS = {
    "lines": 42_000,  # 38,000, and the budgets of what came after
    "modules": 168,
    "imports, % of code": 8.5,
    "modules with one importer": 35,
    "lines of the longest module": 900,
    "exact fit": 32,
    "sample(also=)": 24,
    "fit by cells": 48,
    "xmen fit": 58,
}
"""The most there may be of each."""

if __name__ == "__main__":
    counts = size()
    for use in USES:
        passed = doors(use)
        counts[use] = len(passed)
        if "-v" in sys.argv:
            print(f"{use}: {' '.join(passed)}")
    for what, bar in BARS.items():
        print(f"{what:30} {counts[what]:>8,} (at most {bar:,})")
