"""The k most likely trajectories against sorting all of them."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from engines.test_exact import random_case
from engines.test_given import mixture, several_starts
from engines.test_horizon_free import random_network, random_reward
from reference import exact_distribution
from strategies import cases


@pytest.mark.parametrize("block", range(6))
def test_agrees_with_sorting(block):
    for seed in range(block * cases(20), (block + 1) * cases(20)):
        world, description, constraint, reward, discount = random_case(seed)
        truth = exact_distribution(world, description, reward, discount)
        if not truth.log_weights:
            continue
        d = xm.distribution(world, constraint, reward, discount=discount)
        best = d.best(12)
        assert len({(t.states, t.actions) for t in best}) == len(best) == min(12, len(truth.log_weights))
        expected = sorted(truth.log_weights.values(), reverse=True)[:12]
        found = [truth.log_weights[t.states, t.actions] for t in best]
        np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=f"seed {seed}: {constraint}")


@pytest.mark.parametrize("seed", range(8))
def test_given_the_start(seed):
    world, constraint, reward, discount, alone = several_starts(seed)
    truth = mixture(world, alone)
    best = xm.distribution(world, constraint, reward, discount, given="start").best(10)
    np.testing.assert_allclose(
        [truth[t.states, t.actions] for t in best], sorted(truth.values(), reverse=True)[:10], atol=1e-9
    )


def test_trajectories_of_any_length():
    rng = np.random.default_rng(61)
    network = random_network(rng, 5)
    reward = random_reward(rng, network, 0.5)
    d, long = (xm.distribution(network.task(0, 3, horizon=h), None, reward) for h in (None, 60))
    best, listed = d.best(40), long.best(40)
    np.testing.assert_allclose([d.log_prob(t) for t in best], [long.log_prob(t) for t in listed], atol=1e-9)
    assert best[0] == d.mode()
    assert d.best(0) == []


def test_engines_that_do_not_search_say_so():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    with pytest.raises(xm.EngineError, match="engine='exact'"):
        xm.distribution(grid, engine="reject").best(3)
    with pytest.raises(xm.EngineError, match="whole number"):
        xm.distribution(grid).best(-1)
