"""Speed of the oracles by number of parities, and where to prefer which: the numbers behind oracle="auto".

    python benchmarks/oracles.py [--quick] [--oracles cryptominisat cadical ...] [--out results/oracles.json]

Two formulas are written here: paths in a grid with flow constraints, hashed by the set of visited cells. Two more are
what xmen makes of worlds with rules. A cell is cut by m dense parities; the time to its first solution (loading the
solver included) and the time per further solution are means over cells. Processor time, except for oracles in a process
of their own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import xmen as xm
from xmen.encoding.trajectories import Encoding
from xmen.errors import OracleError, OracleTimeoutError
from xmen.oracles import Formula, Oracle, Parities, installed_oracles, make_oracle
from xmen.oracles.killable import KillableOracle

MIP = ("highs", "cplex", "gurobi")
MOVES = ("up", "right", "up-right")
LIMIT = 30.0  # seconds per cell
CELL = 64  # solutions that are read from a cell at most
console = Console(width=130)


def grid_paths(side: int) -> Formula:
    """Paths from corner to corner by up, right and up-right, one variable per cell and per move between cells.

    A cell is visited exactly if one move leaves it (except the goal) and exactly if one enters it (except the start).
    """
    number = {(x, y): 1 + y * side + x for y in range(side) for x in range(side)}
    top, clauses = side * side, [[1], [side * side]]
    leaving: dict[tuple[int, int], list[int]] = {cell: [] for cell in number}
    entering: dict[tuple[int, int], list[int]] = {cell: [] for cell in number}
    for x, y in number:
        for cell in ((x, y + 1), (x + 1, y), (x + 1, y + 1)):
            if cell in number:
                top += 1
                leaving[x, y].append(top)
                entering[cell].append(top)
    for moves, without in ((leaving, (side - 1, side - 1)), (entering, (0, 0))):
        for cell, used in moves.items():
            if cell != without:
                clauses.append([-number[cell], *used])
                clauses += [[-move, number[cell]] for move in used]
                clauses += [[-a, -b] for i, a in enumerate(used) for b in used[:i]]
    flat = [literal for clause in clauses for literal in (*clause, 0)]
    return Formula(top, np.array(flat, dtype=np.int32), tuple(number.values()))


def ruled_paths(side: int) -> Formula:
    """Paths that visit one of two places but not both, at least half of them above the diagonal, no long repeats."""
    grid = xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), moves=MOVES)
    third = side // 3
    above = grid.at(*[(x, y) for x in range(side) for y in range(x, side)])
    either = xm.exactly(1, xm.visit(grid.at((third, 2 * third))), xm.visit(grid.at((2 * third, third))))
    rules = either & (2 * xm.count(above) >= xm.length()) & (xm.longest_repeat() <= 3)
    return Encoding(grid, rules).formula


def self_avoiding(side: int) -> Formula:
    """Walks in all four directions that visit no cell twice."""
    grid = xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), horizon=3 * side - 2)
    return Encoding(grid, xm.no_revisit()).formula


FORMULAS: dict[str, tuple[Callable[[], Formula], tuple[int, ...]]] = {
    "paths 9x9": (lambda: grid_paths(9), (0, 4, 8, 12, 16, 20)),
    "paths 20x20": (lambda: grid_paths(20), (0, 4, 8, 12, 16, 20, 30)),
    "paths with rules 9x9": (lambda: ruled_paths(9), (0, 4, 8, 12)),
    "self-avoiding 6x6": (lambda: self_avoiding(6), (0, 4, 8)),
}


def measure(oracle: Oracle, m: int, n_cells: int, limit: float) -> dict[str, float]:
    """Mean seconds to the first solution and per further one; how many cells ran out of time."""
    clock = time.perf_counter if isinstance(oracle, KillableOracle) else time.process_time
    first, further, n_further, n_late = [], 0.0, 0, 0
    for seed in range(n_cells):
        parities = Parities.dense(m, oracle.formula.n_hash, np.random.default_rng(seed))
        oracle.time_limit = limit
        solutions = oracle.solutions(parities)
        try:
            began = clock()
            found = next(solutions, None)
            first.append(clock() - began)
            if found is None:
                continue
            # The answer that there are no more counts as one more.
            began, n = clock(), 1
            for _ in islice(solutions, CELL - 1):
                n += 1
            further += clock() - began
            n_further += n
        except OracleTimeoutError:
            n_late += 1
            if n_late == 2:
                break
    nan = float("nan")
    return {
        "first_s": float(np.mean(first)) if first else nan,
        "further_s": further / n_further if n_further else nan,
        "n_cells": len(first),
        "n_late": n_late,
    }


def cells(result: dict[str, float]) -> str:
    if result["n_late"] and np.isnan(result["first_s"]):
        return "-"
    late = f"  ({result['n_late']:.0f} late)" if result["n_late"] else ""
    return f"{1e3 * result['first_s']:.4g} + {1e3 * result['further_s']:.3g}{late}"


def run(
    name: str, formula: Formula, sizes: tuple[int, ...], oracles: list[str], n_cells: int
) -> Iterator[dict[str, Any]]:
    """One row per number of parities."""
    table = Table(
        "parities", *oracles, "cadical / cryptominisat", title=f"{name}: ms to the first + per further solution"
    )
    given_up: set[str] = set()
    for oracle_name in oracles:  # compile and load what is needed
        next(make_oracle(oracle_name, grid_paths(3)).solutions(Parities.dense(2, 9, np.random.default_rng(0))), None)
    for m in sizes:
        row: dict[str, Any] = {"formula": name, "m": m}
        for oracle_name in oracles:
            if oracle_name in given_up:
                continue
            try:
                oracle = make_oracle(oracle_name, formula)
                row[oracle_name] = measure(
                    oracle, m, 3 if oracle_name in ("highs", "cplex", "gurobi") else n_cells, LIMIT
                )
            except OracleError as error:  # a licence for small programs only
                console.print(f"{oracle_name}: {error}")
                given_up.add(oracle_name)
                continue
            if row[oracle_name]["n_late"]:
                given_up.add(oracle_name)
        ratio = whole_cell(row, "cadical") / whole_cell(row, "cryptominisat")
        row["ratio"] = ratio
        shown = [cells(row[o]) if o in row else "-" for o in oracles]
        table.add_row(str(m), *shown, f"{ratio:.2g}")
        yield row
    console.print(table)


def whole_cell(row: dict[str, Any], name: str) -> float:
    """Seconds for a cell of that many solutions; infinite when some were not finished."""
    if name not in row or row[name]["n_late"]:
        return float("inf")
    return float(row[name]["first_s"] + CELL * np.nan_to_num(row[name]["further_s"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the 9x9 paths only")
    parser.add_argument("--oracles", nargs="+", help="by default all that are installed, except the list")
    parser.add_argument("--cells", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/oracles.json"))
    arguments = parser.parse_args()
    oracles = arguments.oracles or [o for o, version in installed_oracles().items() if version and o != "listed"]
    rows: list[dict[str, Any]] = []
    for name, (build, sizes) in FORMULAS.items():
        if arguments.quick and name != "paths 9x9":
            continue
        formula = build()
        console.print(f"{name}: {formula.n_variables:,} variables, {formula.n_clauses:,} clauses")
        rows += run(name, formula, sizes[:4] if arguments.quick else sizes, oracles, arguments.cells)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"versions": installed_oracles(), "rows": rows}, indent=2) + "\n")
    console.print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
