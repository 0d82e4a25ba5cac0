"""Learning with the exact engine on a device: the same weights, losses and networks as on the host.

XMEN_TEST_DEVICE=cuda runs the same tests on a GPU.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

import xmen as xm
from engines.test_horizon_free import random_network
from engines.test_trips import pairs_of
from learners.tasks import errands_task

DEVICE = os.environ.get("XMEN_TEST_DEVICE", "cpu")


@pytest.fixture(scope="module")
def task():
    return errands_task(100)


@pytest.mark.parametrize("choices", [{}, {"discount": 0.9}, {"given": "start"}, {"kind": xm.MaxEntIRL}])
def test_the_same_weights(task, choices):
    grid, rules, features, demos = task
    kind, choices = choices.get("kind", xm.XMEN), {name: value for name, value in choices.items() if name != "kind"}
    choices |= {"features": features, **({"constraint": rules} if kind is xm.XMEN else {})}
    host = kind(grid, **choices).fit(demos)
    model = kind(grid, device=DEVICE, **choices).fit(demos)
    np.testing.assert_allclose(model.weights_, host.weights_, atol=1e-6)
    np.testing.assert_allclose(model.standard_errors_, host.standard_errors_, rtol=1e-4)
    assert model.score(demos) == pytest.approx(host.score(demos), abs=1e-9)
    assert model.sample(10, seed=0) == host.sample(10, seed=0)
    assert model.get_params()["device"] == DEVICE


def test_the_same_weights_of_trips():
    rng = np.random.default_rng(3)
    streets = random_network(rng)
    streets = xm.Network(streets.n_states, streets.n_actions, streets.transitions, horizon=8)
    starts, goals, _ = pairs_of(rng, streets)
    reward = np.full((streets.n_states, streets.n_actions), -1.0)
    trips = [
        xm.distribution(streets.task(s, g), None, reward).sample(1, seed=0)[0]
        for s, g in zip(starts, goals, strict=True)
    ]
    features = rng.normal(size=(streets.n_states, streets.n_actions, 2))
    host, model = (xm.XMEN(streets, features=features, l2=0.01, device=where).fit(trips) for where in (None, DEVICE))
    np.testing.assert_allclose(model.weights_, host.weights_, atol=1e-6)
    assert model.score(trips) == pytest.approx(host.score(trips), abs=1e-9)


def network(grid):
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    return xm.NeuralReward(
        body, np.random.default_rng(1).normal(size=(grid.n_states, grid.n_actions, 3)), device=DEVICE
    )


@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
def test_the_same_network(task, optimiser):
    grid, rules, _, demos = task
    losses = []
    for device in (None, DEVICE):
        reward = network(grid)
        history = xm.fit_neural(
            grid, rules, reward, demos, optimiser=optimiser, n_steps=4, l2=0.01, seed=0, device=device
        )
        losses.append([record.loss for record in history])
        gradient = [record.gradient_norm for record in history]
        assert gradient[-1] < gradient[0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-7)


def test_tables_and_visits_stay_on_the_device(task, monkeypatch):
    grid, rules, _, demos = task
    reward = network(grid)

    def refused(self, *_):
        raise AssertionError("the table went to the host")

    monkeypatch.setattr(xm.NeuralReward, "backward", refused)
    xm.fit_neural(grid, rules, reward, demos, n_steps=2, device=DEVICE)


def test_a_trained_model_and_a_network_that_breaks(task):
    grid, rules, _, demos = task
    model = xm.XMEN(grid, rules, reward=network(grid), device=DEVICE, precision="float32", max_iter=3)
    with pytest.warns(xm.ConvergenceWarning, match="max_iter = 3"):
        model.fit(demos)
    assert len(model.sample(5, seed=0)) == 5
    broken = network(grid)
    before = broken.state()
    with pytest.raises(xm.RewardError, match=r"step 1 of training.*not finite"):
        xm.fit_neural(grid, rules, broken, demos, learning_rate=1e308, n_steps=3, device=DEVICE)
    assert all(np.array_equal(broken.state()[name], value) for name, value in before.items())
