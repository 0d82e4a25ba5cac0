"""Neural rewards: gradients against finite differences, optima against an independent optimiser, maps against cells."""

from __future__ import annotations

import copy
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize

import xmen as xm
from xmen.errors import MissingExtraError, RewardError

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores

from xmen.neural import ConvReward, FeatureReward, NeuralReward, NeuralTraining, fit_neural  # noqa: E402
from xmen.neural.likelihood import DistributionLikelihood  # noqa: E402


def task() -> tuple[xm.GridWorld, xm.Constraint]:
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), horizon=9)
    return grid, xm.visit(grid.at((0, 2), (2, 0))) & (xm.longest_repeat() <= 2)


def network(d: int, k: int = 1, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 5), nn.Tanh(), nn.Linear(5, k)).to(dtype)


def inputs(world: xm.MDP, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(world.n_states, world.n_actions, d))


def visits(world: xm.MDP, demos: list[xm.Trajectory], discount: float) -> np.ndarray:
    """Mean discounted visits, counted step by step."""
    out = np.zeros((world.n_states, world.n_actions))
    for tau in demos:
        for t, (s, a) in enumerate(zip(tau.states, tau.actions, strict=False)):
            out[s, a] += discount**t / len(demos)
    return out


# --- the gradient -------------------------------------------------------------------------------------------------


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


# --- training -----------------------------------------------------------------------------------------------------


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

    def fresh() -> NeuralTraining:
        return NeuralTraining(likelihood, NeuralReward(network(3, dtype=torch.float32), inputs(grid)), optimiser)

    whole = fresh()
    for _ in range(8):
        last = whole.step()
    first = fresh()
    for _ in range(3):
        first.step()
    saved = {name: array.copy() for name, array in first.state().items()}
    first.step()
    second = fresh()
    second.load_state(saved)
    assert second.n_steps == 3
    for _ in range(5):
        again = second.step()
    assert again[:2] == last[:2]
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


# --- maps and cells -----------------------------------------------------------------------------------------------


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


# --- what can go wrong --------------------------------------------------------------------------------------------


def test_shapes_that_do_not_fit_print_both() -> None:
    grid, _ = task()
    x = inputs(grid)
    with pytest.raises(RewardError, match=r"Linear .*\(12, 4, 3\).*shape \(12, 4, 2\).*\(12, 4\) or \(12, 4, 1\)"):
        NeuralReward(nn.Linear(3, 2), x)
    with pytest.raises(RewardError, match=r"cannot read inputs of shape \(12, 4, 3\)"):
        NeuralReward(nn.Linear(5, 1), x)
    with pytest.raises(RewardError, match="give n_actions="):
        NeuralReward(nn.Linear(3, 1), x[:, 0])
    with pytest.raises(RewardError, match=r"n_actions = 3, but .* 4 actions"):
        NeuralReward(nn.Linear(3, 1), x, n_actions=3)
    with pytest.raises(RewardError, match=r"got shape \(12,\)"):
        NeuralReward(nn.Linear(3, 1), x[:, 0, 0])
    with pytest.raises(RewardError, match=r"needs a torch.nn.Module; got function"):
        NeuralReward(lambda y: y, x)
    with pytest.raises(RewardError, match=r"shape \(12, 4\) .*got shape \(4, 12\)"):
        NeuralReward(nn.Linear(3, 1), x).backward(np.zeros((4, 12)))
    with pytest.raises(RewardError, match=r"\(C, 3, 4\); got shape \(2, 4, 3\)"):
        ConvReward(grid, np.zeros((2, 4, 3)))
    with pytest.raises(RewardError, match=r"wanted \(12, 4, k\)"):
        FeatureReward(nn.Flatten(), x)
    with pytest.raises(RewardError, match=r"wanted \(1, 4, 3, 4\) or \(1, 1, 3, 4\)"):
        ConvReward(grid, np.zeros((2, 3, 4)), module=nn.Conv2d(3, 2, 1))
    with pytest.raises(RewardError, match="odd"):
        ConvReward(grid, np.zeros((2, 3, 4)), kernel_size=2)
    with pytest.raises(RewardError, match="NeuralReward takes any world"):
        ConvReward(xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, terminal=1), np.zeros((2, 3, 4)))
    with pytest.raises(RewardError, match=r"shape \(11, 4\)"):
        xm.distribution(grid, None, NeuralReward(nn.Linear(3, 1), x[:-1]))
    with pytest.raises(RewardError, match="cannot be used"):
        NeuralReward(nn.Linear(3, 1), x, device="cuda:77")


def test_numbers_that_are_not_finite_are_named() -> None:
    grid, rule = task()
    x = inputs(grid)
    with pytest.raises(RewardError, match="inputs must be finite"):
        NeuralReward(nn.Linear(3, 1), np.where(x > 2, np.nan, x))
    module = nn.Linear(3, 1)
    with torch.no_grad():
        module.weight[0, 0] = math.nan
    with pytest.raises(RewardError, match=r"network Linear gives nan for state 0 and action 0 \(48 of 48"):
        NeuralReward(module, x)
    reward = NeuralReward(nn.Linear(3, 1), x)
    with torch.no_grad():
        reward.module.bias[0] = math.inf
    with pytest.raises(RewardError, match="lower the learning rate"):
        xm.distribution(grid, rule, reward)
    with pytest.raises(RewardError, match="visits_model - visits_demo must be finite"):
        NeuralReward(nn.Linear(3, 1), x).backward(np.full((12, 4), np.nan))


class Overflowing(nn.Module):
    """Fine at first, and infinite after any large step."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x @ self.scale)


def test_a_step_into_infinity_is_not_taken() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(3, seed=0)
    reward = NeuralReward(Overflowing(), inputs(grid))
    with pytest.raises(RewardError, match=r"step 1 of training: the network Overflowing gives inf"):
        fit_neural(grid, rule, reward, demos, optimiser="sgd", learning_rate=1e6)
    assert np.isfinite(reward.table()).all()


def test_a_gradient_that_is_not_finite_is_named() -> None:
    class Root(Overflowing):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sqrt((x @ self.scale).abs())

    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(3, seed=0)
    with pytest.raises(RewardError, match=r"step 1 of training: the gradient .* is not finite"):
        fit_neural(grid, rule, NeuralReward(Root(), inputs(grid)), demos)


def test_bad_settings_and_demonstrations_are_refused() -> None:
    grid, rule = task()
    demos = xm.distribution(grid, rule, None).sample(3, seed=0)
    reward = NeuralReward(network(3), inputs(grid))
    with pytest.raises(RewardError, match="unknown optimiser 'adma': choose one of 'adam'"):
        fit_neural(grid, rule, reward, demos, optimiser="adma")
    with pytest.raises(RewardError, match="learning_rate"):
        fit_neural(grid, rule, reward, demos, learning_rate=-1)
    with pytest.raises(RewardError, match="l2"):
        fit_neural(grid, rule, reward, demos, l2=-1)
    with pytest.raises(RewardError, match="needs a NeuralReward; got LinearReward"):
        fit_neural(grid, rule, xm.LinearReward(inputs(grid), np.zeros(3)), demos)
    with pytest.raises(RewardError, match="no parameter that can be trained"):
        fit_neural(grid, rule, NeuralReward(network(3).requires_grad_(False), inputs(grid)), demos)
    with pytest.raises(xm.InvalidDemonstrationError):
        fit_neural(grid, xm.never(grid.at((0, 0))) | xm.visit(grid.at((1, 1))), reward, [bad_demo(grid)])


def bad_demo(grid: xm.GridWorld) -> xm.Trajectory:
    """Along the edge, never through (1, 1)."""
    cells = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)]
    return xm.Trajectory([grid.state(c) for c in cells], [1, 1, 1, 0, 0])


def test_rewards_of_a_network_with_dropout_are_one_number() -> None:
    grid, _ = task()
    module = nn.Sequential(nn.Linear(3, 20), nn.Dropout(0.5), nn.Linear(20, 1))
    reward = NeuralReward(module, inputs(grid))
    assert np.array_equal(reward.table(), reward.table())


def test_whole_number_tensors_reach_embeddings() -> None:
    numbers = torch.arange(12).reshape(12, 1)
    module = nn.Sequential(nn.Embedding(12, 2), nn.Flatten(), nn.Linear(2, 1))
    reward = NeuralReward(module, numbers, n_actions=4)
    assert reward.table().shape == (12, 4)
    assert (reward.table() == reward.table()[:, :1]).all()


def test_state_is_saved_and_checked() -> None:
    grid, _ = task()
    one, other = (NeuralReward(network(3, seed=seed), inputs(grid)) for seed in (0, 1))
    other.load_state(one.state())
    assert np.array_equal(one.table(), other.table())
    with pytest.raises(RewardError, match="belong to another network"):
        other.load_state({"nothing": np.zeros(2)})


def test_copies_learn_on_their_own() -> None:
    grid, rule = task()
    reward = NeuralReward(network(3), inputs(grid))
    before = reward.table()
    fit_neural(grid, rule, copy.deepcopy(reward), xm.distribution(grid, rule, None).sample(3, seed=0), n_steps=2)
    assert np.array_equal(before, reward.table())


def test_without_torch_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, _ = task()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)  # importing it now fails
        with pytest.raises(MissingExtraError, match=r'NeuralReward needs torch.*pip install "xmen\[neural\]"'):
            NeuralReward(object(), inputs(grid))
        with pytest.raises(MissingExtraError, match="ConvReward needs torch"):
            ConvReward(grid, np.zeros((1, 3, 4)))
        with pytest.raises(MissingExtraError, match="FeatureReward needs torch"):
            FeatureReward(object(), inputs(grid))


def test_importing_does_not_load_torch() -> None:
    code = "import sys, xmen.neural, xmen.learners.policy; print('torch' in sys.modules, 'numba' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["False", "False"]
