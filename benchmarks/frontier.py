"""Which engine answers within 60 seconds of processor time and 4 GB, and at what rate: the picture in docs/engines.md.

    python benchmarks/frontier.py [--quick] [--jobs 2] [--out FILE.json] [--picture FILE.png]

Every case runs in a process of its own on one core, with a limit on processor time and on memory, so that other work
on the machine changes little. The rate is valid samples per second; set-up counts in the limit, not in the rate.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil

SECONDS, BYTES = 60.0, 4 * 2**30
ENGINES = ("exact", "reject", "xor")
FAMILIES = {
    "must-visit cells, 12x12, 8 moves": (2, 8, 11, 14, 20),
    "self-avoiding walks, n x n": (6, 8, 10, 12, 14),
    "tours of random cubic graphs": (20, 26, 32, 40),
    "counters, 9x9 monotone": (2, 4, 7, 10),
    "forbidden pairs, n x n monotone": (10, 14, 18, 22, 24),
}
AXES = {
    "must-visit cells, 12x12, 8 moves": "cells to visit",
    "self-avoiding walks, n x n": "side n of the grid",
    "tours of random cubic graphs": "nodes of the graph",
    "counters, 9x9 monotone": "counters",
    "forbidden pairs, n x n monotone": "side n of the grid, with 150 to 900 pairs",
}
NO_ANSWER = 0.1  # samples per second; the band below it is for engines that gave up


def build(family: str, size: int) -> tuple[Any, Any]:
    """The world and the constraint of one case."""
    import networkx as nx

    import xmen as xm
    from xmen.experiments.pairs import GRIDS, PairsTask

    rng = np.random.default_rng(size)
    if family.startswith("must-visit"):
        moves = ("up", "right", "down", "left", "up-right", "up-left", "down-right", "down-left")
        grid = xm.GridWorld(12, 12, (0, 0), (11, 11), moves=moves, horizon=90)
        cells = rng.choice(np.arange(1, 143), size, replace=False)
        return grid, [xm.visit(xm.at(int(cell))) for cell in cells]
    if family.startswith("self-avoiding"):
        grid = xm.GridWorld(size, size, (0, 0), (size - 1, size - 1), horizon=4 * size + 2)
        return grid, xm.no_revisit() & xm.visit(grid.at((size // 2, size // 2)))
    if family.startswith("tours"):
        graph = nx.random_regular_graph(3, size, seed=size)
        path = list(range(size))
        target = max(nx.single_source_shortest_path_length(graph, 0).items(), key=lambda item: item[1])[0]
        world = xm.MDP.from_networkx(graph, source=path[0], target=target, horizon=size - 1)
        return world, xm.no_revisit() & (xm.length() >= size - 2)
    if family.startswith("forbidden"):
        task = PairsTask(size, dict(GRIDS)[size], 0)
        return task.world, task.rules
    grid = xm.GridWorld(9, 9, (0, 0), (8, 8), moves=("up", "right", "up-right"))
    rules = []
    for _ in range(size):
        cells = rng.choice(np.arange(1, 80), 27, replace=False)
        event = xm.at(*map(int, cells))
        rules.append((xm.count(event) >= 3) & (xm.count(event) <= 6))
    return grid, rules


def processor_seconds(process: psutil.Process | None = None) -> float:
    """Of a process (this one) and of the solvers it has started, those that have ended included."""
    process, spent = process or psutil.Process(), 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
            spent += sum(one.cpu_times()[:4])
    return spent


def one(family: str, size: int, engine: str) -> dict[str, Any]:
    """Build, sample, report; the limits are set by the caller."""
    import xmen as xm

    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    began = processor_seconds()
    world, rules = build(family, size)
    oracle = {"oracle": "cryptominisat"} if engine == "xor" else {}
    d = xm.distribution(world, rules, None, engine=engine, seed=0, **oracle)
    d.sample(1)
    ready = processor_seconds() - began
    n, spent = 1, 0.0
    while spent < 2.0 and ready + spent < SECONDS - 5:
        n *= 2
        began = processor_seconds()
        d.sample(n)
        spent = processor_seconds() - began
    return {"ready_s": ready, "rate": n / spent if spent else 1.0 / ready, "engine": d.engine}


def run(family: str, size: int, engine: str) -> dict[str, Any]:
    """One case in a process of its own."""
    command = [sys.executable, __file__, "--one", family, str(size), engine]
    row: dict[str, Any] = {"family": family, "size": size, "engine": engine}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        asked = psutil.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True)
        while asked.poll() is None:
            with contextlib.suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
                asked.wait(0.5)
            if asked.is_running() and processor_seconds(asked) > SECONDS + 2:
                os.killpg(asked.pid, signal.SIGKILL)
                asked.wait()
                return {**row, "why_not": f"more than {SECONDS:.0f} s"}
        said, failed = (file.seek(0) or file.read().strip() for file in (out, err))
    if asked.returncode:
        return {**row, "why_not": "memory" if "MemoryError" in failed else (failed.splitlines() or ["?"])[-1][:160]}
    return {**row, **json.loads(said.splitlines()[-1])}


def climb(family: str, engine: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """One engine on growing sizes; where a size is not answered, larger ones are not tried."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        if rows and "rate" not in rows[-1]:
            why = "a smaller size was not answered"
            rows.append({"family": family, "size": size, "engine": engine, "why_not": why})
            continue
        rows.append(run(family, size, engine))
        shown = f"{rows[-1]['rate']:,.1f} samples/s" if "rate" in rows[-1] else rows[-1]["why_not"]
        print(f"{family:36} {size:>3} {engine:7} {shown}", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Rates against sizes, one panel per family; crosses in the band at the bottom where an engine gave up."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    colours = {"exact": "#0072B2", "reject": "#E69F00", "xor": "#009E73"}
    markers = {"exact": "o", "reject": "s", "xor": "^"}
    figure, axes = plt.subplots(2, 3, figsize=(15, 8), layout="constrained", sharey=True)
    axes[1, 2].set_axis_off()
    for ax, family in zip(axes.flat, FAMILIES, strict=False):
        for i, engine in enumerate(ENGINES):
            mine = [row for row in rows if row["family"] == family and row["engine"] == engine]
            good = [(row["size"], row["rate"]) for row in mine if "rate" in row]
            ax.plot(*(zip(*good, strict=True) if good else ([], [])), marker=markers[engine], color=colours[engine])
            bad = [row["size"] for row in mine if "rate" not in row]
            floor = 0.02 * 1.7**i
            ax.plot(bad, [floor] * len(bad), "x", color=colours[engine])
        ax.axhspan(0.01, NO_ANSWER, color="#dddddd", lw=0)
        ax.set_yscale("log")
        ax.set_ylim(0.01, 1.5e6)
        ax.set_xticks(FAMILIES[family])
        ax.set_title(family)
        ax.set_xlabel(AXES[family])
        ax.grid(alpha=0.3)
    for ax in axes[:, 0]:
        ax.set_ylabel("valid samples per second")
    handles = [Line2D([], [], marker=markers[one], color=colours[one], label=f"engine {one}") for one in ENGINES]
    handles.append(Line2D([], [], marker="x", color="#666666", ls="", label="no answer in 60 s and 4 GB (grey band)"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="two sizes per family")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/frontier.json"))
    parser.add_argument("--picture", type=Path, default=Path("results/frontier.png"))
    arguments = parser.parse_args()
    if arguments.one:
        family, size, engine = arguments.one
        print(json.dumps(one(family, int(size), engine)))
        return
    cases = [
        (family, engine, sizes[:2] if arguments.quick else sizes)
        for family, sizes in FAMILIES.items()
        for engine in ENGINES
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = [row for some in pool.map(lambda case: climb(*case), cases) for row in some]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=2) + "\n")
    draw(rows, arguments.picture)
    print(f"written to {arguments.out} and {arguments.picture}")


if __name__ == "__main__":
    main()
