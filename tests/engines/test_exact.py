"""The exact engine against brute-force enumeration, on random worlds and random formulas over all primitives."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest

import xmen as xm
from engines.truth import assert_agrees, follows, key, share_of
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.engines import diagnosis
from xmen.machines.tables import CompiledConstraint


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
        truth, rng = exact_distribution(world, description, reward, discount), np.random.default_rng([seed, 31])
        if not truth.log_weights:
            with pytest.raises(xm.InfeasibleError):
                xm.distribution(world, constraint, reward, discount=discount)
            continue
        feasible += 1
        d = xm.distribution(world, constraint, reward, discount=discount, seed=seed)
        assert_agrees(d, truth, f"seed {seed}: {constraint}")
        everything = exact_distribution(world, None, reward, discount).log_weights
        invalid = [xm.Trajectory(*tau) for tau in everything.keys() - truth.log_weights.keys()]
        assert all(d.log_prob(tau) == -math.inf for tau in invalid), f"seed {seed}: {constraint}"
        other_description, other = random_formula(rng, world.n_states, world.n_actions, depth=1)
        share = share_of(other_description, truth)
        assert d.probability(other, return_std=True) == (pytest.approx(share, abs=1e-12), 0.0)
        by_product = d.log_probability(CompiledConstraint(other, world), max_nodes=10**5)
        assert math.exp(by_product) == pytest.approx(share, abs=1e-9)
        assert d.probability([other, ~other]) == 0.0
        assert d.probability(other | ~other) == pytest.approx(1.0, abs=1e-12)
    assert feasible >= cases(3)


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
    d = xm.distribution(world, constraint, reward, discount=discount)
    likely = sorted(truth.log_weights, key=truth.log_weights.get, reverse=True)[:14]
    probability = {tau: math.exp(truth.log_weights[tau] - truth.log_partition) for tau in likely}
    assert follows(map(key, d.sample(20_000, seed=seed)), probability)


def test_the_paper_s_grid_has_265729_paths():
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))
    d = xm.distribution(grid, None, None)
    assert math.exp(d.log_partition()) == pytest.approx(265_729, rel=1e-12)
    assert d.entropy() == pytest.approx(math.log(265_729), rel=1e-12)


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


def test_with_reward_shares_the_product():
    d = xm.distribution(xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=10))
    assert d.with_reward(np.full((16, 4), -1.0)).product is d.product


def test_terminal_start_gives_a_trajectory_of_length_zero():
    world = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=[0.25, 0.75], terminal=[1])
    d = xm.distribution(world, None, np.array([[math.log(2.0)], [0.0]]))
    # Weights: 0.25 * 2 for the step, 0.75 for staying put.
    assert d.log_prob(xm.Trajectory([1], [])) == pytest.approx(math.log(0.6))
    assert d.state_visits() == pytest.approx([0.4, 1.0])
    lengths = Counter(len(tau) for tau in d.sample(5000, seed=0))
    assert lengths[0] == pytest.approx(3000, abs=5 * math.sqrt(5000 * 0.24))
