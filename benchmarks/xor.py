"""The XOR engine against what people use, as ratios measured in one run on the same instance.

    python benchmarks/xor.py [--unigen PYTHON] [--before SRC] [--quick] [--out results/xor.json]

The instance: the paper's 9x9 grid (moves up, right, up-right) with its kinds of constraints. `--unigen` is the
interpreter of an environment with `pyunigen`; without it, that comparison is skipped. `--before`: the `src` of another
version, whose cells and queries are timed beside ours: on the memory map, and with one of each of 14 kinds on 16x16.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import reduce
from itertools import islice
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import xmen as xm
from xmen.encoding.trajectories import Encoding
from xmen.machines.tables import CompiledConstraint
from xmen.oracles import make_oracle
from xmen.oracles.formula import Formula, Parities
from xmen.sampling import PawsPlan

console = Console()


def paper_grid(side: int = 9) -> tuple[xm.GridWorld, xm.Constraint]:
    """Triangle first, no crosses, exactly one square and one circle, at most three equal moves in a row."""
    grid = xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), moves=("up", "right", "up-right"))
    triangle, cross = grid.at((1, 2), (2, 1)), grid.at((4, 4), (2, 5), (6, 3))
    square, circle = grid.at((2, 4), (3, 6), (4, 2), (6, 4)), grid.at((5, 7), (4, 7), (7, 5), (7, 6))
    rules = (
        xm.first(triangle, among=triangle | cross | square | circle)
        & xm.never(cross)
        & (xm.count(square) == 1)
        & (xm.count(circle) == 1)
        & (xm.longest_repeat() <= 3)
    )
    return grid, rules


def memory_map() -> tuple[xm.GridWorld, xm.Constraint]:
    """The map of `xmen reproduce grid` on which rules need memory."""
    grid = xm.GridWorld(9, 9, (0, 0), (8, 8), moves=("up", "right", "up-right"))

    def both(*cells: tuple[int, int]) -> xm.Event:
        return grid.at(*cells, *((y, x) for x, y in cells))

    triangle, cross = both((1, 2)), both((0, 5)) | grid.at(*((i, i) for i in range(2, 7)))
    square, circle = both((1, 4), (3, 6), (5, 8)), both((2, 4), (4, 6), (6, 8))
    first = xm.first(triangle, among=triangle | cross | square | circle)
    return grid, first & xm.never(cross) & (xm.count(square) == 1) & (xm.count(circle) == 1)


def one_of_each(side: int = 16) -> tuple[xm.GridWorld, xm.Constraint]:
    """One rule of each of 14 kinds, about random places."""
    rng = np.random.default_rng(0)
    grid = xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), moves=("up", "right", "up-right"))

    def some(n: int) -> xm.Event:
        return grid.at(*(grid.cell(int(s)) for s in 1 + rng.choice(side * side - 2, n, replace=False)))

    rules = [
        xm.visit(some(side)),
        xm.never(some(side // 2)),
        xm.count(some(2 * side)) <= 2,
        xm.before(some(side), some(side)),
        xm.first(some(side), among=some(side)),
        xm.sequence(some(3 * side), some(3 * side)),
        xm.response(some(side), some(3 * side), within=6),
        xm.longest_repeat() <= 4,
        xm.longest_run(some(5 * side)) <= 4,
        xm.at_most(2, *(xm.visit(some(4)) for _ in range(4))),
        xm.visit(some(side // 2)) >> xm.never(some(side)),
        xm.ltlf("G(a -> F b)", a=some(side), b=some(5 * side)),
        xm.share(some(6 * side)) >= 0.1,
        xm.count(grid.doing("right")) >= side // 3,
    ]
    return grid, reduce(and_, rules)


def rates(n: int) -> dict[str, float]:
    """Solutions of whole cells, and queries of PAWS to its copies, per second of the solver."""
    found: dict[str, float] = {}
    for name, (grid, rules), m, cells in (("memory", memory_map(), 5, n), ("kinds", one_of_each(), 24, max(n // 8, 2))):
        reward = np.random.default_rng(0).normal(0, 0.2, (grid.n_states, grid.n_actions))
        d: Any = xm.distribution(grid, rules, reward, engine="xor", oracle="cryptominisat", max_nodes=50_000, seed=0)
        low, high = d.hashed.log_range(d.weights, d.relaxation.product)
        plan = PawsPlan.solve(*d.guarantee, log_span=high - low, n_hash=d.hashed.decoder.width, thinned=True)
        copies = d.hashed.embedding(d.weights, plan.levels(high)).oracle
        for kind, oracle, parities, most in (("cells", d.hashed.oracle, m, None), ("paws", copies, m, 8)):
            next(oracle.solutions())  # its process starts
            began, answers = time.perf_counter(), 0
            for seed in range(cells):
                hashes = Parities.dense(parities, oracle.formula.n_hash, np.random.default_rng(seed))
                answers += 1 + sum(1 for _ in islice(oracle.solutions(hashes), most))
            found[f"{name}_{kind}_per_s"] = answers / (time.perf_counter() - began)
    return found


def against(before: Path, n: int) -> dict[str, float]:
    """These rates here and in another version of the source, and their ratios."""
    asked = [sys.executable, __file__, "--rates", str(n)]
    done = subprocess.run(
        asked, env=os.environ | {"PYTHONPATH": str(before)}, capture_output=True, text=True, check=True
    )
    theirs, ours = json.loads(done.stdout.strip().splitlines()[-1]), rates(n)
    table = Table("answers per second", "before", "after", "ratio")
    for key, rate in ours.items():
        table.add_row(key.removesuffix("_per_s"), f"{theirs[key]:,.1f}", f"{rate:,.1f}", f"{rate / theirs[key]:.1f}")
    console.print(table)
    return ours | {f"{key}_before": rate for key, rate in theirs.items()}


UNIGEN = """
import json, sys, time
from pyunigen import Sampler
n, path = json.loads(sys.argv[1])
sampler, support = Sampler(), None
for line in open(path):
    if line.startswith("c ind"):
        support = [int(x) for x in line.split()[2:-1]]
    elif not line.startswith(("c", "p")):
        sampler.add_clause([int(x) for x in line.split()[:-1]])
began = time.perf_counter()
cells, hashes, samples = sampler.sample(num=n, sampling_set=support)
print(json.dumps({"seconds": time.perf_counter() - began, "samples": len(samples)}))
"""


def write_dimacs(formula: Formula, path: Path) -> None:
    lines = [
        f"c ind {' '.join(map(str, formula.hash_variables))} 0",
        f"p cnf {formula.n_variables} {formula.n_clauses}",
    ]
    lines += [" ".join(map(str, [*clause, 0])) for clause in formula.clause_list()]
    path.write_text("\n".join(lines) + "\n")


def unigen_rate(python: str, formula: Formula, n: int) -> float:
    """Samples per second of UniGen on the same formula, its set-up included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "formula.cnf"
        write_dimacs(formula, path)
        arguments = json.dumps([n, str(path)])
        done = subprocess.run([python, "-c", UNIGEN, arguments], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return float(answer["samples"] / answer["seconds"])


def sampling(unigen: str | None, n: int) -> dict[str, float]:
    """Near-exact independent samples per second, and effective samples per second of the cell estimator."""
    grid, rules = paper_grid()
    results: dict[str, float] = {"valid": float(np.exp(xm.distribution(grid, rules, None).log_partition()))}
    table = Table("9x9, paper's constraints", "samples / s", "effective samples / s of estimates")
    for oracle in ("cryptominisat", "cadical", "listed"):
        try:
            d = xm.distribution(grid, rules, None, engine="xor", oracle=oracle, seed=0)
        except xm.MissingExtraError:
            continue
        d.sample(1, seed=0)
        began = time.perf_counter()
        d.sample(n, seed=1)
        rate = n / (time.perf_counter() - began)
        fresh = d.with_reward(None)
        n_parities = fresh.n_parities  # the search for it is not part of an estimate
        before, began = fresh.info.n_points, time.perf_counter()
        fresh.visits()
        effective = (fresh.info.n_points - before) / (time.perf_counter() - began)
        results[f"{oracle}_samples_per_s"], results[f"{oracle}_effective_per_s"] = rate, effective
        name = f"cells, {oracle} (delta {d.guarantee.delta:g}, {n_parities} parities)"
        table.add_row(name, f"{rate:,.0f}", f"{effective:,.0f}")
    if unigen:
        rate = unigen_rate(unigen, Encoding(grid, rules).formula, 500)
        results["unigen_samples_per_s"] = rate
        table.add_row("UniGen (pyunigen)", f"{rate:,.0f}", f"{rate:,.0f}")
    console.print(table)
    if unigen:
        best = max(results.get(f"{solver}_samples_per_s", 0.0) for solver in ("cryptominisat", "cadical"))
        most = max(results.get(f"{solver}_effective_per_s", 0.0) for solver in ("cryptominisat", "cadical"))
        results["samples_over_unigen"] = best / rate
        results["effective_over_unigen"] = most / rate
        console.print(
            f"with a solver: {best / rate:.1f} times UniGen's samples, {most / rate:.0f} times its effective samples"
        )
    return results


def flow_formula(grid: xm.GridWorld) -> Formula:
    """The paper's encoding: one binary per state and action, flow constraints, parities over all of them."""
    encoding = Encoding(grid, None)
    places = encoding.places
    return Formula(
        encoding.formula.n_variables, encoding.formula.clauses, tuple(encoding.walk.used[: len(places.edge)])
    )


def queries(m: int, n: int) -> dict[str, float]:
    """Seconds per query with m dense parities: ours, and the paper's configuration with a MIP oracle."""
    grid, _ = paper_grid()
    rows: dict[str, float] = {}
    cases = [
        ("visited cells", "cryptominisat", Encoding(grid, None).formula, n),
        ("visited cells", "cadical", Encoding(grid, None).formula, n),
        ("state and action, flow", "highs", flow_formula(grid), max(2, n // 10)),
    ]
    table = Table(f"{m} dense parities over", "oracle", "seconds per query")
    for name, oracle_name, formula, repeats in cases:
        try:
            oracle = make_oracle(oracle_name, formula)
        except xm.MissingExtraError:
            continue
        began = time.perf_counter()
        for seed in range(repeats):
            next(iter(oracle.solutions(Parities.dense(m, formula.n_hash, np.random.default_rng(seed)))), None)
        rows[f"{oracle_name}_s"] = (time.perf_counter() - began) / repeats
        table.add_row(name, oracle_name, f"{rows[f'{oracle_name}_s']:.4f}")
    console.print(table)
    if "highs_s" in rows:
        best = min(value for key, value in rows.items() if key != "highs_s")
        rows["ratio"] = rows["highs_s"] / best
        console.print(f"{rows['ratio']:.0f} times faster than the paper's configuration (HiGHS as its MIP solver)")
    return rows


def large(n: int = 10, m: int = 30) -> dict[str, float]:
    """20x20, about 1e11 valid paths: solutions of a cell of 30 parities, each checked."""
    side = 20
    grid = xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), moves=("up", "right", "up-right"))
    rules = (xm.count(grid.at(*[(x, x) for x in range(1, side - 1)])) == 2) & (xm.longest_repeat() <= 3)
    log_z = xm.distribution(grid, rules, None).log_partition()
    encoding = Encoding(grid, rules)
    formula = encoding.formula
    began = time.perf_counter()
    cell = make_oracle("cryptominisat", formula).solutions(Parities.dense(m, formula.n_hash, np.random.default_rng(0)))
    rows = np.array(list(islice(cell, n)))
    seconds = time.perf_counter() - began
    valid = CompiledConstraint(rules, grid).check(encoding.decoder.decode(rows))
    console.print(
        f"20x20: {np.exp(log_z):.3g} valid paths, {np.exp(log_z) / 2**m:.0f} in a cell of {m} parities; "
        f"{len(rows)} of one cell, {valid.sum()} of them valid, in {seconds:.1f} s"
    )
    return {"valid_paths": float(np.exp(log_z)), "parities": m, "solutions": len(rows), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unigen", metavar="PYTHON", help="interpreter with `pyunigen` installed")
    parser.add_argument("--before", metavar="SRC", type=Path, help="the `src` of another version to compare with")
    parser.add_argument("--rates", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="fewer samples and queries, no 20x20")
    parser.add_argument("--out", type=Path, default=Path("results/xor.json"))
    arguments = parser.parse_args()
    if arguments.rates:
        print(json.dumps(rates(arguments.rates)))
        return
    results: dict[str, Any] = {} if arguments.before is None else {"rates": against(arguments.before.resolve(), 16)}
    results |= {"sampling": sampling(arguments.unigen, 20 if arguments.quick else 200)}
    results["queries"] = queries(12, 10 if arguments.quick else 50)
    if not arguments.quick:
        results["large"] = large()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
