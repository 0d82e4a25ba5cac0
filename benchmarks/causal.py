"""Policies under chance: a gradient against XMEN's and against imitation's MCE IRL, and how planning grows.

    python benchmarks/causal.py [--quick] [--imitation PYTHON] [--out results/causal.json]

1. One gradient of CausalXMEN ("sure") against one of XMEN (exact) on the same product: a slippery grid without an end,
   in which every trajectory is valid, so that both have the same edges.
2. One gradient (values, policy, expected visits) of the same unconstrained slippery grid at discount 1 against
   imitation's tabular mce_partition_fh and mce_occupancy_measures, and the largest difference of the two policies.
   imitation pins old versions: make it an environment of its own (python -m venv other; other/bin/pip install
   imitation) and give its interpreter as --imitation. Without one, a dense textbook version stands in, and the table
   says so.
3. Plans on slippery grids with four rules: nodes, edges, and seconds of one processor for two promises.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import logsumexp

import xmen as xm
from xmen.learners.causal import CausalLoss
from xmen.policies.behaviour import Behaviour, make_game

REPEATS = 7
console = Console()


def seconds(work: Callable[[], Any]) -> float:
    """Seconds of one processor, the least of several runs: what the work takes when nothing else disturbs it."""
    work()
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


# --- 1. against XMEN ------------------------------------------------------------------------------------------------


def against_xmen(sides: list[int], horizon: int) -> list[dict[str, Any]]:
    rows = []
    table = Table("side", "edges", "XMEN (ms)", "CausalXMEN (ms)", "ratio", title="one gradient on the same product")
    for side in sides:
        middle = (side // 2, side // 2)
        grid = xm.GridWorld(side, side, start=middle, goal=None, horizon=horizon, slip=0.1)
        reward = 0.3 * np.random.default_rng(0).normal(size=(grid.n_states, grid.n_actions))
        d = xm.distribution(grid, None, None, engine="exact")
        game = make_game(grid, None)
        loss = CausalLoss(game, np.ones(1), np.zeros_like(reward), 1.0, "sure")

        def by_xmen(d: Any = d, reward: Any = reward) -> None:
            present = d.with_reward(reward)
            present.log_partition()
            present.visits()

        theirs, ours = seconds(by_xmen), seconds(lambda loss=loss, reward=reward: loss(reward))
        assert d.sizes()["product edges"] == game.product.n_edges
        rows.append({"side": side, "edges": game.product.n_edges, "xmen": theirs, "causal": ours})
        ratio = f"{ours / theirs:.2f}"
        table.add_row(str(side), f"{game.product.n_edges:,}", f"{1e3 * theirs:.1f}", f"{1e3 * ours:.1f}", ratio)
    console.print(table)
    return rows


# --- 2. against imitation -------------------------------------------------------------------------------------------

IMITATION = """
import json, sys, time, types
import numpy as np
from imitation.algorithms.mce_irl import mce_occupancy_measures, mce_partition_fh
found = np.load(sys.argv[1])
T, start, reward = found["T"], found["start"], found["reward"]
env = types.SimpleNamespace(
    horizon=int(found["horizon"]), transition_matrix=T, initial_state_dist=start, reward_matrix=reward,
    state_dim=T.shape[0], action_dim=T.shape[1],
)
times = []
for _ in range(3):
    begin = time.process_time()
    _, _, pi = mce_partition_fh(env, discount=1.0)
    _, visits = mce_occupancy_measures(env, pi=pi, discount=1.0)
    times.append(time.process_time() - begin)
np.savez(sys.argv[2], pi=pi, visits=visits, seconds=min(times))
"""


def slippery(side: int, horizon: int, slip: float = 0.1) -> tuple[xm.MDP, np.ndarray]:
    """A grid in which every move is possible everywhere (against a wall one stays), and its dense T (S, A, S)."""
    n, moves = side * side, [(0, 1), (1, 0), (0, -1), (-1, 0)]
    dense = np.zeros((n, 4, n))
    for state in range(n):
        x, y = state % side, state // side
        ends = [min(max(x + dx, 0), side - 1) + side * min(max(y + dy, 0), side - 1) for dx, dy in moves]
        for action in range(4):
            for other in range(4):
                dense[state, action, ends[other]] += 1.0 - slip if other == action else slip / 3
    rows = [(s, a, t, dense[s, a, t]) for s, a, t in np.argwhere(dense > 0)]
    return xm.MDP(n, 4, rows, start=0, horizon=horizon), dense


def textbook(dense: np.ndarray, start: np.ndarray, reward: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """The finite-horizon recursions as a textbook has them, with dense matrices."""
    value, policy = np.zeros(len(start)), np.empty((horizon, *dense.shape[:2]))
    for t in range(horizon - 1, -1, -1):
        q = reward[:, None] + dense @ value
        value = logsumexp(q, axis=1)
        policy[t] = np.exp(q - value[:, None])
    here, visits = start.copy(), np.zeros(len(start))
    for t in range(horizon):
        visits += here
        here = np.einsum("s,sa,sat->t", here, policy[t], dense, optimize=True)
    return policy, visits + here


def against_imitation(side: int, horizon: int, python: str | None) -> dict[str, Any]:
    world, dense = slippery(side, horizon)
    reward = np.random.default_rng(1).normal(size=world.n_states)
    table = np.repeat(reward[:, None], 4, axis=1)
    game = make_game(world, None)
    loss = CausalLoss(game, np.ones(1), np.zeros_like(table), 1.0, "sure")
    ours = seconds(lambda: loss(table))
    if python is None:
        name = "a dense textbook version (imitation was not given)"
        theirs = seconds(lambda: textbook(dense, world.start, reward, horizon))
        policy, visits = textbook(dense, world.start, reward, horizon)
    else:
        name = "imitation 1.0"
        with tempfile.TemporaryDirectory() as folder:
            given, answer = Path(folder) / "in.npz", Path(folder) / "out.npz"
            np.savez(given, T=dense, start=world.start, reward=reward, horizon=horizon)
            one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            subprocess.run([python, "-c", IMITATION, str(given), str(answer)], check=True, env=one_thread)
            found = np.load(answer)
            policy, visits, theirs = found["pi"], found["visits"], float(found["seconds"])
    behaviour = Behaviour(game, table, 1.0, "sure")
    apart = 0.0
    for t in range(horizon):
        shares = behaviour.layer(t).shares
        state, action = np.divmod(game.pair[: len(shares)], 4)
        apart = max(apart, float(np.abs(policy[t, state, action] - shares).max()))
    # Both rivals count the state after the last action, too.
    last = np.bincount(game.product.state, weights=behaviour.occupancy(np.ones(1)).here, minlength=world.n_states)
    visits_apart = float(np.abs(loss(table).difference.sum(axis=1) + last - visits).max())
    row = {"side": side, "horizon": horizon, "rival": name, "rival_seconds": theirs, "seconds": ours}
    row |= {"policies_apart": apart, "visits_apart": visits_apart}
    shown = Table("rival", "rival (ms)", "ours (ms)", "times ahead", "policies apart", "visits apart")
    shown.title = f"one gradient, {side}x{side} slippery grid, horizon {horizon}, no rules"
    shown.add_row(
        name, f"{1e3 * theirs:.0f}", f"{1e3 * ours:.1f}", f"{theirs / ours:.0f}", f"{apart:.1e}", f"{visits_apart:.1e}"
    )
    console.print(shown)
    return row


# --- 3. growth ------------------------------------------------------------------------------------------------------


def ruled(side: int, horizon: int) -> tuple[xm.GridWorld, xm.Constraint]:
    """A slippery grid with four rules: fetch a key, before the door, no lava, no long runs."""
    grid = xm.GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), horizon=horizon, slip=0.1)
    key = grid.at((side // 3, side // 2), (side // 2, side // 3))
    door = grid.at((2 * side // 3, 2 * side // 3))
    lava = grid.at(*[(side // 2, y) for y in range(side // 4)])
    rules = [
        xm.visit(key).named("fetch a key"),
        xm.before(key, door).named("the key before the door"),
        xm.never(lava).named("no lava"),
        (xm.longest_repeat() <= 4).named("no long runs"),
    ]
    return grid, rules[0] & rules[1] & rules[2] & rules[3]


def growth(sizes: list[tuple[int, int]]) -> list[dict[str, Any]]:
    rows = []
    table = Table("side", "horizon", "nodes", "edges", "best (s)", "p = 0.5 (s)", "best validity", title="plans")
    for side, horizon in sizes:
        grid, rules = ruled(side, horizon)
        reward = np.full((grid.n_states, grid.n_actions), -0.1)
        begin = time.process_time()
        best = xm.plan(grid, rules, reward, "best")
        middle = time.process_time()
        xm.plan(grid, rules, reward, 0.5)
        end = time.process_time()
        product = best.behaviour.game.product
        row = {"side": side, "horizon": horizon, "nodes": product.n_nodes, "edges": product.n_edges}
        row |= {"best": middle - begin, "p": end - middle, "validity": best.validity}
        rows.append(row)
        table.add_row(
            str(side), str(horizon), f"{row['nodes']:,}", f"{row['edges']:,}", f"{row['best']:.2f}", f"{row['p']:.2f}",
            f"{row['validity']:.6f}",
        )  # fmt: skip
    console.print(table)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller grids")
    parser.add_argument("--imitation", metavar="PYTHON", help="the interpreter of an environment with imitation")
    parser.add_argument("--out", type=Path, default=Path("results/causal.json"))
    given = parser.parse_args()
    xm.plan(*ruled(6, 20), None, 0.1)  # everything is compiled before anything is measured
    results = {
        "against_xmen": against_xmen([30, 60] if given.quick else [30, 60, 100], 100),
        "against_imitation": against_imitation(15 if given.quick else 30, 100, given.imitation),
        "growth": growth([(10, 40), (20, 70)] if given.quick else [(10, 40), (20, 70), (30, 100), (45, 150)]),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {given.out}")


if __name__ == "__main__":
    main()
