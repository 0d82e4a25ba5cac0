"""Training a network: its records, Ctrl-C, and checkpoints that go on bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.networks import linear, network
from learners.quiet import quietly
from learners.tasks import grid_task

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


class Interrupting(nn.Module):
    """Ctrl-C in the middle of a step: in forward pass number `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.inner, self.at, self.calls = linear(4), at, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return self.inner(x)


@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
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
    with pytest.warns(
        xm.ConvergenceWarning, match=r"max_iter = 20 steps the loss was still falling, by 0\.\d+"
    ) as seen:
        xm.XMEN(grid, rule, reward=reward, max_iter=20).fit(demos)
    assert seen[0].filename == __file__
    xm.XMEN(grid, rule, reward=reward, max_iter=400, l2=0.1, training=xm.Training(learning_rate=0.05)).fit(
        demos
    )  # nothing to say


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
    for other in others:
        with pytest.raises(xm.StorageError, match="another run: reward differ"):
            xm.XMEN(grid, rule, reward=other, **settings).fit(demos)
    with pytest.raises(xm.StorageError, match="another run: optimiser differ"):
        xm.XMEN(grid, rule, reward=xm.NeuralReward(network(), features), training=xm.Training("sgd"), **settings).fit(
            demos
        )
    with pytest.raises(xm.StorageError, match="another run: optimiser, reward differ"):
        xm.XMEN(grid, rule, **settings).fit(demos)
