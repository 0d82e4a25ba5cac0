"""Tasks of "no state twice" whose optimum is known by listing every way; nothing here uses xmen's engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import xmen as xm
from reference import enumerate_trajectories

RULE = xm.no_revisit().named("no state twice")
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))


@dataclass
class Listed:
    """A world or a network, its features, demonstrations, and what can be listed.

    ways: for each part of the loss its share, f (n, d) and log D (n,) of every valid trajectory. relaxed(theta): the
    mean log of the weight of all trajectories, valid or not; inf where it is infinite.
    """

    world: Any
    features: np.ndarray
    demos: list
    l2: float
    ways: list
    mean: np.ndarray
    relaxed: Any

    def log_partition(self, theta: np.ndarray) -> float:
        return sum(share * logsumexp(rows @ theta + dynamics) for share, rows, dynamics in self.ways)

    def loss(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = -theta @ self.mean + 0.5 * self.l2 * theta @ theta, self.l2 * theta - self.mean
        for share, rows, dynamics in self.ways:
            logs = rows @ theta + dynamics
            log_z = logsumexp(logs)
            value, slope = value + share * log_z, slope + share * np.exp(logs - log_z) @ rows
        return float(value), slope

    def optimum(self) -> tuple[float, np.ndarray]:
        """The least loss, and its weights."""
        found = minimize(self.loss, -np.ones(len(self.mean)), jac=True, method="BFGS", options={"gtol": 1e-9})
        return float(found.fun), found.x

    def breaking(self, theta: np.ndarray) -> float:
        """The share of relaxed draws that break the rule, as the mean of its log has it."""
        return float(-np.expm1(self.log_partition(theta) - self.relaxed(theta)))

    def fit(self, seed: int, **settings: Any) -> xm.XMEN:
        model = xm.XMEN(self.world, RULE, features=self.features, l2=self.l2, method="reject", seed=seed, **settings)
        return model.fit(self.demos)


def _row(features: np.ndarray, states: tuple, actions: tuple) -> np.ndarray:
    return features[list(states[: len(actions)]), list(actions)].sum(axis=0)


def network_task(number: int, length: float, n_pairs: int = 3, n_demos: int = 90, size: int = 3) -> Listed:
    """Trips over a square of streets both ways; every move costs about `length`, so that cycles are rare or not."""
    rng = np.random.default_rng([number, 83])
    cell = {(x, y): size * y + x for x in range(size) for y in range(size)}
    arcs = [
        (cell[x, y], action, cell[x + dx, y + dy])
        for x, y in cell
        for action, (dx, dy) in enumerate(STEPS)
        if (x + dx, y + dy) in cell
    ]
    n = size * size
    network = xm.Network(n, 4, [(*arc, 1.0) for arc in arcs])
    features = np.stack([np.ones((n, 4)), *rng.uniform(0.0, 1.0, (2, n, 4))], axis=2)
    taste = np.array([-length, *rng.normal(-0.3, 0.3, 2)])
    leaving = {s: [(a, t) for source, a, t in arcs if source == s] for s in range(n)}

    def paths(states: tuple, actions: tuple, goal: int):
        if states[-1] == goal:
            yield states, actions
            return
        for action, target in leaving[states[-1]]:
            if target not in states:
                yield from paths((*states, target), (*actions, action), goal)

    pairs = [tuple(map(int, rng.choice(n, 2, replace=False))) for _ in range(n_pairs)]
    counts = rng.multinomial(n_demos - n_pairs, np.full(n_pairs, 1 / n_pairs)) + 1
    ways, demos, goals = [], [], []
    for (start, goal), count in zip(pairs, counts, strict=True):
        listed = list(paths((start,), (), goal))
        rows = np.array([_row(features, *one) for one in listed])
        p = np.exp(rows @ taste - logsumexp(rows @ taste))
        demos += [xm.Trajectory(*listed[k]) for k in rng.choice(len(p), count, p=p)]
        ways.append((count / n_demos, rows, np.zeros(len(rows))))
        goals.append((start, goal, count / n_demos))

    def relaxed(theta: np.ndarray) -> float:
        total = 0.0
        for start, goal, share in goals:
            matrix = np.zeros((n, n))
            for s, a, t in arcs:
                matrix[s, t] += np.exp(features[s, a] @ theta) if s != goal else 0.0
            if np.abs(np.linalg.eigvals(matrix)).max() >= 1.0:
                return np.inf
            total += share * np.log(np.linalg.inv(np.eye(n) - matrix)[start, goal])
        return total

    mean = np.mean([_row(features, tau.states, tau.actions) for tau in demos], axis=0)
    return Listed(network, features, demos, 10.0 ** rng.uniform(-3.5, -2.0), ways, mean, relaxed)


def grid_task(number: int, length: float, n_demos: int = 90) -> Listed:
    """Ways across a grid in at most eight moves."""
    rng = np.random.default_rng([number, 84])
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=8)
    n, k = grid.n_states, grid.n_actions
    features = np.stack([np.ones((n, k)), *rng.uniform(0.0, 1.0, (2, n, k))], axis=2)
    taste = np.array([-length, *rng.normal(-0.3, 0.3, 2)])
    every = list(enumerate_trajectories(grid))
    rows, dynamics = np.array([_row(features, *one[:2]) for one in every]), np.log([one[2] for one in every])
    valid = np.array([len({*states}) == len(states) for states, _, _ in every])
    logs = np.where(valid, rows @ taste + dynamics, -np.inf)
    chosen = rng.choice(len(every), n_demos, p=np.exp(logs - logsumexp(logs)))
    demos = [xm.Trajectory(*every[i][:2]) for i in chosen]
    ways = [(1.0, rows[valid], dynamics[valid])]
    mean, l2 = rows[chosen].mean(axis=0), 10.0 ** rng.uniform(-3.5, -2.0)
    return Listed(grid, features, demos, l2, ways, mean, lambda theta: logsumexp(rows @ theta + dynamics))
