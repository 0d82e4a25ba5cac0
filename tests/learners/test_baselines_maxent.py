"""Maximum entropy inverse reinforcement learning against the optimum found by listing all trajectories."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import xmen as xm
from reference import enumerate_trajectories
from strategies import cases, random_world
from xmen.baselines.maxent import MaxEntIRL
from xmen.errors import LearningWarning
from xmen.learners.xmen import XMEN


def enumerated(world, features, discount):
    """(states, actions), f(tau) and log D(tau) of all trajectories."""
    names, rows, log_dynamics = [], [], []
    for states, actions, dynamics in enumerate_trajectories(world):
        steps = zip(states, actions, strict=False)
        names.append((states, actions))
        rows.append(sum((discount**t * features[s, a] for t, (s, a) in enumerate(steps)), np.zeros(features.shape[2])))
        log_dynamics.append(math.log(dynamics))
    return names, np.array(rows), np.array(log_dynamics)


def loss_by_enumeration(rows, log_dynamics, mean, l2):
    def loss(theta):
        scores = rows @ theta + log_dynamics
        log_z = np.logaddexp.reduce(scores)
        value = log_z - theta @ mean + 0.5 * l2 * theta @ theta
        return value, np.exp(scores - log_z) @ rows - mean + l2 * theta

    return loss


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_reaches_the_optimum_by_enumeration(l2):
    """Negative log-likelihood within 1e-9 of the optimum over listed trajectories, and score equal to its number."""
    compared = 0
    for seed in range(cases(30)):
        rng = np.random.default_rng(seed)
        world, discount = random_world(rng), 1.0 if seed % 2 else 0.9
        features = rng.normal(0, 1, (world.n_states, world.n_actions, 2))
        names, rows, log_dynamics = enumerated(world, features, discount)
        if len(names) < 6:
            continue
        drawn = np.exp(rows @ rng.normal(0, 1, 2) + log_dynamics)
        chosen = rng.choice(len(names), 80, p=drawn / drawn.sum())
        demos = [xm.Trajectory(*names[i]) for i in chosen]
        with warnings.catch_warnings():  # some of these worlds cannot tell all weights: the loss is what counts
            warnings.simplefilter("ignore", LearningWarning)
            model = MaxEntIRL(world, features, discount, l2=l2, tol=1e-9).fit(demos)
        loss = loss_by_enumeration(rows, log_dynamics, rows[chosen].mean(axis=0), l2)
        best = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-9}).fun
        assert loss(model.weights_)[0] == pytest.approx(best, abs=1e-9), f"seed {seed}"
        scores = rows @ model.weights_ + log_dynamics
        expected = np.mean(scores[chosen]) - np.logaddexp.reduce(scores)
        assert model.score(demos) == pytest.approx(expected, abs=1e-9)
        compared += 1
    assert compared >= cases(10)


def test_the_fork_by_hand():
    """Three of four go left: theta = log 3; with a discount the first step is not discounted, so the same."""
    fork = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
    goes_left = np.zeros((3, 2, 1))
    goes_left[0, 0] = 1.0
    demos = [xm.Trajectory([0, 1], [0])] * 3 + [xm.Trajectory([0, 2], [1])]
    for discount in (1.0, 0.5):
        model = MaxEntIRL(fork, goes_left, discount).fit(demos)
        assert model.weights_[0] == pytest.approx(math.log(3), abs=1e-6)
        assert model.score(demos[:1]) == pytest.approx(math.log(0.75), abs=1e-6)
    weighted = MaxEntIRL(fork, goes_left).fit(demos[2:], sample_weight=[3, 1])
    assert weighted.weights_[0] == pytest.approx(math.log(3), abs=1e-6)


GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
RULE = xm.exactly(1, xm.visit(GRID.at((1, 1))), xm.visit(GRID.at((2, 2)))).named("one of the two")


def grid_demos():
    return xm.distribution(GRID, RULE, np.random.default_rng(3).normal(0, 0.5, (16, 2)), seed=1).sample(200)


def test_it_is_xmen_without_a_constraint():
    features = np.random.default_rng(0).normal(0, 1, (16, 2, 3))
    maxent = MaxEntIRL(GRID, features).fit(grid_demos())
    xmen = XMEN(GRID, None, features, method="exact").fit(grid_demos())
    np.testing.assert_array_equal(maxent.weights_, xmen.weights_)
    assert maxent.score(grid_demos()) == xmen.score(grid_demos())
    assert "constraint" not in maxent.get_params()
    assert repr(MaxEntIRL(GRID, l2=0.5)).endswith("l2=0.5)")


def test_samples_may_break_what_demonstrations_never_break():
    """ "Exactly one of two" needs memory: one weight per state cannot say it. With `also` the rule holds."""
    model = MaxEntIRL(GRID, l2=1e-3).fit(grid_demos())
    drawn = model.sample(1000, seed=0)
    valid = np.mean([RULE.accepts(tau) for tau in drawn])
    exact = math.exp(model.distribution(also=RULE).log_partition() - model.distribution().log_partition())
    assert exact < 0.9
    assert valid == pytest.approx(exact, abs=0.06)  # four standard deviations
    assert all(RULE.accepts(tau) for tau in model.sample(1000, also=RULE, seed=0))


@pytest.mark.parametrize(
    ("settings", "demos", "message"),
    [
        ({}, [], "no demonstrations"),
        ({}, [xm.Trajectory([0, 1], [1])], "demonstration 0 is not possible"),
        ({"features": np.zeros((3, 2, 1))}, None, "features have shape"),
        ({"l2": -1.0}, None, "l2"),
        ({"tol": "small"}, None, "tol"),
        ({"max_iter": -1}, None, "max_iter"),
        ({"discount": 2}, None, "0 < discount <= 1"),
        ({"engine": "magic"}, None, "unknown engine"),
        ({"world": 4}, None, "takes an MDP"),
        ({"max_nodes": 3}, None, "max_nodes"),
    ],
)
def test_bad_input(settings, demos, message):
    with pytest.raises(xm.XmenError, match=message):
        MaxEntIRL(**{"world": GRID, **settings}).fit(grid_demos() if demos is None else demos)


def test_before_fit():
    with pytest.raises(xm.XmenError, match="call fit"):
        MaxEntIRL(GRID).sample(1)
