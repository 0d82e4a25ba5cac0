"""The small problems on which the theorems are checked, with the truth: every valid trajectory is listed.

Features are in the units of Algorithm 1 here: each spans 1 over the valid trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import xmen as xm
from xmen.engines.xor import XorDistribution
from xmen.methods.proposal import Proposal
from xmen.rewards import Floats
from xmen.rewards.linear import DenseFeatures


@dataclass(frozen=True)
class ListedProblem:
    """A world, its rule, features (n_states, n_actions, d) and demonstrations, with all valid trajectories listed."""

    name: str
    world: xm.GridWorld
    rule: Any
    features: Floats
    demos: list[xm.Trajectory]
    weights: tuple[float, ...] = ()  # the demonstrator's, in the user's units

    @cached_property
    def base(self) -> XorDistribution:
        """The distribution that PAWS draws from, behind the listed oracle."""
        listed = xm.distribution(self.world, self.rule, None, engine="xor", oracle="listed")
        return listed  # type: ignore[return-value]

    @cached_property
    def truth(self) -> Truth:
        """The exact answers, by enumeration."""
        return Truth.of(Proposal(self.base, DenseFeatures(self.features)), self)


@dataclass(frozen=True)
class Truth:
    """All N valid trajectories: f(tau) (N, d) in units of the spans (d,), and log D (N,).

    `demo_mean` is the demonstrations' mean of f (d,).
    """

    rows: Floats
    log_dynamics: Floats
    demo_mean: Floats
    span: Floats

    @classmethod
    def of(cls, proposal: Proposal, problem: ListedProblem) -> Truth:
        """Read off the list behind a proposal."""
        rows, walks = proposal.listed_features, proposal.hashed.walks
        if rows is None or walks is None:
            raise xm.EngineError(f"the trajectories of the {problem.name} are too many to be listed")
        span = np.ptp(rows, axis=0)
        mean = np.mean([_features_of(tau, problem.features) for tau in problem.demos], axis=0)
        return cls(rows / span, proposal.log_dynamics(walks), mean / span, span)

    def loss(self, theta: Floats) -> float:
        """L(theta) = log Z - theta . mean f of the demonstrations, in nats."""
        return float(logsumexp(self.rows @ theta + self.log_dynamics) - theta @ self.demo_mean)

    def probabilities(self, theta: Floats) -> Floats:
        """P(tau) of every valid trajectory (N,)."""
        scores = self.rows @ theta + self.log_dynamics
        weights = np.exp(scores - scores.max())
        p: Floats = weights / weights.sum()
        return p

    @cached_property
    def best(self) -> Floats:
        """theta*, where L is smallest (d,)."""

        def gradient(theta: Floats) -> Floats:
            slope: Floats = self.probabilities(theta) @ self.rows - self.demo_mean
            return slope

        found: Floats = minimize(self.loss, np.zeros(self.rows.shape[1]), jac=gradient, tol=1e-12).x
        return found

    def gap(self, theta: Floats) -> float:
        """L(theta) - L*, in nats."""
        return self.loss(theta) - self._least

    @cached_property
    def _least(self) -> float:
        return self.loss(self.best)

    def absolute_features(self, theta: Floats) -> Floats:
        """E_P|f| of each feature (d,)."""
        size: Floats = self.probabilities(theta) @ np.abs(self.rows)
        return size


def straight(seed: int = 0) -> ListedProblem:
    """A deterministic 5x5 grid: exactly one of two keys, at most three equal moves in a row.

    The features are whether the upper key is taken, and the number of diagonal moves.
    """
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "up-right"))
    upper, lower = (1, 3), (3, 1)
    keys = xm.exactly(1, xm.visit(grid.at(upper)), xm.visit(grid.at(lower)))
    features = np.zeros((grid.n_states, grid.n_actions, 2))
    features[grid.state(upper), :, 0] = 1.0
    features[:, grid.moves.index("up-right"), 1] = 1.0
    return _with_demos("5x5 grid", grid, keys & (xm.longest_repeat() <= 3), features, (2.0, -0.5), seed)


def slippery(seed: int = 0) -> ListedProblem:
    """A 3x3 grid where one move in five slips and the middle has to be passed, on the shortest way.

    The features are the number of moves up, and whether cell (0, 1) is passed.
    """
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=4, slip=0.2)
    features = np.zeros((grid.n_states, grid.n_actions, 2))
    features[:, grid.moves.index("up"), 0] = 1.0
    features[grid.state((0, 1)), :, 1] = 1.0
    return _with_demos("slippery 3x3 grid", grid, xm.visit(grid.at((1, 1))), features, (0.5, 1.0), seed)


def _with_demos(
    name: str, grid: xm.GridWorld, rule: Any, features: Floats, weights: tuple[float, ...], seed: int, n: int = 100
) -> ListedProblem:
    demos = xm.distribution(grid, rule, features @ np.array(weights), seed=seed).sample(n)
    return ListedProblem(name, grid, rule, features, demos, weights)


def _features_of(tau: xm.Trajectory, features: Floats) -> Floats:
    """f(tau), undiscounted (d,)."""
    total: Floats = features[np.asarray(tau.states[:-1]), np.asarray(tau.actions)].sum(axis=0)
    return total
