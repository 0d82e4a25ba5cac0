"""XMEN trains networks: against the linear optimum and finite differences; Ctrl-C inside a step; checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.networks import linear, network, nn, parameter_slopes, torch, visits
from learners.quiet import quietly
from learners.tasks import grid_task, small_task
from strategies import cases


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_linear_network_reaches_the_listed_optimum(l2):
    """Loss within 1e-8 of the optimum by enumeration, as for linear rewards, on random worlds, rules and weights."""
    for seed in range(cases(12)):
        task = small_task(seed)
        best, weights = task.optimum(l2)
        reward = xm.NeuralReward(linear(task.features.shape[2]), task.features)
        settings = {"discount": task.discount, "training": xm.Training("lbfgs"), "l2": l2, "max_iter": 100}
        model = xm.XMEN(task.world, task.constraint, reward=reward, **settings)
        quietly(model, task.demos, task.weights)
        found = model.reward_.module.weight.detach().cpu().numpy()[0]
        assert task.loss(found, l2) - best < 1e-8, seed
        if l2:
            np.testing.assert_allclose(found, weights, atol=1e-4)
        assert model.history_[-1].loss == pytest.approx(task.loss(found, l2), abs=1e-8)
        assert model.method_ == "exact"


def test_first_order_optimisers_reach_what_linear_learning_does():
    grid, rule, features, demos = grid_task(5)
    best = xm.XMEN(grid, rule, features).fit(demos)
    settings = dict(reward=xm.NeuralReward(linear(4), features), max_iter=400)
    for optimiser in ("adam", "sgd", lambda p: torch.optim.RMSprop(p, lr=0.01)):
        model = xm.XMEN(grid, rule, training=xm.Training(optimiser, 0.1), **settings).fit(demos)
        assert model.score(demos) == pytest.approx(best.score(demos), abs=1e-4)
    stopped = xm.XMEN(grid, rule, tol=0.01, training=xm.Training(learning_rate=0.1), **settings).fit(demos)
    assert stopped.converged_
    assert stopped.n_iter_ < 400
    assert stopped.history_[-1].gradient_norm <= 0.01 < stopped.history_[-2].gradient_norm
    # The model is the one whose gradient is small, and not one step further.
    gradient = np.einsum("sa,sad->d", stopped.distribution().visits() - visits(grid, demos, 1.0), features)
    assert np.linalg.norm(gradient) == pytest.approx(stopped.history_[-1].gradient_norm, rel=1e-9)


def test_records_are_the_loss_and_its_gradient_by_finite_differences():
    grid, rule, features, demos = grid_task(4)
    module = network().double()
    model = quietly(xm.XMEN(grid, rule, reward=xm.NeuralReward(module, features), l2=0.2, max_iter=1), demos)
    d = xm.distribution(grid, rule)

    def loss() -> float:
        with torch.no_grad():
            table = module(torch.as_tensor(features, device=model.reward.device))[:, :, 0].cpu().numpy()
            squares = sum(float(p.square().sum()) for p in module.parameters())
        returns = [sum(table[s, a] for s, a in zip(tau.states, tau.actions, strict=False)) for tau in demos]
        return d.with_reward(table).log_partition() - float(np.mean(returns)) + 0.1 * squares

    directions, along = parameter_slopes(module, loss, 31)  # as many as there are parameters
    gradient = np.linalg.solve(directions, along)
    (record,) = model.history_
    assert record.loss == pytest.approx(loss(), abs=1e-9)
    assert record.gradient_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-6)


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "lbfgs"])
def test_it_is_the_training_of_fit_neural(optimiser):
    grid, rule, features, demos = grid_task(4)
    reward = xm.NeuralReward(network(), features)
    weights, seen = np.random.default_rng(3).random(len(demos)), []
    settings = {"discount": 0.9, "l2": 0.3, "seed": 1, "callback": seen.append}
    model = xm.XMEN(grid, rule, reward=reward, training=xm.Training(optimiser, 0.02), max_iter=20, **settings)
    quietly(model, demos, weights)
    training = {"optimiser": optimiser, "learning_rate": 0.02, "n_steps": 20, "sample_weight": weights}
    history = xm.fit_neural(grid, rule, reward, demos, **training, **settings)
    np.testing.assert_array_equal(model.reward_.table(), reward.table())
    assert [r.loss for r in model.history_] == [r.loss for r in history]
    assert seen == [*model.history_, *history]
    assert history[-1].loss < history[0].loss


def test_hash_cells_find_the_same_reward():
    """120 Adam steps on estimates: within 0.02 nats of the optimum, where the start is more than 1 nat away."""
    grid, rule, features, demos = grid_task(5)
    best = xm.XMEN(grid, rule, features).fit(demos)
    reward = xm.NeuralReward(linear(4), features)
    settings = dict(reward=reward, oracle="listed", training=xm.Training(learning_rate=0.05), seed=3, max_iter=120)
    model = xm.XMEN(grid, rule, method=xm.Cells(n_cells=8, cell_size=16), **settings).fit(demos)
    start = xm.distribution(grid, rule, reward)
    assert np.mean([start.log_prob(tau) for tau in demos]) < best.score(demos) - 1
    assert best.score(demos) - 0.02 < model.score(demos) <= best.score(demos) + 1e-9
    last = model.history_[-1]
    assert last.details["parities"] > 0
    assert last.loss_std > 0
    assert last.details["visits_std"] > 0
    assert np.isnan(last.gradient_std)
    # Where the product does not fit, cells are what "auto" uses.
    auto = quietly(xm.XMEN(grid, rule, max_nodes=20, **{**settings, "max_iter": 2}), demos)
    assert auto.method_ == "cells"


def test_every_kind_of_network_learns_and_answers():
    grid, rule, features, demos = grid_task(4)
    maps = features[:, 0].T.reshape(4, 4, 4)
    rewards = [
        xm.NeuralReward(network(), features),
        xm.FeatureReward(network(k=3), features, seed=0),
        xm.ConvReward(grid, maps, channels=(4,), seed=0),
    ]
    for reward in rewards:
        training = xm.Training(learning_rate=0.05)
        model = quietly(xm.XMEN(grid, rule, reward=reward, max_iter=40, training=training, seed=0), demos)
        assert type(model.reward_) is type(reward)
        assert model.history_[-1].loss < model.history_[0].loss - 0.1
        assert all(rule.accepts(tau) for tau in model.sample(20))
        also = xm.visit(grid.at((1, 3)))
        assert all(also.accepts(tau) for tau in model.sample(5, also=also))
        d = xm.distribution(grid, rule, model.reward_)
        assert model.score(demos) == pytest.approx(np.mean([d.log_prob(tau) for tau in demos]), abs=1e-9)
        policy = model.policy(seed=0)
        policy.reset(0)
        assert policy.act(0) in range(3)
        assert not hasattr(model, "weights_")


def test_the_network_that_was_given_stays_as_it_is():
    grid, rule, features, demos = grid_task(4)
    module = network()
    reward = xm.NeuralReward(module, features)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = xm.XMEN(grid, rule, reward=reward, max_iter=30)
    first = quietly(model, demos).reward_
    assert model.reward is reward
    assert first is not reward
    assert first.module is not module
    assert first.inputs is reward.inputs  # what is not trained is shared
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())
    table = first.table()
    quietly(model, demos)  # from the start again, and not from where the first one ended
    np.testing.assert_array_equal(model.reward_.table(), table)
    assert model.reward_ is not first
    conv = xm.ConvReward(grid, np.zeros((1, 4, 4)), seed=0).copy()
    feature = xm.FeatureReward(network(k=2), features).copy()
    assert conv.grid.n_states == 16
    assert feature.module[0] is feature.body
    assert feature.module[1] is feature.head


def test_a_linear_fit_after_a_neural_one_and_back():
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features, l2=0.1, max_iter=100).fit(demos)
    assert model.weights_.shape == (4,)
    model.set_params(features=None, reward=xm.NeuralReward(network(), features))
    quietly(model, demos)
    assert not hasattr(model, "weights_")


@pytest.mark.slow
def test_algorithm_1_trains_a_network():
    """A linear network by PAWS draws comes most of the way from nothing to the listed optimum; same seed, same net."""
    grid, rule, features, demos = grid_task(5)
    best = xm.XMEN(grid, rule, features).fit(demos).score(demos)
    paper = xm.Paper(n_samples=32, n_demonstrations=None)
    settings = {"method": paper, "training": xm.Training("adam", 0.1), "max_iter": 60, "oracle": "listed", "seed": 0}
    models = [
        quietly(xm.XMEN(grid, rule, reward=xm.NeuralReward(linear(4), features), engine="exact", **settings), demos)
        for _ in range(2)
    ]
    nothing = xm.distribution(grid, rule, None)
    start = float(np.mean([nothing.log_prob(tau) for tau in demos]))
    assert best - models[0].score(demos) < 0.2 * (best - start)
    assert models[0].history_[-1].details["queries"] > 0
    assert models[0].score(demos) == models[1].score(demos)


class Interrupting(nn.Module):
    """Ctrl-C in the middle of a step: in forward pass number `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.inner, self.at, self.calls = network(), at, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return self.inner(x)


@pytest.mark.parametrize("optimiser", ["adam", "lbfgs", lambda parameters: torch.optim.NAdam(parameters)])
def test_ctrl_c_inside_a_step_takes_it_back_and_the_checkpoint_too(optimiser, tmp_path):
    grid, rule, features, demos = grid_task(4)
    training = xm.Training(optimiser, learning_rate=0.02)
    settings = dict(training=training, checkpoint=tmp_path / "c", max_iter=4, tol=0.0)
    whole = quietly(xm.XMEN(grid, rule, reward=xm.NeuralReward(Interrupting(0), features), **settings), demos)
    calls = whole.reward_.module.calls
    for at in {5, 6, calls // 3, calls // 2, 2 * calls // 3}:
        with pytest.warns(xm.InterruptedWarning):
            model = xm.XMEN(grid, rule, reward=xm.NeuralReward(Interrupting(at), features), **settings).fit(demos)
        assert np.isfinite(model.score(demos))
        again = xm.NeuralReward(Interrupting(0), features)
        resumed = quietly(xm.XMEN(grid, rule, reward=again, resume=True, **settings), demos)
        np.testing.assert_array_equal(resumed.reward_.table(), whole.reward_.table())


def test_a_loss_that_still_falls_is_announced():
    grid, rule, features, demos = grid_task(4)
    reward = xm.NeuralReward(network(), features)
    with pytest.warns(xm.ConvergenceWarning, match=r"max_iter = 20 .* by 0\.\d+") as seen:
        xm.XMEN(grid, rule, reward=reward, max_iter=20).fit(demos)
    assert seen[0].filename == __file__
    fast = xm.Training(learning_rate=0.05)
    xm.XMEN(grid, rule, reward=reward, max_iter=400, l2=0.1, training=fast).fit(demos)  # nothing to say


def test_checkpoints_of_other_networks_are_refused(tmp_path):
    grid, rule, features, demos = grid_task(4)
    settings = dict(checkpoint=tmp_path / "c", resume=True, max_iter=2)
    quietly(xm.XMEN(grid, rule, reward=xm.NeuralReward(network(), features), **settings), demos)
    frozen = network()
    frozen[0].requires_grad_(False)
    others = [
        xm.NeuralReward(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)), features),
        xm.NeuralReward(network(), features + 1),
        xm.NeuralReward(frozen, features),
    ]
    same = xm.NeuralReward(network(), features)
    runs = [({"reward": other}, "reward") for other in others]
    runs += [({"reward": same, "training": xm.Training("sgd")}, "optimiser"), ({}, "optimiser, reward")]
    for changed, differs in runs:
        with pytest.raises(xm.StorageError, match=f"another run: {differs} differ"):
            xm.XMEN(grid, rule, **changed, **settings).fit(demos)
