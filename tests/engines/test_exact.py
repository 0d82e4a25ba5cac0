"""The exact engine against brute-force enumeration, on random worlds and random formulas over all primitives."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
from scipy.stats import chi2

import xmen as xm
from reference import exact_distribution, holds, positions
from strategies import cases, random_formula, random_world
from xmen.engines import diagnosis


@pytest.fixture(autouse=True)
def short_advice(monkeypatch):
    """Which horizon would have done is asked elsewhere; here the search for it would take most of the time."""
    monkeypatch.setattr(diagnosis, "shortest_valid", partial(diagnosis.shortest_valid, max_nodes=2_000))


def random_case(seed):
    rng = np.random.default_rng(seed)
    world = random_world(rng)
    description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 4)))
    reward = rng.normal(0, 1.5, (world.n_states, world.n_actions))
    discount = 1.0 if rng.random() < 0.5 else 0.9
    return world, description, constraint, reward, discount


@pytest.mark.parametrize("block", range(20))
def test_agrees_with_enumeration(block):
    feasible = 0
    for seed in range(block * cases(15), (block + 1) * cases(15)):
        world, description, constraint, reward, discount = random_case(seed)
        truth = exact_distribution(world, description, reward, discount)
        if not truth.log_weights:
            with pytest.raises(xm.InfeasibleError):
                xm.distribution(world, constraint, reward, discount=discount)
            continue
        feasible += 1
        d = xm.distribution(world, constraint, reward, discount=discount, seed=seed)
        context = f"seed {seed}: {constraint}"
        assert d.log_partition() == pytest.approx(truth.log_partition, abs=1e-9), context
        np.testing.assert_allclose(d.visits(), truth.visits, atol=1e-9, err_msg=context)
        np.testing.assert_allclose(d.state_visits(), truth.state_visits, atol=1e-9, err_msg=context)
        assert d.entropy() == pytest.approx(truth.entropy, abs=1e-9), context
        mode = d.mode()
        assert (mode.states, mode.actions) in truth.modes, context
        for (states, actions), weight in list(truth.log_weights.items())[:50]:
            tau = xm.Trajectory(states, actions)
            assert d.log_prob(tau) == pytest.approx(weight - truth.log_partition, abs=1e-9), context
        for tau in d.sample(20):
            assert (tau.states, tau.actions) in truth.log_weights, context
    assert feasible >= cases(3)


def test_invalid_trajectories_have_probability_zero():
    for seed in range(cases(60)):
        world, description, constraint, reward, discount = random_case(seed)
        everything = exact_distribution(world, None, reward, discount).log_weights
        valid = {tau for tau in everything if holds(description, positions(*tau))}
        if not valid:
            continue
        d = xm.distribution(world, constraint, reward, discount=discount)
        for tau in everything.keys() - valid:
            assert d.log_prob(xm.Trajectory(*tau)) == -math.inf


def test_gradient_is_the_derivative_of_log_partition():
    """d log Z / d r(s, a) = expected discounted visits, by central differences (error of order 1e-10)."""
    step = 1e-5
    checked = 0
    for seed in range(cases(60)):
        world, _, constraint, reward, discount = random_case(seed)
        try:
            d = xm.distribution(world, constraint, reward, discount=discount)
        except xm.InfeasibleError:
            continue
        visits = d.visits()
        for s, a in np.argwhere(world.available)[:6]:
            change = np.zeros_like(reward)
            change[s, a] = step
            difference = (
                d.with_reward(reward + change).log_partition() - d.with_reward(reward - change).log_partition()
            ) / (2 * step)
            assert visits[s, a] == pytest.approx(difference, abs=2e-8)
            checked += 1
    assert checked > 100


@pytest.mark.parametrize("seed", [2, 5, 11, 17])
def test_sample_frequencies(seed):
    """Chi-square at level 1e-4 on a seed fixed here.

    Power: with n = 20,000 draws the statistic's noncentrality under a bias of the probabilities is n times the
    chi-square distance, so that a distribution off by 5 % in half of its mass (distance 0.0025) gives 50, found
    with probability above 0.95 for the at most 15 cells kept here.
    """
    rng = np.random.default_rng(seed)
    while True:
        world, description, constraint, reward, discount = random_case(int(rng.integers(10**6)))
        truth = exact_distribution(world, description, reward, discount)
        if len(truth.log_weights) >= 8:
            break
    n = 20_000
    d = xm.distribution(world, constraint, reward, discount=discount)
    seen = Counter((tau.states, tau.actions) for tau in d.sample(n, seed=seed))
    likely = sorted(truth.log_weights, key=truth.log_weights.get, reverse=True)[:14]
    expected = np.array([n * math.exp(truth.log_weights[tau] - truth.log_partition) for tau in likely])
    observed = np.array([seen[tau] for tau in likely], dtype=float)
    rest = n - expected.sum()
    if rest > 5:
        expected, observed = np.append(expected, rest), np.append(observed, n - observed.sum())
    kept = expected > 5
    statistic = np.sum((observed - expected)[kept] ** 2 / expected[kept])
    assert statistic < chi2.isf(1e-4, kept.sum() - 1)


def test_the_paper_s_grid_has_265729_paths():
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))
    d = xm.distribution(grid, None, None)
    assert math.exp(d.log_partition()) == pytest.approx(265_729, rel=1e-12)
    assert d.entropy() == pytest.approx(math.log(265_729), rel=1e-12)


def test_self_avoiding_walks_across_a_square():
    """Corner to corner on a 4x4 lattice: 184 self-avoiding walks (sequence A007764)."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=15)
    d = xm.distribution(grid, xm.no_revisit(), None)
    assert math.exp(d.log_partition()) == pytest.approx(184, rel=1e-12)


def test_tours_through_all_cells_in_any_order():
    """Hamiltonian paths between two corners of a 4x3 grid, counted here by plain search."""
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 0), horizon=11)
    rule = xm.at_least(12, *[xm.visit(grid.at((x, y))) for x in range(4) for y in range(3)])

    def count(path):
        x, y = path[-1]
        if (x, y) == (3, 0):
            return len(path) == 12
        steps = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
        return sum(count([*path, c]) for c in steps if c not in path and 0 <= c[0] < 4 and 0 <= c[1] < 3)

    n_tours = count([(0, 0)])
    assert n_tours > 1
    assert math.exp(xm.distribution(grid, rule, None).log_partition()) == pytest.approx(n_tours)


def test_with_reward_shares_the_product_and_the_seed_decides_the_samples():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=10)
    d = xm.distribution(grid, xm.visit(grid.at((3, 0))), None, seed=3)
    other = d.with_reward(np.full((16, 4), -1.0))
    assert other.product is d.product
    fresh = xm.distribution(grid, xm.visit(grid.at((3, 0))), np.full((16, 4), -1.0))
    assert other.log_partition() == pytest.approx(fresh.log_partition(), abs=1e-12)
    assert d.sample(5, seed=7) == d.sample(5, seed=7)
    first, second = d.sample(5), d.sample(5)
    assert first != second
    again = xm.distribution(grid, xm.visit(grid.at((3, 0))), None, seed=3)
    assert again.sample(5) == first


def test_linear_rewards_and_expected_features():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    rng = np.random.default_rng(0)
    features, weights = rng.normal(size=(9, 4, 2)), np.array([0.3, -1.0])
    d = xm.distribution(grid, None, xm.LinearReward(features, weights), discount=0.9)
    expected = np.tensordot(d.visits(), features, axes=2)
    np.testing.assert_allclose(d.expected_features(), expected, atol=1e-12)
    with pytest.raises(xm.RewardError, match="LinearReward"):
        d.with_reward(features @ weights).expected_features()
    with pytest.raises(xm.RewardError, match=r"Features of states are np\.repeat"):
        xm.LinearReward(features[:, 0], weights)


def test_terminal_start_gives_a_trajectory_of_length_zero():
    world = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=[0.25, 0.75], terminal=[1])
    d = xm.distribution(world, None, np.array([[math.log(2.0)], [0.0]]))
    # Weights: 0.25 * 2 for the step, 0.75 for staying put.
    assert d.log_prob(xm.Trajectory([1], [])) == pytest.approx(math.log(0.6))
    assert d.state_visits() == pytest.approx([0.4, 1.0])
    lengths = Counter(len(tau) for tau in d.sample(5000, seed=0))
    assert lengths[0] == pytest.approx(3000, abs=5 * math.sqrt(5000 * 0.24))


def test_exact_answers_say_that_they_are_exact():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    d = xm.distribution(grid, None, None)
    assert d.engine == "exact"
    assert tuple(d.guarantee) == (1.0, 0.0)
    assert d.log_partition(return_std=True)[1] == 0.0
    assert not d.visits(return_std=True)[1].any()
    assert "exact" in repr(d)
