"""The real scikit-learn on lists of trajectories: by duck typing, without xmen importing it."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task
from xmen.learners.xmen import XMEN

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402


def test_settings_are_stored_as_given():
    grid, rule, features, _ = grid_task(4)
    listed = features.tolist()
    model = XMEN(grid, [rule], listed, l2=1)
    assert model.features is listed
    assert model.get_params()["constraint"][0] is rule
    assert model.get_params() == model.get_params(deep=False)
    assert model.set_params(l2=0.5, max_iter=3) is model
    assert (model.l2, model.max_iter) == (0.5, 3)
    with pytest.raises(ValueError, match=r"no setting 'momentum'; it has 'world'"):
        model.set_params(momentum=0.9)


def test_clone():
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, l2=0.3, seed=1).fit(demos)
    copy = clone(model)
    assert not hasattr(copy, "reward_")
    assert copy.l2 == 0.3
    np.testing.assert_array_equal(copy.features, features)
    np.testing.assert_allclose(copy.fit(demos).weights_, model.weights_)


def test_grid_search():
    grid, rule, features, demos = grid_task(5, n_demos=40)
    search = GridSearchCV(XMEN(grid, rule, features, seed=0), {"l2": [0.001, 10.0]}, cv=4)
    search.fit(demos)
    assert search.best_params_ == {"l2": 0.001}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(demos) == search.best_estimator_.score(demos)
    assert all(rule.accepts(tau) for tau in search.best_estimator_.sample(5))


@pytest.mark.system
def test_grid_search_in_other_processes_with_weights():
    grid, rule, features, demos = grid_task(4, n_demos=24)
    weights = np.linspace(0.5, 2.0, len(demos))
    search = GridSearchCV(XMEN(grid, rule, features), {"l2": [0.1, 1.0]}, cv=3, n_jobs=2)
    search.fit(demos, sample_weight=weights)
    expected = XMEN(grid, rule, features, **search.best_params_).fit(demos, sample_weight=weights)
    np.testing.assert_allclose(search.best_estimator_.weights_, expected.weights_)


def test_clones_do_not_share_a_trained_network():
    torch = pytest.importorskip("torch")
    grid, rule, features, demos = grid_task(4, n_demos=24)
    module = torch.nn.Linear(4, 1)
    table = xm.NeuralReward(module, features).table()
    model = XMEN(
        grid, rule, reward=xm.NeuralReward(module, features), training=xm.Training("lbfgs"), l2=0.1, seed=0
    ).fit(demos)
    copy = clone(model)
    assert not hasattr(copy, "reward_")
    assert copy.reward.module is not module
    np.testing.assert_array_equal(copy.reward.table(), table)  # as given, not as trained
    learned = model.reward_.table()
    copy.fit(demos[:8])
    np.testing.assert_array_equal(copy.reward.table(), table)
    np.testing.assert_array_equal(model.reward_.table(), learned)
    search = GridSearchCV(model, {"l2": [0.01, 10.0]}, cv=3).fit(demos)
    assert search.best_params_ == {"l2": 0.01}
    np.testing.assert_array_equal(model.reward.table(), table)


def test_cross_validation_and_fitted_check():
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, l2=0.1)
    scores = cross_val_score(model, demos, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(demos))


def test_repr_shows_what_was_chosen():
    grid, rule, features, _ = grid_task(4)
    text = repr(XMEN(grid, rule, features, l2=0.5))
    assert text.startswith("XMEN(world=GridWorld(4, 4")
    assert "features=array of shape (16, 3, 4), l2=0.5)" in text
    assert "time" not in repr(XMEN(grid, rule, time_limit=float("60")))  # equal to the default, if not the same object
