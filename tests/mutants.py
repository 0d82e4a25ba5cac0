"""Do the tests of `make test` catch bugs? Small ones are put in, one by one, and the tests that run their line are run.

A mutant turns one comparison, operator or number in the rooms below into another, or leaves out one line. It lives in a
copy of the source. In a file of compiled loops nothing is compiled, as kernels kept on disk would hide it. A mutant
survives if every test passes; one that computes several times as long as the tests did is caught.

`make mutants` first records which tests run which line (lines.py). A few tests go first: those that caught other
mutants of the file, and the quickest of each module. Verdicts are added to a file as they come, and a run that was
stopped goes on from there.
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
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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


def loops(files: list[Path]) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """For each line of a compiled loop the lines that call it: where loops were compiled, no test is seen in them."""
    called, inside = defaultdict[str, list[tuple[str, int]]](list), dict[tuple[str, int], str]()
    for file in files:
        tree = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute):
                called[node.id if isinstance(node, ast.Name) else node.attr].append((str(file), node.lineno))
            elif isinstance(node, ast.FunctionDef) and any("compiled" in ast.unparse(d) for d in node.decorator_list):
                inside |= dict.fromkeys(
                    ((str(file), line) for line in range(node.lineno, node.end_lineno + 1)), node.name
                )

    def callers(name: str, seen: frozenset[str]) -> list[tuple[str, int]]:
        outer = {inside[place] for place in called[name] if place in inside} - seen
        direct = [place for place in called[name] if place not in inside]
        return direct + [place for other in outer for place in callers(other, seen | {other})]

    return {place: callers(name, frozenset({name})) for place, name in inside.items()}


def caught_by(mutant: Mutant, tests: list[str], seconds: float) -> str | None:
    """The first of the tests that fails on the mutant."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(SOURCE, Path(folder) / "xmen"))  # with the kernels that are kept beside it
        (copy / mutant.file.relative_to(SOURCE)).write_text(mutant.source()[0], "utf-8")
        listed = Path(folder) / "tests.txt"
        listed.write_text("\n".join(tests))
        in_python = "@compiled" in mutant.file.read_text("utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
        command += ["-W", "ignore::RuntimeWarning"] if in_python else []  # numpy's scalars report overflow
        limit = 40 + int(4 * seconds)
        done = subprocess.run(
            [*command, f"@{listed}"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": folder, "NUMBA_DISABLE_JIT": str(int(in_python)), "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (limit, limit)),
        )
    if done.returncode == 0:
        return None
    named = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return next((test for test in tests for line in named if line.startswith(test)), "its time or its import")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=float, default=600.0, help="seconds of tests for each mutant, quick ones first")
    chosen = parser.parse_args()
    lines, cost = tests_of_lines()
    through = loops(sorted(SOURCE.rglob("*.py")))
    files = [file for room in ROOMS for file in sorted((SOURCE / room).rglob("*.py"))]
    files = [file for file in files if not str(file.relative_to(SOURCE)).startswith(ELSEWHERE)]
    everything = [mutant for file in files for mutant in mutants(file)]
    drawn = random.Random(chosen.seed).sample(everything, min(chosen.number, len(everything)))
    verdicts = FOLDER / f"mutants-{chosen.seed}.txt"
    known = (
        dict(line.split("\t", 1)[::-1] for line in verdicts.read_text("utf-8").splitlines())
        if verdicts.exists()
        else {}
    )
    catchers = defaultdict[Path, Counter[str]](Counter)

    def judge(mutant: Mutant) -> str:
        words = mutant.source()[1]
        key = f"{mutant.node}.{mutant.part} {words}"
        if key in known:
            return f"{known[key]}: {words}"
        place = str(mutant.file), mutant.line
        tests = lines.get(place, []) or [test for caller in through.get(place, []) for test in lines.get(caller, [])]
        tests = sorted(dict.fromkeys(tests), key=cost.__getitem__) if place not in lines else tests
        total = list(itertools.accumulate(cost[test] for test in tests))
        tests = [test for test, sum_of_seconds in zip(tests, total, strict=True) if sum_of_seconds <= chosen.most]
        before = [test for test, _ in catchers[mutant.file].most_common(FIRST) if test in set(tests)]
        tests = list(dict.fromkeys([*before, *tests]))
        verdict = "survived" if tests else "no test"
        for some in (tests[:FIRST], tests[FIRST:]):
            if some and (test := caught_by(mutant, some, sum(cost[test] for test in some))):
                catchers[mutant.file][test] += 1
                verdict = "caught"
                break
        if mutant.part is not None:
            with verdicts.open("a", encoding="utf-8") as file:
                file.write(f"{verdict}\t{key}\n")
        return f"{verdict}: {words}"

    for mutant in drawn[:3] if not known else []:
        if judge(replace(mutant, part=None)).startswith("caught"):
            sys.exit(f"{mutant.file}:{mutant.line}: a test fails without any mutant: {catchers[mutant.file]}")
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for said in pool.map(judge, drawn):
            verdict = said.split(":")[0]
            counts[verdict] += 1
            if verdict != "caught":
                print(said, flush=True)
    print(f"{counts['caught']} of {len(drawn)} mutants caught ({counts['caught'] / len(drawn):.1%});", end=" ")
    print(f"{counts['no test']} on lines that no test runs; seed {chosen.seed}, {len(everything):,} to draw from")


if __name__ == "__main__":
    main()
