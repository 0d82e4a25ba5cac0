"""Neural rewards: what can go wrong, and the words that say so."""

from __future__ import annotations

import copy
import math
import subprocess
import sys

import numpy as np
import pytest

import xmen as xm
from learners.neural_tasks import inputs, network, task
from xmen import ConvReward, FeatureReward, NeuralReward, fit_neural
from xmen.errors import MissingExtraError, RewardError

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


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
    with pytest.raises(xm.EngineError, match="n_steps is a whole number, 0 or more"):
        fit_neural(grid, rule, reward, demos, n_steps=-1)
    with pytest.raises(xm.EngineError, match="beside engine"):
        fit_neural(grid, rule, reward, demos, engine=xm.Xor(oracle="listed"), max_nodes=9)
    with pytest.raises(RewardError, match=r"takes a network to be trained, .*; got LinearReward"):
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
        with pytest.raises(MissingExtraError, match=r'NeuralReward needs torch.*pip install "xmen-irl\[neural\]"'):
            NeuralReward(object(), inputs(grid))
        with pytest.raises(MissingExtraError, match="ConvReward needs torch"):
            ConvReward(grid, np.zeros((1, 3, 4)))
        with pytest.raises(MissingExtraError, match="FeatureReward needs torch"):
            FeatureReward(object(), inputs(grid))


@pytest.mark.system
def test_importing_does_not_load_torch() -> None:
    code = "import sys, xmen; xmen.NeuralReward, xmen.MDP; print('torch' in sys.modules, 'numba' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["False", "False"]
