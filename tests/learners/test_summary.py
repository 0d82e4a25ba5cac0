"""Standard errors, ratios and tests of linear fits, against enumeration and finite differences of likelihoods."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from scipy.stats import chi2

import xmen as xm
from learners.tasks import grid_task, slopes, small_task
from learners.test_trips import city, mean_log_likelihood


@pytest.mark.parametrize("seed", range(6))
def test_hessian_and_scores_of_an_ordinary_world_by_enumeration(seed):
    task = small_task(seed)
    model = xm.XMEN(task.world, task.constraint, task.features, discount=task.discount, l2=0.1)
    model.fit(task.demos, task.weights)
    rows = task.rows(task.valid)
    logs = rows @ model.weights_ + task.log_dynamics
    p = np.exp(logs - np.logaddexp.reduce(logs))
    centred = rows - p @ rows
    hessian = centred.T @ (centred * p[:, None])
    bread = np.linalg.inv(hessian + 0.1 * np.eye(len(hessian)))
    share = task.weights / task.weights.sum()
    summary = model.summary()
    np.testing.assert_allclose(summary.covariance, bread @ hessian @ bread * (share**2).sum(), rtol=1e-4, atol=1e-9)
    scores = share[:, None] * (task.rows([(t.states, t.actions) for t in task.demos]) - task.demo_features)
    np.testing.assert_allclose(summary.robust_covariance, bread @ scores.T @ scores @ bread, rtol=1e-4, atol=1e-9)
    assert summary.log_likelihood == pytest.approx(model.score(task.demos, task.weights) * len(task.demos))


def test_trips_by_finite_differences_of_each_trips_likelihood():
    network, features, demos = city(11, n_trips=80)
    model = xm.XMEN(network, features=features).fit(demos)
    n = len(demos)

    def each(theta):
        return np.array([mean_log_likelihood(network, features, [tau], theta) for tau in demos])

    scores = slopes(each, model.weights_, 1e-4)
    hessian = -slopes(lambda at: slopes(lambda at: each(at).mean(), at, 1e-3), model.weights_, 1e-3)
    bread = np.linalg.inv(hessian)
    np.testing.assert_allclose(model.standard_errors_, np.sqrt(np.diag(bread) / n), rtol=1e-3)
    summary = model.summary()
    np.testing.assert_allclose(summary.robust_errors**2, np.diag(bread @ scores @ scores.T @ bread) / n**2, rtol=2e-3)
    np.testing.assert_allclose(summary.t, model.weights_ / summary.standard_errors)


def test_groups_of_copies_count_once():
    """Every trip four times, in a group with its copies: robust errors are those of the trips alone."""
    network, features, demos = city(12)
    once = xm.XMEN(network, features=features).fit(demos).summary()
    model = xm.XMEN(network, features=features).fit(demos * 4)
    groups = np.tile(np.arange(len(demos)), 4)
    np.testing.assert_allclose(model.summary(groups=groups).robust_errors, once.robust_errors, rtol=1e-5)
    np.testing.assert_allclose(model.summary(demos * 4).robust_errors, once.robust_errors / 2, rtol=1e-5)
    with pytest.raises(xm.TrajectoryError, match="groups"):
        model.summary(groups=[1, 2])


def test_what_was_asked_of_groups_does_not_stick():
    network, features, demos = city(12)
    model = xm.XMEN(network, features=features).fit(demos)
    plain = str(model.summary())
    assert " robust " in plain
    clustered = model.summary(groups=np.arange(len(demos)) // 5)
    assert " clustered " in str(clustered)
    assert " robust " not in str(clustered)
    model.summary(demos[:20])
    assert str(model.summary()) == plain
    fresh = xm.XMEN(network, features=features).fit(demos)
    np.testing.assert_array_equal(fresh.summary(groups=np.arange(len(demos)) // 5).weights, clustered.weights)
    assert str(fresh.summary()) == plain


def test_given_the_start():
    grid, _, features, _ = grid_task(4)
    start = np.zeros(16)
    start[[0, 1]] = 0.5
    world = grid.with_start(start)
    demos = xm.distribution(world, None, features @ [0.5, -0.5, 0.2, 0.1], given="start", seed=2).sample(300)
    summary = xm.XMEN(world, features=features, given="start").fit(demos).summary()
    assert np.all(np.abs(summary.robust_errors / summary.standard_errors - 1) < 0.3)


def test_fixed_ratio_and_likelihood_ratio():
    network, features, demos = city(13, n_trips=200)
    full = xm.XMEN(network, features=features).fit(demos)
    held = xm.XMEN(network, features=features, fixed={2: 0.0}).fit(demos)
    whole, small = full.summary(names=["time", "toll", "turns"]), held.summary()
    assert np.isnan(small.standard_errors[2])
    assert "fixed" in str(small)
    assert "time" in str(whole)
    test = whole.likelihood_ratio(small)
    assert test.degrees_of_freedom == 1
    assert test.statistic == pytest.approx(2 * len(demos) * (full.score(demos) - held.score(demos)), abs=1e-6)
    assert test.p_value == pytest.approx(chi2.sf(test.statistic, 1))
    with pytest.raises(xm.EngineError, match="larger model"):
        small.likelihood_ratio(whole)
    ratio = whole.ratio(0, 1)
    draws = np.random.default_rng(0).multivariate_normal(full.weights_, whole.covariance * 1e-4, 20_000)
    assert ratio.value == pytest.approx(full.weights_[0] / full.weights_[1])
    assert ratio.standard_error == pytest.approx(100 * (draws[:, 0] / draws[:, 1]).std(), rel=0.03)


def test_models_that_are_not_nested_are_refused():
    network, features, demos = city(13, n_trips=200)
    one = xm.XMEN(network, features=features[:, :, :1]).fit(demos)
    two = xm.XMEN(network, features=np.stack([features[:, :, 2], features[:, :, 2] ** 2 + 1], axis=2)).fit(demos)
    full = xm.XMEN(network, features=features)
    summary = full.fit(demos).summary()
    assert summary.likelihood_ratio(one) == summary.likelihood_ratio(one.summary())
    assert summary.likelihood_ratio(xm.XMEN(network, features=features[:, :, :1]).fit(demos[::-1])).statistic > 0
    assert two.summary().log_likelihood < one.summary().log_likelihood - 1
    with pytest.raises(xm.EngineError, match="Neither"):
        two.summary().likelihood_ratio(one)
    with pytest.raises(xm.EngineError, match="summary"):
        summary.likelihood_ratio(3)
    longer = xm.length() >= 0
    ruled = xm.XMEN(network, longer.named("any"), features=features[:, :, :1]).fit(demos)
    with pytest.raises(xm.EngineError, match=r"no rules.*length\(\) >= 0"):
        summary.likelihood_ratio(ruled)
    same = xm.XMEN(network, [longer], features=features).fit(demos)
    assert same.summary().likelihood_ratio(ruled).degrees_of_freedom == 2
    halves = [one.fit(part).summary() for part in (demos[:100], demos[100:])]
    with pytest.raises(xm.EngineError, match="100 each"):
        full.fit(demos[100:]).summary().likelihood_ratio(halves[0])
    with pytest.raises(xm.EngineError, match="200 and 100"):
        summary.likelihood_ratio(halves[1])


def test_ratios_by_name():
    network, features, demos = city(13)
    model = xm.XMEN(network, features=features).fit(demos)
    summary = model.summary(names=["time", "toll", "turns"])
    assert summary.ratio("toll", "time") == summary.ratio(1, 0) == summary.ratio(-2, 0)
    for wrong in ("tolls", 3, None):
        with pytest.raises(xm.EngineError, match="'time', 'toll', 'turns', numbered 0 to 2"):
            summary.ratio(wrong, "time")
    with pytest.raises(xm.EngineError, match=r"'feature 0'.*names=\["):
        model.summary().ratio("toll", "time")


def test_weights_that_nothing_determines_have_no_finite_error():
    network, features, demos = city(14)
    twice = np.concatenate([features, features[:, :, :1]], axis=2)
    errors = xm.XMEN(network, features=twice).fit(demos).standard_errors_
    assert np.isinf(errors[[0, 3]]).all()
    assert np.isfinite(errors[[1, 2]]).all()


@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_no_curvature_however_long_trajectories_are(seed):
    """All of them have 300 steps: the weight of a step has no error of 6,000 or so."""
    grid = xm.GridWorld(300, 2, start=(0, 0), goal=(299, 1), moves=("up", "right"))
    features = np.random.default_rng(seed).normal(size=(600, 2, 3)) * 0.1
    features[:, :, 0] = 1.0
    demos = xm.distribution(grid, None, features @ [0.0, -0.7, 0.3], seed=0).sample(100)
    with pytest.warns(xm.IdentifiabilityWarning):
        errors = xm.XMEN(grid, features=features).fit(demos).standard_errors_
    assert np.isinf(errors).tolist() == [True, False, False]


def test_saved_models_keep_what_was_asked_for(tmp_path):
    network, features, demos = city(15)
    model = xm.XMEN(network, features=features).fit(demos)
    model.save(tmp_path / "before")
    with pytest.raises(xm.NotFittedError, match=r"summary\(demos\)"):
        xm.load(tmp_path / "before").summary()
    errors = model.standard_errors_
    np.testing.assert_allclose(xm.load(tmp_path / "before").summary(demos).standard_errors, errors)
    model.save(tmp_path / "after")
    np.testing.assert_array_equal(xm.load(tmp_path / "after").standard_errors_, errors)


def test_baselines_have_them_too():
    grid, _, features, demos = grid_task(4)
    maxent = xm.MaxEntIRL(grid, features).fit(demos)
    assert np.isfinite(maxent.standard_errors_).all()
    entropy = xm.RelativeEntropyIRL(grid, features, seed=0).fit(demos)
    assert entropy.standard_errors_.shape == (4,)


def test_features_go_by_the_names_that_the_world_has():
    """Columns of the world's own, in any order and beside others; a weight per state by the state."""
    graph = networkx.DiGraph()
    for source, target, minutes, toll in (
        ("a", "b", 3, 0),
        ("b", "d", 1, 1),
        ("a", "c", 2, 2),
        ("c", "d", 4, 0),
        ("a", "d", 6, 1),
    ):
        graph.add_edge(source, target, minutes=minutes, toll=toll)
    world = xm.MDP.from_networkx(graph, "a", "d")
    demos = xm.distribution(world, None).sample(60, seed=0)
    mixed = np.concatenate([world.features[:, :, ::-1], world.features[:, :, :1] + world.features[:, :, 1:]], axis=2)
    model = xm.XMEN(world, features=mixed[:, :, [0, 1]], l2=0.1).fit(demos)
    assert model.summary().names == tuple(reversed(world.feature_names))
    assert model.summary(names=["one", "two"]).names == ("one", "two")
    assert xm.XMEN(world, features=mixed, l2=0.1).fit(demos).summary().names[2] == "feature 2"
    per_state = xm.XMEN(world, l2=0.1).fit(demos).summary()
    assert per_state.names[0] == world.describe_state(0)
