"""A fit that ended at max_iter goes on with a larger one, to the bits of a run that was never stopped."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmen as xm
from cli.commands import report, run, write_problem
from learners.tasks import grid_task


def quiet_fit(learner: Any, demos: Any) -> Any:
    """Fitted, whatever it says about ending early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xm.LearningWarning)
        return learner.fit(demos)


LEARNERS = {"xmen": xm.XMEN, "causal": xm.CausalXMEN, "maxent": lambda grid, rule, **kept: xm.MaxEntIRL(grid, **kept)}


@pytest.mark.parametrize("name", LEARNERS)
def test_more_iterations_go_on(name, tmp_path):
    grid, rule, features, demos = grid_task(5)
    settings = {"features": features, "l2": 0.01, "checkpoint": tmp_path / "state", "checkpoint_every": 2}
    whole = quiet_fit(LEARNERS[name](grid, rule, **{**settings, "checkpoint": None}), demos)
    assert whole.n_iter_ > 6
    first = quiet_fit(LEARNERS[name](grid, rule, max_iter=3, **settings), demos)
    assert (first.n_iter_, first.converged_) == (3, False)
    more = quiet_fit(LEARNERS[name](grid, rule, max_iter=200, resume=True, **settings), demos)
    assert more.converged_
    np.testing.assert_array_equal(more.weights_, whole.weights_)
    assert [record.loss for record in more.history_] == [record.loss for record in whole.history_]


@pytest.mark.parametrize("method", ["paper", "cells"])
def test_methods_that_plan_ahead_refuse(method, tmp_path):
    grid, rule, features, demos = grid_task(4)
    settings = {"features": features, "method": method, "seed": 0, "l2": 0.1, "checkpoint": tmp_path / "state"}
    quiet_fit(xm.XMEN(grid, rule, max_iter=2, **settings), demos)
    with pytest.raises(xm.StorageError, match="max_iter, by which this method plans its steps"):
        xm.XMEN(grid, rule, max_iter=3, resume=True, **settings).fit(demos)


def test_the_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    whole = report("fit p.toml --l2 0.1 --out whole")
    said = run("fit p.toml --l2 0.1 --max-iter 2 --out m")
    assert "--resume and a larger --max-iter goes on" in " ".join(said.output.split())
    assert run("sample m").stderr == ""  # this model is what that fit has learned
    assert run("fit p.toml --l2 0.2 --max-iter 50 --out m --resume").exit_code == 2  # another penalty, another run
    more = report("fit p.toml --l2 0.1 --max-iter 50 --out m --resume")
    assert (more["weights"], more["iterations"]) == (whole["weights"], whole["iterations"])
    assert more["converged"]
    assert {path.name for path in (tmp_path / "m").iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}
