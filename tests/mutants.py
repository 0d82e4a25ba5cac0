"""Do the tests of `make test` catch bugs? Small ones are put in, one by one, and the tests that run their line are run.

A mutant turns one comparison, operator or number in the rooms below into another, or leaves out one line. It lives in a
copy of the source. In a file of compiled loops nothing is compiled, as kernels kept on disk would hide it. Each ends as
caught (a test fails), survived (every test passes), too long (stopped after several times what its tests took), or
no test (none runs its line).

`make mutants` first records which tests run which line (lines.py). A few tests go first: those that caught other
mutants of the file, and the quickest of each module. Verdicts are added to a file as they come, and a run that was
stopped goes on from there. At the end the tests that caught mutants run without any.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import coverage

from lines import FOLDER, ROOT

SOURCE = ROOT / "src" / "xmen"
ROOMS = ("constraints", "machines", "product", "sampling", "methods")
ELSEWHERE = ("product/device",)  # for a graphics card, which few machines have
FIRST = 30  # tests that go first; most mutants fall to one of them

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr},
    **{ast.LShift: ast.RShift, ast.RShift: ast.LShift},
}
LINES = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutant:
    """One small bug: in which node of a file, counted as `ast.walk` meets them, and which operator.

    Part -1 leaves the statement out; None changes nothing.
    """

    file: Path
    line: int
    node: int
    part: int | None = 0

    def source(self) -> tuple[str, str]:
        """The whole file with the bug in it, and the bug in a few words."""
        tree = ast.parse(self.file.read_text("utf-8"))
        node: ast.AST = list(ast.walk(tree))[self.node]
        before = ast.unparse(node).splitlines()[0]
        match node:
            case _ if self.part is None:
                pass
            case _ if self.part < 0:
                tree = Without(node).visit(tree)
            case ast.Constant():
                node.value = not node.value if isinstance(node.value, bool) else node.value + 1
            case ast.Compare():
                node.ops[self.part] = OTHER[type(node.ops[self.part])]()
            case _:
                node.op = OTHER[type(node.op)]()
        after = "left out" if self.part == -1 else ast.unparse(node).splitlines()[0]
        return ast.unparse(tree), f"{self.file.relative_to(ROOT)}:{self.line}: {before}  ->  {after}"


class Without(ast.NodeTransformer):
    """The tree with `pass` in place of one statement."""

    def __init__(self, statement: ast.AST) -> None:
        self.statement = statement

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.Pass() if node is self.statement else self.generic_visit(node)


def mutants(file: Path) -> Iterator[Mutant]:
    """All in the functions of a file; annotations and texts are left alone."""
    tree = ast.parse(file.read_text("utf-8"))
    inside, silent = set[ast.AST](), set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            inside.update(child for statement in node.body for child in ast.walk(statement))
        for field in ("annotation", "returns"):
            if (said := getattr(node, field, None)) is not None:
                silent.update(ast.walk(said))
    for index, node in enumerate(ast.walk(tree)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if node not in inside or node in silent or docstring:
            continue
        here = partial(Mutant, file, getattr(node, "lineno", 0), index)
        match node:
            case ast.Compare():
                yield from (here(part) for part in range(len(node.ops)))
            case ast.Constant(bool() | int() | float()):
                yield here()
            case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in OTHER:
                yield here()
        if isinstance(node, LINES):
            yield here(-1)


def tests_of_lines() -> tuple[dict[tuple[str, int], list[str]], dict[str, float]]:
    """For each line the tests that run it, the quickest of each module first; and the seconds of each test."""
    cost = json.loads((FOLDER / "seconds.json").read_text())
    data = coverage.CoverageData(str(FOLDER / ".coverage"))
    data.read()
    found = {}
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            modules = defaultdict[str, list[str]](list)
            for test in sorted((t for t in contexts if t in cost), key=cost.__getitem__):
                modules[test.split("::")[0]].append(test)
            for module in contexts:  # what a fixture of a module ran, all its tests may see
                if module.startswith("tests") and "::" not in module and module not in modules:
                    modules[module] = sorted((t for t in cost if t.startswith(f"{module}::")), key=cost.__getitem__)
            ranked = [(rank, cost[test], test) for tests in modules.values() for rank, test in enumerate(tests)]
            found[file, line] = [test for *_, test in sorted(ranked)]
    return found, cost


@contextmanager
def tree_with(mutant: Mutant) -> Iterator[Path]:
    """A folder that looks like the project, with the mutant in its source and the kernels that are kept beside it."""
    with tempfile.TemporaryDirectory() as folder:
        for item in ROOT.iterdir():
            if item.name != "src":
                (Path(folder) / item.name).symlink_to(item)
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        (Path(folder) / mutant.file.relative_to(ROOT)).write_text(mutant.source()[0], "utf-8")
        yield Path(folder)


def run(mutant: Mutant, tests: list[str], seconds: float) -> tuple[str, str]:
    """What became of the mutant, and the first of the tests that fails on it."""
    in_python = "@compiled" in mutant.file.read_text("utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    command += ["-W", "ignore::RuntimeWarning"] if in_python else []  # numpy's scalars report overflow
    limit = 30 + int(3 * seconds)
    with tree_with(mutant) as folder:
        listed = folder / "tests.txt"
        listed.write_text("\n".join(tests))
        python = {"PYTHONPATH": str(folder / "src"), "NUMBA_DISABLE_JIT": str(int(in_python)), "MPLBACKEND": "Agg"}
        process = subprocess.Popen(
            [*command, f"@{listed}"],
            cwd=folder,
            env={**os.environ, **python},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (limit, limit)),
        )
        try:
            said, _ = process.communicate(timeout=4 * limit)  # one that only waits uses no processor
        except subprocess.TimeoutExpired:
            said = ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            process.wait()
    if process.returncode <= 0:
        return ("too long" if process.returncode else "survived"), ""
    named = [line.split(" ", 1)[1] for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return "caught", next((test for test in tests for line in named if line.startswith(test)), "its import")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=float, default=600.0, help="seconds of tests for each mutant, quick ones first")
    chosen = parser.parse_args()
    lines, cost = tests_of_lines()
    files = [file for room in ROOMS for file in sorted((SOURCE / room).rglob("*.py"))]
    files = [file for file in files if not str(file.relative_to(SOURCE)).startswith(ELSEWHERE)]
    everything = [mutant for file in files for mutant in mutants(file)]
    drawn = random.Random(chosen.seed).sample(everything, min(chosen.number, len(everything)))
    kept = FOLDER / f"mutants-{chosen.seed}.txt"
    rows = kept.read_text("utf-8").splitlines() if kept.exists() else []
    known = {key: (verdict, test) for verdict, test, key in (row.split("\t") for row in rows)}
    catchers = defaultdict[Path, Counter[str]](Counter)

    def judge(mutant: Mutant) -> tuple[str, str]:
        words = mutant.source()[1]
        key = f"{mutant.node}.{mutant.part} {words}"
        if key not in known:
            tests = lines.get((str(mutant.file), mutant.line), [])
            total = itertools.accumulate(cost[test] for test in tests)
            tests = [test for test, seconds in zip(tests, total, strict=True) if seconds <= chosen.most]
            before = [test for test, _ in catchers[mutant.file].most_common(FIRST) if test in set(tests)]
            tests = list(dict.fromkeys([*before, *tests]))
            verdict, test = ("survived" if tests else "no test"), ""
            for some in (tests[:FIRST], tests[FIRST:]):
                if some and verdict == "survived":
                    verdict, test = run(mutant, some, sum(cost[test] for test in some))
            known[key] = verdict, test
            with kept.open("a", encoding="utf-8") as file:
                file.write(f"{verdict}\t{test}\t{key}\n")
        verdict, test = known[key]
        if verdict == "caught":
            catchers[mutant.file][test] += 1
        return verdict, words

    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for verdict, words in pool.map(judge, drawn):
            counts[verdict] += 1
            if verdict != "caught":
                print(f"{verdict}: {words}", flush=True)
    for file, caught in catchers.items():  # a test that fails without any mutant has caught none
        tests = sorted(caught.keys() & cost.keys())
        verdict, test = run(Mutant(file, 0, 0, None), tests, sum(map(cost.__getitem__, tests)))
        if tests and verdict != "survived":
            print(f"{verdict} without any mutant: {file.relative_to(ROOT)}: {test}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()), end=" ")
    print(f"of {len(drawn)} mutants; seed {chosen.seed}, {len(everything):,} to draw from")


if __name__ == "__main__":
    main()
