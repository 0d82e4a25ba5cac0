"""XMEN trains networks: against the linear optimum, finite differences, and what a user may get wrong."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.networks import linear, network
from learners.quiet import quietly
from learners.tasks import grid_task, small_task
from strategies import cases

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_linear_network_reaches_the_listed_optimum(l2):
    """Loss within 1e-8 of the optimum by enumeration, as for linear rewards, on random worlds, rules and weights."""
    for seed in range(cases(12)):
        task = small_task(seed)
        best, weights = task.optimum(l2)
        d = task.features.shape[2]
        reward = xm.NeuralReward(linear(d), task.features)
        model = xm.XMEN(
            task.world,
            task.constraint,
            discount=task.discount,
            reward=reward,
            training=xm.Training("lbfgs"),
            l2=l2,
            max_iter=100,
        )
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
    for optimiser in ("adam", lambda p: torch.optim.RMSprop(p, lr=0.01)):
        model = xm.XMEN(grid, rule, training=xm.Training(optimiser, 0.1), **settings).fit(demos)
        assert model.score(demos) == pytest.approx(best.score(demos), abs=1e-4)
    stopped = xm.XMEN(grid, rule, tol=0.01, training=xm.Training(learning_rate=0.1), **settings).fit(demos)
    assert stopped.converged_
    assert stopped.n_iter_ < 400
    assert stopped.history_[-1].gradient_norm <= 0.01 < stopped.history_[-2].gradient_norm
    # The model is the one whose gradient is small, and not one step further.
    visits = np.zeros((25, 3))
    for tau in demos:
        np.add.at(visits, (list(tau.states[:-1]), list(tau.actions)), 1 / len(demos))
    gradient = np.einsum("sa,sad->d", stopped.distribution().visits() - visits, features)
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

    slopes = []
    for parameter in module.parameters():
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            value = float(flat[i])
            flat[i] = value + 1e-5
            above = loss()
            flat[i] = value - 1e-5
            slopes.append((above - loss()) / 2e-5)
            flat[i] = value
    (record,) = model.history_
    assert record.loss == pytest.approx(loss(), abs=1e-9)
    assert record.gradient_norm == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_it_is_the_training_of_fit_neural():
    grid, rule, features, demos = grid_task(4)
    reward = xm.NeuralReward(network(), features)
    model = quietly(xm.XMEN(grid, rule, reward=reward, max_iter=20, seed=1), demos)
    history = xm.fit_neural(grid, rule, reward, demos, n_steps=20, seed=1)
    np.testing.assert_array_equal(model.reward_.table(), reward.table())
    assert [r.loss for r in model.history_] == [r.loss for r in history]


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


def test_settings_that_make_no_sense():
    grid, rule, features, demos = grid_task(4)
    reward = xm.NeuralReward(network(), features)
    with pytest.raises(xm.EngineError, match="features and reward are both given"):
        xm.XMEN(grid, rule, features, reward=reward).fit(demos)
    with pytest.raises(xm.RewardError, match=r"features are arrays, and here a NeuralReward: .* reward="):
        xm.XMEN(grid, rule, reward).fit(demos)
    with pytest.raises(xm.RewardError, match=r"got Sequential\. Write NeuralReward\(module, inputs\)"):
        xm.XMEN(grid, rule, reward=network()).fit(demos)
    with pytest.raises(xm.RewardError, match=r"got LinearReward\. For a linear reward give features"):
        xm.XMEN(grid, rule, reward=xm.LinearReward(features, np.zeros(4))).fit(demos)
    with pytest.raises(xm.EngineError, match="method='paper' with a network takes the steps of its training"):
        xm.XMEN(grid, rule, reward=reward, method=xm.Paper(learning_rate=0.1)).fit(demos)
    with pytest.raises(xm.RewardError, match="reward is for 15 states and 3 actions, but the world has 16 states"):
        xm.XMEN(grid, rule, reward=xm.NeuralReward(network(), features[:-1])).fit(demos)
    with pytest.raises(xm.RewardError, match="unknown optimiser 'adma'"):
        xm.XMEN(grid, rule, reward=reward, training=xm.Training("adma")).fit(demos)
    with pytest.raises(xm.RewardError, match=r"'lbfgs' .* needs exact losses"):
        xm.XMEN(grid, rule, reward=reward, training=xm.Training("lbfgs"), method="cells", oracle="listed").fit(demos)
    with pytest.raises(xm.EngineError, match=r"optimiser='sgd'\) is for training a network, and there is none"):
        xm.XMEN(grid, rule, features, training=xm.Training("sgd")).fit(demos)
    with pytest.raises(xm.RewardError, match="no parameter that can be trained"):
        xm.XMEN(grid, rule, reward=xm.NeuralReward(network().requires_grad_(False), features)).fit(demos)
    with pytest.raises(xm.InvalidDemonstrationError):
        xm.XMEN(grid, xm.never(xm.at(*demos[0].states[1:2])), reward=reward).fit(demos)


class Breaking(nn.Module):
    """A network that gives NaN as soon as its parameters have moved."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + (torch.nan if self.weight.abs().sum() > 0 else 0.0)


def test_a_network_that_gives_nan_is_named():
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, reward=xm.NeuralReward(Breaking(), features))
    with pytest.raises(xm.RewardError, match=r"step 1 of training: the network Breaking gives nan for state 0 and act"):
        model.fit(demos)
    assert not hasattr(model, "reward_")


def test_a_network_that_cannot_be_copied_says_so():
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 1)
            self.kept = self.inner.weight * 2  # no leaf of the graph: torch does not copy it

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    grid, rule, features, demos = grid_task(4)
    with pytest.raises(xm.RewardError, match=r"Stubborn cannot be copied: .*fit_neural trains it in place"):
        xm.XMEN(grid, rule, reward=xm.NeuralReward(Stubborn(), features)).fit(demos)


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
