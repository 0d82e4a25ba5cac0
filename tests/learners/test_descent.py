"""How far a fit to draws may go: doubts against a hat matrix, and a restraint that keeps weights from running away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import xmen as xm
from learners.exact_loss import exact_loss
from learners.tasks import grid_task
from xmen.learners.xmen import XMEN
from xmen.methods.cells import CellSource
from xmen.methods.demonstrations import gather
from xmen.methods.loss import DrawnLoss, Spread
from xmen.methods.rounds import RESTRAINTS, Descent, doubts
from xmen.rewards.linear import DenseFeatures, StateFeatures


def drawn_loss(n_cells, m, seed=0, size=6, n_demos=60, tilt=0.0):
    """A loss over hash cells of a grid, one weight per state, with its task."""
    grid, rule, _, demos = grid_task(size, n_demos)
    features, gathered = StateFeatures(grid), gather(grid, rule, demos)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    source = CellSource(base, gathered, features, 4, None)
    batch = source.read_cells(np.full(features.d, tilt) if tilt else None, n_cells, m, np.random.default_rng(seed))
    return DrawnLoss(batch.draws, features, features.contract(gathered.visits()), 0.0), grid, rule, demos


@pytest.mark.parametrize("n_cells", [2, 16])
def test_doubts_are_leverages(n_cells):
    """The diagonal of the projection onto the columns of all rows, by a singular value decomposition."""
    loss, *_ = drawn_loss(n_cells, 5)
    draws, weights = loss.draws, 0.1 * np.random.default_rng(1).normal(size=loss.features.d)
    share = doubts(loss, weights)
    worth = loss.worth(weights) + draws.known
    rows = loss.features.contract(draws.visits)
    away = (rows - worth @ rows / worth.sum()) * np.sqrt(worth)[:, None]
    left, values, _ = np.linalg.svd(away, full_matrices=False)
    leverage = np.square(left[:, values > 1e-7 * values[0]]).sum(axis=1)
    np.testing.assert_allclose(share[draws.known], leverage[draws.known], atol=1e-6)
    assert not share[~draws.known].any()
    assert share.sum() <= np.count_nonzero(values > 1e-7 * values[0]) + 1e-6


def test_doubt_falls_with_the_number_of_draws():
    few, many = (drawn_loss(n_cells, 5)[0] for n_cells in (2, 64))
    weights = np.zeros(few.features.d)
    assert doubts(few, weights).sum() > 4.0 * doubts(many, weights).sum() > 0.0


def test_a_doubt_counts_as_that_share_of_a_draw():
    """A known trajectory with doubt 1 is as if it had been drawn too: e = 1 + e(x), and as noisy."""
    loss, *_ = drawn_loss(4, 5, tilt=0.2)
    draws = loss.draws
    loss = replace(loss, doubt=np.where(draws.known, 1.0, 0.0))
    expected = np.where(draws.known, 1.0 + np.exp(draws.log_measure), np.exp(draws.log_measure))
    expected *= np.exp(draws.log_dynamics)
    look = loss.look(np.zeros(loss.features.d))
    np.testing.assert_allclose(look.valid, expected / expected.sum())
    p = look.valid * np.exp(draws.log_measure + draws.log_dynamics) / expected
    seen = Spread(loss, np.zeros(loss.features.d))
    assert seen.log_partition_std == pytest.approx(np.sqrt(draws.noise[0] * np.sum(p**2)))


def test_halves_are_the_draws_once_each():
    loss, *_ = drawn_loss(8, 4)
    draws = loss.draws.joined(drawn_loss(4, 5, seed=1)[0].draws)
    one, other = draws.halves()
    assert len(one) + len(other) == len(draws) + np.count_nonzero(draws.known)
    assert abs(len(one) - len(other)) <= 1
    total = one.visits[~one.known].sum() + other.visits[~other.known].sum()
    assert total == draws.visits[~draws.known].sum()
    np.testing.assert_array_equal(np.unique(one.log_measure), np.unique(draws.log_measure) + np.log(2.0))


def test_weights_do_not_run_away():
    """64 weights and 235 draws: their own minimum is far out and ruin, the restrained one is not."""
    loss, grid, rule, _ = drawn_loss(4, 8, size=8)
    weights = np.zeros(loss.features.d)
    descent = Descent(loss.features, 0.0)
    exact = exact_loss(xm.distribution(grid, rule, None), loss.features, loss.demo_features)
    loose, _ = descent(loss, weights)
    loss = replace(loss, doubt=doubts(loss, weights))
    restraint, begin = descent.restraint(loss, weights)
    held, reached = descent(loss.restrained(restraint), begin)
    assert reached
    assert exact(loose).loss > exact(weights).loss + 5.0
    assert exact(held).loss < exact(weights).loss
    assert np.abs(held).max() < 10.0 < np.abs(loose).max()


@pytest.mark.parametrize("seed", [0, 1])
def test_many_draws_are_held_back_little(seed):
    """14,000 draws bear weights; the strongest restraint, which few draws need, stays 0.35 nats from the optimum."""
    loss, grid, rule, _ = drawn_loss(256, 8, seed, size=8)
    descent = Descent(loss.features, 0.0)
    exact = exact_loss(xm.distribution(grid, rule, None), loss.features, loss.demo_features)
    chosen, begin = descent.restraint(loss, np.zeros(loss.features.d))
    held, strong = (descent(loss.restrained(restraint), begin)[0] for restraint in (chosen, RESTRAINTS[0]))
    assert exact(held).loss < exact(strong).loss - 0.2


@pytest.mark.filterwarnings("ignore::xmen.errors.LearningWarning")
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2))])
def test_states_that_no_demonstration_visits(seed):
    """Twenty demonstrations, an optimum at infinity, few draws: the answer is within tol, and within its bound."""
    grid, rule, _, demos = grid_task(8, 20, seed)
    settings = {"method": xm.Cells(n_cells=4, cell_size=64.0), "oracle": "listed", "engine": "exact", "tol": 0.05}
    model = XMEN(grid, rule, seed=seed, **settings).fit(demos)
    gap = XMEN(grid, rule).fit(demos).score(demos) - model.score(demos)
    assert all(record.details["parities"] > 0 for record in model.history_)
    assert gap < 0.05
    assert gap < model.distance_bound_ < np.inf


def test_all_valid_trajectories_need_neither():
    grid, rule, array, demos = grid_task(5)
    features, gathered = DenseFeatures(array), gather(grid, rule, demos)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    draws = CellSource(base, gathered, features, 4, None).read_cells(None, 1, 0, np.random.default_rng(0)).draws
    loss = DrawnLoss(draws, features, features.contract(gathered.visits()), 0.0)
    assert not doubts(loss, np.zeros(4)).any()
    assert Descent(features, 50.0).restraint(loss, np.zeros(4))[0] == 0.0
