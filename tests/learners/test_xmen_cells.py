"""method="cells": estimates against exact values, error bars against their own spread, and the optimum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task, small_task
from strategies import VERIFY, cases
from xmen.learners.xmen import XMEN
from xmen.methods.cells import Adam, CellObjective
from xmen.methods.demonstrations import gather
from xmen.methods.objective import Objective
from xmen.notices import ConvergenceWarning, LearningWarning
from xmen.rewards.features import DenseFeatures


def quiet_fit(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        return model.fit(*args)


def test_cells_come_close_to_the_optimum():
    """Within 0.02 nats on random worlds (stochastic ones among them), rules, discounts and weights."""
    gaps = []
    for seed in range(cases(3)):
        task = small_task(seed, spellable=True)
        model = XMEN(
            task.world, task.constraint, task.features, task.discount, method="cells", oracle="listed", seed=seed
        )
        quiet_fit(model, task.demos, task.weights)
        assert model.method_ == "cells"
        gaps.append(task.loss(model.weights_) - task.optimum()[0])
    assert min(gaps) > -1e-9
    assert max(gaps) < 0.02, gaps


@pytest.mark.parametrize("default_features", [False, True])
def test_cells_on_a_grid(default_features):
    """1,000 paths, cells much smaller than that, so that the noise is real: within 0.02 nats of the exact fit."""
    grid, rule, features, demos = grid_task(6)
    features = None if default_features else features
    best = quiet_fit(XMEN(grid, rule, features), demos)
    model = quiet_fit(XMEN(grid, rule, features, method="cells", engine="exact", oracle="listed", seed=0), demos)
    assert any(record.details["parities"] > 0 for record in model.history_)
    assert 0 <= best.score(demos) - model.score(demos) < 0.02
    assert all(rule.accepts(tau) for tau in model.sample(200))
    assert model.n_iter_ == 400


def test_error_bars_cover_the_exact_gradient():
    """Of 4 components in 60 repetitions, |estimate - exact| / std is standard normal within a few percent.

    The mean square of 240 such ratios has a standard deviation of about 0.1 (correlated components: up to 0.2), so a
    bar that is wrong by a third, or a bias of one bar, is caught.
    """
    grid, rule, features, _ = grid_task(6)
    dense = DenseFeatures(features)
    theta = np.array([0.5, -0.3, 0.2, 0.8])
    base = xm.distribution(grid, rule, None)
    exact = Objective(base, dense, np.zeros(4), l2=0.1)(theta)
    hashed = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    noisy = CellObjective(hashed, dense, np.zeros(4), 0.1, n_cells=16, cell_size=24.0)
    values = [noisy(theta, np.random.default_rng(seed)) for seed in range(60)]
    ratios = np.array([(value.gradient - exact.gradient) / value.gradient_std for value in values])
    assert 0.5 < np.mean(ratios**2) < 2.0
    assert np.abs(ratios.mean(axis=0)).max() < 4 / np.sqrt(60)
    losses = np.array([(value.loss - exact.loss) / value.loss_std for value in values])
    assert 0.5 < np.mean(losses**2) < 2.0


def test_history_has_error_bars():
    grid, rule, features, demos = grid_task(6)
    model = quiet_fit(XMEN(grid, rule, features, method="cells", oracle="listed", seed=0, max_iter=5), demos)
    for record in model.history_:
        assert record.gradient_std > 0
        assert record.loss_std > 0
        assert record.details["solutions"] > 0


def test_same_seed_same_result():
    grid, rule, features, demos = grid_task(6)
    settings = {"method": "cells", "oracle": "listed", "max_iter": 5}
    one, other, third = (
        quiet_fit(XMEN(grid, rule, features, seed=seed, **settings), demos).weights_ for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, other)
    assert np.any(one != third)


def test_the_oracle_does_not_matter():
    """A solver bounds weights by a relaxation and the list exactly, so their cells differ a little; not the weights."""
    grid, rule, features, demos = grid_task(5)
    settings = {"method": "cells", "max_iter": 3, "seed": 0, "cell_size": 16.0, "n_cells": 4, "learning_rate": 0.2}
    listed = quiet_fit(XMEN(grid, rule, features, oracle="listed", **settings), demos)
    solved = quiet_fit(XMEN(grid, rule, features, oracle="cryptominisat", **settings), demos)
    np.testing.assert_allclose(solved.weights_, listed.weights_, atol=0.02)


def test_auto_uses_cells_where_the_product_does_not_fit():
    grid, rule, features, demos = grid_task(5)
    model = XMEN(grid, rule, features, max_nodes=100, max_iter=3, seed=0, n_cells=4)
    quiet_fit(model, demos)
    assert model.method_ == "cells"
    assert model.distribution().engine in ("reject", "xor")
    assert all(rule.accepts(tau) for tau in model.sample(20))


def test_stopping_early_is_announced():
    grid, rule, features, demos = grid_task(6)
    with pytest.warns(LearningWarning, match="max_iter = 2"):
        model = XMEN(grid, rule, features, method="cells", oracle="listed", seed=0, max_iter=2).fit(demos)
    assert not model.converged_


@pytest.mark.parametrize("max_iter", [1, 5])
def test_the_last_record_is_of_the_answer(max_iter):
    """As many records as steps; the last has the gradient at the averaged weights, from four times as many cells."""
    grid, rule, features, demos = grid_task(6)
    settings = {"method": "cells", "oracle": "listed", "seed": 0, "n_cells": 64, "max_iter": max_iter}
    model = quiet_fit(XMEN(grid, rule, features, **settings), demos)
    assert [record.iteration for record in model.history_] == list(range(1, max_iter + 1))
    dense = DenseFeatures(features)
    mean = dense.contract(gather(grid, rule, demos).visits())
    exact = Objective(xm.distribution(grid, rule, None), dense, mean, l2=0.0)(model.weights_)
    last = model.history_[-1]
    assert abs(last.loss - exact.loss) < 4 * last.loss_std
    assert abs(last.gradient_norm - np.linalg.norm(exact.gradient)) < 4 * last.gradient_std


def test_where_cells_hold_everything_the_gradient_is_exact_and_said_to_be():
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, method="cells", oracle="listed", seed=0, max_iter=20, cell_size=1000.0)
    with pytest.warns(ConvergenceWarning, match=r"above tol = 1e-07. It is exact, as the cells hold every"):
        model.fit(demos)
    assert model.history_[-1].gradient_std == 0.0


def test_adam_on_a_known_quadratic():
    """Without noise, from a start ten units away in features of very different size."""
    scale = np.array([1.0, 100.0, 0.01])
    target = np.array([5.0, -0.03, 200.0])

    class Quadratic:
        def __call__(self, weights, rng, m=0, more=1):
            from xmen.methods.cells import NoisyValue

            gap = (weights - target) * scale
            return NoisyValue(0.5 * gap @ gap, 0.0, gap * scale, np.zeros(3), 0, 0)

    adam = Adam(Quadratic(), scale, learning_rate=0.2, max_iter=300)  # type: ignore[arg-type]
    state = adam.start(np.zeros(3), np.random.SeedSequence(0))
    for _ in range(300):
        state, _ = adam.step(state)
    np.testing.assert_allclose(state.average * scale, target * scale, atol=0.02)


@pytest.mark.skipif(not VERIFY, reason="minutes long")
@pytest.mark.slow
def test_nine_by_nine():
    grid, rule, features, demos = grid_task(9, n_demos=200)
    best = XMEN(grid, rule, features).fit(demos)
    model = quiet_fit(XMEN(grid, rule, features, method="cells", engine="exact", oracle="listed", seed=0), demos)
    assert 0 <= best.score(demos) - model.score(demos) < 0.02
