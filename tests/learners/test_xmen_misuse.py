"""What a user may get wrong with XMEN, and the words that say so."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task
from xmen.errors import NotFittedError
from xmen.learners.xmen import XMEN


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
    for nothing in (None, 5):
        with pytest.raises(xm.TrajectoryError, match="expected a list of trajectories, got"):
            model.fit(nothing)
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
        ({"max_iter": -1}, xm.EngineError, "max_iter"),
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
    monkeypatch.setattr("xmen.methods.demonstrations.MOST_NODES", 10)
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    rules = [xm.visit(grid.at((1, 1))), xm.longest_repeat() <= 1, xm.never(grid.at((1, 1)))]
    demos = xm.distribution(grid, None, None, seed=0).sample(5)
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration 0"):
        XMEN(grid, rules).fit(demos)
