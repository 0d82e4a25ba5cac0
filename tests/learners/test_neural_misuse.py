"""Neural rewards: what can go wrong, and the facts that are named."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmen as xm
from learners.networks import inputs, linear, network, nn, task, torch
from xmen import ConvReward, FeatureReward, NeuralReward, fit_neural

GRID, RULE = task()
X = inputs(GRID)
MAPS = np.zeros((2, 3, 4))
DEMOS = xm.distribution(GRID, RULE, None).sample(3, seed=0)
LINE = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, terminal=1)
EDGE = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)]  # never through (1, 1)
INNER = xm.visit(GRID.at((1, 1)))
AROUND = xm.Trajectory([GRID.state(cell) for cell in EDGE], [1, 1, 1, 0, 0])
SHORT = NeuralReward(nn.Linear(3, 1), X[:-1])  # one state is missing


def reward() -> NeuralReward:
    return NeuralReward(network(3).double(), X)


def frozen() -> NeuralReward:
    return NeuralReward(network(3).requires_grad_(False), X)


def learned(**settings: Any) -> xm.XMEN:
    return xm.XMEN(GRID, RULE, **settings).fit(DEMOS)


def trained(asked: Any = None, **settings: Any) -> list[xm.Record]:
    return fit_neural(GRID, settings.pop("rule", RULE), asked or reward(), settings.pop("demos", DEMOS), **settings)


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: NeuralReward(nn.Linear(3, 2), X), r"Linear .*\(12, 4, 3\).* \(12, 4, 2\).*\(12, 4\) or \(12, 4, 1\)"),
        (lambda: NeuralReward(nn.Linear(5, 1), X), r"Linear .*\(12, 4, 3\)"),
        (lambda: NeuralReward(nn.Linear(3, 1), X[:, 0]), r"\(12, 3\).* n_actions="),
        (lambda: NeuralReward(nn.Linear(3, 1), X, n_actions=3), "n_actions = 3.* 4 actions"),
        (lambda: NeuralReward(nn.Linear(3, 1), X[:, 0, 0]), r"got shape \(12,\)"),
        (lambda: NeuralReward(lambda y: y, X), "got function"),
        (lambda: NeuralReward(nn.Linear(3, 1), X, device="cuda:77"), "cuda:77"),
        (lambda: NeuralReward(nn.Linear(3, 1), np.where(X > 2, np.nan, X)), r"inputs .*nan at \(6, 2, 1\)"),
        (lambda: NeuralReward(nn.Linear(3, 1), X).backward(np.zeros((4, 12))), r"\(12, 4\).*got shape \(4, 12\)"),
        (lambda: NeuralReward(nn.Linear(3, 1), X).backward(np.full((12, 4), np.nan)), r"visits_.*nan at \(0, 0\)"),
        (lambda: FeatureReward(nn.Flatten(), X), r"\(12, 12\).*\(12, 4, k\)"),
        (lambda: ConvReward(GRID, np.zeros((2, 4, 3))), r"\(C, 3, 4\); got shape \(2, 4, 3\)"),
        (lambda: ConvReward(GRID, MAPS, module=nn.Conv2d(3, 2, 1)), r"\(1, 4, 3, 4\) or \(1, 1, 3, 4\)"),
        (lambda: ConvReward(GRID, MAPS, kernel_size=2), "kernel_size .* odd.* 2"),
        (lambda: ConvReward(LINE, MAPS), "GridWorld; got MDP"),
        (lambda: xm.distribution(GRID, None, SHORT), r"\(11, 4\).* 12 states"),
        (lambda: learned(features=reward()), "NeuralReward: .* reward="),
        (lambda: learned(reward=network(3)), "got Sequential"),
        (lambda: learned(reward=xm.LinearReward(X, np.zeros(3))), "got LinearReward"),
        (lambda: learned(reward=SHORT), "11 states .* 12 states"),
        (lambda: learned(reward=reward(), training=xm.Training("adma")), "'adma'.* 'adam'"),
        (lambda: learned(reward=reward(), training=xm.Training("lbfgs"), method="cells"), "'lbfgs'"),
        (lambda: learned(reward=frozen()), "no parameter"),
        (lambda: trained(frozen()), "no parameter"),
        (lambda: trained(xm.LinearReward(X, np.zeros(3))), "got LinearReward"),
        (lambda: trained(optimiser="adma"), "'adma'.* 'adam'"),
        (lambda: trained(learning_rate=-1), "learning_rate .* -1"),
        (lambda: trained(l2=-1), "l2 .* -1"),
    ],
)
def test_rewards_that_make_no_sense(ask: Callable[[], object], named: str) -> None:
    with pytest.raises(xm.RewardError, match=named):
        ask()


@pytest.mark.parametrize(
    ("ask", "error", "named"),
    [
        (lambda: learned(features=X, reward=reward()), xm.EngineError, "features and reward"),
        (lambda: learned(features=X, training=xm.Training("sgd")), xm.EngineError, "optimiser='sgd'.* there is none"),
        (lambda: learned(reward=reward(), method=xm.Paper(learning_rate=1)), xm.EngineError, "'paper'.*learning_rate"),
        (lambda: trained(n_steps=-1), xm.EngineError, "n_steps .* -1"),
        (lambda: trained(engine=xm.Xor(oracle="listed"), max_nodes=9), xm.EngineError, "engine="),
        (lambda: trained(rule=INNER, demos=[AROUND]), xm.InvalidDemonstrationError, "demonstration 0"),
        (lambda: xm.XMEN(GRID, INNER, reward=reward()).fit([AROUND]), xm.InvalidDemonstrationError, "demonstration 0"),
    ],
)
def test_fits_that_make_no_sense(ask: Callable[[], object], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        ask()


def test_a_reward_that_is_not_finite_is_named() -> None:
    broken, later = nn.Linear(3, 1), NeuralReward(nn.Linear(3, 1), X)
    with torch.no_grad():
        broken.weight[0, 0] = torch.nan
        later.module.bias[0] = torch.inf
    with pytest.raises(xm.RewardError, match=r"Linear .*nan for state 0 and action 0 .*48 of 48"):
        NeuralReward(broken, X)
    with pytest.raises(xm.RewardError, match="inf for state 0"):
        xm.distribution(GRID, RULE, later)


class Breaking(nn.Module):
    """A network that gives NaN as soon as its parameters have moved."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + (torch.nan if self.weight.abs().sum() > 0 else 0.0)


class Overflowing(Breaking):
    """Fine at first, and infinite after any large step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x @ self.weight)


class Root(Breaking):
    """Its gradient is infinite at the start."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt((x @ self.weight).abs())


@pytest.mark.parametrize(
    ("kind", "named"),
    [(Breaking, "network Breaking gives nan"), (Overflowing, "network Overflowing gives inf"), (Root, "gradient")],
)
def test_a_step_that_breaks_the_network_is_not_taken(kind: type[nn.Module], named: str) -> None:
    asked = NeuralReward(kind(), X)
    with pytest.raises(xm.RewardError, match=f"step 1 of training: the {named}"):
        trained(asked, optimiser="sgd", learning_rate=1e6)
    assert np.isfinite(asked.table()).all()
    model = xm.XMEN(GRID, RULE, reward=asked, training=xm.Training("sgd", 1e6))
    with pytest.raises(xm.RewardError, match=f"step 1 of training: the {named}"):
        model.fit(DEMOS)
    assert not hasattr(model, "reward_")


def test_a_network_that_cannot_be_copied_says_so() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear(3)
            self.kept = self.inner.weight * 2  # no leaf of the graph: torch does not copy it

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    with pytest.raises(xm.RewardError, match=r"Stubborn .*fit_neural"):
        learned(reward=NeuralReward(Stubborn(), X))


def test_rewards_of_a_network_with_dropout_are_one_number() -> None:
    module = nn.Sequential(nn.Linear(3, 20), nn.Dropout(0.5), nn.Linear(20, 1))
    dropping = NeuralReward(module, X)
    assert np.array_equal(dropping.table(), dropping.table())


def test_whole_number_tensors_reach_embeddings() -> None:
    module = nn.Sequential(nn.Embedding(12, 2), nn.Flatten(), nn.Linear(2, 1))
    table = NeuralReward(module, torch.arange(12).reshape(12, 1), n_actions=4).table()
    assert table.shape == (12, 4)
    assert (table == table[:, :1]).all()


def test_state_is_saved_and_checked() -> None:
    one, other = (NeuralReward(network(3, seed=seed), X) for seed in (0, 1))
    other.load_state(one.state())
    assert np.array_equal(one.table(), other.table())
    with pytest.raises(xm.RewardError, match="another network"):
        other.load_state({"nothing": np.zeros(2)})


def test_copies_learn_on_their_own() -> None:
    asked = reward()
    before = asked.table()
    trained(copy.deepcopy(asked), n_steps=2)
    assert np.array_equal(before, asked.table())


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda path: NeuralReward(object(), X), "NeuralReward"),
        (lambda path: ConvReward(GRID, MAPS), "ConvReward"),
        (lambda path: FeatureReward(object(), X), "FeatureReward"),
        (lambda path: xm.load(path), "torch"),
    ],
)
def test_without_torch_an_error_names_the_extra(
    ask: Callable[[Path], object], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned(reward=reward(), max_iter=1).save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it now fails
    with pytest.raises(xm.MissingExtraError, match=rf"{named}.*xmen-irl\[neural\]"):
        ask(tmp_path / "model")


@pytest.mark.system
def test_neither_importing_nor_linear_learning_and_its_storage_load_torch(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import xmen as xm
xm.NeuralReward, xm.MDP
print("torch" in sys.modules, "numba" in sys.modules)
from learners.tasks import grid_task
from storage.resealed import opened, put
grid, rule, features, demos = grid_task(4)
xm.XMEN(grid, rule, features, l2=0.1, checkpoint={str(tmp_path / "c")!r}).fit(demos).save({str(tmp_path / "m")!r})
xm.load({str(tmp_path / "m")!r}).sample(1)
print("torch" in sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["False", "False", "False"]
