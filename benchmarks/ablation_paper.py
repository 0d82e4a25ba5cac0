"""What each device of Algorithm 1 saves: iterations, or solver calls, to 0.05 nats of the optimum without it.

    python benchmarks/ablation_paper.py [--tasks 48] [--most 1000] [--paws]

On small grids with a rule, whose trajectories are listed: a quarter each with features of their own kind, with nearly
equal ones, with chance, and with one feature per state. After k iterations the answer is the mean of the last half of
them, as a run of max_iter = k has it; a run that does not arrive counts with `most`. A device stays where leaving it
out costs more than 1.3 times as much (geometric mean of the ratios). Iterations are counted with draws from the list
itself, which PAWS is within delta of; --paws draws by PAWS, and counts solver calls.

Found: plain steps of 1 / smoothness cost 2.85 times the iterations (44 tasks, most = 500; 2.2 to 4.1 by kind).
Devices that did not pay, and are gone: a basis in which trajectories reach about as far in all directions (1.13 and
1.21 times, 24 tasks; it saved 1.6 times while steps were plain); the demonstrations' covariance as a basis (1.27, 1.30
and 1.33 times on 44, 60 and 48 tasks); and in PAWS numbered in the place of thinned copies (1.05 times the solver
calls, 45 tasks).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import xmen as xm
from xmen.methods import paper
from xmen.methods.demonstrations import gather
from xmen.methods.runs import FitSettings, Task
from xmen.rewards.linear import DenseFeatures

NEAR = 0.05  # nats from the optimum
KINDS = ("of their own kind", "nearly equal", "with chance", "one per state")


def make_task(seed: int) -> tuple[Task, Any]:
    """A 4x4 or 5x5 grid, a rule, features and 200 demonstrations of a taste; and its hashed world."""
    rng, kind = np.random.default_rng([seed, 25]), KINDS[seed % 4]
    size, slip = 4 + seed // 4 % 2, 0.2 if kind == "with chance" else 0.0
    moves = ("up", "right") if slip else ("up", "right", "up-right")
    limits: dict[str, Any] = {"horizon": 2 * size} if slip else {}
    grid = xm.GridWorld(size, size, start=(0, 0), goal=(size - 1, size - 1), moves=moves, slip=slip, **limits)
    rule = xm.visit(grid.at((1, 2), (2, 1)))
    features = rng.normal(size=(grid.n_states, grid.n_actions, int(rng.integers(2, 7))))
    if kind == "nearly equal":  # each is the first with something of its own
        features[:, :, 1:] = features[:, :, :1] + 0.2 * features[:, :, 1:]
    if kind == "one per state":
        features = np.repeat(np.eye(grid.n_states)[:, None], grid.n_actions, axis=1)
    taste = rng.normal(size=features.shape[2]) * (2.0 if kind == "nearly equal" else 0.7)
    demos = xm.distribution(grid, rule, features @ taste, seed=seed).sample(200)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    return Task(gather(grid, rule, demos), DenseFeatures(features), rule), base


class FromTheList(paper.Proposal):
    """A proposal that draws from the list itself."""

    def draw(self, weights: Any, shift: Any, beta: float, n: int, *given: Any, **named: Any) -> paper.Pool:
        rng, dynamics = given[2], self.log_dynamics(self.hashed.walks)
        logs = self.listed_features @ (weights + shift) + beta * dynamics
        drawn = rng.choice(len(logs), size=n, p=np.exp(logs - logsumexp(logs)))
        rows, dynamics = self.listed_features[drawn], dynamics[drawn]
        spent, none = paper.Info(), paper.Certificate(0.0, np.zeros(0), np.zeros(0))
        log_weights = (1.0 - beta) * dynamics - rows @ shift
        return paper.Pool(self.hashed.walks, rows, dynamics, log_weights, 0, 0.0, spent, spent, none)


class Plain(paper.PaperRun):
    """A run with one plain step for all iterations, in units of the spans."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.plain = True


DEVICES: dict[str, Callable[[], Any]] = {
    "as it is": nullcontext,
    "plain steps": lambda: patch.object(paper, "PaperRun", Plain),
    "without certificates": lambda: patch.object(paper, "PATIENCE", -math.inf),  # seen with --paws alone
}


def cost(task: Task, base: Any, seed: int, most: int) -> tuple[int, float]:
    """Iterations and solver calls until the mean of the last half of the iterates is near the optimum."""
    run = paper.PaperRun(task, xm.Paper(), FitSettings(max_iter=most, seed=seed), base)
    rows = run.proposal.listed_features / run.bounds.span
    log_dynamics, mean = run.proposal.log_dynamics(base.hashed.walks), run.centre / run.bounds.span

    def loss(theta: Any) -> tuple[float, Any]:
        logs = rows @ theta + log_dynamics
        return float(logsumexp(logs) - theta @ mean), np.exp(logs - logsumexp(logs)) @ rows - mean

    best = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="BFGS").fun
    state, calls, iterates = run.start(), 0.0, []
    for k in range(1, most + 1):
        state, record = run.step(state)
        calls += record["queries"]
        iterates.append(state.weights)
        if loss(np.mean(iterates[k // 2 :], axis=0))[0] - best < NEAR:
            break
    return k, calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=48)
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--paws", action="store_true")
    options = parser.parse_args()
    drawn_by = paper.Proposal if options.paws else FromTheList
    logs = np.zeros((options.tasks, len(DEVICES)))
    for seed in range(options.tasks):
        task, base = make_task(seed)
        for column, device in enumerate(DEVICES.values()):
            with device(), patch.object(paper, "Proposal", drawn_by):
                logs[seed, column] = math.log(cost(task, base, seed, options.most)[int(options.paws)])
    for column, name in enumerate(DEVICES):
        ratios = logs[:, column] - logs[:, 0]
        by_kind = ", ".join(f"{math.exp(ratios[i::4].mean()):.2f} {kind}" for i, kind in enumerate(KINDS))
        median, times = math.exp(np.median(logs[:, column])), math.exp(ratios.mean())
        print(f"{name}: median {median:.0f}, {times:.2f} times ({by_kind})")


if __name__ == "__main__":
    main()
