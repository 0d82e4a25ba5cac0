"""Validation demonstrations: their curve, the early end, and the weights that were best on them.

The truth is a listed sum: all valid trajectories of a small grid, scored under the weights that a callback saw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import xmen as xm
from learners.quiet import quietly
from reference import enumerate_trajectories

GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "up-right"))
RULE = xm.never(GRID.at((1, 2))).named("not there")
TASTE = np.random.default_rng(1).normal(0, 1.5, (16, 1)) * np.ones((16, 3))
DRAWN = xm.distribution(GRID, RULE, TASTE, seed=2).sample(60)
DEMOS, HELD_OUT = DRAWN[:20], DRAWN[20:]  # few to learn from, and one weight per state: this overfits


def mean_features(demos: list[Any]) -> np.ndarray:
    return np.mean([np.bincount(tau.states[:-1], minlength=16) for tau in demos], axis=0)


LISTED = [states for states, _, _ in enumerate_trajectories(GRID)]
VALID = [states for states in LISTED if GRID.state((1, 2)) not in states]
ROWS = {ruled: np.array([np.bincount(s[:-1], minlength=16) for s in kept]) for ruled, kept in ((1, VALID), (0, LISTED))}


def listed_loss(weights: np.ndarray, ruled: bool = True) -> float:
    """Minus the mean log-likelihood of the held-out demonstrations, by summing over all trajectories."""
    return float(logsumexp(ROWS[int(ruled)] @ weights) - weights @ mean_features(HELD_OUT))


CASES: dict[str, Any] = {
    "exact": lambda **kept: xm.XMEN(GRID, RULE, **kept),
    "given": lambda **kept: xm.XMEN(GRID, RULE, given="start", **kept),
    "cells": lambda **kept: xm.XMEN(GRID, RULE, method="cells", oracle="listed", l2=0.01, max_iter=6, seed=0, **kept),
    "paper": lambda **kept: xm.XMEN(GRID, RULE, method="paper", oracle="listed", max_iter=25, seed=0, **kept),
    "reject": lambda **kept: xm.XMEN(GRID, RULE, method="reject", l2=0.01, max_iter=6, seed=0, **kept),
    "maxent": lambda **kept: xm.MaxEntIRL(GRID, **kept),
    "causal": lambda **kept: xm.CausalXMEN(GRID, RULE, **kept),
}


@pytest.mark.parametrize("name", CASES)
def test_the_curve_is_that_of_the_weights_and_the_best_are_kept(name):
    seen: list[Any] = []
    model = quietly(CASES[name](validation=HELD_OUT, patience=4, callback=seen.append), DEMOS)
    curve = [record.details["validation_loss"] for record in model.history_]
    expected = [listed_loss(record.weights, ruled=name != "maxent") for record in seen]
    np.testing.assert_allclose(curve, expected, atol=1e-9)
    best = int(np.argmin(curve))
    assert model.best_iteration_ == best + 1
    np.testing.assert_array_equal(model.weights_, seen[best].weights)
    assert -model.score(HELD_OUT) == pytest.approx(curve[best], abs=1e-9)
    assert model.n_iter_ - model.best_iteration_ <= 4
    assert all(record.weights is None for record in model.history_)  # a callback sees them, the history is small


def test_early_stopping_ends_before_the_optimum_and_says_so():
    whole = quietly(xm.XMEN(GRID, RULE), DEMOS)
    model = quietly(xm.XMEN(GRID, RULE, validation=HELD_OUT, patience=3), DEMOS)
    assert model.n_iter_ == model.best_iteration_ + 3 < whole.n_iter_
    assert not model.converged_
    assert model.score(HELD_OUT) > whole.score(HELD_OUT) + 0.5
    loss = model.history_[model.best_iteration_ - 1].details["validation_loss"]
    assert f"iteration {model.best_iteration_}, of {model.n_iter_}: the best" in str(model.summary())
    assert f"{loss:.4f}" in str(model.summary())
    assert "best on validation" in model._repr_html_()
    patient = quietly(xm.XMEN(GRID, RULE, validation=HELD_OUT, patience=None), DEMOS)
    assert patient.n_iter_ == whole.n_iter_  # nothing ends early, and the best is returned all the same
    np.testing.assert_array_equal(patient.weights_, model.weights_)
    assert not hasattr(quietly(patient.set_params(validation=None), DEMOS), "best_iteration_")


def test_a_fit_goes_on_with_the_same_validation_and_more_patience(tmp_path):
    kept = {"validation": HELD_OUT, "patience": 3, "checkpoint": tmp_path / "state", "checkpoint_every": 1}
    whole = quietly(xm.XMEN(GRID, RULE, **kept), DEMOS)
    with pytest.raises(xm.StorageError, match="validation differ"):
        xm.XMEN(GRID, RULE, resume=True, **{**kept, "validation": HELD_OUT[:5]}).fit(DEMOS)
    longer = quietly(xm.XMEN(GRID, RULE, resume=True, **{**kept, "patience": 5}), DEMOS)
    assert longer.n_iter_ == whole.n_iter_ + 2  # more patience goes on from there


def test_fit_takes_them_too_and_models_do_not_store_them(tmp_path):
    model = quietly(xm.XMEN(GRID, RULE, patience=3), DEMOS, validation=iter(HELD_OUT))
    same = quietly(xm.XMEN(GRID, RULE, validation=HELD_OUT, patience=3), DEMOS)
    np.testing.assert_array_equal(model.weights_, same.weights_)
    same.save(tmp_path / "model")
    loaded = xm.load(tmp_path / "model")
    assert loaded.validation is None
    assert loaded.best_iteration_ == same.best_iteration_
    assert "best on validation" in loaded._repr_html_()


def test_what_is_refused():
    with pytest.raises(xm.InvalidDemonstrationError, match="validation: demonstration 0"):
        xm.XMEN(GRID, RULE, validation=[xm.Trajectory([0, 15], [0])]).fit(DEMOS)
    with pytest.raises(xm.TrajectoryError, match="validation: no demonstrations"):
        xm.XMEN(GRID, RULE).fit(DEMOS, validation=[])
    for learner in (xm.RelativeEntropyIRL(GRID, seed=0), xm.ConstraintInference(GRID)):
        with pytest.raises(xm.EngineError, match="validat"):
            learner.fit(DEMOS, validation=HELD_OUT)


def test_trips_validate_given_their_start_and_goal():
    ring = [(s, a, (s + (1, -1, 3)[a]) % 7, 1.0) for s in range(7) for a in range(3)]
    network = xm.Network(7, 3, ring)
    features = np.zeros((7, 3, 3))
    features[:, :, 0], features[:, 1, 1], features[2, :, 2] = 1.0, 1.0, 1.0
    truth = xm.XMEN(network, features=features)
    truth.reward_ = xm.LinearReward(features, [-1.5, -0.5, 0.8])
    pairs = [(0, 3), (1, 5), (4, 2), (6, 3), (2, 0)]
    trips = [tau for start, goal in pairs for tau in truth.sample(6, start=start, goal=goal, seed=start)]
    seen: list[Any] = []
    model = quietly(
        xm.XMEN(network, features=features, validation=trips[1::2], patience=2, callback=seen.append), trips[::2][:6]
    )
    for record in seen:
        truth.reward_ = xm.LinearReward(features, record.weights)
        expected = -truth.score(trips[1::2]) if "offset" not in record.details else math.inf
        assert record.details["validation_loss"] == pytest.approx(expected)
    curve = [record.details["validation_loss"] for record in model.history_]
    np.testing.assert_array_equal(model.weights_, seen[int(np.argmin(curve))].weights)
    assert -model.score(trips[1::2]) == pytest.approx(min(curve))


def test_networks_end_as_they_were_where_validation_was_best():
    torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
    torch.manual_seed(0)
    module = torch.nn.Linear(16, 1, bias=False).double()
    states = np.repeat(np.eye(16)[:, None, :], 3, axis=1)
    tables: list[np.ndarray] = []

    def watch(record):
        tables.append(record.reward.table()[:, 0].copy())

    reward = xm.NeuralReward(module, states)
    model = quietly(
        xm.XMEN(
            GRID,
            RULE,
            reward=reward,
            training=xm.Training(learning_rate=0.3),
            max_iter=60,
            seed=0,
            validation=HELD_OUT,
            callback=watch,
        ),
        DEMOS,
    )
    curve = [record.details["validation_loss"] for record in model.history_]
    np.testing.assert_allclose(curve, [listed_loss(table) for table in tables], atol=1e-9)
    assert model.best_iteration_ == int(np.argmin(curve)) + 1 < model.n_iter_ < 60
    np.testing.assert_array_equal(model.reward_.table()[:, 0], tables[model.best_iteration_ - 1])
    history = xm.fit_neural(
        GRID, RULE, reward, DEMOS, learning_rate=0.3, n_steps=60, seed=0, validation=HELD_OUT, patience=10
    )
    assert [record.details["validation_loss"] for record in history] == pytest.approx(curve)
    np.testing.assert_allclose(reward.table()[:, 0], model.reward_.table()[:, 0])


@pytest.mark.parametrize("name", ["exact", "maxent", "causal"])
def test_a_warm_start_goes_on_with_what_the_optimiser_knew(name, tmp_path):
    first = quietly(CASES[name](l2=0.05, warm_start=True), DRAWN)
    first.save(tmp_path / "model")
    changed = DRAWN[:-1]
    cold = quietly(CASES[name](l2=0.05, warm_start=True), changed)
    warm = quietly(xm.load(tmp_path / "model"), changed)
    bare = xm.load(tmp_path / "model")
    del bare.optimiser_state_
    assert warm.n_iter_ < quietly(bare, changed).n_iter_ < cold.n_iter_
    np.testing.assert_allclose(warm.weights_, cold.weights_, atol=1e-5)


def test_a_warm_start_of_a_network_keeps_its_moments(tmp_path):
    torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
    torch.manual_seed(0)
    reward = xm.NeuralReward(torch.nn.Linear(16, 1, bias=False).double(), np.repeat(np.eye(16)[:, None, :], 3, axis=1))
    settings = {"reward": reward, "seed": 0, "warm_start": True}
    whole = quietly(xm.XMEN(GRID, RULE, max_iter=20, **settings), DRAWN)
    half = quietly(xm.XMEN(GRID, RULE, max_iter=10, **settings), DRAWN)
    half.save(tmp_path / "model")
    again = quietly(xm.load(tmp_path / "model").set_params(max_iter=10), DRAWN)
    np.testing.assert_allclose(again.reward_.table(), whole.reward_.table(), rtol=1e-12)  # as if never stopped
