"""Fits that go through in worlds with chance, and what they say where the model is not the demonstrator's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xmen as xm
from xmen.errors import LuckWarning, PromiseWarning

pytestmark = pytest.mark.filterwarnings("error")

ROWS = [(0, 0, 1, 1.0), (1, 0, 3, 0.9), (1, 0, 4, 0.1), (0, 1, 2, 1.0), (2, 0, 3, 1.0), (0, 2, 5, 1.0), (5, 0, 3, 1.0)]
WORLD = xm.MDP(6, 3, ROWS, start=0, terminal=[3, 4])  # a bridge that may break, a cold ford, a ferry
DRY = xm.never(xm.at(4)).named("stay dry")
COLD = np.zeros((6, 3, 1))
COLD[2] = 1.0
DEMOS = xm.plan(WORLD, DRY, COLD @ [-2.0], validity=0.98, seed=1).rollout(4000)
KEPT = np.mean([DRY.accepts(tau) for tau in DEMOS])


def fitted(validity: str | float) -> xm.CausalXMEN:
    return xm.CausalXMEN(WORLD, DRY, COLD, validity=validity).fit(DEMOS)


def test_the_promise_of_the_demonstrator_gives_the_reward_back() -> None:
    """Within what 4,000 episodes tell, and without a warning (which would be an error here)."""
    model = fitted(0.98)
    assert model.weights_[0] == pytest.approx(-2.0, abs=3 * model.standard_errors_[0])
    assert model.weights_[0] == pytest.approx(fitted(float(KEPT)).weights_[0], abs=0.1)


def test_a_promise_above_what_demonstrations_keep() -> None:
    with pytest.warns(PromiseWarning, match=rf"^{KEPT:.4g} .* \(validity=1.0\)"):
        xm.CausalXMEN(WORLD, DRY, COLD, validity=1.0, outcomes="expected", l2=0.1).fit(DEMOS)
    with pytest.warns(PromiseWarning, match=rf"0.995 .* validity={KEPT:.4g}\.$"):
        model = fitted(0.995)
    assert model.weights_[0] < -2.1


def test_a_promise_below_what_demonstrations_keep() -> None:
    with pytest.warns(PromiseWarning, match=rf"^{KEPT:.4g} .* validity={KEPT:.4g} if"):
        model = fitted(0.0)
    assert model.weights_[0] > -1.8
    assert model.policy().validity < 0.97


def test_as_often_as_can_be_is_called_best() -> None:
    """Episodes of the best policy may keep the rules more often than any policy does: no number is asked for."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=12, slip=0.2)
    rule = xm.never(grid.at((1, 1)))
    steps = np.ones((16, 4, 1))
    demos = xm.plan(grid, rule, -0.5 * steps[:, :, 0], validity="best", seed=1).rollout(1000)
    with pytest.warns(PromiseWarning, match="validity='best' if"):
        xm.CausalXMEN(grid, rule, steps, validity=0.0).fit(demos)
    xm.CausalXMEN(grid, rule, steps, validity="best", outcomes="expected").fit(demos)  # no warning


@pytest.mark.slow
def test_how_often_warnings_are_wrong() -> None:
    """Three standard errors: of 200 fits by the true promise, one in 370 is expected to warn, and 5 would be a bug."""
    policy = xm.plan(WORLD, DRY, COLD @ [-2.0], validity=0.98)
    wrong = 0
    for seed in range(200):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            xm.CausalXMEN(WORLD, DRY, COLD, validity=0.98).fit(policy.rollout(400, seed=seed))
        wrong += any(issubclass(one.category, PromiseWarning) for one in caught)
    assert wrong < 5


def test_outcomes_that_are_taken_for_choices() -> None:
    """XMEN learns other weights than the demonstrator's, CausalXMEN learns theirs: the warning names it."""
    demos = xm.plan(WORLD, None, COLD @ [-2.0], validity=0.0, seed=1).rollout(4000)
    arrived = [tau for tau in demos if WORLD.problem(tau) is None]
    with pytest.warns(LuckWarning, match=r"action 0 in state 1 .*CausalXMEN"):
        xm.XMEN(WORLD, None, COLD).fit(arrived)
    with pytest.warns(LuckWarning):
        xm.MaxEntIRL(WORLD, COLD).fit(arrived)
    sure = xm.MDP(4, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (2, 0, 3, 1.0)], start=0, terminal=[3])
    features = np.zeros((4, 2, 1))
    features[2] = 1.0
    xm.XMEN(sure, None, features).fit([xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([0, 2, 3], [1, 0])])  # none
