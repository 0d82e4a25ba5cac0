"""Methods and settings as values: checked when made, cloned, searched over, and read from text."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import xmen as xm
from learners.quiet import quietly
from learners.tasks import grid_task
from xmen.learners.xmen import XMEN, parse_method, read_method


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: xm.Cells(n_cells=1), "n_cells"),
        (lambda: xm.Cells(cell_size=0.0), "cell_size"),
        (lambda: xm.Cells(cell_size=np.nan), "cell_size"),
        (lambda: xm.Reject(n_draws=1), "n_draws"),
        (lambda: xm.Reject(n_draws=2.5), "n_draws"),
        (lambda: xm.Paper(learning_rate="fast"), "learning_rate"),
        (lambda: xm.Paper(n_samples=2.5), "n_samples"),
        (lambda: xm.Paper(delta="x"), "delta"),
        (lambda: xm.Paper(failure=[]), "failure"),
        (lambda: xm.Paper(start="zero"), "start"),
        (lambda: xm.Paper(start=[0.0, np.inf]), "start"),
        (lambda: xm.Paper().changed(n_samples=0), "n_samples"),
    ],
)
def test_a_record_is_checked_when_it_is_made(make, field):
    with pytest.raises(xm.EngineError, match=rf"\b{field}\b"):
        make()


def test_a_name_is_the_record_with_its_defaults():
    assert read_method("paper") == xm.Paper() == parse_method("paper")
    assert read_method("exact") == xm.Exact()
    assert read_method("auto") is None
    assert parse_method(" Cells(n_cells=4, cell_size=8.5)") == xm.Cells(4, 8.5)
    assert hash(xm.Paper(start=[1, 2])) == hash(xm.Paper(start=np.array([1.0, 2.0])))
    grid, rule, features, demos = grid_task(4)
    settings = {"oracle": "listed", "seed": 0, "max_iter": 3}
    by_name = quietly(xm.XMEN(grid, rule, features, method="paper", **settings), demos)
    by_record = quietly(xm.XMEN(grid, rule, features, method=xm.Paper(), **settings), demos)
    np.testing.assert_array_equal(by_name.weights_, by_record.weights_)
    assert by_record.method_ == "paper"


@pytest.mark.parametrize(
    "text", ["papers", "paper(16)", "paper(n=3)", "paper(n_samples=f())", "paper(", "paper(delta=1)"]
)
def test_texts_that_are_no_method(text):
    with pytest.raises(xm.EngineError, match="method"):
        parse_method(text)


@pytest.mark.parametrize("method", ["newton", 3, None, xm.Paper])
def test_things_that_are_no_method(method):
    grid, rule, features, demos = grid_task(4)
    with pytest.raises(xm.EngineError, match="method"):
        xm.XMEN(grid, rule, features, method=method).fit(demos)


def test_settings_of_a_method_are_no_keywords_of_the_learner():
    grid, rule, features, _ = grid_task(4)
    for name in ("n_samples", "n_cells", "burn_in", "learning_rate", "proposal", "optimiser"):
        with pytest.raises(TypeError, match=name):
            xm.XMEN(grid, rule, features, **{name: 2})


def test_what_the_engine_guarantees_is_not_what_the_run_did():
    grid, rule, features, demos = grid_task(4)
    settings = {"engine": "xor", "oracle": "listed", "delta": 1.5, "failure": 0.01, "seed": 0, "max_iter": 2}
    model = quietly(xm.XMEN(grid, rule, features, method=xm.Paper(delta=1.05), **settings), demos)
    assert model.distribution().guarantee == (1.5, 0.01)
    other = quietly(xm.XMEN(grid, rule, features, method=xm.Paper(delta=1.05), **{**settings, "delta": 1.1}), demos)
    np.testing.assert_array_equal(model.weights_, other.weights_)
    finer = quietly(xm.XMEN(grid, rule, features, method=xm.Paper(delta=1.03), **settings), demos)
    assert np.any(finer.weights_ != model.weights_)


def test_nested_settings():
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features, method="paper", max_iter=2, seed=0, oracle="listed")
    assert "method__n_samples" not in model.get_params()
    model.set_params(method__n_samples=4, method__burn_in=0.0)
    assert model.method == xm.Paper(n_samples=4, burn_in=0.0)
    assert model.get_params()["method__n_samples"] == 4
    assert "method__n_samples" not in model.get_params(deep=False)
    assert clone(model).method == model.method
    assert model.set_params(method=xm.Cells(), method__n_cells=3).method == xm.Cells(3)
    assert model.set_params(training__optimiser="sgd").training == xm.Training("sgd")
    for wrong in ({"method__n_samples": 3}, {"n_samples": 3}, {"l2__x": 3}):
        with pytest.raises(ValueError, match=r"n_samples|l2=0.0"):
            model.set_params(**wrong)
    with pytest.raises(ValueError, match="method='auto'"):
        xm.XMEN(grid, rule, features).set_params(method__n_samples=3)
    search = GridSearchCV(model.set_params(method="paper", training=None), {"method__n_samples": [2, 4]}, cv=2)
    with pytest.warns(xm.LearningWarning):
        search.fit(demos[:40])
    assert search.best_estimator_.method == xm.Paper(n_samples=search.best_params_["method__n_samples"])


def test_theta_0_is_where_the_iterates_begin():
    """At the optimum already, with steps that go nowhere: the answer is the start. One number too many is refused."""
    grid, rule, features, demos = grid_task(4)
    best = xm.XMEN(grid, rule, features).fit(demos).weights_
    still = xm.Paper(start=best, learning_rate=1e-9)
    model = quietly(xm.XMEN(grid, rule, features, method=still, max_iter=2, seed=0, oracle="listed"), demos)
    np.testing.assert_allclose(model.weights_, best, atol=1e-6)
    with pytest.raises(xm.EngineError, match=r"start .* 5 .* 4"):
        xm.XMEN(grid, rule, features, method=xm.Paper(start=[0.0] * 5), oracle="listed").fit(demos)


@pytest.mark.parametrize("method", [xm.Exact(), xm.Cells(cell_size=24.0), xm.Paper(learning_rate=1e-9)])
def test_a_warm_start_begins_where_the_last_fit_ended(method):
    """From the optimum there is little left to do: at once for exact gradients, nowhere with steps of nothing."""
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features, l2=0.01, seed=0, warm_start=True, oracle="listed").fit(demos)
    cold, best = model.n_iter_, model.weights_
    quietly(model.set_params(method=method, max_iter=2 if isinstance(method, xm.Paper) else None), demos)
    np.testing.assert_allclose(model.weights_, best, atol=0.2 if isinstance(method, xm.Cells) else 1e-6)
    assert model.n_iter_ <= max(2, cold // 2)
    model.features = features[:, :, :2]
    with pytest.raises(xm.EngineError, match=r"4 weights.* 2"):
        model.fit(demos)


def test_a_warm_start_goes_on_with_the_network():
    torch = pytest.importorskip("torch")
    grid, rule, features, demos = grid_task(4)
    torch.manual_seed(0)
    reward = xm.NeuralReward(torch.nn.Linear(4, 1), features)
    model = quietly(xm.XMEN(grid, rule, reward=reward, max_iter=20, seed=0, warm_start=True), demos)
    ended = model.score(demos)
    quietly(model, demos)
    assert -model.history_[0].loss == pytest.approx(ended, abs=1e-6)
    assert model.score(demos) > ended


# ---- Settings of learners, by duck typing with scikit-learn, which xmen does not import


def test_settings_are_stored_as_given():
    grid, rule, features, _ = grid_task(4)
    listed = features.tolist()
    model = XMEN(grid, [rule], listed, l2=1)
    assert model.features is listed
    assert model.get_params()["constraint"][0] is rule
    assert model.get_params(deep=False).items() <= model.get_params().items()
    assert model.set_params(l2=0.5, max_iter=3) is model
    assert (model.l2, model.max_iter) == (0.5, 3)


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
    with pytest.raises(xm.EngineError, match="engine="):
        xm.distribution(grid, rule, engine=xm.Xor(delta=1.1), max_nodes=9)


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


def test_repr_shows_what_was_chosen():
    grid, rule, features, _ = grid_task(4)
    text = repr(XMEN(grid, rule, features, l2=0.5))
    assert text.startswith("XMEN(world=GridWorld(4, 4")
    assert "features=array of shape (16, 3, 4), l2=0.5)" in text
    assert "engine" not in repr(XMEN(grid, rule, time_limit=float("60")))  # the default
