"""The real scikit-learn on lists of trajectories: by duck typing, without xmen importing it."""

from __future__ import annotations

import pickle

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
    assert model.get_params(deep=False).items() <= model.get_params().items()
    assert model.set_params(l2=0.5, max_iter=3) is model
    assert (model.l2, model.max_iter) == (0.5, 3)
    with pytest.raises(ValueError, match=r"no setting 'momentum'; it has 'world'"):
        model.set_params(momentum=0.9)


def test_settings_of_a_record_are_settings_of_the_learner():
    """XMEN declares twenty settings at most; those of its engine and of progress have their old names beside these."""
    grid, rule, features, demos = grid_task(4)
    flat = {"delta": 1.1, "max_nodes": 5000, "patience": 3, "checkpoint_every": 2}
    model = XMEN(grid, rule, features, engine="xor", **flat)
    assert len(model.get_params(deep=False)) <= 20
    assert model.engine == xm.Xor(delta=1.1, max_nodes=5000)
    assert model.progress == xm.Progress(patience=3, checkpoint_every=2)
    assert {name: getattr(model, name) for name in flat} == flat
    assert model.get_params().items() >= flat.items()
    for other in (clone(model), pickle.loads(pickle.dumps(model)), XMEN(**model.get_params(deep=False))):
        assert (other.engine, other.progress) == (model.engine, model.progress)
    model.set_params(delta=1.05, engine__failure=0.01, engine="exact", callback=print)
    assert model.engine == xm.EngineSettings("exact", max_nodes=5000, delta=1.05, failure=0.01)
    assert (model.callback, model.patience) == (print, 3)
    model.max_nodes = 7
    assert model.engine.max_nodes == 7
    with pytest.raises(xm.ProductTooLargeError):
        model.fit(demos).distribution()
    for wrong in ({"max_nodes": 0}, {"checkpoint": 3}, {"patience": 0}, {"delta": 0.5}):
        with pytest.raises(xm.EngineError, match=next(iter(wrong))):
            XMEN(grid, rule, features, **wrong).fit(demos)
    bare = XMEN(grid, rule, engine="xor", time_limit=60.0, patience=10)
    assert (bare.engine, bare.progress) == ("xor", None)
    for made in (xm.MaxEntIRL(grid, features, max_nodes=9), xm.CausalXMEN(grid, rule, features, max_nodes=9)):
        assert made.set_params(resume=True, checkpoint="here").get_params()["max_nodes"] == 9
        assert made.progress == xm.Progress("here", resume=True)


def test_a_distribution_takes_the_record_of_an_engine_too():
    grid, rule, _, _ = grid_task(4)
    d = xm.distribution(grid, rule, engine=xm.Xor(delta=1.1, oracle="listed"))
    assert (d.engine, d.guarantee.delta) == ("xor", 1.1)
    with pytest.raises(xm.EngineError, match="beside engine="):
        xm.distribution(grid, rule, engine=xm.Xor(delta=1.1), max_nodes=9)


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
    assert "engine" not in repr(XMEN(grid, rule, time_limit=float("60")))  # the default
