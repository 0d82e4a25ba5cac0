"""P(rule) under a distribution: the mass of what keeps it, against the list of all trajectories."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xmen as xm
from reference import exact_distribution, holds, positions
from strategies import cases, random_formula, random_world
from xmen.machines.tables import CompiledConstraint


def drawn(seed):
    """A world, two rules with their descriptions, a reward, and P of every trajectory that keeps the first."""
    rng = np.random.default_rng([seed, 31])
    while True:
        world = random_world(rng)
        first, second = (random_formula(rng, world.n_states, world.n_actions, depth=1) for _ in range(2))
        reward, discount = rng.normal(0, 1.5, (world.n_states, world.n_actions)), float(rng.choice([1.0, 0.9]))
        truth = exact_distribution(world, first[0], reward, discount)
        if 0 < len(truth.log_weights) <= 2000:
            return world, first, second, reward, discount, truth


@pytest.mark.parametrize("seed", range(cases(40)))
def test_exact_agrees_with_enumeration(seed):
    world, (_, rule), (description, other), reward, discount, truth = drawn(seed)
    d = xm.distribution(world, rule, reward, discount, engine="exact")
    mass = {tau: math.exp(weight - truth.log_partition) for tau, weight in truth.log_weights.items()}
    wanted = math.fsum(p for tau, p in mass.items() if holds(description, positions(*tau)))
    assert d.probability(other, return_std=True) == (pytest.approx(wanted, abs=1e-12), 0.0)
    by_product = d.log_probability(CompiledConstraint(other, world), max_nodes=10**5)
    assert math.exp(by_product) == pytest.approx(wanted, abs=1e-9)
    assert d.probability([other, ~other]) == 0.0
    assert d.probability(other | ~other) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(cases(10)))
def test_given_the_start(seed):
    """Each start keeps its own share, however much weight begins there."""
    world, (description, rule), (other_description, other), reward, discount, _ = drawn(seed)
    wanted, shares = 0.0, np.zeros(world.n_states)
    for start in range(world.n_states):
        alone = exact_distribution(world.with_start(start), description, reward, discount)
        if not alone.log_weights:
            continue
        shares[start] = 1.0 + start
        kept = [w for tau, w in alone.log_weights.items() if holds(other_description, positions(*tau))]
        wanted += shares[start] * math.fsum(math.exp(w - alone.log_partition) for w in kept)
    wanted, world = wanted / shares.sum(), world.with_start(shares / shares.sum())
    d = xm.distribution(world, rule, reward, discount, given="start", engine="exact")
    assert d.probability(other) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("engine", ["reject", "xor"])
@pytest.mark.parametrize("given", [None, "start"])
def test_engines_that_sample_say_how_sure_they_are(engine, given):
    """2,000 draws; a bias of 0.06 would be five standard errors."""
    grid = xm.GridWorld(5, 5, start=[(0, 0), (1, 0)], goal=(4, 4), moves=("up", "right"))
    rule, other = xm.longest_repeat() <= 3, xm.visit(grid.at((2, 2)))
    exact = xm.distribution(grid, rule, engine="exact", given=given).probability(other)
    d = xm.distribution(grid, rule, engine=engine, given=given, seed=1)
    share, std = d.probability(other, return_std=True, n=2000, seed=0)
    assert 0.005 < std < 0.0115
    assert abs(share - exact) < 4 * std
    assert d.probability(other, n=2000, seed=0) == share


def test_misuse():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    d = xm.distribution(grid, None)
    with pytest.raises(xm.EngineError, match="takes a constraint"):
        d.probability(None)
    with pytest.raises(xm.ConstraintError, match="state 9"):
        d.probability(xm.visit(xm.at(9)))
    with pytest.raises(xm.EngineError, match="n of probability"):
        xm.distribution(grid, None, engine="reject").probability(xm.visit(xm.at(4)), n=0)


def test_a_rule_that_does_not_fit_is_answered_by_draws_with_their_error(monkeypatch):
    """2,000 draws; the truth, by the same question with room, has to lie within four standard errors."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=10)
    truth = xm.distribution(grid, None).probability(xm.no_revisit())
    d = xm.distribution(grid, None, engine="exact")
    monkeypatch.setattr("xmen.engines.exact.DEFAULT_MAX_NODES", 20)
    monkeypatch.setattr(type(d), "mass", lambda self, machine: None)
    share, error = d.probability(xm.no_revisit(), return_std=True, n=2000, seed=0)
    assert error == pytest.approx(np.sqrt(share * (1 - share) / 2000), rel=0.2)  # 4 of 2,000
    assert 0.0 < abs(share - truth) < 4 * error
    assert d.probability(xm.no_revisit(), n=2000, seed=0) == share
    ring = xm.Network(4, 2, [(s, a, (s + 1 + 2 * a) % 4, 1.0) for s in range(4) for a in range(2)])
    endless = xm.distribution(ring.task(0, 2), None, np.full((4, 2), -1.0))
    share, error = endless.probability(xm.share(xm.at(1)) <= 0.4, return_std=True, seed=0)
    assert 0.0 < share < 1.0
    assert error > 0.0


def test_none_of_many_draws_is_not_none_at_all():
    """One trajectory in 252 passes the corner (0, 5): none of 20 draws does, and that is not exact."""
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), moves=("up", "right"))
    corner = xm.visit(grid.at((0, 5)))
    truth = xm.distribution(grid, None).probability(corner)
    assert truth == pytest.approx(1 / 252)
    share, error = xm.distribution(grid, None, engine="reject").probability(corner, return_std=True, n=20, seed=0)
    assert share == 0.0
    assert truth < error < 0.1
