"""The XOR engine against the exact one: estimates, samples, refusals, and the same answers everywhere."""

from __future__ import annotations

import math
from collections import Counter

import joblib
import numpy as np
import pytest

import xmen as xm
from engines.truth import follows
from xmen.engines import xor as hashed
from xmen.errors import GuaranteeWarning
from xmen.machines.tables import release
from xmen.oracles.cryptominisat import CryptoMiniSatOracle


def paper_grid():
    """The kinds of constraints of the paper on its 9x9 grid: a few thousand valid paths."""
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))
    triangle, cross = grid.at((1, 2), (2, 1)), grid.at((4, 4), (2, 5), (6, 3))
    square, circle = grid.at((2, 4), (3, 6), (4, 2), (6, 4)), grid.at((5, 7), (4, 7), (7, 5), (7, 6))
    rules = (
        xm.first(triangle, among=triangle | cross | square | circle).named("triangle first")
        & xm.never(cross).named("no crosses")
        & (xm.count(square) == 1).named("one square")
        & (xm.count(circle) == 1).named("one circle")
        & (xm.longest_repeat() <= 2).named("no long runs")
    )
    return grid, rules


@pytest.mark.slow
def test_samples_of_the_paper_s_grid_pass_chi_square():
    """20,000 samples in 60 groups of paths by their cells at two places, level 1e-4.

    Power: the noncentrality under a bias is n times its chi-square distance. A sampler whose probabilities are off
    by 10 % on half of the mass (distance 0.01) gives 200 on 60 groups, and is found with probability above 0.999.
    """
    grid, rules = paper_grid()
    rng = np.random.default_rng(1)
    reward = rng.normal(0, 0.04, (81, 3))
    exact = xm.distribution(grid, rules, reward)
    d = xm.distribution(grid, rules, reward, engine="xor", oracle="listed", delta=1.05, seed=0)
    assert d.oracle == "listed"
    n, truth, everything = 20_000, Counter(), release(d.hashed.walks, exact.product.compiled)

    def group(tau):
        return tau.states[4], tau.states[8] if len(tau) >= 8 else -1

    for tau in everything:
        truth[group(tau)] += math.exp(exact.log_prob(tau))
    assert len(everything) > 2000
    assert sum(truth.values()) == pytest.approx(1.0)
    assert sum(n * p >= 5 for p in truth.values()) > 20
    # The guarantee allows a bias of delta - 1 = 5 %: the test's level leaves room for none of that size in practice.
    assert follows(map(group, d.sample(n, seed=3)), truth)


@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
def test_estimates_agree_with_the_exact_engine(oracle):
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "up-right"))
    rules = xm.never(grid.at((2, 2))) & (xm.longest_repeat() <= 2)
    for reward in (None, np.random.default_rng(0).normal(0, 1.5, (25, 3))):
        exact = xm.distribution(grid, rules, reward)
        d = xm.distribution(grid, rules, reward, engine="xor", oracle=oracle, cell_size=8, seed=2)
        assert d.engine == "xor"
        assert d.n_parities > 0, "the cells must be real ones"
        log_z, std = d.log_partition(return_std=True)
        assert 0 < std < 0.5
        assert abs(log_z - exact.log_partition()) < 5 * std
        visits, errors = d.visits(return_std=True)
        # Of what one trajectory in 400 does, cells may meet a copy or none: its error is then no error bar.
        assert np.all(np.abs(visits - exact.visits()) <= 6 * errors + 0.004)
        assert d.entropy() == pytest.approx(exact.entropy(), abs=0.6)
        np.testing.assert_allclose(d.state_visits(), exact.state_visits(), atol=0.35)


@pytest.mark.slow
def test_paws_is_close_to_exact():
    """It may be off by its factor, so it gets a coarse test."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "up-right"))
    reward = np.random.default_rng(0).normal(0, 0.5, (16, 3))
    exact = xm.distribution(grid, None, reward)
    d = xm.distribution(grid, None, reward, engine="xor", oracle="listed", cell_size=8, delta=1.19, seed=0)
    drawn = d.sample_paws(1500, seed=2)
    samples, plan, info = drawn.trajectories, drawn.plan, drawn.info
    assert plan.delta <= 1.19
    # A cell that is read to its end costs one call more than it has solutions, a cell that overflows does not.
    assert info.n_points < info.n_queries <= info.n_points + info.n_cells
    assert info.n_cells - info.n_failures >= len(samples) == 1500
    seen = Counter(samples)
    for tau, count in seen.items():
        p = math.exp(exact.log_prob(tau))
        bound = 1.19 * p * 1500
        assert count < bound + 5 * math.sqrt(bound) + 5


def test_large_machines_take_their_compact_encodings():
    """A budget with large weights and self-avoidance, both beyond listing, against the exact engine."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=9)
    weights = (np.random.default_rng(0).integers(1, 1000, 16)).tolist()
    rules = (xm.total(weights) <= 4200) & xm.no_revisit()
    exact = xm.distribution(grid, rules, None)
    d = xm.distribution(grid, rules, None, engine="xor", oracle="cryptominisat", cell_size=8, seed=0)
    log_z, std = d.log_partition(return_std=True)
    assert abs(log_z - exact.log_partition()) <= 5 * std + 1e-9


@pytest.mark.system
def test_same_seed_same_samples_on_one_or_two_processes():
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "up-right"))
    answers = []
    for n_jobs in (1, 2):
        with joblib.parallel_config(n_jobs=n_jobs):
            d = xm.distribution(grid, None, None, engine="xor", oracle="cryptominisat", cell_size=8, seed=5)
            answers.append((d.log_partition(), d.sample(8)))
    assert answers[0] == answers[1]


@pytest.mark.system
def test_auto_falls_through_to_xor():
    """A tour through all cells in any order: the product is too large for the budget and rejection accepts nothing."""
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=24)
    rule = xm.no_revisit().named("never twice") & (xm.length() == 25).named("everywhere")
    d = xm.distribution(grid, rule, None, max_nodes=400, oracle="cryptominisat", seed=0)
    assert d.engine == "xor"
    assert "max_nodes = 400" in d.reason
    # Hamiltonian paths between opposite corners of a 5x5 grid: 104 (sequence A001184).
    assert math.exp(d.log_partition()) == pytest.approx(104, rel=0.3)
    assert all(len(set(tau.states)) == 25 for tau in d.sample(3))
    assert "cryptominisat" in repr(d)


def test_listed_refuses_what_it_cannot_list(monkeypatch):
    monkeypatch.setattr(hashed, "MAX_LISTED", 3)
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    with pytest.raises(xm.EngineError, match="more than 3"):
        xm.distribution(grid, None, None, engine="xor", oracle="listed")


def test_the_guarantee_is_that_of_the_settings():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    d = xm.distribution(grid, None, None, engine="xor", oracle="listed")
    assert d.guarantee == xm.EngineSettings().guarantee == xm.Xor(delta=1.18).guarantee


def test_the_time_limit_is_of_one_call_and_a_slow_cell_gets_more(monkeypatch):
    """Every cell is too slow: each is tried with 1, 2, 4 and 8 times the limit, and then the question ends."""
    asked = []

    class Slow(CryptoMiniSatOracle):
        def solutions(self, parities=None):
            asked.append(self.time_limit)
            raise xm.OracleTimeoutError(f"stopped after {self.time_limit:g} s")

    monkeypatch.setattr(hashed, "make_oracle", lambda name, formula, time_limit: Slow(formula, time_limit))
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    d = xm.distribution(grid, None, None, engine="xor", oracle="cryptominisat", time_limit=5.0, seed=0)
    with pytest.raises(xm.XmenError, match=r"4 times .*1, 2, 4, 8 times the time_limit .*40 s"):
        d.log_partition()
    assert asked[:4] == [5.0, 10.0, 20.0, 40.0]
    assert asked == asked[:4] * (len(asked) // 4)
    assert d.hashed.oracle.time_limit == 5.0


def test_parameters_without_a_guarantee_have_to_be_asked_for_by_name():
    """XOR-CD's: valid draws, an infinite delta and a warning; unnamed, they are refused."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right", "up-right"))
    d = xm.distribution(grid, None, np.zeros((9, 3)), engine="xor", oracle="listed", seed=0)
    with pytest.warns(GuaranteeWarning, match="P = 8, alpha = 1, b = 1 and l = 10"):
        samples, plan, _ = d.sample_paws(10, seed=1, parameters="XOR-CD")
    assert len(samples) == 10
    assert (plan.delta, plan.n_levels, plan.pivot, plan.extra, plan.bits_per_level) == (math.inf, 10, 8, 1, 1)
    with pytest.raises(xm.EngineError, match="'XOR-CD'"):
        d.sample_paws(1, parameters="PAWS")
    with pytest.raises(xm.EngineError, match="PAWS"):
        d.sample_paws(1, faithful=True, bits_per_level=1, pivot=8, extra=1)
