"""Neural rewards: gradients of the exact likelihood, engines, seeds, and maps of grids that are the right way up."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import xmen as xm
from learners.networks import inputs, network, nn, parameter_slopes, task, torch, visits
from xmen import ConvReward, FeatureReward, NeuralReward, fit_neural


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("kind", ["state-action", "state", "per action", "feature", "conv"])
def test_gradient_is_that_of_the_exact_likelihood(kind: str, discount: float) -> None:
    """Along random directions of all parameters, against central differences of -mean log P, by log Z and log_prob."""
    grid, rule = task()
    x = inputs(grid)
    reward = {
        "state-action": lambda: NeuralReward(network(3).double(), x),
        "state": lambda: NeuralReward(network(3).double(), x[:, 0], n_actions=4),
        "per action": lambda: NeuralReward(network(3, 4).double(), x[:, 0], n_actions=4),
        "feature": lambda: FeatureReward(network(3, 2).double(), x, seed=1),
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
    gradient = nn.utils.parameters_to_vector(p.grad for p in reward.module.parameters()).cpu().numpy()
    directions, slopes = parameter_slopes(reward.module, loss)
    np.testing.assert_allclose(directions @ gradient, slopes, atol=1e-7)


def test_gradients_add_up_until_they_are_cleared() -> None:
    grid, _ = task()
    reward = NeuralReward(network(3).double(), inputs(grid))
    difference = np.random.default_rng(1).normal(size=(12, 4))
    reward.backward(difference)
    once = [p.grad.clone() for p in reward.module.parameters()]
    reward.backward(difference)
    for parameter, gradient in zip(reward.module.parameters(), once, strict=True):
        assert torch.allclose(parameter.grad, 2 * gradient)


@pytest.mark.parametrize("engine", ["exact", "reject", xm.Xor(oracle="listed")])
def test_the_engine_that_is_asked_for_finds_the_visits(engine: str | xm.EngineSettings) -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule).sample(20, seed=4)
    reward = NeuralReward(network(3).double(), inputs(grid))
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
    reward = NeuralReward(network(3), x, device="cpu")
    assert reward.inputs.data_ptr() == reward.copy().inputs.data_ptr() == x.data_ptr()


def test_features_are_learned_with_their_weights() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, np.random.default_rng(6).normal(size=(12, 4))).sample(100, seed=4)
    reward = FeatureReward(network(3, 4).double(), inputs(grid), seed=7)
    assert reward.features().shape == (12, 4, 4)
    before = reward.features(), reward.weights
    history = fit_neural(grid, rule, reward, demos, n_steps=60, learning_rate=0.05)
    assert history[-1].loss < history[0].loss - 0.1
    assert np.abs(reward.features() - before[0]).max() > 0.01
    assert np.abs(reward.weights - before[1]).max() > 0.01
    assert reward.linear().table() == pytest.approx(reward.table(), abs=1e-12)
    by_state = FeatureReward(network(3, 4).double(), inputs(grid)[:, 0], n_actions=4, seed=7)
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


def test_frozen_parameters_stay_and_the_callback_ends_training() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(10, seed=0)
    module = network(3).double()
    module[0].requires_grad_(False)
    frozen = copy.deepcopy(module[0].state_dict())
    reward = NeuralReward(module, inputs(grid))
    history = fit_neural(grid, rule, reward, demos, n_steps=50, callback=lambda record: record.iteration == 4)
    assert len(history) == 4
    assert all(torch.equal(frozen[name], value.cpu()) for name, value in module[0].state_dict().items())


def test_training_takes_its_steps_and_no_more() -> None:
    """A callback would end it after five."""
    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(10, seed=0)
    reward = NeuralReward(network(3).double(), inputs(grid))
    history = fit_neural(grid, rule, reward, demos, n_steps=3, callback=lambda record: record.iteration == 5)
    assert len(history) == 3


def shift(dx: int, dy: int, n_channels: int, n_outputs: int = 1) -> nn.Module:
    """A convolution whose output at (x, y) is channel 0 at (x + dx, y + dy)."""
    layer = nn.Conv2d(n_channels, n_outputs, 3, padding="same", bias=False)
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.weight[:, 0, 1 + dy, 1 + dx] = 1.0
    return layer


def test_maps_and_states_are_the_same_way_up() -> None:
    """On an asymmetric grid each cell gets the map's value at the right neighbour, and not at a mirror image of it."""
    grid = xm.GridWorld(5, 3, start=(0, 0), goal=(4, 2), moves=("right", "up", "stay"), horizon=10)
    heights = np.arange(15.0).reshape(1, 3, 5) ** 2  # [y, x], all different
    for dx, dy in [(0, 0), (1, 0), (0, 1), (-1, 1)]:
        table = ConvReward(grid, heights, module=shift(dx, dy, 2)).table()
        for x in range(5):
            for y in range(3):
                inside = 0 <= x + dx < 5 and 0 <= y + dy < 3
                wanted = heights[0, y + dy, x + dx] if inside else 0.0
                state = grid.state((x, y))
                assert list(table[state]) == [wanted if ok else 0.0 for ok in grid.available[state]]


def test_each_move_has_its_own_output_map() -> None:
    grid = xm.GridWorld(4, 2, start=(0, 0), goal=None, moves=("up", "right", "stay"), horizon=3)
    layer = nn.Conv2d(2, 3, 1)
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    table = ConvReward(grid, np.zeros((1, 2, 4)), module=layer).table()
    assert np.array_equal(table, np.where(grid.available, [1.0, 2.0, 3.0], 0.0))


def test_walls_hide_what_is_in_them_and_have_no_reward() -> None:
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), walls=[(1, 1), (2, 0)], horizon=9)
    maps = np.random.default_rng(0).normal(size=(2, 3, 4))
    other = maps.copy()
    other[:, 1, 1], other[:, 0, 2] = 99.0, -99.0
    reward = ConvReward(grid, maps, seed=0)
    assert np.array_equal(reward.table(), ConvReward(grid, other, seed=0).table())
    assert not reward.table()[~grid.available].any()
    assert reward.table()[grid.available].all()
    seen = reward.inputs[0, -1].cpu().numpy()
    assert {(x, y) for y, x in np.argwhere(seen == 0)} == grid.walls


def test_one_network_serves_grids_of_other_sizes() -> None:
    small, large = (xm.GridWorld(w, h, start=(0, 0), goal=None, horizon=4) for w, h in [(5, 4), (9, 7)])
    maps = np.random.default_rng(0).normal(size=(2, 7, 9))
    reward = ConvReward(small, maps[:, :4, :5], channels=(3,), seed=0)
    wide = reward.on(large, maps)
    assert wide.module is reward.module
    # Away from the edges of both, a cell sees the same neighbourhood and gets the same reward.
    for cell in [(1, 1), (3, 2), (2, 1)]:
        assert wide.table()[large.state(cell)] == pytest.approx(reward.table()[small.state(cell)], abs=1e-6)
