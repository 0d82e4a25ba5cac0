"""Given the start, the baselines: each demonstration counts given where it starts, against listed trajectories."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import xmen as xm
from reference import exact_distribution


@pytest.fixture
def task():
    """Two starts with different numbers of completions, and demonstrations from both."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "up-right"))
    shares = np.zeros(grid.n_states)
    shares[[0, grid.state((2, 1))]] = 0.5
    world = grid.with_start(shares)
    features = np.random.default_rng(2).normal(size=(world.n_states, world.n_actions, 2))
    demos = xm.distribution(world, None, features @ [0.7, -0.5], given="start", seed=1).sample(200)
    return world, features, demos


def test_relative_entropy_meets_the_listed_optimum(task):
    """P(tau | s_0) is in proportion to Q(tau) exp(theta f); of a uniform base policy Q is a product of 1 / actions."""
    world, features, demos = task
    base = -np.log(np.maximum(world.available.sum(axis=1), 1))

    def loss(theta):
        total = 0.0
        for start in np.flatnonzero(world.start).tolist():
            own = [tau for tau in demos if tau.states[0] == start]
            reward = features @ theta + base[:, None]
            truth = exact_distribution(world.with_start(start), None, reward, 1.0)
            steps = [step for tau in own for step in zip(tau.states, tau.actions, strict=False)]
            total += len(own) * truth.log_partition - sum(reward[step] for step in steps)
        return total / len(demos)

    best = minimize(loss, np.zeros(2), method="BFGS")
    model = xm.RelativeEntropyIRL(world, features=features, epsilon=0.0, n_samples=20_000, seed=0, given="start")
    assert loss(model.fit(demos).weights_) < best.fun + 2e-4
    joint = xm.RelativeEntropyIRL(world, features=features, epsilon=0.0, n_samples=20_000, seed=0).fit(demos)
    assert loss(joint.weights_) > best.fun + 1e-3
    assert model.distribution().given == "start"


def test_constraint_inference_counts_given_the_start(task):
    world, _, _ = task
    rule = xm.never(xm.at(world.state((1, 1))))
    demos = xm.distribution(world, rule, None, given="start", seed=3).sample(300)
    model = xm.ConstraintInference(world, candidates=("states",), kl_threshold=0.05, given="start").fit(demos)
    seen = world.with_start(np.bincount([tau.states[0] for tau in demos], minlength=world.n_states) / len(demos))
    first = model.constraints_[0]
    assert str(first).startswith(str(rule))
    before = xm.distribution(seen, None, None, given="start").log_partition()
    after = xm.distribution(seen, first, None, given="start").log_partition()
    assert model.kl_[0] - model.kl_[1] == pytest.approx(before - after)
    assert model.distribution().given == "start"
