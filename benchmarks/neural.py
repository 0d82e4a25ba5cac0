"""Seconds per 100 training steps of a neural reward on a 50x50 grid with five constraints.

    python benchmarks/neural.py [--steps 10] [--out results/neural.json]

Two networks: a perceptron on state-action inputs, and convolutions over maps. Each is compared with what the engine
alone needs for the same gradients, measured in the same run. The target is 60 seconds per 100 steps on two cores.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import xmen as xm
from xmen import ConvReward, NeuralReward, fit_neural

SIDE = 50
HORIZON = 150
console = Console()


def task() -> tuple[xm.GridWorld, list[xm.Constraint]]:
    """A walk of at most 150 moves from corner to corner, under five rules that need memory."""
    grid = xm.GridWorld(SIDE, SIDE, start=(0, 0), goal=(SIDE - 1, SIDE - 1), horizon=HORIZON)
    well, mill, shop = grid.at((10, 25), (12, 30)), grid.at((25, 40), (30, 35)), grid.at((40, 15), (42, 30))
    swamp = grid.at(*[(x, y) for x in range(15, 35) for y in range(15, 35)])
    shade = grid.at(*[(x, y) for x in range(SIDE) for y in range(SIDE) if (x + y) % 3 == 0])
    rules = [
        xm.visit(well),
        xm.visit(mill),
        xm.visit(shop),
        xm.count(swamp) <= 5,
        xm.longest_run(~shade) <= 4,
    ]
    return grid, rules


def networks(grid: xm.GridWorld, maps: np.ndarray) -> dict[str, NeuralReward]:
    """A perceptron on what each cell and move look like, and convolutions on the maps themselves."""
    looks = maps.reshape(len(maps), -1).T
    moves = np.broadcast_to(np.eye(grid.n_actions), (grid.n_states, grid.n_actions, grid.n_actions))
    inputs = np.concatenate([np.repeat(looks[:, None], grid.n_actions, axis=1), moves], axis=2)
    torch.manual_seed(0)
    perceptron = torch.nn.Sequential(
        torch.nn.Linear(inputs.shape[2], 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 1),
    )
    return {
        "perceptron, 64 and 64 units": NeuralReward(perceptron, inputs),
        "convolutions, 16 and 16 channels": ConvReward(grid, maps, channels=(16, 16), seed=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/neural.json"))
    arguments = parser.parse_args()

    grid, rules = task()
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(4, SIDE, SIDE))
    truth = np.repeat((-1.0 + 0.5 * maps[0].ravel())[:, None], grid.n_actions, axis=1)
    began = time.perf_counter()
    d = xm.distribution(grid, rules, truth, engine="exact")
    demos = d.sample(200, seed=0)
    build = time.perf_counter() - began
    gradients = []
    for scale in np.linspace(0.5, 1.0, 10):
        began = time.perf_counter()
        present = d.with_reward(scale * truth)
        present.log_partition(), present.visits()
        gradients.append(time.perf_counter() - began)
    alone = 100 * float(np.median(gradients))

    table = Table("network", "s per 100 steps", "engine alone", "ratio", "loss before, after")
    results: dict[str, object] = {"nodes": d.product.n_nodes, "edges": d.product.n_edges, "engine_s_per_100": alone}
    for name, reward in networks(grid, maps).items():
        history = fit_neural(grid, rules, reward, demos, n_steps=arguments.steps + 1, seed=0)
        steps = np.diff([record.seconds for record in history])  # the first step also loads and warms up
        per_100 = 100 * float(np.median(steps))
        results[name] = per_100
        table.add_row(
            name,
            f"{per_100:.1f}",
            f"{alone:.1f}",
            f"{per_100 / alone:.2f}",
            f"{history[0].loss:.1f}, {history[-1].loss:.1f}",
        )
    console.print(
        f"{SIDE}x{SIDE}, horizon {HORIZON}, {len(rules)} constraints: {d.product.n_nodes:,} nodes, "
        f"{d.product.n_edges:,} edges, built with 200 samples in {build:.1f} s"
    )
    console.print(table)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
