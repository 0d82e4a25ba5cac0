"""Training a network: its records, Ctrl-C, and checkpoints that go on bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from learners.networks import linear, network, quiet_fit
from learners.tasks import grid_task

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


def test_history_callback_and_ctrl_c():
    grid, rule, features, demos = grid_task(4)
    reward, seen = xm.NeuralReward(network(), features), []
    model = quiet_fit(xm.XMEN(grid, rule, reward=reward, max_iter=6, callback=seen.append), demos)
    assert model.history_ == seen
    assert [record.iteration for record in seen] == [1, 2, 3, 4, 5, 6]
    stopped = xm.XMEN(grid, rule, reward=reward, max_iter=50, callback=lambda r: r.iteration == 3).fit(demos)
    assert (stopped.n_iter_, stopped.converged_) == (3, False)

    def interrupt(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(xm.InterruptedWarning, match="after 3 iterations"):
        model = xm.XMEN(grid, rule, reward=reward, callback=interrupt).fit(demos)
    np.testing.assert_array_equal(model.reward_.table(), stopped.reward_.table())
    assert all(rule.accepts(tau) for tau in model.sample(10))


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
    whole = quiet_fit(xm.XMEN(grid, rule, reward=xm.NeuralReward(Interrupting(0), features), **settings), demos)
    calls = whole.reward_.module.calls
    for at in {5, 6, calls // 3, calls // 2, 2 * calls // 3}:
        with pytest.warns(xm.InterruptedWarning):
            model = xm.XMEN(grid, rule, reward=xm.NeuralReward(Interrupting(at), features), **settings).fit(demos)
        assert np.isfinite(model.score(demos))
        again = xm.NeuralReward(Interrupting(0), features)
        resumed = quiet_fit(xm.XMEN(grid, rule, reward=again, resume=True, **settings), demos)
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


RUNS = {
    "adam": {"max_iter": 12},
    "sgd": {"max_iter": 12, "training": xm.Training("sgd")},
    "lbfgs": {"max_iter": 8, "training": xm.Training("lbfgs", 0.01), "tol": 0.0},
    "cells": {"max_iter": 8, "method": xm.Cells(4), "oracle": "listed", "seed": None},
}


def records(model):
    return [str({**record.as_dict(), "seconds": 0}) for record in model.history_]  # as text: nan is nan


@pytest.mark.parametrize("run", RUNS)
def test_resume_is_bit_for_bit(run, tmp_path):
    grid, rule, features, demos = grid_task(5)
    settings = {"seed": 4, "checkpoint_every": 2, **RUNS[run]}
    file = tmp_path / "run.checkpoint"

    def model(seed=0, **more):
        # Only the first network counts: a checkpoint has all numbers of the one that it goes on with.
        return xm.XMEN(grid, rule, reward=xm.NeuralReward(network(seed=seed), features), **settings, **more)

    kept: dict[int, bytes] = {}

    def keep(record):
        if file.exists():
            kept[record.iteration] = file.read_bytes()

    whole = quiet_fit(model(checkpoint=file, callback=keep), demos)
    assert len(kept) > 3
    for data in {kept[min(kept)], kept[max(kept)]}:
        file.write_bytes(data)  # as a process that was killed here would have left it
        resumed = quiet_fit(model(seed=9, checkpoint=file, resume=True), demos)
        np.testing.assert_array_equal(resumed.reward_.table(), whole.reward_.table())
        assert records(resumed) == records(whole)
        assert resumed.converged_ == whole.converged_
    if settings["seed"] is not None:
        np.testing.assert_array_equal(quiet_fit(model(), demos).reward_.table(), whole.reward_.table())


KILLED = """
import sys, torch, warnings
sys.path.insert(0, {tests!r})
import xmen as xm
from learners.tasks import grid_task
from learners.networks import network
warnings.simplefilter("ignore")
grid, rule, features, demos = grid_task(5)
def wait_to_be_killed(record):
    print(record.iteration, flush=True)
    if record.iteration == {last}:
        sys.stdin.read()
settings = dict(reward=xm.NeuralReward(network(), features), seed=4, max_iter=20)
xm.XMEN(grid, rule, checkpoint={file!r}, checkpoint_every=2, callback=wait_to_be_killed, **settings).fit(demos)
"""


@pytest.mark.system
def test_resume_after_sigkill(tmp_path):
    """A process is killed without warning in the middle; another goes on, and ends where one alone would have."""
    grid, rule, features, demos = grid_task(5)
    file = str(tmp_path / "run.checkpoint")
    code = KILLED.format(tests=str(Path(__file__).parents[1]), last=7, file=file)
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
    for line in process.stdout:
        if int(line) == 7:
            os.kill(process.pid, signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL
    process.stdin.close()
    process.stdout.close()
    settings = dict(reward=xm.NeuralReward(network(), features), seed=4, max_iter=20)
    resumed = quiet_fit(xm.XMEN(grid, rule, checkpoint=file, resume=True, **settings), demos)
    whole = quiet_fit(xm.XMEN(grid, rule, **settings), demos)
    np.testing.assert_array_equal(resumed.reward_.table(), whole.reward_.table())
    assert records(resumed) == records(whole)


def test_checkpoints_of_other_networks_are_refused(tmp_path):
    grid, rule, features, demos = grid_task(4)
    settings = dict(checkpoint=tmp_path / "c", resume=True, max_iter=2)
    quiet_fit(xm.XMEN(grid, rule, reward=xm.NeuralReward(network(), features), **settings), demos)
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
