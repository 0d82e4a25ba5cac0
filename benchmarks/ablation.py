"""What each device of learning by rounds is worth: the same fits with all of them, and without one at a time.

    python benchmarks/ablation.py [--tasks 40]

A device stays where leaving it out costs more than 1.3 times the draws, or the bound's coverage. Draws are the
solutions of cells or the valid draws of rejection that a fit reads, as the mean over tasks of their ratio to those of
the fit with all devices (a geometric mean). Covered: the exact distance from the optimum is at most the stated bound,
which is finite. Near: it is at most tol. Every task is fresh: no constant was chosen on it.

Over 42 tasks for cells (features, sharp, states) and 28 for rejection (worlds, networks), draws and coverage:

    left out                          cells                                   rejection
    nothing                           1.00, 100 %                             1.00, 100 %
    doubt                             1.06, 95 % (sharp: 1.17, 86 %)
    restraint by halves               0.98, 100 %
    tilts by half of the weights      1.06, 100 % (sharp: 1.19)               dropped
    tilts except in last rounds       1.53, 98 % (sharp: 2.82)
    thinning of batches               1.00, 100 %                             1.00, 100 %: dropped
    shares by size, not by number     1.17, 98 % (sharp: 1.38)                0.96, 100 %
    the newest batch's lift           1.00, 100 %                             1.00, 100 %: dropped
    the second minimisation           1.07, 93 % (sharp: 1.16, 79 %)          0.96, 100 %
    control variate                                                           1.04, 100 % (networks: 1.08)
    the best b: 1 instead                                                     2.48, 100 %

By these means the restraint would go. It stays for its tails where the optimum is at infinity: without it and what was
dropped, 17 tasks of `unvisited` take 1.11 times the draws, all covered; 16 more like them 1.09 as a geometric mean, but
2.7 times in all (106,868 solutions in one round), with 15 covered against 13. Shares by size: without them, restraint
and what was dropped, 68 tasks take 1.22 times the draws, 1.65 in all, with 97 % covered. The control variate is not
decided by networks this small (tol = 0.001, 33 tasks: 1.01).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

import xmen as xm
from xmen.methods.loss import DrawnLoss

console = Console(width=120)
MOVES = ("up", "right", "up-right")
NO_RETURN = xm.no_revisit().named("no state twice")


Task = namedtuple("Task", "world rules features demos rounds")  # a problem, and the settings of rounds that learn it


def grid_of_keys(side: int) -> tuple[Any, Any]:
    grid = xm.GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), moves=MOVES)
    return grid, xm.visit(grid.at((1, 3), (3, 1))).named("fetch a key") & (xm.longest_repeat() <= 3).named("short runs")


CELLS = {"l2": 0.0, "method": xm.Cells(n_cells=8, cell_size=48.0), "oracle": "listed", "engine": "exact"}
REJECT = {"l2": 1e-3, "method": "reject", "tol": 0.005}


def features_task(number: int, spread: float = 0.3) -> Task:
    """Four random features of a 7x7 grid, with weights of this spread."""
    grid, rules = grid_of_keys(7)
    rng = np.random.default_rng([number, 2501])
    features = rng.normal(size=(grid.n_states, grid.n_actions, 4))
    demos = xm.distribution(grid, rules, features @ rng.normal(scale=spread, size=4), seed=number).sample(60)
    return Task(grid, rules, features, demos, CELLS | {"tol": 0.01})


def sharp_task(number: int) -> Task:
    """Weights so large that a few trajectories have most of the probability."""
    return features_task(number + 1000, 1.0)


def states_task(number: int, kind: int = 2502, side: int = 7, n_demos: int = 100, **settings: Any) -> Task:
    """One weight per state."""
    grid, rules = grid_of_keys(side)
    taste = np.random.default_rng([number, kind]).normal(scale=0.4, size=(grid.n_states, 1))
    demos = xm.distribution(grid, rules, np.repeat(taste, grid.n_actions, axis=1), seed=number).sample(n_demos)
    return Task(grid, rules, None, demos, CELLS | {"tol": 0.02} | settings)


def unvisited_task(number: int) -> Task:
    """Twenty demonstrations: the optimum is at infinity, and draws are few."""
    return states_task(number, 2505, 8, 20, method=xm.Cells(n_cells=4, cell_size=64.0), tol=0.05)


def world_task(number: int) -> Task:
    """No state twice in at most eight moves across a small grid, by rejection."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=8)
    rng = np.random.default_rng([number, 2503])
    features = np.stack([np.ones((9, grid.n_actions)), *rng.uniform(size=(2, 9, grid.n_actions))], axis=2)
    taste = np.array([-rng.uniform(0.5, 2.5), *rng.normal(-0.3, 0.3, 2)])
    demos = xm.distribution(grid, NO_RETURN, features @ taste, seed=number).sample(90)
    return Task(grid, NO_RETURN, features, demos, REJECT | {"max_nodes": 100})


def network_task(number: int) -> Task:
    """No node twice on a small network of streets both ways, three pairs of a start and a goal, by rejection."""
    rng, cells = np.random.default_rng([number, 2504]), [(x, y) for x in range(3) for y in range(3)]
    steps = enumerate(((0, 1), (1, 0), (0, -1), (-1, 0)))
    arcs = [
        (3 * y + x, action, 3 * (y + dy) + x + dx, 1.0)
        for action, (dx, dy) in steps
        for x, y in cells
        if (x + dx, y + dy) in cells
    ]
    network = xm.Network(9, 4, arcs)
    features = np.stack([np.ones((9, 4)), *rng.uniform(size=(2, 9, 4))], axis=2)
    reward = features @ np.array([-rng.uniform(1.5, 3.0), *rng.normal(-0.3, 0.3, 2)])
    demos: list[Any] = []
    for pair in range(3):
        start, goal = map(int, rng.choice(9, 2, replace=False))
        demos += xm.distribution(network.task(start, goal), NO_RETURN, reward, seed=pair).sample(30)
    return Task(network, NO_RETURN, features, demos, REJECT | {"max_nodes": 9})


BY_CELLS: dict[str, Callable[[int], Task]] = {
    "features": features_task,
    "sharp": sharp_task,
    "states": states_task,
    "unvisited": unvisited_task,
}
KINDS = BY_CELLS | {"worlds": world_task, "networks": network_task}


def share_by_number(loss: DrawnLoss, weights: np.ndarray) -> DrawnLoss:
    """Shares of batches in proportion to their draws, whatever these are worth."""
    exact, part = loss.draws.noise == 0.0, loss.draws.part
    counts = np.add.reduceat(np.where(loss.draws.known, 0.0, 1.0), loss.draws.begins)
    sizes = np.where(np.isin(part, part[exact]), exact, counts)
    return replace(loss, given_shares=loss._shared(sizes))


ROUNDS, CELL = "xmen.methods.rounds.", "xmen.methods.cells."
CELL_DEVICES: dict[str, dict[str, Any]] = {
    "all": {},
    "no doubt": {f"{ROUNDS}doubts": lambda loss, weights: np.zeros(len(loss.draws))},
    "no restraint": {f"{ROUNDS}Descent.restraint": lambda self, loss, weights: (0.0, weights)},
    "copies in last rounds alone": {f"{CELL}LEAST_GAIN": np.inf},
    "shares by number": {"xmen.methods.loss.DrawnLoss.shared": share_by_number},
}
REJECTION_DEVICES: dict[str, dict[str, Any]] = {
    "all": {},
    "no control variate": {"xmen.methods.reject.ENOUGH_VALID": np.inf},
    "b = 1": {"xmen.methods.reject.controlled": lambda draws, features, parts: draws},
    "shares by number": CELL_DEVICES["shares by number"],
}


DEVICES = {True: CELL_DEVICES, False: REJECTION_DEVICES}  # by whether cells learn


def fit(task: Task, **settings: Any) -> xm.XMEN:
    return xm.XMEN(task.world, task.rules, task.features, **{"l2": task.rounds["l2"]} | settings).fit(task.demos)


def loss(task: Task, model: xm.XMEN) -> float:
    """The exact loss of a model's weights."""
    exact = model
    if task.rounds["method"] == "reject":
        exact = fit(task, max_iter=1)
        exact.reward_ = model.reward_
    return 0.5 * task.rounds["l2"] * float(np.sum(model.weights_**2)) - exact.score(task.demos)


def compare(kind: str, number: int, devices: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One task, fitted without each of these: what was read, how far it ended, and what it says of that."""
    task = KINDS[kind](number)
    best = loss(task, fit(task))
    for name, changed in devices.items():
        began = time.process_time()
        with ExitStack() as patches:
            for target, value in changed.items():
                patches.enter_context(patch(target, value))
            model = fit(task, seed=7000 + number, **task.rounds)
        seconds = time.process_time() - began
        read = [record.details["solutions"] for record in model.history_ if "solutions" in record.details]
        stated = {"bound": model.distance_bound_, "tol": task.rounds["tol"], "gap": loss(task, model) - best}
        spent = {"draws": sum(read), "rounds": len(read), "seconds": seconds}
        yield {"device": name, **spent, **stated}


def show(kind: str, devices: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    table = Table("left out", "draws", "of all", "rounds", "covered", "near", "seconds", title=f"{kind}: means of fits")
    own = {name: [row for row in rows if row["device"] == name] for name in devices}
    for name, some in own.items():
        draws, gap, bound, tol = (np.array([row[key] for row in some]) for key in ("draws", "gap", "bound", "tol"))
        ratio = np.exp(np.mean(np.log(draws / [row["draws"] for row in own["all"]])))
        covered, near = np.mean((gap <= bound) & np.isfinite(bound)), np.mean(gap <= tol)
        rounds, seconds = (np.mean([row[key] for row in some]) for key in ("rounds", "seconds"))
        numbers = (f"{draws.mean():,.0f}", f"{ratio:.2f}", f"{rounds:.1f}", f"{covered:.0%}", f"{near:.0%}")
        table.add_row(name, *numbers, f"{seconds:.2f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=40, help="of each kind")
    parser.add_argument("--kinds", nargs="*", default=[*KINDS], choices=[*KINDS])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in given.kinds:
        devices = DEVICES[kind in BY_CELLS]
        show(kind, devices, [row for number in range(given.tasks) for row in compare(kind, number, devices)])


if __name__ == "__main__":
    main()
