"""The k most likely trajectories against sorting all of them, and the list of all."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from engines.test_exact import random_case
from engines.test_given import mixture, several_starts
from engines.test_horizon_free import random_network, random_reward
from engines.truth import key
from reference import exact_distribution
from strategies import cases
from xmen.machines.tables import release
from xmen.product.best import list_walks
from xmen.product.messages import _relax


@pytest.mark.parametrize("block", range(6))
@pytest.mark.parametrize("settings", [{}, {"engine": "reject", "max_nodes": 1}], ids=["exact", "nothing multiplied in"])
def test_agrees_with_sorting(block, settings):
    for seed in range(block * cases(20), (block + 1) * cases(20)):
        world, description, constraint, reward, discount = random_case(seed)
        truth = exact_distribution(world, description, reward, discount)
        if not truth.log_weights:
            continue
        d = xm.distribution(world, constraint, reward, discount=discount, **settings)
        best = d.best(12)
        assert d.mode() in best[:2]  # the second where the first two are as likely
        assert len(set(map(key, best))) == len(best) == min(12, len(truth.log_weights))
        expected = sorted(truth.log_weights.values(), reverse=True)[:12]
        found = [truth.log_weights[key(t)] for t in best]
        np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=f"seed {seed}: {constraint}")
        if not settings:
            listed = list(release(list_walks(d.product, most=len(truth.log_weights)), d.product.compiled))
            assert len(listed) == len(truth.log_weights)
            assert set(map(key, listed)) == set(truth.log_weights)
            assert list_walks(d.product, most=len(truth.log_weights) - 1) is None


@pytest.mark.parametrize("engine", ["exact", "reject"])
@pytest.mark.parametrize("seed", range(8))
def test_given_the_start(seed, engine):
    world, constraint, reward, discount, alone = several_starts(seed)
    truth = mixture(world, alone)
    best = xm.distribution(world, constraint, reward, discount, given="start", engine=engine).best(10)
    np.testing.assert_allclose([truth[key(t)] for t in best], sorted(truth.values(), reverse=True)[:10], atol=1e-9)


def test_trajectories_of_any_length():
    rng = np.random.default_rng(61)
    network = random_network(rng, 5)
    reward = random_reward(rng, network, 0.5)
    d, long = (xm.distribution(network.task(0, 3, horizon=h), None, reward) for h in (None, 60))
    best, listed = d.best(40), long.best(40)
    np.testing.assert_allclose([d.log_prob(t) for t in best], [long.log_prob(t) for t in listed], atol=1e-9)
    assert best[0] == d.mode()
    assert d.best(0) == []


def roads(rng):
    """Two-way streets of a grid of crossings, places as states, and what a step costs."""
    crossings = [(x, y) for x in range(4) for y in range(4)]
    moves = ((1, 0), (0, 1), (-1, 0), (0, -1))
    rows = [
        (4 * x + y, a, 4 * (x + dx) + y + dy, 1.0)
        for x, y in crossings
        for a, (dx, dy) in enumerate(moves)
        if 0 <= x + dx < 4 > y + dy >= 0
    ]
    network = xm.Network(16, 4, rows)
    return network, random_reward(rng, network, 0.5)


@pytest.mark.parametrize("max_nodes", [1, 2_000])
def test_no_place_twice_on_a_network(max_nodes):
    """Against all 184 self-avoiding ways across 4 by 4 crossings, listed by a recursion of its own."""
    network, reward = roads(np.random.default_rng(62))
    truth = {}

    def go_on(states, total):
        if states[-1] == 15:
            truth[states] = total
            return
        for e in np.flatnonzero(network.source == states[-1]):
            if (after := int(network.target[e])) not in states:
                go_on((*states, after), total + reward[states[-1], network.action[e]])

    go_on((0,), 0.0)
    assert len(truth) == 184
    d = xm.distribution(network.task(0, 15), xm.no_revisit(), reward, engine="reject", max_nodes=max_nodes)
    assert [tau.states for tau in d.best(184)] == sorted(truth, key=truth.get, reverse=True)
    assert d.mode().states == max(truth, key=truth.get)
    assert len(d.best(10**6)) == 184  # all there are


def test_a_search_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr("xmen.product.best.MOST_STEPS", 100)
    network, reward = roads(np.random.default_rng(63))
    d = xm.distribution(network.task(0, 15), xm.no_revisit(), reward, engine="reject", max_nodes=1)
    with pytest.raises(xm.EngineError, match=r"150 .* 100 steps"):
        d.best(150)


def test_values_rise_until_nothing_does():
    """1 leads to 0, and 0 to the end 2: where 1 comes first, 0 alone rises in the first sweep, and 1 in the second."""
    indptr, target, weights = np.array([0, 1, 2, 2]), np.array([2, 0]), np.array([-1.0, -2.0])
    value, choice = np.array([-np.inf, -np.inf, 0.0]), np.full(3, -1)
    assert _relax(np.array([1, 0, 2]), indptr, target, weights, value, choice, 1e-12) == -1
    np.testing.assert_allclose(value, [-1.0, -3.0, 0.0])
    assert choice.tolist() == [0, 1, -1]
