"""Small learning tasks whose optimum is known by listing all valid trajectories; nothing here uses xmen's engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import xmen as xm
from reference import enumerate_trajectories, holds, positions
from strategies import random_formula, random_world


@dataclass
class Task:
    """A world, a rule in both spellings, features, and demonstrations with weights."""

    world: Any
    description: tuple
    constraint: Any
    features: np.ndarray
    discount: float
    demos: list
    weights: np.ndarray
    valid: list
    log_dynamics: np.ndarray

    def rows(self, trajectories: list) -> np.ndarray:
        """f(tau) of each, (n, d)."""
        out = np.zeros((len(trajectories), self.features.shape[2]))
        for row, (states, actions) in zip(out, trajectories, strict=True):
            for t, (s, a) in enumerate(zip(states, actions, strict=False)):
                row += self.discount**t * self.features[s, a]
        return out

    @property
    def demo_features(self) -> np.ndarray:
        weights = self.weights / self.weights.sum()
        return weights @ self.rows([(tau.states, tau.actions) for tau in self.demos])

    def loss(self, theta: np.ndarray, l2: float = 0.0) -> float:
        """-theta . mean f + log sum exp(theta . f + log D) + l2/2 |theta|^2 over the list."""
        log_z = logsumexp(self.rows(self.valid) @ theta + self.log_dynamics)
        return float(log_z - theta @ self.demo_features + 0.5 * l2 * theta @ theta)

    def optimum(self, l2: float = 0.0) -> tuple[float, np.ndarray]:
        """The least loss and its weights, by Newton's method in a trust region on the listed sum."""
        rows, mean = self.rows(self.valid), self.demo_features

        def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
            logs = rows @ theta + self.log_dynamics
            p = np.exp(logs - logsumexp(logs))
            return logsumexp(logs) - theta @ mean + 0.5 * l2 * theta @ theta, p @ rows - mean + l2 * theta

        def hessian(theta: np.ndarray) -> np.ndarray:
            logs = rows @ theta + self.log_dynamics
            p = np.exp(logs - logsumexp(logs))
            centred = rows - p @ rows
            return centred.T @ (centred * p[:, None]) + l2 * np.eye(len(theta))

        found = minimize(
            value, np.zeros(len(mean)), jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-10}
        )
        return float(found.fun), found.x


def small_task(seed: int, spellable: bool = False, least_valid: int = 3) -> Task:
    """A random small task. Every valid trajectory is demonstrated, so that the optimum is finite."""
    rng = np.random.default_rng([seed, 4])
    while True:
        world = random_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, 2, spellable)
        listed = [
            (states, actions, dynamics)
            for states, actions, dynamics in enumerate_trajectories(world)
            if holds(description, positions(states, actions))
        ]
        if least_valid <= len(listed) <= 3000:
            break
    valid = [(states, actions) for states, actions, _ in listed]
    return Task(
        world,
        description,
        constraint,
        rng.normal(size=(world.n_states, world.n_actions, int(rng.integers(1, 4)))),
        float(rng.choice([1.0, 0.9])),
        [xm.Trajectory(*tau) for tau in valid],
        rng.gamma(0.7, size=len(valid)) + 0.01,
        valid,
        np.log([dynamics for *_, dynamics in listed]),
    )


def slopes(function: Callable[[np.ndarray], Any], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The derivative along every axis, by central differences: row k is that by the k-th number."""
    return np.array([(function(at + unit) - function(at - unit)) / (2 * step) for unit in step * np.eye(len(at))])


def grid_task(size: int = 6, n_demos: int = 60, seed: int = 0) -> tuple[Any, Any, np.ndarray, list]:
    """A grid with a memory-bound rule, four features, and demonstrations of a known taste."""
    grid = xm.GridWorld(size, size, start=(0, 0), goal=(size - 1, size - 1), moves=("up", "right", "up-right"))
    key = xm.visit(grid.at((1, 3), (3, 1))).named("fetch a key")
    rule = key & (xm.longest_repeat() <= 3).named("no long runs")
    rng = np.random.default_rng([seed, 5])
    features = rng.normal(size=(grid.n_states, grid.n_actions, 4))
    taste = rng.normal(size=4)
    demos = xm.distribution(grid, rule, features @ taste, seed=seed).sample(n_demos)
    return grid, rule, features, demos


def errands_task(n_demos: int) -> tuple[Any, Any, np.ndarray, list]:
    """A grid with moves in all directions, a place to call at and one to avoid, and demonstrations of a known taste."""
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "down", "left"), horizon=14)
    rules = xm.visit(grid.at((1, 3))) & (xm.count(grid.at((2, 2), (3, 3))) <= 1)
    features = np.random.default_rng(0).normal(size=(grid.n_states, grid.n_actions, 3))
    return grid, rules, features, xm.distribution(grid, rules, features @ [0.8, -0.5, 0.3], seed=0).sample(n_demos)
