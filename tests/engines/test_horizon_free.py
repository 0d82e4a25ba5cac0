"""Trajectories of any length: the linear solve against the layered engine at a long horizon, and against sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xmen as xm
from engines.truth import assert_alike, follows
from strategies import cases, random_formula

LONG = 400  # actions after which nothing is left of weights whose radius is at most 0.7: 0.7^400 < 1e-60


def random_network(rng, n_states=6, n_actions=3, stochastic=True):
    """A strongly connected random network, some actions with two outcomes."""
    rows = []
    for state in range(n_states):
        rows.append((state, 0, (state + 1) % n_states, 1.0))
        for action in range(1, n_actions):
            if rng.random() < 0.7:
                one, other = rng.choice(n_states, 2, replace=False)
                p = rng.uniform(0.2, 0.8) if stochastic and rng.random() < 0.4 else 1.0
                rows += [(state, action, int(one), p)] + ([(state, action, int(other), 1 - p)] if p < 1 else [])
    return xm.Network(n_states, n_actions, rows)


def random_reward(rng, network, radius=0.7):
    """Rewards under which M has this spectral radius: long trajectories weigh nothing."""
    reward = rng.normal(0, 1, (network.n_states, network.n_actions))
    matrix = np.zeros((network.n_states, network.n_states))
    np.add.at(
        matrix,
        (network.source, network.target),
        network.probability * np.exp(reward[network.source, network.action]),
    )
    return reward + math.log(radius / np.abs(np.linalg.eigvals(matrix)).max())


def random_rule(rng, network):
    """A formula with a product that stays finite without a horizon, in a third of the cases none at all."""
    return None if rng.random() < 0.33 else random_formula(rng, network.n_states, network.n_actions, depth=1)[1]


@pytest.mark.parametrize("seed", range(cases(60)))
def test_agrees_with_the_layered_engine_at_a_long_horizon(seed):
    rng = np.random.default_rng([seed, 31])
    network = random_network(rng)
    reward, rule = random_reward(rng, network), random_rule(rng, network)
    start, goal = rng.choice(network.n_states, 2, replace=False)
    free, long = network.task(start, goal), network.task(start, goal, horizon=LONG)
    try:
        layered = xm.distribution(long, rule, reward, max_nodes=200_000)
    except xm.InfeasibleError:
        with pytest.raises(xm.InfeasibleError):
            xm.distribution(free, rule, reward, max_nodes=20_000)
        return
    try:
        d = xm.distribution(free, rule, reward, engine="exact", max_nodes=20_000)
    except xm.ProductTooLargeError:
        return  # a machine that counts for ever
    assert_alike(d, layered)


def test_samples_have_their_probabilities():
    """Chi-square over the 12 likeliest trajectories and the rest; a bias of 3 % on the first would fail."""
    rng = np.random.default_rng(5)
    network = random_network(rng)
    d = xm.distribution(network.task(0, 3), xm.count(xm.doing(1)) <= 2, random_reward(rng, network), seed=0)
    assert follows(d.sample(20_000), {tau: math.exp(d.log_prob(tau)) for tau in d.best(12)})


def test_an_action_that_is_next_to_never_taken_leaves_the_entropy_a_number():
    """Round again with probability p, which is geometric; the other way out weighs less than the least double."""
    network, p = xm.Network(2, 3, [(0, 0, 0, 1.0), (0, 1, 1, 1.0), (0, 2, 1, 1.0)]), 0.3
    d = xm.distribution(network.task(0, 1), None, np.array([[math.log(p), math.log(1 - p), -2000.0], [0.0] * 3]))
    assert d.entropy() == pytest.approx(-(p * math.log(p) + (1 - p) * math.log(1 - p)) / (1 - p), abs=1e-12)


def test_start_at_the_goal_is_a_trajectory_of_length_0():
    network = random_network(np.random.default_rng(7))
    d = xm.distribution(network.task(2, 2), None, np.zeros((6, 3)))
    assert d.log_partition() == 0.0
    assert d.sample(2) == [xm.Trajectory([2], [])] * 2


def test_weights_that_do_not_add_up_name_a_cycle():
    ring = xm.Network(4, 2, [(0, 0, 1, 1.0), (1, 0, 0, 1.0), (1, 1, 2, 1.0), (2, 0, 3, 1.0), (3, 0, 2, 1.0)])
    task = ring.task(0, 2)
    with pytest.raises(xm.DivergenceError, match=r"state [01] -> state [01] -> state [01]"):
        xm.distribution(task, None, np.zeros((4, 2)))  # a cycle of weight exactly 1
    with pytest.raises(xm.DivergenceError, match="state 0"):
        xm.distribution(task, None, np.full((4, 2), 0.5))
    assert xm.distribution(task, None, np.full((4, 2), -0.01)).log_partition() > 3
    assert xm.distribution(ring.task(0, 2, horizon=10), None, np.full((4, 2), 0.5)).log_partition() > 0
    assert xm.distribution(task, xm.no_revisit(), np.full((4, 2), 0.5)).log_partition() == pytest.approx(1.0)


def test_cycles_that_no_trip_can_use_do_not_matter():
    """States 2 and 3 go round for ever, and the goal is not reached from there; nor does a cycle through the goal."""
    rows = [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (2, 0, 3, 1.0), (3, 0, 2, 1.0), (1, 0, 0, 1.0)]
    d = xm.distribution(xm.Network(4, 2, rows).task(0, 1), None, np.full((4, 2), 2.0))
    assert d.log_partition() == pytest.approx(2.0)


def test_what_needs_a_horizon_says_so():
    network = random_network(np.random.default_rng(8))
    task = network.task(0, 1)
    for world, settings, named in (
        (task, {"discount": 0.9}, r"discount = 0\.9"),
        (task, {"engine": "xor"}, "engine='xor'"),
        (network, {}, r"network\.task"),
    ):
        with pytest.raises(xm.EngineError, match=named):
            xm.distribution(world, **settings)
