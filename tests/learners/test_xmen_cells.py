"""method="cells": estimates against exact values, error bars against their own spread, and the optimum."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.exact_loss import exact_loss
from learners.quiet import quietly
from learners.tasks import grid_task, small_task
from strategies import VERIFY, cases
from xmen.errors import LearningWarning
from xmen.learners.xmen import XMEN
from xmen.methods import reject
from xmen.methods.cells import CellsLikelihood
from xmen.methods.demonstrations import gather
from xmen.rewards.linear import DenseFeatures


def test_cells_come_close_to_the_optimum():
    """Within 0.02 nats on random worlds (stochastic ones among them), rules, discounts and weights."""
    gaps = []
    for seed in range(cases(3)):
        task = small_task(seed, spellable=True)
        model = XMEN(
            task.world, task.constraint, task.features, task.discount, method="cells", oracle="listed", seed=seed
        )
        quietly(model, task.demos, task.weights)
        assert model.method_ == "cells"
        gaps.append(task.loss(model.weights_) - task.optimum()[0])
    assert min(gaps) > -1e-9
    assert max(gaps) < 0.02, gaps


@pytest.mark.parametrize("default_features", [False, True])
def test_cells_on_a_grid(default_features):
    """1,000 paths, cells much smaller than that, so that the noise is real: within 0.02 nats of the exact fit."""
    grid, rule, features, demos = grid_task(6)
    features = None if default_features else features
    best = quietly(XMEN(grid, rule, features), demos)
    settings = {"method": xm.Cells(cell_size=24.0), "engine": "exact", "oracle": "listed", "tol": 0.02}
    model = quietly(XMEN(grid, rule, features, seed=0, **settings), demos)
    assert any(record.details["parities"] > 0 for record in model.history_)
    for record in model.history_:
        if record.details["parities"]:
            assert min(record.gradient_std, record.loss_std) > 0
        assert record.details["cells"] > 0
        assert record.details["queries"] > record.details["solutions"] > 0
    assert -1e-9 <= best.score(demos) - model.score(demos) < 0.02
    assert all(rule.accepts(tau) for tau in model.sample(200))
    assert model.converged_


def test_error_bars_cover_the_exact_gradient():
    """Over 60 repetitions the squared error of all visits is what their bars say, and so is that of the loss.

    The mean of 60 such ratios has a standard deviation of at most 0.2 (all visits moving together), so a bar that is
    wrong by a third is caught; a bias of half the spread of any of the 12 largest visits is, too.
    """
    grid, rule, features, _ = grid_task(6)
    table = features @ np.array([0.5, -0.3, 0.2, 0.8])
    exact = xm.distribution(grid, rule, table)
    hashed = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    noisy = CellsLikelihood(hashed, np.zeros(table.shape), n_cells=16, cell_size=24.0)
    moves = np.argsort(-exact.visits().ravel())[:12]
    visits, norms, losses = [], [], []
    for seed in range(60):
        noisy.begin(np.random.default_rng(seed), 0)
        found = noisy(table)
        visits.append((found.difference - exact.visits()).ravel()[moves])
        norms.append(np.linalg.norm(found.difference - exact.visits()) / found.visits_std)
        losses.append((found.loss - exact.log_partition()) / found.loss_std)
    assert 0.5 < np.mean(np.square(norms)) < 2.0
    assert np.abs(np.mean(visits, axis=0) / np.std(visits, axis=0)).max() < 4 / np.sqrt(60)
    assert 0.5 < np.mean(np.square(losses)) < 2.0


def test_the_oracle_does_not_matter():
    """The same parities cut the same cells, whoever lists them."""
    grid, rule, features, demos = grid_task(5)
    settings = {"method": xm.Cells(4, 16.0), "max_iter": 1, "seed": 0}
    listed = quietly(XMEN(grid, rule, 0.1 * features, oracle="listed", **settings), demos)
    solved = quietly(XMEN(grid, rule, 0.1 * features, oracle="cryptominisat", **settings), demos)
    assert listed.history_[0].details["parities"] == solved.history_[0].details["parities"] > 0
    np.testing.assert_allclose(solved.weights_, listed.weights_, atol=1e-5)


@pytest.mark.parametrize(("least", "method"), [(1e-3, "reject"), (1.1, "cells")])
def test_auto_uses_rejection_where_the_product_does_not_fit_and_cells_where_too_few_are_valid(
    least, method, monkeypatch
):
    monkeypatch.setattr(reject, "LEAST_ACCEPTANCE", least)
    grid, rule, features, demos = grid_task(5)
    model = XMEN(grid, rule, features, max_nodes=100, max_iter=3, seed=0)
    quietly(model, demos)
    assert model.method_ == method
    assert model.distribution().engine in ("reject", "xor")
    by_name = quietly(XMEN(grid, rule, features, method=method, max_nodes=100, max_iter=3, seed=0), demos)
    np.testing.assert_array_equal(model.weights_, by_name.weights_)
    assert all(rule.accepts(tau) for tau in model.sample(20))


def test_auto_uses_cells_where_rejection_is_hopeless(monkeypatch):
    """31 of 2^30 ways are valid; it need not take all the draws after which that is given up."""
    monkeypatch.setattr("xmen.engines.reject.PATIENCE", 2000)
    chain = xm.MDP(31, 2, [(s, a, s + 1, 1.0) for s in range(30) for a in (0, 1)], start=0, terminal=[30])
    rule, features = xm.count(xm.doing(0)) <= 1, np.zeros((31, 2, 1))
    features[:15, 0] = 1.0
    demos = [xm.Trajectory(range(31), [int(t != turn) for t in range(30)]) for turn in (3, 11, 17, 30)]
    model = XMEN(chain, rule, features, max_nodes=40, seed=0).fit(demos)
    assert model.method_ == "cells"
    assert model.weights_[0] == pytest.approx(np.log(16 / 15), abs=1e-3)  # half of the demonstrations have a 1


def test_auto_leaves_rules_that_are_usually_kept_to_cells():
    grid, rule, features, demos = grid_task(5)
    usual = xm.usually(xm.visit(grid.at((2, 2))).named("the middle"))
    model = quietly(XMEN(grid, rule & usual, features, max_nodes=100, max_iter=3, seed=0), demos)
    assert model.method_ == "cells"
    assert set(model.rule_weights_) == {"the middle"}


def test_stopping_early_is_announced():
    grid, rule, features, demos = grid_task(8)
    settings = {"method": xm.Cells(4, 24.0), "oracle": "listed", "seed": 2, "max_iter": 2}
    with pytest.warns(LearningWarning, match="max_iter = 2"):
        model = XMEN(grid, rule, features, **settings).fit(demos)
    assert not model.converged_
    assert model.distance_ > 0.005


@pytest.mark.parametrize("max_iter", [1, 5])
def test_the_last_record_is_of_the_answer(max_iter):
    """The last record has the loss and the gradient at the answer, by cells that it was not fitted to."""
    grid, rule, features, demos = grid_task(7)
    features = 0.2 * features
    settings = {"method": xm.Cells(16, 48.0), "oracle": "listed", "seed": 0}
    model = quietly(XMEN(grid, rule, features, max_iter=max_iter, tol=0.02, **settings), demos)
    assert [record.iteration for record in model.history_] == list(range(1, model.n_iter_ + 1))
    dense = DenseFeatures(features)
    mean = dense.contract(gather(grid, rule, demos).visits())
    exact = exact_loss(xm.distribution(grid, rule, None), dense, mean)(model.weights_)
    last = model.history_[-1]
    assert abs(last.loss - exact.loss) < 4 * last.loss_std
    assert abs(last.gradient_norm - np.linalg.norm(exact.gradient)) < 4 * last.gradient_std


def test_where_cells_hold_everything_the_answer_is_exact_and_said_to_be():
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, method="cells", oracle="listed", seed=0).fit(demos)
    assert model.history_[-1].gradient_std == 0.0
    assert model.converged_
    assert model.distance_ < 1e-9
    best = XMEN(grid, rule, features).fit(demos)
    np.testing.assert_allclose(model.weights_, best.weights_, atol=1e-3)
    assert not hasattr(best, "distance_")


@pytest.mark.skipif(not VERIFY, reason="minutes long")
@pytest.mark.slow
def test_nine_by_nine():
    grid, rule, features, demos = grid_task(9, n_demos=200)
    best = XMEN(grid, rule, features).fit(demos)
    model = quietly(XMEN(grid, rule, features, method="cells", engine="exact", oracle="listed", seed=0), demos)
    assert 0 <= best.score(demos) - model.score(demos) < 0.02
