"""Speed and growth of the exact engine, as ratios against something measured in the same run.

    python benchmarks/exact.py [--quick] [--imitation PYTHON] [--out results/exact.json]

`--imitation` is the interpreter of an environment in which the package `imitation` is installed (it pins an old
gymnasium, so it gets one of its own); without it, that comparison is skipped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table

import xmen as xm
from xmen.engines.exact import ExactDistribution

EIGHT_MOVES = ("up", "right", "down", "left", "up-right", "up-left", "down-right", "down-left")
console = Console()


def timed(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The shortest of a few runs, and the last result: noise only ever adds time."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - began)
    return min(times), result


def open_grid(side: int, horizon: int) -> xm.GridWorld:
    return xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), moves=EIGHT_MOVES, horizon=horizon)


def must_visit(grid: xm.GridWorld, n: int, seed: int = 0) -> list[xm.Constraint]:
    cells = np.random.default_rng(seed).choice(np.arange(1, grid.n_states - 1), n, replace=False)
    return [xm.visit(xm.at(int(cell))).named(f"visit {grid.cell(int(cell))}") for cell in cells]


def sparse_products(d: ExactDistribution, horizon: int) -> Callable[[], None]:
    """The 2 L sparse matrix-vector products that plain forward-backward pays, on the same matrix."""
    p = d.product
    shape = (p.n_nodes, p.n_nodes)
    indices, indptr = p.target.astype(np.int32), p.indptr.astype(np.int32)
    forward = scipy.sparse.csr_matrix((np.ones(p.n_edges), indices, indptr), shape=shape)
    backward = forward.T.tocsr()
    vector = np.ones(p.n_nodes)

    def run() -> None:
        for _ in range(horizon):
            forward @ vector
        for _ in range(horizon):
            backward @ vector

    return run


def memory_of(d: ExactDistribution) -> float:
    """Megabytes of the product and its messages."""
    p = d.product
    arrays = [p.state, p.depth, p.distance, p.accepting, p.indptr, p.target, p.edge]
    return (sum(a.nbytes for a in arrays) + 8 * float(p.layer_ends.sum()) + 8 * p.n_edges) / 1e6


def headline() -> dict[str, float]:
    """One gradient, samples and build on 20x20, eight moves, horizon 120, ten must-visit cells."""
    horizon = 120
    grid = open_grid(20, horizon)
    rules = must_visit(grid, 10)
    xm.distribution(open_grid(4, 6), must_visit(open_grid(4, 6), 2), None).with_reward(None).sample(2, seed=0)
    build, d = timed(lambda: xm.distribution(grid, rules, None))
    reward = -1 - np.random.default_rng(1).random((grid.n_states, grid.n_actions))
    gradient, _ = timed(lambda: d.with_reward(reward).visits())
    products, _ = timed(sparse_products(d, horizon))
    fitted = d.with_reward(reward)
    fitted.log_partition()
    n = 50_000
    sampling, _ = timed(lambda: len(fitted.sample(n, seed=0)))
    result = {
        "nodes": d.product.n_nodes,
        "edges": d.product.n_edges,
        "build_s": build,
        "gradient_s": gradient,
        "sparse_products_s": products,
        "gradient_over_products": gradient / products,
        "samples_per_s": n / sampling,
    }
    table = Table("20x20, 8 moves, horizon 120, ten must-visit cells", "")
    table.add_row("product nodes, edges", f"{d.product.n_nodes:,}  {d.product.n_edges:,}")
    table.add_row("build", f"{build:.2f} s")
    table.add_row("one gradient, with_reward(r).visits()", f"{gradient:.2f} s")
    table.add_row("2 L sparse matrix-vector products (scipy, same matrix)", f"{products:.2f} s")
    table.add_row("gradient / products", f"{gradient / products:.2f}")
    table.add_row("samples per second, checked", f"{n / sampling:,.0f}")
    console.print(table)
    return result


def large_grid() -> dict[str, float]:
    """300x300, horizon 600, four constraints: one build and one gradient."""
    grid = open_grid(300, 600)
    area = grid.at(*[(x, y) for x in range(100, 200) for y in range(300)])
    rules = [
        xm.visit(grid.at((150, 40))),
        xm.visit(grid.at((40, 150))),
        xm.before(grid.at((150, 40)), grid.at((200, 200))),
        xm.response(grid.at((150, 40)), area, within=3),
    ]
    build, d = timed(lambda: xm.distribution(grid, rules, None), repeats=1)
    gradient, _ = timed(lambda: d.with_reward(np.full((grid.n_states, 8), -2.2)).visits(), repeats=1)
    console.print(
        f"300x300, horizon 600, four constraints: {d.product.n_nodes:,} nodes, {d.product.n_edges:,} edges, "
        f"build {build:.1f} s, gradient {gradient:.1f} s"
    )
    return {"nodes": d.product.n_nodes, "build_s": build, "gradient_s": gradient}


def growth(quick: bool) -> list[dict[str, float | str]]:
    """Time and memory as must-visit cells, the side and the horizon grow."""
    cases: list[tuple[str, int, int, int]] = [("must-visit cells", 20, 120, k) for k in (2, 4, 6, 8, 10, 12)]
    cases += [("side", side, 3 * side, 2) for side in (10, 20, 50, 100, 200, 300)]
    cases += [("horizon", 20, horizon, 6) for horizon in (60, 120, 240, 480, 960)]
    rows: list[dict[str, float | str]] = []
    table = Table("what grows", "side", "horizon", "must visit", "nodes", "build s", "gradient s", "ms / layer", "MB")
    for what, side, horizon, k in cases:
        if quick and (side > 100 or k > 8 or horizon > 480):
            continue
        grid = open_grid(side, horizon)
        build, d = timed(lambda g=grid, n=k: xm.distribution(g, must_visit(g, n), None), repeats=1)
        reward = np.full((grid.n_states, 8), -2.0)
        gradient, _ = timed(lambda d=d, r=reward: d.with_reward(r).visits(), repeats=1)
        row = {
            "what": what,
            "side": side,
            "horizon": horizon,
            "must_visit": k,
            "nodes": d.product.n_nodes,
            "build_s": build,
            "gradient_s": gradient,
            "megabytes": memory_of(d),
        }
        rows.append(row)
        table.add_row(
            what,
            str(side),
            str(horizon),
            str(k),
            f"{d.product.n_nodes:,}",
            f"{build:.2f}",
            f"{gradient:.2f}",
            f"{1000 * gradient / horizon:.2f}",
            f"{memory_of(d):,.0f}",
        )
    console.print(table)
    return rows


IMITATION = """
import json, sys, time
import numpy as np
from imitation.algorithms import mce_irl
from seals import base_envs
side, horizon, repeats = json.loads(sys.argv[1])
n, moves = side * side, [(0, 1), (1, 0), (0, -1), (-1, 0)]
T = np.zeros((n, 4, n))
for s in range(n):
    for a, (dx, dy) in enumerate(moves):
        x, y = s % side + dx, s // side + dy
        T[s, a, y * side + x if 0 <= x < side and 0 <= y < side else s] = 1.0
d0 = np.zeros(n); d0[0] = 1.0
env = base_envs.TabularModelPOMDP(
    transition_matrix=T, observation_matrix=np.eye(n, dtype=np.float32), reward_matrix=np.full(n, -1.0),
    horizon=horizon, initial_state_dist=d0)
times = []
for _ in range(repeats):
    began = time.perf_counter()
    _, _, pi = mce_irl.mce_partition_fh(env, reward=np.full(n, -1.0))
    _, visits = mce_irl.mce_occupancy_measures(env, pi=pi)
    times.append(time.perf_counter() - began)
print(json.dumps({"seconds": min(times), "visits": float(visits.sum())}))
"""


def peer(python: str, side: int = 20, horizon: int = 100) -> dict[str, float]:
    """Soft value iteration and occupancy of `imitation` on the same unconstrained deterministic grid."""
    arguments = json.dumps([side, horizon, 3])
    done = subprocess.run([python, "-c", IMITATION, arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        console.print(f"[red]imitation could not run:[/red] {done.stderr.strip().splitlines()[-1]}")
        return {}
    theirs = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    rows = []
    for s in range(side * side):
        for a, (dx, dy) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
            x, y = s % side + dx, s // side + dy
            inside = 0 <= x < side and 0 <= y < side
            rows.append((s, a, y * side + x if inside else s, 1.0))
    world = xm.MDP(side * side, 4, rows, start=0, horizon=horizon)
    d = xm.distribution(world, None, None)
    ours, _ = timed(lambda: d.with_reward(np.full((side * side, 4), -1.0)).visits(), repeats=5)
    console.print(
        f"{side}x{side}, horizon {horizon}, no constraint: soft values and visits by imitation {theirs * 1e3:.1f} ms, "
        f"by xmen {ours * 1e3:.2f} ms: {theirs / ours:.0f} times faster"
    )
    return {"imitation_s": theirs, "xmen_s": ours, "ratio": theirs / ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest cases")
    parser.add_argument("--imitation", metavar="PYTHON", help="interpreter with `imitation` installed")
    parser.add_argument("--out", type=Path, default=Path("results/exact.json"))
    arguments = parser.parse_args()
    results: dict[str, Any] = {"headline": headline()}
    if not arguments.quick:
        results["large"] = large_grid()
    results["growth"] = growth(arguments.quick)
    if arguments.imitation:
        results["imitation"] = peer(arguments.imitation)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
