"""Neural rewards: gradients of the exact likelihood, and training that finds what linear learning finds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import xmen as xm
from learners.neural_tasks import inputs, network, task, visits
from xmen import ConvReward, FeatureReward, NeuralReward, fit_neural
from xmen.methods.likelihood import DistributionLikelihood
from xmen.methods.neural import NeuralRun, Training
from xmen.methods.runs import FitSettings

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("kind", ["state-action", "state", "per action", "feature", "conv"])
def test_gradient_is_that_of_the_exact_likelihood(kind: str, discount: float) -> None:
    """Parameters of every layer against central differences of -mean log P + constant, through log Z and log_prob."""
    grid, rule = task()
    x = inputs(grid)
    reward = {
        "state-action": lambda: NeuralReward(network(3), x),
        "state": lambda: NeuralReward(network(3), x[:, 0], n_actions=4),
        "per action": lambda: NeuralReward(network(3, 4), x[:, 0], n_actions=4),
        "feature": lambda: FeatureReward(network(3, 2), x, seed=1),
        "conv": lambda: ConvReward(grid, x[:, 0].T.reshape(3, 3, 4), channels=(2,), seed=1),
    }[kind]()
    reward.module.double()
    reward.inputs = reward.inputs.double()
    d = xm.distribution(grid, rule, reward, discount)
    demos = d.with_reward(None).sample(5, seed=0)

    def loss() -> float:
        present = d.with_reward(reward)
        return -float(np.mean([present.log_prob(tau) for tau in demos]))

    reward.backward(d.visits() - visits(grid, demos, discount))
    checked = 0
    for parameter in reward.module.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in np.random.default_rng(0).permutation(len(flat))[:8].tolist():
            value, h = float(flat[i]), 1e-5
            flat[i] = value + h
            above = loss()
            flat[i] = value - h
            slope = (above - loss()) / (2 * h)
            flat[i] = value
            assert float(gradient[i]) == pytest.approx(slope, abs=1e-7)
            checked += 1
    assert checked >= 10


def test_gradients_add_up_until_they_are_cleared() -> None:
    grid, _ = task()
    reward = NeuralReward(network(3), inputs(grid))
    difference = np.random.default_rng(1).normal(size=(12, 4))
    reward.backward(difference)
    once = [p.grad.clone() for p in reward.module.parameters()]
    reward.backward(difference)
    for parameter, gradient in zip(reward.module.parameters(), once, strict=True):
        assert torch.allclose(parameter.grad, 2 * gradient)


@pytest.mark.parametrize(("l2", "discount"), [(0.0, 1.0), (0.3, 0.9)])
def test_a_linear_network_finds_the_optimum_of_a_linear_reward(l2: float, discount: float) -> None:
    """The same convex problem, solved by scipy over LinearReward with its own gradient by features."""
    grid, rule = task()
    x = inputs(grid)
    demos = xm.distribution(grid, rule, xm.LinearReward(x, [1.0, -0.5, 0.3]), discount).sample(40, seed=2)
    weight = np.random.default_rng(3).random(len(demos))
    d = xm.distribution(grid, rule, None, discount)

    def objective(theta: np.ndarray) -> float:
        returns = [sum(discount**t * x[s, a] @ theta for t, (s, a) in enumerate(tau)) for tau in pairs]
        return float(
            d.with_reward(xm.LinearReward(x, theta)).log_partition()
            - np.average(returns, weights=weight)
            + 0.5 * l2 * theta @ theta
        )

    pairs = [list(zip(tau.states[:-1], tau.actions, strict=True)) for tau in demos]
    best = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-7})
    reward = NeuralReward(nn.Linear(3, 1, bias=False).double(), x)
    history = fit_neural(
        grid, rule, reward, demos, discount=discount, sample_weight=weight, optimiser="lbfgs", n_steps=30, l2=l2
    )
    assert reward.module.weight.detach().cpu().numpy()[0] == pytest.approx(best.x, abs=1e-5)
    assert history[-1].loss == pytest.approx(best.fun, abs=1e-8)
    assert history[-1].gradient_norm < 1e-5


@pytest.mark.parametrize("optimiser", ["adam", "sgd", lambda p: torch.optim.RMSprop(p, lr=0.01)])
def test_training_lowers_the_loss_and_reaches_the_demonstrator(optimiser: object) -> None:
    grid, rule = task()
    truth = np.random.default_rng(5).normal(size=(12, 4))
    d = xm.distribution(grid, rule, truth)
    demos = d.sample(300, seed=4)
    onehot = np.eye(48).reshape(12, 4, 48)
    reward = NeuralReward(network(48), onehot)
    seen: list[int] = []
    history = fit_neural(
        grid,
        rule,
        reward,
        demos,
        optimiser=optimiser,
        learning_rate=0.05,
        n_steps=150,
        callback=lambda r: seen.append(r.iteration),
    )
    assert seen == list(range(1, 151))
    fitted = xm.distribution(grid, rule, reward)
    score = np.mean([fitted.log_prob(tau) for tau in demos])
    # One-hot inputs make every table possible, so that the network can do as well as the truth on its own samples.
    assert score > np.mean([d.log_prob(tau) for tau in demos]) - 0.02
    assert history[-1].loss < history[0].loss


@pytest.mark.parametrize("engine", ["exact", "reject", xm.Xor(oracle="listed")])
def test_the_engine_that_is_asked_for_finds_the_visits(engine: str | xm.EngineSettings) -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule).sample(20, seed=4)
    reward = NeuralReward(network(3), inputs(grid))
    before = reward.table()
    log_partition = xm.distribution(grid, rule, reward).log_partition()
    history = fit_neural(grid, rule, reward, demos, engine=engine, n_steps=2, seed=1)
    mean = np.mean([before[tau.states[:-1], tau.actions].sum() for tau in demos])
    assert history[0].loss == pytest.approx(log_partition - mean, abs=0.1)
    assert [sorted(record.details) for record in history] == [[] if engine == "exact" else ["visits_std"]] * 2
    trained = reward.table()
    assert fit_neural(grid, rule, reward, demos, n_steps=0) == []
    assert np.array_equal(reward.table(), trained)
    assert not np.array_equal(trained, before)


def test_a_tensor_of_inputs_is_shared() -> None:
    x = torch.as_tensor(inputs(task()[0]), dtype=torch.float32)
    reward = NeuralReward(network(3).float(), x, device="cpu")
    assert reward.inputs.data_ptr() == reward.copy().inputs.data_ptr() == x.data_ptr()


def test_features_are_learned_with_their_weights() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, np.random.default_rng(6).normal(size=(12, 4))).sample(100, seed=4)
    reward = FeatureReward(network(3, 4), inputs(grid), seed=7)
    assert reward.features().shape == (12, 4, 4)
    before = reward.features(), reward.weights
    history = fit_neural(grid, rule, reward, demos, n_steps=60, learning_rate=0.05)
    assert history[-1].loss < history[0].loss - 0.1
    assert np.abs(reward.features() - before[0]).max() > 0.01
    assert np.abs(reward.weights - before[1]).max() > 0.01
    assert reward.linear().table() == pytest.approx(reward.table(), abs=1e-12)
    by_state = FeatureReward(network(3, 4), inputs(grid)[:, 0], n_actions=4, seed=7)
    assert by_state.linear().table() == pytest.approx(by_state.table(), abs=1e-12)


def test_same_seed_same_result_and_the_users_random_numbers_stay() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(10, seed=0)
    maps = np.random.default_rng(0).normal(size=(2, 3, 4))
    tables = []
    torch.manual_seed(123)
    for _ in range(2):
        before = torch.random.get_rng_state()
        reward = ConvReward(grid, maps, seed=5)
        fit_neural(grid, rule, reward, demos, n_steps=5, seed=1)
        assert torch.equal(before, torch.random.get_rng_state())
        tables.append(reward.table())
        torch.rand(7)
    assert np.array_equal(*tables)
    assert not np.array_equal(ConvReward(grid, maps, seed=5).table(), ConvReward(grid, maps, seed=6).table())


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "lbfgs", lambda p: torch.optim.NAdam(p)])
def test_training_taken_up_again_is_bit_for_bit_the_same(optimiser: object) -> None:
    grid, rule = task()
    d = xm.distribution(grid, rule, None)
    likelihood = DistributionLikelihood(d, visits(grid, d.sample(10, seed=0), 1.0))

    def fresh() -> NeuralRun:
        reward = NeuralReward(network(3, dtype=torch.float32), inputs(grid))
        return NeuralRun(likelihood, reward, Training(optimiser), FitSettings(max_iter=8, tol=0.0, seed=0))

    def moved(run: NeuralRun, state: Any, n: int) -> tuple[Any, dict[str, float]]:
        for _ in range(n):
            state, entry = run.step(state)
        return state, entry

    whole, first, second = fresh(), fresh(), fresh()
    _, last = moved(whole, whole.start(), 8)
    third, _ = moved(first, first.start(), 3)
    saved = copy.deepcopy(third)
    moved(first, third, 1)
    assert saved.iteration == 3
    _, again = moved(second, saved, 5)
    assert again == last
    assert np.array_equal(whole.reward.table(), second.reward.table())


def test_frozen_parameters_stay_and_the_callback_ends_training() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(10, seed=0)
    module = network(3)
    module[0].requires_grad_(False)
    frozen = copy.deepcopy(module[0].state_dict())
    reward = NeuralReward(module, inputs(grid))
    history = fit_neural(grid, rule, reward, demos, n_steps=50, callback=lambda record: record.iteration == 4)
    assert len(history) == 4
    assert all(torch.equal(frozen[name], value.cpu()) for name, value in module[0].state_dict().items())
