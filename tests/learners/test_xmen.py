"""XMEN against the optimum found by listing all valid trajectories, and against everything a user may get wrong."""

from __future__ import annotations

import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task, small_task
from reference import holds, positions
from strategies import VERIFY, cases, random_formula
from xmen.errors import NotFittedError
from xmen.learners.features import DenseFeatures
from xmen.learners.notices import (
    ConvergenceWarning,
    IdentifiabilityWarning,
    InterruptedWarning,
    LearningWarning,
    UnboundedWarning,
)
from xmen.learners.objective import Objective
from xmen.learners.xmen import XMEN


def quiet_fit(model, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        return model.fit(*args, **keywords)


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_exact_reaches_the_optimum(l2):
    """Loss within 1e-6 of the enumerated optimum (in fact 1e-9), on random worlds, rules, discounts and weights."""
    for seed in range(cases(60)):
        task = small_task(seed)
        best, _ = task.optimum(l2)
        model = XMEN(task.world, task.constraint, task.features, discount=task.discount, method="exact", l2=l2)
        quiet_fit(model, task.demos, sample_weight=task.weights)
        assert model.converged_, seed
        assert task.loss(model.weights_, l2) - best < 1e-9, seed
        assert (
            model.history_[-1].loss == pytest.approx(task.loss(model.weights_, l2), abs=1e-9)
            if model.history_
            else True
        )


def test_unique_weights_are_found():
    for seed in range(cases(20)):
        task = small_task(seed)
        model = quiet_fit(
            XMEN(task.world, task.constraint, task.features, discount=task.discount, l2=0.1), task.demos, task.weights
        )
        np.testing.assert_allclose(model.weights_, task.optimum(0.1)[1], atol=1e-5)


def test_gradient_by_finite_differences():
    rng = np.random.default_rng(0)
    for seed in range(cases(20)):
        task = small_task(seed)
        features = DenseFeatures(task.features)
        base = xm.distribution(task.world, task.constraint, None, discount=task.discount)
        objective = Objective(base, features, task.demo_features, l2=0.3)
        theta = rng.normal(size=features.d)
        value = objective(theta)
        assert value.loss == pytest.approx(task.loss(theta, 0.3), abs=1e-9)
        for k, unit in enumerate(np.eye(features.d)):
            slope = (task.loss(theta + 1e-5 * unit, 0.3) - task.loss(theta - 1e-5 * unit, 0.3)) / 2e-5
            assert value.gradient[k] == pytest.approx(slope, abs=1e-6)


def test_score_is_the_mean_log_likelihood():
    for seed in range(cases(20)):
        task = small_task(seed)
        model = quiet_fit(
            XMEN(task.world, task.constraint, task.features, discount=task.discount, l2=0.1), task.demos, task.weights
        )
        share = task.weights / task.weights.sum()
        expected = -task.loss(model.weights_) + share @ task.log_dynamics
        assert model.score(task.demos, task.weights) == pytest.approx(expected, abs=1e-9)
        log_probs = [model.distribution().log_prob(tau) for tau in task.demos]
        assert model.score(task.demos) == pytest.approx(np.mean(log_probs), abs=1e-9)


def test_sample_weight_is_repetition():
    task = small_task(3)
    counts = np.arange(len(task.demos)) % 4
    repeated = [tau for tau, n in zip(task.demos, counts, strict=True) for _ in range(n)]
    settings = dict(discount=task.discount, l2=0.2)
    one = XMEN(task.world, task.constraint, task.features, **settings).fit(task.demos, sample_weight=counts)
    other = XMEN(task.world, task.constraint, task.features, **settings).fit(repeated)
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
    assert one.score(task.demos, counts) == pytest.approx(other.score(repeated), abs=1e-9)


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


def test_units_of_features_do_not_matter():
    grid, rule, features, demos = grid_task(5)
    units = np.array([1e-4, 1.0, 30.0, 1e5])
    plain = XMEN(grid, rule, features).fit(demos)
    scaled = XMEN(grid, rule, features * units).fit(demos)
    np.testing.assert_allclose(scaled.weights_ * units, plain.weights_, rtol=1e-4, atol=1e-6)


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
    """Ten thousand over random tasks, a million in `make verify`: with and without extra rules, each engine its
    share, judged by the reference; no task is trained twice."""
    wanted, drawn, seed = share * (1_000_000 if VERIFY else 10_000), 0, 0
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


def test_samples_follow_the_seed():
    grid, rule, features, demos = grid_task(5)
    model = XMEN(grid, rule, features, seed=7).fit(demos)
    again = XMEN(grid, rule, features, seed=7).fit(demos)
    assert model.sample(5) == again.sample(5)
    assert model.sample(5) == again.sample(5)
    assert model.sample(5, seed=1) == model.sample(5, seed=1)


# ---------------------------------------------------------------------------------- progress


def test_history_and_callback():
    grid, rule, features, demos = grid_task(5)
    seen = []
    model = XMEN(grid, rule, features, callback=seen.append).fit(demos)
    assert model.history_ == seen
    assert model.n_iter_ == len(seen) == seen[-1].iteration
    losses = [record.loss for record in seen]
    assert all(after <= before + 1e-9 for before, after in pairwise(losses))
    assert seen[-1].gradient_norm < 1e-5
    assert all(record.gradient_std == 0.0 for record in seen)


def test_callback_stops_the_fit():
    grid, rule, features, demos = grid_task(5)
    model = XMEN(grid, rule, features, callback=lambda record: record.iteration == 3).fit(demos)
    assert model.n_iter_ == 3
    assert not model.converged_
    assert np.isfinite(model.score(demos))


@pytest.mark.parametrize("method", ["exact", "cells"])
def test_ctrl_c_leaves_a_usable_model(method):
    grid, rule, features, demos = grid_task(5)

    def interrupt(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="after 3 iterations"):
        model = XMEN(grid, rule, features, method=method, oracle="listed", seed=0, callback=interrupt).fit(demos)
    assert not model.converged_
    assert model.n_iter_ == 3
    assert np.any(model.weights_ != 0)
    assert all(rule.accepts(tau) for tau in model.sample(10))


# ---------------------------------------------------------------------------------- warnings


def test_constant_features_are_named():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    features = np.zeros((16, 2, 4))
    features[:, :, 0] = 1.0  # every path has 6 steps
    features[:, 0, 1] = 1.0  # 3 of them up
    features[grid.state((1, 1)), :, 2] = 1.0
    features[grid.state((2, 2)), :, 3] = 1.0
    demos = xm.distribution(grid, None, None, seed=0).sample(30)
    with pytest.warns(IdentifiabilityWarning, match="features 0 and 1 are each the same on every valid trajectory"):
        model = XMEN(grid, None, features).fit(demos)
    np.testing.assert_allclose(model.weights_[:2], 0.0, atol=1e-9)
    XMEN(grid, None, features, l2=0.1).fit(demos)  # the penalty decides: nothing to warn about


@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
@pytest.mark.parametrize("method", ["cells", "paper"])
@pytest.mark.parametrize("max_nodes", [None, 30])
def test_every_method_names_what_cannot_be_known(method, oracle, max_nodes):
    """Also where the product is larger than the budget, as long as it is small."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    rule = (xm.longest_repeat() <= 1) | xm.visit(grid.at((1, 1)))
    features = np.zeros((9, 2, 2))
    features[:, :, 0] = 1.0  # every path has 4 steps
    features[grid.state((1, 1)), :, 1] = 1.0
    up, right = grid.moves.index("up"), grid.moves.index("right")
    demos = [xm.Trajectory([0, 1, 4, 5, 8], [right, up, right, up])] * 2  # through the middle, as all that are valid
    free = [xm.Trajectory([0, 1, 2, 5, 8], [right, right, up, up])]
    settings = dict(method=method, oracle=oracle, max_iter=2, seed=0, max_nodes=max_nodes)
    with pytest.warns(LearningWarning) as told:
        XMEN(grid, rule, features, **settings).fit(demos)
    assert "features 0 and 1 are each the same on every valid" in _only(told, IdentifiabilityWarning)
    with pytest.warns(LearningWarning) as told:
        XMEN(grid, None, features, **settings).fit(free)
    assert "the least or the most possible of feature 1: " in _only(told, UnboundedWarning)
    assert "ended where its steps did" in _only(told, UnboundedWarning)
    with pytest.warns(LearningWarning) as told:
        XMEN(grid, None, features, l2=0.1, **settings).fit(free)
    assert {warning.category for warning in told} == {ConvergenceWarning}


def _only(told, category):
    (message,) = [str(warning.message) for warning in told if warning.category is category]
    return message


def test_what_is_too_large_to_look_at_goes_unsaid(monkeypatch):
    monkeypatch.setattr("xmen.learners.identify.MOST_NODES", 10)
    grid, rule, features, demos = grid_task(4)
    constant = np.ones((*features.shape[:2], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", IdentifiabilityWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        XMEN(grid, rule, constant, method="cells", max_nodes=30, max_iter=2, seed=0).fit(demos)


def test_combinations_are_named():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    features = np.zeros((9, 2, 3))
    # Every path crosses the middle diagonal exactly once.
    for k, cell in enumerate([(0, 2), (1, 1), (2, 0)]):
        features[grid.state(cell), :, k] = 1.0
    demos = xm.distribution(grid, None, None, seed=0).sample(50)
    with pytest.warns(IdentifiabilityWarning, match=r"1 \* feature 0 \+1 \* feature 1 \+1 \* feature 2 never varies"):
        XMEN(grid, None, features).fit(demos)


def test_identifiability_agrees_with_enumeration():
    """The number of combinations is that of the null space of the listed features."""
    from xmen.learners.identify import unidentified

    found = 0
    for seed in range(cases(60)):
        task = small_task(seed, least_valid=2)
        rng = np.random.default_rng(seed)
        features = rng.integers(0, 2, size=(task.world.n_states, task.world.n_actions, 5)).astype(float)
        task.features = features
        rows = task.rows(task.valid)
        rank = np.linalg.matrix_rank(rows - rows[0], tol=1e-9)
        base = xm.distribution(task.world, task.constraint, None, discount=task.discount, engine="exact")
        basis = unidentified(base, DenseFeatures(features))
        assert len(basis) == 5 - rank, seed
        np.testing.assert_allclose((rows - rows[0]) @ basis.T, 0.0, atol=1e-7)
        found += len(basis) > 0
    assert found > 10


def test_unseen_rarities_do_not_pass_for_constants():
    """A feature that one trajectory in a million has is identified, though no sample shows it."""
    rows = [(s, a, s + 1, 1.0) for s in range(20) for a in (0, 1)]
    chain = xm.MDP(21, 2, rows, start=0, terminal=[20])
    features = np.zeros((21, 2, 2))
    features[0, 0, 0] = 1.0
    always_left = np.zeros((21, 2))
    always_left[:, 0] = 1.0
    features[:, :, 1] = always_left
    rule = (xm.longest_repeat() >= 19) | xm.visit(xm.at(0) & xm.doing(1))
    demos = xm.distribution(chain, rule, None, seed=0).sample(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IdentifiabilityWarning)
        warnings.simplefilter("ignore", UnboundedWarning)
        XMEN(chain, rule, features).fit(demos)


def test_infinite_optima_are_announced():
    grid, rule, _, demos = grid_task(5, n_demos=3)
    with pytest.warns(UnboundedWarning, match="l2 > 0"):
        model = XMEN(grid, rule).fit(demos)
    assert model.converged_
    assert np.isfinite(model.weights_).all()
    never_seen = set(range(grid.n_states)) - {s for tau in demos for s in tau.states}
    assert min(model.weights_[list(never_seen)]) < -5
    XMEN(grid, rule, l2=0.1).fit(demos)


def test_separable_demonstrations_approach_their_limit():
    """One demonstration: the likelihood rises to 1, and the weights stay finite."""
    task = small_task(11)
    features = np.eye(task.world.n_states * task.world.n_actions).reshape(task.world.n_states, task.world.n_actions, -1)
    with pytest.warns((UnboundedWarning, IdentifiabilityWarning)):
        model = XMEN(task.world, task.constraint, features).fit(task.demos[:1])
    assert np.isfinite(model.weights_).all()


def test_max_iter_is_announced():
    grid, rule, features, demos = grid_task(5)
    with pytest.warns(ConvergenceWarning, match="max_iter = 2"):
        model = XMEN(grid, rule, features, max_iter=2).fit(demos)
    assert not model.converged_
    assert model.n_iter_ == 2


# ---------------------------------------------------------------------------------- bad input


def test_not_fitted():
    grid, rule, features, demos = grid_task(4)
    for ask in (lambda m: m.sample(1), lambda m: m.score(demos), lambda m: m.distribution(), lambda m: m.save("x")):
        with pytest.raises(NotFittedError, match="fit"):
            ask(XMEN(grid, rule, features))


def test_bad_demonstrations():
    grid, rule, features, demos = grid_task(5)
    model = XMEN(grid, rule, features)
    with pytest.raises(xm.TrajectoryError, match="no demonstrations"):
        model.fit([])
    with pytest.raises(xm.TrajectoryError, match=r"write \[trajectory\]"):
        model.fit(demos[0])
    with pytest.raises(xm.TrajectoryError, match="demonstration 1 must be a Trajectory, got int"):
        model.fit([demos[0], 3])
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration 2 is not possible") as caught:
        model.fit([*demos[:2], xm.Trajectory([0, 1], [1])])
    assert (caught.value.index, caught.value.constraint, caught.value.position) == (2, None, 1)
    with pytest.raises(xm.InvalidDemonstrationError):
        model.fit([xm.Trajectory([10**30], [])])
    straight = xm.Trajectory([0, 1, 2, 3, 4, 9, 14, 19, 24], [1, 1, 1, 1, 0, 0, 0, 0])
    with pytest.raises(xm.InvalidDemonstrationError, match="no long runs") as caught:
        model.fit([*demos, straight])
    assert (caught.value.index, caught.value.constraint, caught.value.position) == (len(demos), "no long runs", 3)
    model.fit(demos)
    assert model.score([*demos, straight]) == -np.inf
    assert np.isfinite(model.score([*demos, straight], sample_weight=[1.0] * len(demos) + [0.0]))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "60 demonstrations"),
        (np.ones((60, 1)), "60 demonstrations"),
        (-np.ones(60), "-1.0 for demonstration 0"),
        (np.r_[np.ones(59), np.nan], "nan for demonstration 59"),
        (np.zeros(60), "0 for every demonstration"),
        (["x"] * 60, "must be numbers"),
    ],
)
def test_bad_weights(weights, message):
    grid, rule, features, demos = grid_task(4)
    with pytest.raises(xm.TrajectoryError, match=message):
        XMEN(grid, rule, features).fit(demos, sample_weight=weights)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"method": "magic"}, xm.EngineError, "'exact', 'cells', 'paper'"),
        ({"engine": "magic"}, xm.EngineError, "'auto', 'exact', 'reject', 'xor'"),
        ({"method": "exact", "engine": "xor"}, xm.EngineError, "method='exact' with engine='xor'"),
        ({"method": "exact", "engine": "reject"}, xm.EngineError, "method='exact' with engine='reject'"),
        ({"features": np.ones((3, 3, 1))}, xm.RewardError, r"\(3, 3, 1\).*16 states"),
        ({"features": np.full((16, 3, 1), np.nan)}, xm.RewardError, "finite"),
        ({"discount": 1.5}, xm.EngineError, "discount"),
        ({"l2": -1.0}, xm.EngineError, "l2"),
        ({"tol": np.nan}, xm.EngineError, "tol"),
        ({"max_iter": 0}, xm.EngineError, "max_iter"),
        ({"learning_rate": 0.0}, xm.EngineError, "learning_rate"),
        ({"n_cells": 1}, xm.EngineError, "n_cells"),
        ({"resume": True}, xm.EngineError, "checkpoint"),
        ({"method": "exact", "max_nodes": 3}, xm.ProductTooLargeError, "3"),
        ({"constraint": "visit(at(3))"}, xm.ConstraintError, "constraint"),
        ({"world": "grid"}, xm.EngineError, "MDP"),
    ],
)
def test_bad_settings(settings, error, message):
    grid, rule, features, demos = grid_task(4)
    with pytest.raises(error, match=message):
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
    monkeypatch.setattr("xmen.learners.demonstrations.MOST_NODES", 10)
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    rules = [xm.visit(grid.at((1, 1))), xm.longest_repeat() <= 1, xm.never(grid.at((1, 1)))]
    demos = xm.distribution(grid, None, None, seed=0).sample(5)
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration 0"):
        XMEN(grid, rules).fit(demos)
