"""L-BFGS alone, on losses whose minimum is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xmen.methods.likelihood import MOST_CHANGE, Lbfgs
from xmen.methods.runs import Value

HESSIAN = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
BEST = np.array([1.0, -2.0, 0.5])


def bowl(weights):
    away = weights - BEST
    return Value(0.5 * float(away @ HESSIAN @ away), HESSIAN @ away)


def farthest(direction):
    return float(np.abs(direction).max())


def optimiser(loss=bowl, reach=farthest):
    return Lbfgs(loss, np.ones(3), reach, 1e-9)


def test_it_ends_at_the_minimum():
    """In a few steps for each of three weights, without ever more loss, and knowing what was left on the way."""
    lbfgs, left = optimiser(), []
    state = lbfgs.start(np.zeros(3))
    while not state.finished:
        before, state = state, lbfgs.step(state)
        assert state.loss < before.loss
        left.append((lbfgs.decrement(state), state.loss))
    assert state.iteration < 15
    np.testing.assert_allclose(state.weights, BEST, atol=1e-9)
    assert left[-3][0] == pytest.approx(left[-3][1], rel=0.5)


def test_a_memory_that_points_uphill_is_forgotten():
    lbfgs = optimiser()
    state = lbfgs.start(BEST + np.array([0.1, 0.0, 0.0]))
    after = lbfgs.step(replace(state, steps=np.ones((1, 3)), changes=-np.ones((1, 3))))
    assert not after.finished
    assert after.loss < state.loss


def test_weights_that_change_no_reward_still_have_a_penalty():
    lbfgs = optimiser(reach=lambda direction: 0.0)
    state = lbfgs.start(np.zeros(3))
    while not state.finished:
        state = lbfgs.step(state)
    np.testing.assert_allclose(state.weights, BEST, atol=1e-9)


def test_flat_losses_are_crossed_in_steps_of_bounded_rewards():
    """The loss log(1 + exp(-x)) has its minimum at infinity."""
    asked = []

    def slide(weights):
        asked.append(weights)
        return Value(float(np.logaddexp(0.0, -weights[0])), np.array([-1.0 / (1.0 + np.exp(weights[0])), 0.0, 0.0]))

    lbfgs = optimiser(slide)
    state = lbfgs.start(np.zeros(3))
    while not state.finished:
        before, state = state, lbfgs.step(state)
        assert np.abs(state.weights - before.weights).max() <= MOST_CHANGE * (1.0 + 1e-12)
    assert state.weights[0] > 15.0
