"""The reject engine and the choice between engines, forced on small worlds by tiny node budgets."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

import xmen as xm
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.constraints.repetition import NoRecentRevisit
from xmen.engines import reject
from xmen.engines.reject import relax


@pytest.fixture
def grid():
    return xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=12)


@pytest.fixture
def rules(grid):
    return xm.visit(grid.at((2, 2))).named("middle") & xm.no_revisit().named("never twice")


def test_a_small_budget_leaves_the_large_machine_to_rejection(grid, rules):
    relaxation = relax(grid, rules, max_nodes=100)
    assert relaxation.multiplied == ("middle",)
    assert relaxation.rejecting == ("never twice",)
    everything = relax(grid, rules, max_nodes=10**6)
    assert everything.rejecting == ()


def test_estimates_agree_with_the_exact_engine(grid, rules):
    """Within five standard errors, on several rewards and discounts; the errors themselves are of a plausible size."""
    rng = np.random.default_rng(0)
    for discount in (1.0, 0.9):
        reward = rng.normal(0, 0.5, (25, 4))
        exact = xm.distribution(grid, rules, reward, discount=discount)
        d = xm.distribution(grid, rules, reward, discount=discount, engine="reject", max_nodes=800, seed=1)
        assert d.relaxation.rejecting
        log_z, std = d.log_partition(return_std=True)
        assert 0 < std < 0.05
        assert abs(log_z - exact.log_partition()) < 5 * std
        visits, errors = d.visits(return_std=True)
        assert np.all(np.abs(visits - exact.visits()) <= 5 * errors + 1e-12)
        np.testing.assert_allclose(d.state_visits(), exact.state_visits(), atol=0.1)
        assert d.entropy() == pytest.approx(exact.entropy(), abs=0.1)


def test_accepted_samples_are_exact(grid, rules):
    """Chi-square at level 1e-4. With 20,000 draws a 10 % bias on half of the mass gives noncentrality 200."""
    reward = np.full((25, 4), -0.4)
    exact = xm.distribution(grid, rules, reward)
    d = xm.distribution(grid, rules, reward, engine="reject", max_nodes=800)
    n = 20_000
    seen = Counter(d.sample(n, seed=0))
    expected = np.array([n * math.exp(exact.log_prob(tau)) for tau in seen])
    kept = expected > 5
    observed = np.array(list(seen.values()), dtype=float)
    statistic = np.sum((observed - expected)[kept] ** 2 / expected[kept])
    rest_expected, rest_observed = n - expected[kept].sum(), n - observed[kept].sum()
    if rest_expected > 5:
        statistic += (rest_observed - rest_expected) ** 2 / rest_expected
    assert statistic < chi2.isf(1e-4, kept.sum())


def test_random_problems_against_enumeration():
    tried = 0
    for seed in range(cases(30)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        parts = [random_formula(rng, world.n_states, world.n_actions, depth=1) for _ in range(2)]
        reward = rng.normal(size=(world.n_states, world.n_actions))
        truth = exact_distribution(world, ("and", *(part[0] for part in parts)), reward)
        if not truth.log_weights:
            continue
        d = xm.distribution(world, [part[1] for part in parts], reward, engine="reject", max_nodes=6, seed=seed)
        log_z, std = d.log_partition(return_std=True)
        assert abs(log_z - truth.log_partition) <= 5 * std + 1e-9
        assert all((tau.states, tau.actions) in truth.log_weights for tau in d.sample(20))
        tried += 1
    assert tried > cases(4)


def test_the_shadow_of_no_revisit_is_implied_by_it():
    rng = np.random.default_rng(0)
    for _ in range(cases(500)):
        states = rng.integers(0, 6, int(rng.integers(1, 8))).tolist()
        tau = xm.Trajectory(states, [0] * (len(states) - 1))
        event = xm.anytime if rng.random() < 0.5 else xm.at(0, 1, 2)
        window = int(rng.integers(1, 5))
        if xm.no_revisit(event).accepts(tau):
            assert NoRecentRevisit(event, window=window).accepts(tau)
        elif not NoRecentRevisit(event, window=window).accepts(tau):
            watched = [s for s in states if event is xm.anytime or s < 3]
            assert any(watched[i] in watched[max(0, i - window) : i] for i in range(len(watched)))


def test_hopeless_cases_end_with_an_error(monkeypatch):
    monkeypatch.setattr(reject, "PATIENCE", 5000)
    grid = xm.GridWorld(8, 8, start=(0, 0), goal=(7, 7), moves=("up", "right"))
    clash = xm.ltlf("F(a) & F(b)", a=grid.at((7, 0)), b=grid.at((0, 7))).named("both corners")
    with pytest.raises(xm.EngineError, match=r"hopeless.*'both corners'.*engine='xor'"):
        xm.distribution(grid, clash, None, engine="reject", max_nodes=1).sample(1)


def test_hopeless_cases_end_within_their_time_limit():
    """Long trajectories make draws slow: it is time that counts, and not only how many were drawn."""
    grid = xm.GridWorld(8, 8, start=(0, 0), goal=(7, 7), moves=("up", "right"))
    clash = xm.ltlf("F(a) & F(b)", a=grid.at((7, 0)), b=grid.at((0, 7))).named("both corners")
    d = xm.distribution(grid, clash, None, engine="reject", max_nodes=1, time_limit=1e-6)
    for other in (d, d.with_reward(np.zeros((64, 2)))):
        with pytest.raises(xm.EngineError, match=r"hopeless here within time_limit = 1e-06 s: none of 2,000 draws"):
            other.sample(1)
    easy = xm.distribution(grid, xm.no_revisit(), None, engine="reject", max_nodes=1, time_limit=1e-6)
    assert len(easy.sample(5000)) == 5000  # valid draws start the clock again


def test_a_conflict_among_what_was_multiplied_is_named():
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), moves=("up", "right"))
    corners = [xm.visit(grid.at(cell)).named(name) for cell, name in (((5, 0), "east"), ((0, 5), "north"))]
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, [*corners, xm.no_revisit().named("x")], None, engine="reject", max_nodes=1000)
    assert error.value.conflict == ("east", "north")


def test_the_mode_is_that_of_the_rules_and_not_of_the_relaxation(grid, rules):
    reward = np.full((25, 4), 1.0)
    exact = xm.distribution(grid, rules, reward)
    d = xm.distribution(grid, rules, reward, engine="reject", max_nodes=800)
    assert not rules.accepts(d.relaxed.mode())
    assert exact.log_prob(d.mode()) == pytest.approx(exact.log_prob(exact.mode()), abs=1e-9)
    assert tuple(d.guarantee) == (1.0, 0.0)
    assert d.sample(0) == []


def test_same_seed_same_answers(grid, rules):
    first, second = (xm.distribution(grid, rules, None, engine="reject", max_nodes=800, seed=7) for _ in range(2))
    assert first.log_partition() == second.log_partition()
    assert first.sample(50) == second.sample(50)
    assert first.sample(10, seed=3) == second.sample(10, seed=3)


def test_auto_takes_exact_then_reject(grid, rules):
    exact = xm.distribution(grid, rules, None)
    assert exact.engine == "exact"
    assert "nodes" in exact.reason
    d = xm.distribution(grid, rules, None, max_nodes=1000)
    assert d.engine == "reject"
    assert "'never twice' multiplies it the most" in d.reason
    assert f"{d.acceptance:.2%}" in d.reason


def test_counts_of_self_avoiding_walks_from_corner_to_corner():
    """Published counts (OEIS A007764) for 2x2 to 5x5 points: exactly where the rule fits, else within the error."""
    for n, published in ((2, 2), (3, 12), (4, 184), (5, 8512)):
        moves = ("up", "down", "left", "right")
        world = xm.GridWorld(n, n, start=(0, 0), goal=(n - 1, n - 1), moves=moves, horizon=n * n - 1)
        if n < 5:
            d = xm.distribution(world, xm.no_revisit(), engine="exact")
            assert d.log_partition() == pytest.approx(math.log(published), abs=1e-9)
        d = xm.distribution(world, xm.no_revisit(), engine="reject", max_nodes=10_000 if n < 5 else 60_000, seed=0)
        log_z, std = d.log_partition(return_std=True)
        assert abs(log_z - math.log(published)) <= 4 * std + 1e-9
        assert std < 0.05


@pytest.mark.slow
def test_walks_over_six_by_six_points():
    world = xm.GridWorld(6, 6, (0, 0), (5, 5), moves=("up", "down", "left", "right"), horizon=35)
    d = xm.distribution(world, xm.no_revisit(), engine="reject", seed=0)
    log_z, std = d.log_partition(return_std=True)
    assert abs(log_z - math.log(1_262_816)) <= 4 * std
    assert std < 0.1  # remembering the last few states alone leaves 0.16


def test_a_local_memory_forbids_what_its_definition_says():
    """Trajectories fail that come back to a state of which every later one had been near: within half a loop there and
    back, counted in positions at which the event holds."""
    world = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "down", "left", "right"), horizon=9)
    for event in (xm.anytime, world.at((0, 0), (1, 0), (1, 1), (2, 1)), xm.doing(0, 3)):
        counts = event.holds(world.source.astype(int), world.action.astype(int))
        far = np.where(np.eye(9, dtype=bool), 0, 99)
        for source, target, count in zip(world.source, world.target, counts, strict=True):
            far[source, target] = min(far[source, target], int(count))
        for middle in range(9):
            far = np.minimum(far, far[:, [middle]] + far[[middle]])
        taus = xm.distribution(world, None, engine="exact").sample(150, seed=0)
        told_apart = Counter()
        for rule in next(iter(xm.no_revisit(event).relaxations(world))):
            for tau in taus:
                s, a = np.array(tau.states), np.array([*tau.actions, -1])
                on = event.holds(s, a)
                closed = [
                    s[i] == s[j] and on[i] and on[j] and all(far[s[i], x] + far[x, s[i]] <= rule.loop for x in s[i:j])
                    for i in range(len(s))
                    for j in range(i + 1, len(s))
                ]
                assert rule.accepts(tau) == (not any(closed)), (rule, tau)
                told_apart[rule.accepts(tau)] += 1
        assert len(told_apart) == 2
