"""Policies worked out on a device: the same promises, values, choices and episodes as by compiled loops.

XMEN_TEST_DEVICE=cuda runs the same tests on a GPU.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import xmen as xm
from strategies import cases, random_formula, random_world

pytest.importorskip("torch")

DEVICE = os.environ.get("XMEN_TEST_DEVICE", "cpu")


def both(world, rule, reward, validity, discount=1.0):
    """The same plan on the host and on the device; None where there is none."""
    try:
        host = xm.plan(world, rule, reward, validity, discount, seed=0)
    except xm.InfeasibleError:
        with pytest.raises(xm.InfeasibleError, match="no policy"):
            xm.plan(world, rule, reward, validity, discount, device=DEVICE)
        return None
    return host, xm.plan(world, rule, reward, validity, discount, seed=0, device=DEVICE)


def assert_same(policy, host):
    assert policy.validity == pytest.approx(host.validity, abs=1e-9)
    np.testing.assert_allclose(policy.visits(), host.visits(), atol=1e-9)
    assert policy.entropy() == pytest.approx(host.entropy(), abs=1e-9)
    assert policy.expected_reward() == pytest.approx(host.expected_reward(), abs=1e-8)
    assert policy.breaks() == pytest.approx(host.breaks(), abs=1e-9)
    np.testing.assert_allclose(policy.state_visits(), host.state_visits(), atol=1e-9)
    assert host.log_prob(policy.mode()) == pytest.approx(host.log_prob(host.mode()), abs=1e-9)
    episodes = host.rollout(30, seed=1)
    assert policy.rollout(30, seed=1) == episodes
    for tau in episodes[:5]:
        assert policy.log_prob(tau) == pytest.approx(host.log_prob(tau), abs=1e-8)
        policy.reset(tau.states[0])
        host.reset(tau.states[0])
        for action, state, after in zip(tau.actions, tau.states[:-1], tau.states[1:], strict=True):
            np.testing.assert_allclose(policy.probabilities(state), host.probabilities(state), atol=1e-9)
            assert policy.chance(state) == pytest.approx(host.chance(state), abs=1e-9)
            policy.step(action, after)
            host.step(action, after)


@pytest.mark.parametrize("validity", ["sure", "best", "between"])
def test_random_worlds_and_formulas(validity):
    found = 0
    for case in range(cases(25)):
        rng = np.random.default_rng([case, 7])
        world = random_world(rng)
        _, rule = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        reward = rng.normal(0, 1.5, (world.n_states, world.n_actions))
        promise = 0.9 * xm.plan(world, rule, reward, "best").validity if validity == "between" else validity
        pair = both(world, rule, reward, promise, discount=float(rng.choice([1.0, 0.9])))
        if pair is not None:
            found += 1
            assert_same(pair[1], pair[0])
    assert found >= cases(3)


@pytest.mark.parametrize("validity", ["best", 0.5])
def test_layers_made_again_change_nothing(monkeypatch, validity):
    grid = xm.GridWorld(4, 4, (0, 0), (3, 3), horizon=16, slip=0.2)
    rule = xm.visit(grid.at((1, 2))) & (xm.longest_repeat() <= 3)
    reward = np.random.default_rng(0).normal(-1, 1, (grid.n_states, grid.n_actions))
    host = xm.plan(grid, rule, reward, validity, seed=0)
    monkeypatch.setattr("xmen.policies.device_game.free_bytes", lambda device: 1)
    policy = xm.plan(grid, rule, reward, validity, seed=0, device=DEVICE)
    assert policy.behaviour._stride == 4
    assert_same(policy, host)


def slippery():
    grid = xm.GridWorld(3, 3, (0, 0), (2, 2), horizon=8, slip=0.15)
    rule = xm.never(grid.at((1, 1))).named("not there")
    features = np.random.default_rng(0).normal(size=(grid.n_states, grid.n_actions, 3))
    return grid, rule, features


@pytest.mark.parametrize(("validity", "outcomes"), [("best", "expected"), (0.6, "demonstrated")])
def test_the_same_causal_weights(validity, outcomes):
    grid, rule, features = slippery()
    demos = xm.plan(grid, rule, features @ [0.8, -0.5, 0.3], "best", seed=0).rollout(60)
    settings = {"features": features, "validity": validity, "outcomes": outcomes, "l2": 0.01, "seed": 0}
    host = xm.CausalXMEN(grid, rule, **settings).fit(demos)
    model = xm.CausalXMEN(grid, rule, device=DEVICE, **settings).fit(demos)
    np.testing.assert_allclose(model.weights_, host.weights_, atol=1e-6)
    assert model.sample(10, seed=0) == host.sample(10, seed=0)
    assert model.score(demos) == pytest.approx(host.score(demos), abs=1e-8)
    if outcomes == "demonstrated":
        np.testing.assert_allclose(model.standard_errors_, host.standard_errors_, rtol=1e-4)


def test_sure_promises_of_a_causal_model_and_of_a_distribution():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=12)
    rule = xm.visit(grid.at((1, 2))) & xm.never(grid.at((2, 2)))
    demos = xm.distribution(grid, rule, np.full((16, 4), -1.0), seed=0).sample(40)
    host = xm.CausalXMEN(grid, rule, l2=0.1).fit(demos)
    model = xm.CausalXMEN(grid, rule, l2=0.1, device=DEVICE).fit(demos)
    np.testing.assert_allclose(model.weights_, host.weights_, atol=1e-6)
    d, other = (xm.distribution(grid, rule, host.reward_, device=where) for where in (DEVICE, None))
    policy = xm.Policy(d, seed=0)
    assert policy.behaviour.game.device is not None
    assert_same(policy, xm.Policy(other, seed=0))


def test_mistakes_are_explained():
    grid, rule, _ = slippery()
    for ask in (lambda: xm.plan(grid, rule, device="gpu"), lambda: xm.CausalXMEN(grid, rule, device="gpu").fit([])):
        with pytest.raises(xm.EngineError, match="'gpu'"):
            ask()
