"""Formulas of one's own, against counting them all and against UniGen, measured in one run on the same formulas.

    python benchmarks/formula.py [--unigen PYTHON] [--quick] [--out results/formula.json]

Random formulas of clauses with three literals. Where all assignments can be looked at (22 variables), log Z is compared
with their number. UniGen, which promises a factor of 1 + epsilon = 1.8 by default, draws from the same formulas;
`--unigen` is the interpreter of an environment with `pyunigen`, and without it that comparison is skipped. On a small
formula both draw often enough for a chi-square test of uniform draws.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import chi2

import xmen as xm

console = Console(width=120)
UNIGEN = """
import json, sys, time
from pyunigen import Sampler
n, variables, clauses = json.load(sys.stdin)
sampler = Sampler(seed=1)
for clause in clauses:
    sampler.add_clause(clause)
began = time.perf_counter()
_, _, samples = sampler.sample(num=n, sampling_set=list(range(1, variables + 1)))
print(json.dumps([time.perf_counter() - began, [sorted(x for x in s if x > 0) for s in samples]]))
"""


def random_clauses(n_variables: int, ratio: float, rng: np.random.Generator) -> list[list[int]]:
    """`ratio` clauses per variable, of three different variables each, with random signs."""
    drawn = (rng.choice(n_variables, 3, replace=False) + 1 for _ in range(int(ratio * n_variables)))
    return [(some * rng.choice([-1, 1], 3)).tolist() for some in drawn]


def count(n_variables: int, clauses: list[list[int]], weights: dict[int, float]) -> float:
    """log Z by looking at all assignments."""
    bits = [(np.arange(2**n_variables) >> v) & 1 == 1 for v in range(n_variables)]
    keeps = np.ones(2**n_variables, dtype=np.bool_)
    for clause in clauses:
        keeps &= np.logical_or.reduce([bits[abs(literal) - 1] == (literal > 0) for literal in clause])
    logs = sum((nats * bits[v - 1][keeps] for v, nats in weights.items()), np.zeros(np.count_nonzero(keeps)))
    return float(np.logaddexp.reduce(logs))


def against_counting(n_formulas: int, n_variables: int) -> list[float]:
    """How many of its standard errors log Z is off, of plain and of weighted formulas in turn."""
    table, off = Table(title=f"log Z, {n_variables} variables, 64 cells"), list[float]()
    for column in ("formula", "all assignments", "cells", "standard error", "off by, in standard errors", "s"):
        table.add_column(column, justify="right")
    for seed in range(n_formulas):
        rng = np.random.default_rng(seed)
        clauses = random_clauses(n_variables, 1.0, rng)
        weights = {v: float(rng.normal()) for v in range(1, n_variables + 1)} if seed % 2 else {}
        truth, began = count(n_variables, clauses, weights), time.perf_counter()
        formula = xm.Formula(n_variables, clauses, log_weights=weights)
        found, std = formula.log_partition(return_std=True, oracle="cryptominisat", seed=seed)
        off.append((found - truth) / std)
        row = f"{truth:.3f}", f"{found:.3f}", f"{std:.3f}", f"{off[-1]:+.1f}", f"{time.perf_counter() - began:.1f}"
        table.add_row("weighted" if weights else "plain", *row)
    console.print(table)
    return off


def unigen(python: str, formula: xm.Formula, n: int) -> tuple[float, list[tuple[int, ...]]]:
    """Seconds for n samples, and the variables that are true in each."""
    asked = json.dumps([n, formula.n_variables, formula.clauses])
    done = subprocess.run([python, "-c", UNIGEN], input=asked, capture_output=True, text=True, check=True)
    seconds, samples = json.loads(done.stdout.splitlines()[-1])
    return seconds, [tuple(sample) for sample in samples]


def ours(formula: xm.Formula, n: int) -> tuple[float, list[tuple[int, ...]]]:
    began = time.perf_counter()
    rows = formula.sample(n, seed=0, oracle="cryptominisat")
    return time.perf_counter() - began, [tuple((np.flatnonzero(row) + 1).tolist()) for row in rows]


def against_unigen(python: str | None, n: int) -> dict[str, float]:
    """Samples per second, and how likely draws as uneven as those would be if all solutions were equally likely."""
    table, results = Table(title=f"{n:,} samples each, set-up included"), dict[str, float]()
    for column in ("formula", "sampler", "samples / s", "chi-square p"):
        table.add_column(column, justify="right")
    for n_variables, ratio in ((14, 2.4), (40, 3.0)):
        formula = xm.Formula(n_variables, random_clauses(n_variables, ratio, np.random.default_rng(7)))
        for name, draw in (("xm.Formula", ours), ("UniGen", lambda f, n: unigen(str(python), f, n))):
            if name == "UniGen" and python is None:
                continue
            seconds, samples = draw(formula, n)
            p = ""
            if n_variables < 20:  # the number of solutions is known, and much smaller than that of draws
                size = round(np.exp(count(n_variables, formula.clauses, {})))
                _, met = np.unique([hash(sample) for sample in samples], return_counts=True)
                statistic = float(
                    np.sum((met - len(samples) / size) ** 2) + (size - len(met)) * (len(samples) / size) ** 2
                )
                p = f"{chi2.sf(statistic * size / len(samples), size - 1):.3f} ({size} solutions)"
            results[f"{name} {n_variables}"] = len(samples) / seconds
            table.add_row(f"{n_variables} variables", name, f"{len(samples) / seconds:,.0f}", p)
    console.print(table)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unigen", help="a Python with pyunigen")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results/formula.json"))
    asked = parser.parse_args()
    results: dict[str, Any] = {"off": against_counting(*((4, 18) if asked.quick else (20, 22)))}
    results |= against_unigen(asked.unigen, 300 if asked.quick else 5000)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
