"""XMEN against the optimum found by listing all valid trajectories."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import xmen as xm
from learners.quiet import quiet_fit, quietly
from learners.tasks import grid_task, slopes, small_task
from reference import holds, positions
from strategies import VERIFY, cases, random_formula
from xmen.learners.xmen import XMEN
from xmen.methods.demonstrations import gather
from xmen.methods.likelihood import DistributionLikelihood, Objective
from xmen.methods.runs import Coordinates
from xmen.rewards.linear import DenseFeatures


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_exact_reaches_the_optimum_and_scores_it(l2):
    """Loss within 1e-6 of the enumerated optimum (in fact 1e-9), on random worlds, rules, discounts and weights."""
    for seed in range(cases(60)):
        task = small_task(seed)
        best, weights = task.optimum(l2)
        model = XMEN(task.world, task.constraint, task.features, discount=task.discount, method="exact", l2=l2)
        quiet_fit(model, task.demos, sample_weight=task.weights)
        assert model.converged_, seed
        assert task.loss(model.weights_, l2) - best < 1e-9, seed
        if l2:
            np.testing.assert_allclose(model.weights_, weights, atol=1e-5)
        expected = -task.loss(model.weights_) + task.weights / task.weights.sum() @ task.log_dynamics
        assert model.score(task.demos, task.weights) == pytest.approx(expected, abs=1e-9)
        losses = [record.loss for record in model.history_]
        assert all(after <= before + 1e-9 for before, after in pairwise(losses))
        assert losses[-1:] == pytest.approx([task.loss(model.weights_, l2)][: len(losses)], abs=1e-9)
        assert all(record.gradient_std == 0.0 for record in model.history_)


def test_gradient_by_finite_differences():
    rng = np.random.default_rng(0)
    for seed in range(cases(20)):
        task = small_task(seed)
        features = DenseFeatures(task.features)
        base = xm.distribution(task.world, task.constraint, None, discount=task.discount)
        demos = gather(task.world, task.constraint, task.demos, task.weights)
        likelihood = DistributionLikelihood(base, demos.visits(task.discount))
        objective = Objective(likelihood, features, Coordinates(features.d, None, np.array(0.3)))
        theta = rng.normal(size=features.d)
        value = objective(theta)
        assert value.loss == pytest.approx(task.loss(theta, 0.3), abs=1e-9)
        np.testing.assert_allclose(value.gradient, slopes(lambda at, task=task: task.loss(at, 0.3), theta), atol=1e-6)


def test_default_features_are_states():
    grid, rule, _, demos = grid_task(5)
    by_state = XMEN(grid, rule, l2=0.1).fit(demos)
    one_hot = np.repeat(np.eye(grid.n_states)[:, None, :], grid.n_actions, axis=1)
    spelled = XMEN(grid, rule, features=one_hot, l2=0.1).fit(demos)
    np.testing.assert_allclose(by_state.weights_, spelled.weights_, atol=1e-6)
    np.testing.assert_array_equal(by_state.reward_.table(), np.repeat(by_state.weights_[:, None], 3, axis=1))
    np.testing.assert_allclose(
        by_state.distribution().expected_features(), spelled.distribution().expected_features(), atol=1e-5
    )


def test_many_demonstrations_are_gathered_at_once():
    grid, rule, features, _ = grid_task(6)
    demos = xm.distribution(grid, rule, None, seed=1).sample(24_000)
    model = XMEN(grid, rule, features).fit(demos)
    distinct = {(tau.states, tau.actions): tau for tau in demos}
    counts = Counter((tau.states, tau.actions) for tau in demos)
    assert len(distinct) < len(demos) / 10
    weighted = XMEN(grid, rule, features).fit(list(distinct.values()), [counts[key] for key in distinct])
    np.testing.assert_allclose(model.weights_, weighted.weights_, atol=1e-5)


@pytest.mark.parametrize(("engine", "share"), [("exact", 0.8), ("reject", 0.1), ("xor", 0.1)])
def test_all_samples_are_valid(engine, share):
    """Four thousand over random tasks, a million in `make verify`: with and without extra rules, each engine its
    share, judged by the reference; no task is trained twice."""
    wanted, drawn, seed = share * (1_000_000 if VERIFY else 4_000), 0, 0
    while drawn < wanted:
        seed += 1
        task = small_task(seed)
        learner = XMEN(task.world, task.constraint, task.features, l2=0.1, seed=seed)
        model = quiet_fit(learner, task.demos, task.weights).set_params(engine=engine)
        rng = np.random.default_rng(seed)
        extra, also = random_formula(rng, task.world.n_states, task.world.n_actions, 1)
        weights = model.weights_.copy()
        for description, more in [(task.description, None), (("and", task.description, extra), also)]:
            try:
                samples = model.sample(2000 if VERIFY else 200, also=more, seed=seed)
            except xm.InfeasibleError:
                assert not any(holds(description, positions(*tau)) for tau in task.valid)
                continue
            distinct = {(tau.states, tau.actions) for tau in samples}
            assert distinct <= set(task.valid)
            assert all(holds(description, positions(*tau)) for tau in distinct)
            drawn += len(samples)
        np.testing.assert_array_equal(weights, model.weights_)


def test_also_conditions_the_learned_distribution():
    task = next(task for task in map(small_task, range(100)) if len(task.valid) > 20)
    model = quiet_fit(XMEN(task.world, task.constraint, task.features, l2=0.1), task.demos, task.weights)
    rare = xm.count(xm.anytime) == len(task.demos[0]) + 1
    inner = model.distribution(also=rare)
    whole = model.distribution()
    kept = [tau for tau in task.demos if rare.accepts(tau)]
    total = np.logaddexp.reduce([whole.log_prob(tau) for tau in kept])
    for tau in kept[:10]:
        assert inner.log_prob(tau) == pytest.approx(whole.log_prob(tau) - total, abs=1e-9)


def test_maxent_is_xmen_without_a_constraint():
    for seed in range(cases(10)):
        task = small_task(seed)
        settings = {"features": task.features, "discount": task.discount, "l2": 0.1 * (seed % 2), "tol": 1e-8}
        learners = xm.MaxEntIRL(task.world, **settings), xm.XMEN(task.world, None, method="exact", **settings)
        maxent, xmen = (quietly(learner, task.demos, task.weights) for learner in learners)
        np.testing.assert_array_equal(maxent.weights_, xmen.weights_)
        assert maxent.score(task.demos, task.weights) == xmen.score(task.demos, task.weights)
    assert "constraint" not in maxent.get_params()
    assert repr(xm.MaxEntIRL(task.world, l2=0.5)).endswith("l2=0.5)")


# ---- The scale of features: weights go with it, down to where their squares are no numbers any more

GRID = xm.GridWorld(4, 4, (0, 0), (3, 3), moves=("up", "right", "up-right"))
FEATURES = np.zeros((16, 3, 2))
FEATURES[:, 2, 0] = 1.0
FEATURES[5, :, 1] = 1.0
DEMOS = xm.distribution(GRID, None, FEATURES @ [0.8, -1.0], seed=0).sample(50)


def learner(kind: type, features: object) -> xm.XMEN:
    return kind(GRID, features=features) if kind is xm.MaxEntIRL else kind(GRID, None, features=features)


@pytest.mark.parametrize("kind", [xm.XMEN, xm.MaxEntIRL, xm.CausalXMEN])
@pytest.mark.parametrize("scale", [1e-12, 1e-100, 1e9, np.array([1e-4, 1e5])])
def test_weights_go_with_the_scale(kind, scale):
    """Without a warning: small features are not at the end of what is possible."""
    plain, scaled = (learner(kind, FEATURES * by).fit(DEMOS) for by in (1.0, scale))
    assert scaled.converged_
    np.testing.assert_allclose(scaled.weights_ * scale, plain.weights_, rtol=1e-4)


@pytest.mark.parametrize("kind", [xm.XMEN, xm.MaxEntIRL, xm.CausalXMEN])
@pytest.mark.parametrize("scale", [1e-300, 5e-324])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_nearly_nothing_are_refused(kind, scale, sparse):
    features = FEATURES * [1.0, scale]
    given = csr_matrix(features.reshape(-1, 2)) if sparse else features
    with pytest.raises(xm.RewardError, match=r"feature 1 .* too small"):
        learner(kind, given).fit(DEMOS)


# ---- What a user may get wrong with XMEN alone; what all learners refuse is in test_contract.py


def test_bad_demonstrations():
    grid, rule, features, demos = grid_task(5)
    model = XMEN(grid, rule, features)
    with pytest.raises(xm.InvalidDemonstrationError) as caught:
        model.fit([*demos[:2], xm.Trajectory([0, 1], [1])])
    assert (caught.value.index, caught.value.constraint, caught.value.position) == (2, None, 1)
    straight = xm.Trajectory([0, 1, 2, 3, 4, 9, 14, 19, 24], [1, 1, 1, 1, 0, 0, 0, 0])
    with pytest.raises(xm.InvalidDemonstrationError) as caught:
        model.fit([*demos, straight])
    assert (caught.value.index, caught.value.constraint, caught.value.position) == (len(demos), "no long runs", 3)
    model.fit(demos)
    assert model.score([*demos, straight]) == -np.inf
    assert np.isfinite(model.score([*demos, straight], sample_weight=[1.0] * len(demos) + [0.0]))


@pytest.mark.parametrize(
    ("settings", "error", "named"),
    [
        ({"method": "magic"}, xm.EngineError, "'exact', 'cells', 'paper'"),
        ({"method": "exact", "engine": "xor"}, xm.EngineError, "method='exact' with engine='xor'"),
        ({"method": "exact", "engine": "reject"}, xm.EngineError, "method='exact' with engine='reject'"),
        ({"method": "exact", "max_nodes": 3}, xm.ProductTooLargeError, "max_nodes = 3"),
    ],
)
def test_settings_that_make_no_sense(settings, error, named):
    grid, rule, features, demos = grid_task(4)
    with pytest.raises(error, match=named):
        XMEN(**{"world": grid, "constraint": rule, "features": features, **settings}).fit(demos)


def test_a_list_of_constraints_is_their_conjunction():
    grid, rule, features, demos = grid_task(5)
    listed = XMEN(grid, list(rule.children), features).fit(demos)
    np.testing.assert_allclose(listed.weights_, XMEN(grid, rule, features).fit(demos).weights_, atol=1e-8)


def test_rules_that_contradict_each_other_are_named_not_the_demonstrations():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    there, never = xm.visit(grid.at((1, 1))).named("by the well"), xm.never(grid.at((1, 1))).named("no water")
    short = (xm.longest_repeat() <= 3).named("no runs")
    demos = xm.distribution(grid, short, None, seed=0).sample(20)
    with pytest.raises(xm.InfeasibleError) as caught:
        XMEN(grid, [there, short, never]).fit(demos)
    assert set(caught.value.conflict) == {"by the well", "no water"}
    away = [tau for tau in demos if not there.accepts(tau)]
    with pytest.raises(xm.InvalidDemonstrationError, match=r"demonstration 0 .*by the well"):
        XMEN(grid, [there, short]).fit(away)  # these can hold together


def test_contradictions_too_large_to_find_leave_the_demonstration(monkeypatch):
    monkeypatch.setattr("xmen.methods.demonstrations.MOST_NODES_ASKED", 10)
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    rules = [xm.visit(grid.at((1, 1))), xm.longest_repeat() <= 1, xm.never(grid.at((1, 1)))]
    demos = xm.distribution(grid, None, None, seed=0).sample(5)
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration 0"):
        XMEN(grid, rules).fit(demos)
