"""The reject engine and the choice between engines, forced on small worlds by tiny node budgets."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import xmen as xm
from engines.truth import follows
from strategies import cases
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
    draws = xm.distribution(grid, rules, reward, engine="reject", max_nodes=800).sample(20_000, seed=0)
    assert follows(draws, {tau: math.exp(exact.log_prob(tau)) for tau in draws})


def test_the_shadow_of_no_revisit_looks_back_as_far_as_its_window():
    rng = np.random.default_rng(0)
    for _ in range(cases(500)):
        states = rng.integers(0, 6, int(rng.integers(1, 8))).tolist()
        event = xm.anytime if rng.random() < 0.5 else xm.at(0, 1, 2)
        window = int(rng.integers(1, 5))
        watched = [s for s in states if event is xm.anytime or s < 3]
        again = any(watched[i] in watched[max(0, i - window) : i] for i in range(len(watched)))
        tau = xm.Trajectory(states, [0] * (len(states) - 1))
        assert NoRecentRevisit(event, window=window).accepts(tau) == (not again)


@pytest.fixture
def clash():
    """Rejection finds nothing: no way passes both corners, and the world and the rule do not say so."""
    grid = xm.GridWorld(8, 8, start=(0, 0), goal=(7, 7), moves=("up", "right"))
    return grid, xm.ltlf("F(a) & F(b)", a=grid.at((7, 0)), b=grid.at((0, 7))).named("both corners")


def test_hopeless_cases_end_with_an_error(clash, monkeypatch):
    monkeypatch.setattr(reject, "PATIENCE", 5000)
    with pytest.raises(xm.EngineError, match=r"hopeless.*'both corners'.*engine='xor'"):
        xm.distribution(*clash, None, engine="reject", max_nodes=1).sample(1)


def test_hopeless_cases_end_within_their_time_limit(clash):
    """Long trajectories make draws slow: it is time that counts, and not only how many were drawn."""
    d = xm.distribution(*clash, None, engine="reject", max_nodes=1, time_limit=1e-6)
    for other in (d, d.with_reward(np.zeros((64, 2)))):
        with pytest.raises(xm.EngineError, match=r"hopeless.*time_limit = 1e-06.* 2,000 draws"):
            other.sample(1)
    easy = xm.distribution(clash[0], xm.no_revisit(), None, engine="reject", max_nodes=1, time_limit=1e-6)
    assert len(easy.sample(5000)) == 5000  # valid draws start the clock again


def test_the_mode_is_that_of_the_rules_and_not_of_the_relaxation(grid, rules):
    reward = np.full((25, 4), 1.0)
    exact = xm.distribution(grid, rules, reward)
    d = xm.distribution(grid, rules, reward, engine="reject", max_nodes=800)
    assert not rules.accepts(d.relaxed.mode())
    assert exact.log_prob(d.mode()) == pytest.approx(exact.log_prob(exact.mode()), abs=1e-9)


def test_auto_takes_exact_then_reject(grid, rules):
    exact = xm.distribution(grid, rules, None)
    assert exact.engine == "exact"
    assert "nodes" in exact.reason
    d = xm.distribution(grid, rules, None, max_nodes=1000)
    assert d.engine == "reject"
    assert "'never twice'" in d.reason
    assert f"{d.acceptance:.2%}" in d.reason


@pytest.mark.parametrize(
    ("n", "published", "max_nodes", "most"),
    [
        *((n, published, 10_000, 0.05) for n, published in ((2, 2), (3, 12), (4, 184))),
        (5, 8512, 60_000, 0.05),
        pytest.param(6, 1_262_816, None, 0.1, marks=pytest.mark.slow),  # memory of the last few states leaves 0.16
    ],
)
def test_counts_of_self_avoiding_walks_from_corner_to_corner(n, published, max_nodes, most):
    """Published counts (OEIS A007764) for n x n points: exactly where the rule fits, else within the error."""
    moves = ("up", "down", "left", "right")
    world = xm.GridWorld(n, n, start=(0, 0), goal=(n - 1, n - 1), moves=moves, horizon=n * n - 1)
    if n < 5:
        d = xm.distribution(world, xm.no_revisit(), engine="exact")
        assert d.log_partition() == pytest.approx(math.log(published), abs=1e-9)
    d = xm.distribution(world, xm.no_revisit(), engine="reject", max_nodes=max_nodes, seed=0)
    log_z, std = d.log_partition(return_std=True)
    assert abs(log_z - math.log(published)) <= 4 * std + 1e-9
    assert std < most


def test_all_draws_accepted_is_no_certainty():
    """A rule that is broken once in millions: the estimate may miss it, and its error has to say so."""
    grid = xm.GridWorld(4, 4, (0, 0), (3, 3), moves=("up", "right", "down", "left"), horizon=14)
    rare = (xm.count(grid.at((1, 1))) <= 5).named("rarely broken")
    d = xm.distribution(grid, rare, None, engine="reject", max_nodes=1, seed=0)
    exact = xm.distribution(grid, rare, None)
    assert d.relaxation.rejecting == ("rarely broken",)
    estimate, error = d.log_partition(return_std=True)
    assert error > 0.0
    assert abs(estimate - exact.log_partition()) < 5 * error
    free = xm.distribution(grid, None, None, engine="reject", seed=0)
    assert free.log_partition(return_std=True)[1] == 0.0


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
        told_apart, rules = Counter(), list(next(iter(xm.no_revisit(event).relaxations(world))))
        assert [rule.loop for rule in rules] == sorted({*range(2, 9)} & set((far + far.T).ravel().tolist()))
        for rule in rules:
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
