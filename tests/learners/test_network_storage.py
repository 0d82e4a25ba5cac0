"""Models with networks on disk: torch's own layers come back by themselves, other modules with the code given again."""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np
import pytest

import xmen as xm
from learners.networks import nn, torch
from learners.quiet import quietly
from learners.tasks import grid_task
from storage.resealed import opened, put


class Own(nn.Module):
    """A network whose code xmen does not have."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(4, width), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.sin(self.hidden(x)))


def layers(k: int = 1) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Softplus(beta=2.0), nn.Dropout(0.3), nn.Linear(6, k))


def named_layers() -> nn.Module:
    inner = nn.Sequential(OrderedDict(hidden=nn.Linear(4, 3, bias=False), bend=nn.ELU(0.7)))
    return nn.Sequential(OrderedDict(first=inner, last=nn.Linear(3, 1))).double()


def fitted(reward: xm.NeuralReward, task: tuple, **settings) -> xm.XMEN:
    grid, rule, _, demos = task
    return quietly(xm.XMEN(grid, rule, reward=reward, max_iter=5, seed=2, **settings), demos)


def assert_same(loaded: xm.XMEN, model: xm.XMEN, demos: list) -> None:
    """The same reward to the last bit, the same setting as it was given, and the same fit again."""
    assert type(loaded.reward_) is type(model.reward_)
    np.testing.assert_array_equal(loaded.reward_.table(), model.reward_.table())
    np.testing.assert_array_equal(loaded.reward.table(), model.reward.table())
    assert loaded.reward is not loaded.reward_
    assert loaded.history_ == model.history_
    assert loaded.score(demos) == model.score(demos)
    assert loaded.sample(5, seed=1) == model.sample(5, seed=1)
    trained = [p.requires_grad for p in loaded.reward_.module.parameters()]
    assert trained == [p.requires_grad for p in model.reward_.module.parameters()]
    np.testing.assert_array_equal(quietly(loaded, demos).reward_.table(), model.reward_.table())


@pytest.mark.parametrize(
    "kind", ["layers", "named", "frozen", "state", "feature", "conv", "conv with walls", "embedding"]
)
def test_torchs_own_layers_come_back_by_themselves(kind, tmp_path):
    task = grid_task(4)
    if kind == "conv with walls":
        grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"), walls=[(1, 1)])
        task = grid, xm.visit(grid.at((0, 2))), None, xm.distribution(grid, xm.visit(grid.at((0, 2)))).sample(5, seed=0)
    grid, _, features, demos = task
    maps = np.random.default_rng(0).normal(size=(2, 4, 4))
    frozen = layers()
    frozen[0].requires_grad_(False)
    embedding = nn.Sequential(nn.Embedding(16, 3), nn.Flatten(), nn.Linear(3, 1))
    reward = {
        "layers": lambda: xm.NeuralReward(layers(), features),
        "named": lambda: xm.NeuralReward(named_layers(), features),
        "frozen": lambda: xm.NeuralReward(frozen, features),
        "state": lambda: xm.NeuralReward(layers(3), features[:, 0], n_actions=3),
        "feature": lambda: xm.FeatureReward(layers(3), features, seed=1),
        "conv": lambda: xm.ConvReward(grid, maps, channels=(3, 2), seed=1),
        "conv with walls": lambda: xm.ConvReward(grid, maps, channels=(3,), per_action=False, seed=1),
        "embedding": lambda: xm.NeuralReward(embedding, torch.arange(16).reshape(16, 1), n_actions=3),
    }[kind]()
    model = fitted(reward, task)
    model.save(tmp_path / "m")
    before = torch.random.get_rng_state()
    loaded = xm.load(tmp_path / "m")
    assert torch.equal(before, torch.random.get_rng_state())
    assert_same(loaded, model, demos)


def test_inputs_are_stored_once(tmp_path):
    task = grid_task(4)
    fitted(xm.NeuralReward(layers(), task[2]), task).save(tmp_path / "m")
    from safetensors.numpy import load_file

    shapes = [array.shape for array in load_file(tmp_path / "m" / "model.safetensors").values()]
    assert shapes.count((16, 3, 4)) == 1
    assert shapes.count((6, 4)) == 2  # the network as given, and as trained


def test_a_module_of_ones_own_is_given_again(tmp_path):
    task = grid_task(4)
    for reward in (
        xm.NeuralReward(Own(), task[2]),
        xm.FeatureReward(nn.Sequential(nn.Linear(4, 4), Own()), task[2], seed=0),
    ):
        model = fitted(reward, task)
        model.save(tmp_path / "m")
        with pytest.raises(xm.StorageError, match=r"(?s)network of your own.*module=.*Own\("):
            xm.load(tmp_path / "m")
        again = Own() if type(reward) is xm.NeuralReward else nn.Sequential(nn.Linear(4, 4), Own())
        before = {name: value.clone() for name, value in again.state_dict().items()}
        loaded = xm.load(tmp_path / "m", module=again)
        assert all(torch.equal(before[name], value) for name, value in again.state_dict().items())
        assert_same(loaded, model, task[3])
        with pytest.raises(xm.StorageError, match=r"(?s)module=Own .*(size mismatch|Missing key)"):
            xm.load(tmp_path / "m", module=Own(9))
        with pytest.raises(xm.StorageError, match="module=str"):
            xm.load(tmp_path / "m", module="Own")


def test_layers_that_only_look_like_torchs_are_not_remade(tmp_path):
    """One layer used twice, a hook, a subclass: a network made from settings would not be the same."""
    task = grid_task(4)
    twice = nn.Linear(4, 4)
    hooked = layers()
    hooked[0].register_forward_hook(lambda module, args, output: output * 2)

    class Linear(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) ** 2

    for module in (nn.Sequential(twice, twice, nn.Linear(4, 1)), hooked, nn.Sequential(Linear(4, 1))):
        model = fitted(xm.NeuralReward(module, task[2]), task)
        model.save(tmp_path / "m")
        with pytest.raises(xm.StorageError, match="network of your own"):
            xm.load(tmp_path / "m")
        assert_same(xm.load(tmp_path / "m", module=module), model, task[3])


def test_a_module_without_a_place_is_refused(tmp_path):
    grid, rule, features, demos = grid_task(4)
    xm.XMEN(grid, rule, features, l2=0.1).fit(demos).save(tmp_path / "m")
    with pytest.raises(xm.StorageError, match=r"no neural reward.*module=Own"):
        xm.load(tmp_path / "m", module=Own())


def test_optimisers_that_are_functions_are_left_behind(tmp_path):
    task = grid_task(4)

    def make_rmsprop(parameters):
        return torch.optim.RMSprop(parameters)

    model = fitted(xm.NeuralReward(layers(), task[2]), task, training=xm.Training(make_rmsprop))
    model.save(tmp_path / "m")
    loaded = xm.load(tmp_path / "m")
    assert loaded.score(task[3]) == model.score(task[3])
    with pytest.raises(xm.RewardError, match=r"make_rmsprop.* not saved"):
        loaded.fit(task[3])


def test_what_cannot_be_saved_says_so(tmp_path):
    class Special(xm.NeuralReward):
        pass

    task = grid_task(4)
    model = fitted(Special(layers(), task[2]), task)
    with pytest.raises(xm.StorageError, match="reward is a Special"):
        model.save(tmp_path / "m")
    half = nn.Linear(4, 1).to(torch.bfloat16)
    with pytest.raises(xm.RewardError, match="bfloat16"):
        xm.NeuralReward(half, task[2]).state()


def test_any_wrong_value_is_a_storage_error(tmp_path):
    """Every field of the stored reward is removed or replaced in turn: a StorageError, and nothing else."""
    task = grid_task(4)
    fitted(xm.ConvReward(task[0], np.ones((1, 4, 4)), channels=(2,), seed=0), task).save(tmp_path / "m")
    original, arrays = opened(tmp_path / "m")
    for field in original["learned"]["reward_"]:
        if field in ("network", "n_actions"):  # the first is only shown, and a grid knows its moves
            continue
        for nonsense in (3, {"is": "magic"}, [{}], "x", {"layer": "Sequential", "parts": [["0", {"layer": "exec"}]]}):
            document = json.loads(json.dumps(original))
            document["learned"]["reward_"][field] = nonsense
            put(tmp_path / "m", document, arrays)
            with pytest.raises(xm.StorageError):
                xm.load(tmp_path / "m")
