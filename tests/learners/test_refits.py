"""Bootstrap and cross-validation of linear weights against one fit after the other, on the host and on a device."""

from __future__ import annotations

import os

import numpy as np
import pytest

import xmen as xm
from learners.tasks import errands_task
from learners.test_trips import city

DEVICE = os.environ.get("XMEN_TEST_DEVICE", "cpu")


@pytest.mark.parametrize("device", [None, DEVICE])
@pytest.mark.parametrize("choices", [{}, {"l2": 0.02, "fixed": {1: -0.4}, "discount": 0.9}])
def test_every_resample_is_what_a_fit_to_it_gives(device, choices):
    grid, rules, features, demos = errands_task(60)
    weights = np.random.default_rng(1).integers(0, 3, len(demos)) + 0.5
    model = xm.XMEN(grid, rules, features, device=device, **choices).fit(demos, weights)
    found = model.bootstrap(18, seed=5)  # one batch is full, one is not
    drawn = np.random.default_rng(5).multinomial(len(demos), weights / weights.sum(), size=18)
    assert found.shape == (18, 3)
    for k in (0, 7, 17):
        again = xm.XMEN(grid, rules, features, **choices).fit(demos, drawn[k])
        np.testing.assert_allclose(found[k], again.weights_, atol=1e-5)
    assert np.array_equal(found, model.bootstrap(18, demos, weights, seed=5))


def test_its_spread_is_that_of_robust_errors():
    """Of 300 resamples the spread is within 15 % of its expectation, and the two errors agree up to 1/sqrt(n)."""
    grid, rules, features, demos = errands_task(60)
    model = xm.XMEN(grid, rules, features).fit(demos)
    np.testing.assert_allclose(model.bootstrap(300, seed=0).std(axis=0), model.summary().robust_errors, rtol=0.25)


@pytest.mark.parametrize("device", [None, DEVICE])
@pytest.mark.parametrize("choices", [{}, {"fixed": {1: -0.4}, "discount": 0.9}])
def test_cross_validation_is_a_grid_search_in_one_product(device, choices):
    selection = pytest.importorskip("sklearn.model_selection")
    grid, rules, features, demos = errands_task(60)
    penalties = [0.003, 0.1, 2.0]
    found = xm.XMEN(grid, rules, features, l2=0.05, device=device, **choices).fit(demos).cross_validate(penalties, 4)
    search = selection.GridSearchCV(xm.XMEN(grid, rules, features, **choices), {"l2": penalties}, cv=4).fit(demos)
    expected = np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(4)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.ptp(found.mean(axis=1)) > 0.01


def test_cross_validation_by_labels_weighs_demonstrations_and_takes_a_penalty_per_feature():
    grid, rules, features, demos = errands_task(60)
    rng = np.random.default_rng(2)
    traveller, weights, penalty = rng.integers(0, 3, len(demos)), rng.uniform(0.1, 2.0, len(demos)), [0.0, 0.5, 0.01]
    model = xm.XMEN(grid, rules, features).fit(demos, weights)
    found = model.cross_validate([penalty], np.array(["ann", "ben", "cy"])[traveller])
    for k in range(3):
        others = xm.XMEN(grid, rules, features, l2=penalty).fit(demos, weights * (traveller != k))
        held_out = [demo for demo, who in zip(demos, traveller, strict=True) if who == k]
        assert found[0, k] == pytest.approx(others.score(held_out, weights[traveller == k]), abs=1e-6)


@pytest.mark.parametrize(
    ("folds", "named"),
    [
        (1, "folds .* 1"),
        (61, "folds .* 61 of 60"),
        ([0, 1], r"folds .* \(2,\).* 60"),
        ([7] * 60, "folds .* 1 of 60"),
    ],
)
def test_folds_that_cannot_be_are_refused(folds, named):
    grid, rules, features, demos = errands_task(60)
    with pytest.raises(xm.EngineError, match=named):
        xm.XMEN(grid, rules, features).fit(demos).cross_validate([0.1], folds)


@pytest.mark.parametrize("l2", [0.1, []])
def test_penalties_are_a_list(l2):
    grid, rules, features, demos = errands_task(60)
    with pytest.raises(xm.EngineError, match="penalties of a list"):
        xm.XMEN(grid, rules, features).fit(demos).cross_validate(l2)


def test_what_it_cannot_do_is_said(tmp_path):
    grid, rules, features, demos = errands_task(60)
    model = xm.XMEN(grid, rules, features)
    with pytest.raises(xm.NotFittedError):
        model.bootstrap()
    model.fit(demos)
    with pytest.raises(xm.EngineError, match=r"n of bootstrap\(n\) .* 0"):
        model.bootstrap(0)
    model.save(tmp_path / "model")
    with pytest.raises(xm.NotFittedError, match="bootstrap"):
        xm.load(tmp_path / "model").bootstrap(2)
    with pytest.raises(xm.EngineError, match=r"l2 .* -1.0"):
        model.cross_validate([-1.0])


def test_demonstrations_with_tasks_of_their_own_are_fitted_one_by_one():
    """In a network, and given the start: each resample and each part is what a fit with these counts gives."""
    grid, rules, features, demos = errands_task(60)
    network, of_streets, trips = city(11, n_trips=20)
    cases = (
        (xm.XMEN(network, features=of_streets, l2=0.05), trips),
        (xm.XMEN(grid, rules, features, given="start", l2=0.05), demos),
    )
    for model, shown in cases:
        found = model.fit(shown).bootstrap(2, seed=5)
        counts = np.random.default_rng(5).multinomial(len(shown), np.full(len(shown), 1 / len(shown)), size=2)
        for weights, row in zip(found, counts, strict=True):
            alone = type(model)(**model.get_params(deep=False)).fit(shown, sample_weight=row)
            np.testing.assert_allclose(weights, alone.weights_, atol=1e-3)
        scores = model.cross_validate([0.05, 5.0], 2)
        half = np.sort(np.arange(len(shown)) % 2)
        for penalty, part in ((0, 0), (1, 1)):
            settings = model.get_params(deep=False) | {"l2": [0.05, 5.0][penalty]}
            others, held = ([shown[k] for k in np.flatnonzero(where)] for where in (half != part, half == part))
            expected = type(model)(**settings).fit(others).score(held)
            np.testing.assert_allclose(scores[penalty, part], expected, atol=1e-3)


def test_resamples_without_an_optimum_are_counted():
    fork = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
    demos = [xm.Trajectory([0, 1], [0])] * 3 + [xm.Trajectory([0, 2], [1])]
    features = np.zeros((3, 2, 1))
    features[0, 0] = 1.0
    with pytest.warns(xm.ConvergenceWarning, match=r"\d+ of 40 fits"):
        xm.XMEN(fork, None, features).fit(demos).bootstrap(40, seed=0)
