"""All trips at once against one distribution per pair: log Z, uses of edges, expected features, and who is left."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import xmen as xm
from engines.test_horizon_free import random_network, random_reward, random_rule
from strategies import cases
from xmen.engines.trips import TripEngine
from xmen.product import many_goals


def pairs_of(rng, network, n=12):
    """Random pairs, some of them repeated, one that starts at its goal; and weights."""
    starts, goals = rng.integers(0, network.n_states, (2, n))
    return starts, goals, rng.gamma(1.0, size=n) + 0.1


def one_by_one(network, rule, starts, goals, weights, reward, discount=1.0):
    """log Z of each pair and the weighted sum of visits, from a distribution of each pair's own."""
    log_z, visits = [], np.zeros((network.n_states, network.n_actions))
    for start, goal, weight in zip(starts, goals, weights, strict=True):
        d = xm.distribution(network.task(start, goal), rule, reward, discount, engine="exact", max_nodes=20_000)
        log_z.append(d.log_partition())
        visits += weight * d.visits()
    return np.array(log_z), visits


def compare(network, rule, starts, goals, weights, reward, engine):
    """Agreement to 1e-9 of everything that an engine says."""
    log_z, visits = one_by_one(network, rule, starts, goals, weights, reward, engine.discount)
    edges = reward[network.source, network.action]
    value = engine.value(edges)
    np.testing.assert_allclose(value.log_z[engine.pair_of], log_z, atol=1e-9)
    flat = np.bincount(network.source * network.n_actions + network.action, value.visits, minlength=visits.size)
    np.testing.assert_allclose(flat.reshape(visits.shape), visits, atol=1e-9)
    rng = np.random.default_rng(0)
    features = csr_matrix(rng.normal(size=(len(edges), 3)) * (rng.random((len(edges), 3)) < 0.6))
    each = engine.each(edges, features)
    np.testing.assert_allclose(engine.weight @ each, value.visits @ features.toarray(), atol=1e-8)


@pytest.mark.parametrize("seed", range(cases(50)))
def test_agrees_with_one_factorisation_per_pair(seed, monkeypatch):
    rng = np.random.default_rng([seed, 32])
    monkeypatch.setattr(many_goals, "BATCH", (1, 3, many_goals.BATCH)[seed % 3])
    network = random_network(rng)
    reward, rule = random_reward(rng, network), random_rule(rng, network)
    starts, goals, weights = pairs_of(rng, network)
    valid = []
    for i, (start, goal) in enumerate(zip(starts, goals, strict=True)):
        try:
            xm.distribution(network.task(start, goal), rule, reward, engine="exact", max_nodes=20_000)
            valid.append(i)
        except (xm.InfeasibleError, xm.ProductTooLargeError):
            continue
    if not valid:
        return
    starts, goals, weights = starts[valid], goals[valid], weights[valid]
    try:
        engine = TripEngine(network, rule, starts, goals, weights, max_nodes=20_000)
    except xm.ProductTooLargeError:
        return
    compare(network, rule, starts, goals, weights, reward, engine)


def test_every_goal_was_served_by_the_shared_system():
    rng = np.random.default_rng(33)
    network = random_network(rng, 12)
    starts, goals, weights = pairs_of(rng, network, 40)
    rule = xm.count(xm.doing(1)) <= 1
    engine = TripEngine(network, rule, starts, goals, weights, max_nodes=10**6)
    reward = random_reward(rng, network, 0.9)
    assert engine.shared.solve(reward[network.source, network.action], engine.weight).left == []
    compare(network, rule, starts, goals, weights, reward, engine)


def test_goals_whose_own_radius_is_below_1_are_served_though_the_shared_one_is_not():
    """A loop of weight 2 through the only goal: M has a radius above 1, M without the goal has none."""
    network = xm.Network(3, 1, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0)])
    engine = TripEngine(network, None, [0, 1], [2, 2], [1.0, 1.0], max_nodes=100)
    value = engine.value(np.full(3, 0.3))
    np.testing.assert_allclose(value.log_z[engine.pair_of], [0.6, 0.3])
    np.testing.assert_allclose(value.visits, [1.0, 2.0, 0.0], atol=1e-12)
    mixed = TripEngine(network, None, [0, 1], [2, 0], [1.0, 1.0], max_nodes=100)
    np.testing.assert_allclose(mixed.value(np.full(3, 0.3)).log_z[mixed.pair_of], [0.6, 0.6])


def test_numbers_below_the_smallest_double_are_still_exact():
    line = [(s, 0, s + 1, 1.0) for s in range(40)] + [(s + 1, 1, s, 1.0) for s in range(40)]
    network = xm.Network(41, 2, line)
    engine = TripEngine(network, None, [0, 39, 3], [40, 40, 0], [1.0, 1.0, 2.0], max_nodes=1000)
    compare(network, None, [0, 39, 3], [40, 40, 0], [1.0, 1.0, 2.0], np.full((41, 2), -60.0), engine)
    value = engine.value(np.full(80, -60.0))
    np.testing.assert_allclose(value.log_z[engine.pair_of], [-2400.0, -60.0, -180.0])
    assert value.visits.sum() == pytest.approx(40 + 1 + 2 * 3)


def test_divergence_names_a_cycle():
    network = random_network(np.random.default_rng(35))
    engine = TripEngine(network, None, [0, 1], [2, 3], [1.0, 1.0], max_nodes=1000)
    with pytest.raises(xm.DivergenceError, match=r"state \d"):
        engine.value(np.full(len(network.source), 1.0))


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_a_horizon_is_served_by_the_layered_engine(discount):
    rng = np.random.default_rng(36)
    network = random_network(rng)
    short = xm.Network(network.n_states, network.n_actions, network.transitions, horizon=9)
    starts, goals, weights = pairs_of(rng, network)
    reward = rng.normal(size=(network.n_states, network.n_actions))
    engine = TripEngine(short, None, starts, goals, weights, max_nodes=10**5, discount=discount)
    compare(short, None, starts, goals, weights, reward, engine)


def test_a_pair_without_a_valid_trip_is_named():
    network = xm.Network(4, 1, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 1, 1.0)])
    bridge = xm.visit(xm.at(3)).named("over the bridge")
    for rule, starts, goals, named in (
        (None, [0, 1], [2, 0], "state 1 to state 0"),
        (bridge, [0], [2], r"state 0 to state 2.*over the bridge"),
    ):
        with pytest.raises(xm.InfeasibleError, match=named):
            TripEngine(network, rule, starts, goals, np.ones(len(goals)), max_nodes=100).value(np.full(3, -1.0))


def test_what_lies_behind_a_goal_is_zero_in_every_level_of_a_counter():
    """From a dead end one gets on only through the goal: exactly 0, which rounding of differences must not hide."""
    rows = [(0, 0, 1), (1, 0, 2), (2, 0, 0), (1, 2, 3), (0, 1, 0), (2, 1, 2)]
    rows += [(3, 0, 1), (3, 2, 4), (4, 0, 1), (4, 2, 3)]  # 3 and 4 lead back to 1 alone
    network = xm.Network(5, 3, [(*row, 1.0) for row in rows])
    reward = np.linspace(-1.7, -1.3, len(network.source))  # not alike, so that differences are rounded
    engine = TripEngine(network, xm.count(xm.doing(1)) >= 3, [0, 0, 2], [1, 2, 3], np.ones(3), 10**4)
    shared = engine.value(reward)
    assert engine.shared.solve(np.log(network.probability) + reward, engine.weight).left == []
    visits = np.zeros(len(reward))
    for pair in range(3):
        alone = engine.alone(pair, reward)
        assert shared.log_z[pair] == pytest.approx(alone.log_partition(), abs=1e-10)
        visits[network.source != engine.goal[pair]] += alone.edge_visits()
    np.testing.assert_allclose(shared.visits, visits, atol=1e-10)
