"""Learning: how long until the loss is within 0.01 nats of the optimum, memory, and growth.

    python benchmarks/learn.py [--quick] [--out results/learn.json]

The task: a grid with the moves up, right and up-right, fetch one of two keys, at most three equal moves in a row, one
weight for each of four features, 200 demonstrations of a mild taste. Each fit runs in a process of its own that has
compiled everything before, so that seconds are those of the fit alone and memory is what the fit adds. Seconds are of
processors, the solvers' included: as many of them as there are read the cells of a round. X-MEN's three methods share
one optimum; MaxEnt and relative entropy IRL are measured against their own. Constraint inference has no loss to come
near to: its whole fit is timed. "SAT" is CryptoMiniSat, "listed" the list of all valid trajectories in its place; a fit
with the solver is stopped where it is after 10 minutes of processors. Growth is also against the number of valid
trajectories, from 10^3 to 10^9: exact learning, and cells with the solver on one weight per state, each with its
distance from the optimum and the bound that it states; what the clock said of the cells is beside the seconds of
processors.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

import xmen as xm

NEAR = 0.01  # nats
MOST = 600.0  # seconds of processors, after which a fit is stopped where it is
TASTE = 0.3  # per feature of unit variance: the spread of the demonstrators' weights
console = Console()


def task(side: int, n_demos: int) -> tuple[Any, Any, np.ndarray, list[Any]]:
    """The world, the rules, features and demonstrations of a known taste."""
    grid = xm.GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), moves=("up", "right", "up-right"))
    rules = xm.visit(grid.at((1, 3), (3, 1))).named("fetch a key") & (xm.longest_repeat() <= 3).named("no long runs")
    rng = np.random.default_rng(5)
    features = rng.normal(size=(grid.n_states, grid.n_actions, 4))
    demos = xm.distribution(grid, rules, features @ rng.normal(scale=TASTE, size=4), seed=0).sample(n_demos)
    return grid, rules, features, demos


def processor_seconds() -> float:
    """Of this process so far, and of the solvers that it keeps in others."""
    this = psutil.Process()
    ended, living = this.cpu_times()[2:4], [child.cpu_times()[:2] for child in this.children(recursive=True)]
    return float(time.process_time() + sum(map(sum, [ended, *living])))


def learner(method: str, grid: Any, rules: Any, features: np.ndarray, max_iter: int | None) -> Any:
    """By name; "cells, SAT" is "cells" with CryptoMiniSat in place of the list, and stops after MOST seconds."""
    began = processor_seconds()
    name, _, oracle = method.partition(", ")
    settings: dict[str, Any] = {
        "oracle": "cryptominisat" if oracle == "SAT" else "auto",
        "engine": "exact" if name == "exact" else "auto",
    }
    if name in ("exact", "cells", "paper"):
        if oracle == "SAT":
            settings["callback"] = lambda record: processor_seconds() - began > MOST
        return xm.XMEN(grid, rules, features, method=name, seed=0, max_iter=max_iter, **settings)
    if name == "MaxEnt":
        return xm.MaxEntIRL(grid, features, max_iter=max_iter)
    if name == "relative entropy":
        return xm.RelativeEntropyIRL(grid, features, epsilon=0.0, seed=0, max_iter=max_iter or 1000)
    return xm.ConstraintInference(grid, seed=0)


def fit_elsewhere(method: str, side: int, n_demos: int, max_iter: int | None) -> dict[str, float]:
    """One fit in this process, after everything was compiled on a smaller task: seconds, memory, the mean score."""
    warnings.simplefilter("ignore")
    learner(method, *task(4, 20)[:3], 3).fit(task(4, 20)[3])
    *problem, demos = task(side, n_demos)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, processor_seconds()
    model = learner(method, *problem, max_iter).fit(demos)
    seconds = processor_seconds() - began
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if method.startswith(("exact", "cells", "paper")):  # judged exactly, whatever found the gradient
        score = xm.XMEN(*problem, engine="exact", max_iter=1).fit(demos)
        score.reward_ = model.reward_
        mean = score.score(demos)
    elif method == "relative entropy":  # its loss, the dual of the drawn rollouts, is no likelihood
        mean = -model.history_[-1].loss
    else:
        mean = model.score(demos)
    return {"seconds": seconds, "MB": added, "score": mean, "iterations": model.n_iter_}


def fit(method: str, side: int, n_demos: int, max_iter: int | None = None) -> dict[str, float]:
    """`fit_elsewhere`, in a fresh process (that of an executor may have a solver for each processor)."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(fit_elsewhere, method, side, n_demos, max_iter).result()


def time_to_near(method: str, side: int, n_demos: int, limit: float, first: int) -> dict[str, Any]:
    """The first of ever longer fits, from `first` iterations on, that ends within NEAR of the optimum."""
    if method == "constraint inference":
        return {"method": method, **fit(method, side, n_demos), "gap": None}
    if method.startswith("cells"):  # its own tolerance is half of NEAR, and it ends by itself
        found = fit(method, side, n_demos)
        return {"method": method, **found, "gap": fit("exact", side, n_demos)["score"] - found["score"]}
    optimum = fit("exact" if method[:5] in ("exact", "cells", "paper") else method, side, n_demos)["score"]
    n, spent = first, 0.0
    while True:
        found = fit(method, side, n_demos, n)
        gap, spent = optimum - found["score"], spent + found["seconds"]
        # The next fit takes twice as long.
        if gap <= NEAR or spent + 2 * found["seconds"] > limit or found["iterations"] < n:
            return {"method": method, **found, "gap": gap}
        n *= 2


def compare(side: int, n_demos: int, limit: float) -> list[dict[str, Any]]:
    """All methods on one task, as ratios to exact learning."""
    methods = ["exact", "cells, listed", "cells, SAT", "paper, listed", "paper, SAT"]
    methods += ["MaxEnt", "relative entropy", "constraint inference"]
    rows: list[dict[str, Any]] = []
    for method in methods:
        # The algorithm is the same with the list: the solver's first try is what that needed.
        first = rows[-1]["iterations"] if method == "paper, SAT" else 5
        with console.status(f"{side}x{side}: {method}"):
            rows.append(time_to_near(method, side, n_demos, limit, first))
    title = f"{side}x{side}, {n_demos} demonstrations: to within {NEAR} nats of the optimum"
    table = Table("method", "iterations", "seconds", "of exact", "gap (nats)", "memory (MB)", title=title)
    for row in rows:
        near = row["gap"] is None or row["gap"] <= NEAR
        gap = "whole fit" if row["gap"] is None else f"{row['gap']:.4f}" + ("" if near else ", not reached")
        ratio = row["seconds"] / rows[0]["seconds"]
        table.add_row(
            row["method"], str(row["iterations"]), f"{row['seconds']:.2f}", f"{ratio:.1f}", gap, f"{row['MB']:.0f}"
        )
    console.print(table)
    return rows


def growth(sides: list[int], numbers: list[int]) -> dict[str, list[dict[str, Any]]]:
    """Exact learning to the optimum against the side of the grid and the number of demonstrations."""
    by_side = [{"side": side, **fit("exact", side, 200)} for side in sides]
    by_demos = [{"demonstrations": n, **fit("exact", 9, n)} for n in numbers]
    for name, rows in (("side", by_side), ("demonstrations", by_demos)):
        table = Table(name, "iterations", "seconds", "ms per iteration", "of the first", "memory (MB)", title="exact")
        for row in rows:
            step, first = (1000 * one["seconds"] / one["iterations"] for one in (row, rows[0]))
            table.add_row(
                f"{row[name]:,}", str(row["iterations"]), f"{row['seconds']:.2f}", f"{step:.2f}",
                f"{step / first:.1f}", f"{row['MB']:.0f}",
            )  # fmt: skip
        console.print(table)
    return {"by_side": by_side, "by_demonstrations": by_demos}


def large_task(side: int, n_demos: int) -> tuple[Any, Any, list[Any]]:
    """A grid with counted, forbidden and repeated symbols, and demonstrations by random weights per state."""
    grid = xm.GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), moves=("up", "right", "up-right"))
    cells = [(x, y) for x in range(side) for y in range(side)]
    inner = [(x, y) for x, y in cells if 0 < x < side - 1 and 0 < y < side - 1]
    rules = (
        (xm.count(grid.at(*[(x, y) for x, y in cells if (x + 2 * y) % 7 == 3])) == side // 4).named("squares")
        & xm.never(grid.at(*[(x, y) for x, y in inner if (3 * x + y) % 11 == 5])).named("crosses")
        & (xm.longest_repeat() <= 3).named("no long runs")
    )
    taste = np.random.default_rng(0).normal(scale=0.4, size=(grid.n_states, 1))
    demos = xm.distribution(grid, rules, np.repeat(taste, grid.n_actions, axis=1), seed=0).sample(n_demos)
    return grid, rules, demos


def valid_row(side: int) -> dict[str, Any]:
    """Exact learning and cells with the solver on one large task, one weight per state."""
    grid, rules, demos = large_task(side, 200)
    tol = 0.05 if side <= 14 else 0.1  # nats
    valid = float(np.exp(xm.distribution(grid, rules, None).log_partition()))
    row: dict[str, Any] = {"side": side, "tol": tol, "valid": valid}
    for name in ("exact", "cells"):
        with console.status(f"{valid:.1e} valid trajectories: {name}"):
            began, clock = processor_seconds(), time.perf_counter()
            settings = {"oracle": "cryptominisat", "tol": tol, "time_limit": 300.0} if name == "cells" else {}
            model = xm.XMEN(grid, rules, method=name, engine="exact", seed=0, **settings).fit(demos)
            spent = {"seconds": processor_seconds() - began, "clock": time.perf_counter() - clock}
            row[name] = {**spent, "score": model.score(demos)}
    row["gap"], row["bound"] = row["exact"]["score"] - row["cells"]["score"], model.distance_bound_
    row["solutions"] = sum(record.details["solutions"] for record in model.history_)
    row["calls"] = sum(record.details["queries"] for record in model.history_)
    return row


def by_valid(sides: list[int]) -> list[dict[str, Any]]:
    """Exact learning and cells with the solver against the number of valid trajectories."""
    warnings.simplefilter("ignore")
    valid_row(6)  # compiles
    rows = []
    for side in sides:
        rows.append(valid_row(side))
        console.print(f"{side}x{side}: cells are {rows[-1]['gap']:.4f} nats off in {rows[-1]['cells']['clock']:.0f} s")
    title = "growth with the number of valid trajectories; cells with CryptoMiniSat"
    table = Table("side", "valid", "exact (s)", "cells (s)", "clock (s)", "solutions", "tol", "gap (nats)", "bound")
    table.title = title
    for row in rows:
        exact, cells = row["exact"], row["cells"]
        table.add_row(
            str(row["side"]), f"{row['valid']:.1e}", f"{exact['seconds']:.2f}", f"{cells['seconds']:.1f}",
            f"{cells['clock']:.1f}", f"{row['solutions']:,.0f}", f"{row['tol']:g}", f"{row['gap']:.4f}",
            f"{row['bound']:.4f}",
        )  # fmt: skip
    console.print(table)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the 6x6 grid and little growth")
    parser.add_argument("--out", type=Path, default=Path("results/learn.json"))
    given = parser.parse_args()
    results: dict[str, Any] = {"6x6": compare(6, 200, 60.0)}
    if not given.quick:
        results["9x9"] = compare(9, 200, 120.0)
    sides, numbers = [6, 9, 15, 25], [10, 100, 1000]
    results["growth"] = growth(
        sides if given.quick else [*sides, 40, 60], [*numbers, 10_000, 100_000][: 3 if given.quick else 5]
    )
    # About 10^3, 10^4, 10^6, and in the full run on to 10^9 valid trajectories.
    results["by_valid"] = by_valid([7, 9, 12] if given.quick else [7, 9, 12, 14, 16, 17])
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {given.out}")


if __name__ == "__main__":
    main()
