"""Rounds with a real solver in its own process: stopped, killed, run by others, or resumed."""

from __future__ import annotations

import os
import signal
import warnings

import joblib
import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task
from xmen.errors import GuaranteeWarning
from xmen.learners.xmen import XMEN
from xmen.oracles.killable import KillableOracle

pytestmark = pytest.mark.system

SOLVED = {"method": xm.Cells(n_cells=4, cell_size=32.0), "oracle": "cryptominisat", "engine": "exact", "tol": 0.05}


def fit(**settings):
    """A fit whose cells have parities, with the optimum's score."""
    grid, rule, features, demos = grid_task(6)
    model = XMEN(grid, rule, 0.3 * features, seed=0, **SOLVED | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        model.fit(demos)
    assert model.history_[0].details["parities"] > 0
    return model, XMEN(grid, rule, 0.3 * features).fit(demos).score(demos) - model.score(demos)


@pytest.fixture
def hit(monkeypatch):
    """Sends a signal to the solver's process when it is asked for the first solution of a cell that is chosen."""
    ask, asked, victims = KillableOracle._ask, [], []

    def prepare(what, chosen):
        def hit_and_ask(self, child, question, watch):
            kind, _, parities = question
            if kind == "solutions":
                asked.append(parities.matrix.tobytes() + parities.rhs.tobytes())
                if chosen(asked):
                    victims.append(child)
                    os.kill(child._process.pid, what)
            return ask(self, child, question, watch)

        monkeypatch.setattr(KillableOracle, "_ask", hit_and_ask)
        return victims

    return prepare


@pytest.mark.parametrize("number", [1, 20])  # while the number of trajectories is guessed, and while cells are read
@pytest.mark.parametrize(("what", "settings"), [(signal.SIGKILL, {}), (signal.SIGSTOP, {"time_limit": 2.0})])
def test_a_solver_that_is_hit_once_costs_nothing(hit, what, settings, number):
    """The same cell is read again by another process: bit for bit what an undisturbed fit finds."""
    plain, _ = fit(**settings)
    victims = hit(what, lambda asked: len(asked) == number)
    struck, _ = fit(**settings)
    assert len(victims) == 1
    np.testing.assert_array_equal(struck.weights_, plain.weights_)
    assert sum(record.details["lost"] for record in struck.history_) == 0


def test_a_cell_whose_solver_always_dies_is_lost_and_the_fit_is_not(hit):
    victims = hit(signal.SIGKILL, lambda asked: len(asked) >= 20 and asked[-1] == asked[19])
    model, gap = fit()
    assert len(victims) == 2
    assert sum(record.details["lost"] for record in model.history_) == 1
    assert gap < 0.1


def test_processes_agree():
    """Threads by default, none, and other processes: the same cells, and the same answer."""
    here, _ = fit(tol=0.1)
    with joblib.parallel_config(n_jobs=1):
        alone, _ = fit(tol=0.1)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        away, _ = fit(tol=0.1)
    np.testing.assert_array_equal(here.weights_, alone.weights_)
    np.testing.assert_array_equal(here.weights_, away.weights_)
