"""Policies and models of trips asked by many threads: each gets the answer that one alone gets."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xmen as xm
from xmen.policies import game as host_game

N_THREADS = 4


@pytest.fixture(autouse=True)
def restless():
    """Threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(ask):
    """The answers of all threads to the same question, each asked several times."""
    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(lambda _: ask(), range(3 * N_THREADS)))


GRID = xm.GridWorld(4, 4, (0, 0), (3, 3), horizon=14, slip=0.2)
RULE = xm.visit(GRID.at((1, 2))).named("a cell") & (xm.longest_repeat() <= 3).named("at most three")
REWARD = np.random.default_rng(0).normal(0, 1, (GRID.n_states, GRID.n_actions))
QUESTIONS = {
    "visits": lambda policy: policy.visits(),
    "state visits": lambda policy: policy.state_visits(),
    "mode": lambda policy: policy.mode(),
    "entropy": lambda policy: policy.entropy(),
    "reward": lambda policy: policy.expected_reward(),
    "breaks": lambda policy: sorted(policy.breaks().items()),
    "rollout": lambda policy: policy.rollout(50, seed=3),
    "likelihood": lambda policy: [policy.log_prob(tau) for tau in policy.rollout(20, seed=1)],
}


@pytest.mark.parametrize("kept", [10**9, 0], ids=["layers kept", "layers made again"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_policies(question, kept, monkeypatch):
    monkeypatch.setattr(host_game, "LAYER_BYTES", kept)
    alone = QUESTIONS[question](xm.plan(GRID, RULE, REWARD, validity="best", discount=0.9))
    shared = xm.plan(GRID, RULE, REWARD, validity="best", discount=0.9)
    for answer in in_threads(lambda: QUESTIONS[question](shared)):
        np.testing.assert_equal(answer, alone)


def test_plans_are_made_side_by_side():
    alone = xm.plan(GRID, RULE, REWARD, validity="best").validity
    assert in_threads(lambda: xm.plan(GRID, RULE, REWARD, validity="best").validity) == [alone] * 3 * N_THREADS


def test_models_of_trips():
    network = xm.Network(16, 4, xm.GridWorld(4, 4, (0, 0), None, horizon=14).transitions)
    features = np.stack([np.ones((16, 4)), np.random.default_rng(1).random((16, 4))], axis=2)
    reward = features @ [-1.5, -1.0]
    trips = [xm.distribution(network.task(s, 15), None, reward, seed=s).sample(1)[0] for s in range(12)]
    model = xm.XMEN(network, None, features=features, l2=0.01).fit(trips)
    questions = {
        "score": lambda: model.score_samples(trips),
        "flows": lambda: model.flows([(0, 15, 2.0), (3, 12, 1.0)]),
        "sample": lambda: model.sample(20, start=0, goal=15, seed=2),
        "distribution": lambda: model.distribution(start=1, goal=15).visits(),
    }
    for ask in questions.values():
        alone = ask()
        for answer in in_threads(ask):
            np.testing.assert_equal(answer, alone)
