"""Every way to learn, stopped and gone on with: by its callback, by Ctrl-C, by a kill, and by its own limit of steps.

A row of `RUNS` is a fit in every respect but how it is stopped. What all of them promise stands here once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import xmen as xm
from learners.quiet import quietly
from learners.tasks import grid_task
from learners.test_causal_demonstrations import slippery as causal_task
from learners.test_given_rounds import RULE as GIVEN_RULE
from learners.test_given_rounds import demos_of, features_of
from learners.test_given_rounds import grid as two_starts
from learners.test_paper import slippery
from learners.test_reject import RULE as NEVER_TWICE
from learners.test_reject import trips_under_the_rule
from learners.test_trips import city


def on_grid(size: int = 5, kind: Any = xm.XMEN, rules: bool = True, **settings: Any) -> tuple[Any, dict[str, Any], Any]:
    grid, rule, features, demos = grid_task(size)
    return kind, {"world": grid, **({"constraint": rule} if rules else {}), "features": features, **settings}, demos


def by_network(optimiser: str = "adam", **settings: Any) -> tuple[Any, dict[str, Any], Any]:
    networks = pytest.importorskip("learners.networks")
    grid, rule, features, demos = grid_task(4)
    settings = {"max_iter": 8, "tol": 0.0, "training": xm.Training(optimiser, 0.01), **settings}
    return (
        xm.XMEN,
        {"world": grid, "constraint": rule, "reward": xm.NeuralReward(networks.network(), features), **settings},
        demos,
    )


def of(task: tuple[Any, ...], **settings: Any) -> tuple[Any, dict[str, Any], Any]:
    world, rule, features, demos = task
    return xm.XMEN, {"world": world, "constraint": rule, "features": features, **settings}, demos


def given_starts() -> tuple[Any, dict[str, Any], Any]:
    world = two_starts(5)
    features = features_of(world)
    settings = {"given": "start", "l2": 0.01, "method": xm.Cells(cell_size=8.0), "tol": 0.004}
    return of((world, GIVEN_RULE, features, demos_of(world, features)), **settings)


def solved() -> tuple[Any, dict[str, Any], Any]:
    grid, rule, features, demos = grid_task(6)
    settings = {"method": xm.Cells(n_cells=4, cell_size=32.0), "oracle": "cryptominisat", "tol": 1e-3, "max_iter": 3}
    return of((grid, rule, 0.3 * features, demos), **settings)


def rejected_trips() -> tuple[Any, dict[str, Any], Any]:
    network, features, demos = trips_under_the_rule(23, 60)
    return of((network, NEVER_TWICE, features, demos), l2=0.05, method="reject", max_nodes=20)


def trips() -> tuple[Any, dict[str, Any], Any]:
    network, features, demos = city(8)
    sparse = csr_matrix(features.reshape(-1, 3))
    return of((network, None, sparse, demos), fixed={0: -1.0}, l2=[0.1, 0.0, 0.2])


def partly_seen() -> tuple[Any, dict[str, Any], Any]:
    grid, rule, features, demos = grid_task(4)
    seen = [xm.Sighting([tau.states[0], None, *tau.states[2:]]) for tau in demos[:30]]
    return of((grid, rule, features, [*seen, *demos[30:]]), l2=0.01)


def usually_kept() -> tuple[Any, dict[str, Any], Any]:
    grid, rule, features, demos = grid_task(4)
    soft = xm.usually(xm.visit(grid.at((1, 2))).named("the well")) & xm.usually(rule.children[0], weight=2.0)
    return of((grid, soft, features, demos), l2=0.01)


def causal() -> tuple[Any, dict[str, Any], Any]:
    grid, rule, features, demos = causal_task()
    return xm.CausalXMEN, of((grid, rule, features, demos), validity=0.7, l2=0.01)[1], demos


def validated() -> tuple[Any, dict[str, Any], Any]:
    kind, settings, demos = on_grid(4)
    return kind, {**settings, "features": None, "validation": demos[20:], "patience": 3, "l2": 0.01}, demos[:20]


# what is fitted, its settings, its demonstrations
RUNS: dict[str, Callable[[], tuple[Any, dict[str, Any], Any]]] = {
    "exact": on_grid,
    "validated": validated,
    "trips": trips,
    "sightings": partly_seen,
    "usual rules": usually_kept,
    "causal": causal,
    "maxent": lambda: on_grid(4, xm.MaxEntIRL, rules=False, l2=0.01),
    "cells": lambda: on_grid(6, method=xm.Cells(n_cells=4, cell_size=24.0), oracle="listed", tol=1e-3),
    "cells given the start": given_starts,
    "cells by a solver": solved,
    "reject": rejected_trips,
    "paper": lambda: of(slippery(), method=xm.Paper(proposal="fixed"), max_iter=6),
    "paper by dynamics": lambda: of(slippery(), method=xm.Paper(proposal="dynamics"), max_iter=6),
    "adam": by_network,
    "sgd": lambda: by_network("sgd"),
    "lbfgs": lambda: by_network("lbfgs"),
    "network by cells": lambda: by_network(method=xm.Cells(4, 6.0), oracle="listed"),
}
PLANNED = (
    "cells",
    "cells given the start",
    "cells by a solver",
    "reject",
    "paper",
    "paper by dynamics",
    "network by cells",
)  # by max_iter, from the start


@cache
def run(name: str) -> tuple[Any, dict[str, Any], Any]:
    return RUNS[name]()


def learner(name: str, **more: Any) -> Any:
    kind, settings, _ = run(name)
    return kind(**{"seed": 4, **settings, **more})


def fit(name: str, **more: Any) -> Any:
    return quietly(learner(name, **more), run(name)[2])


@cache
def whole(name: str) -> Any:
    """The fit that nothing stops."""
    return fit(name)


def assert_same(model: Any, other: Any) -> None:
    """Equal to the last bit, step by step but for the time that each took."""
    np.testing.assert_array_equal(model.reward_.table(), other.reward_.table())
    for one, two in zip(model.history_, other.history_, strict=True):
        assert str({**one.as_dict(), "seconds": 0}) == str({**two.as_dict(), "seconds": 0})  # as text: nan is nan
    assert model.converged_ == other.converged_


runs = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.system] * (name == "cells by a solver")) for name in RUNS]
)


@runs
def test_the_seed_decides(name: str) -> None:
    again = fit(name)
    assert_same(again, whole(name))
    if isinstance(again, xm.XMEN) and again.method_ in ("cells", "paper", "reject"):
        assert np.any(fit(name, seed=5).reward_.table() != again.reward_.table())


@runs
def test_a_fit_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    """From the first checkpoint, one in the middle and the last, as a process that was killed would have left them."""
    file, kept = tmp_path / "run", {}

    def keep(record: Any) -> None:
        if file.exists():
            kept[record.iteration] = file.read_bytes()

    assert_same(fit(name, checkpoint=file, checkpoint_every=1, callback=keep), whole(name))
    for step in {min(kept), sorted(kept)[len(kept) // 2], max(kept)}:
        file.write_bytes(kept[step])
        assert_same(fit(name, checkpoint=file, checkpoint_every=1, resume=True), whole(name))


@pytest.mark.filterwarnings("ignore::xmen.LearningWarning")
@runs
def test_ctrl_c_keeps_what_was_learned(name: str, tmp_path: Path) -> None:
    last = 1 if name.startswith("cells") or name == "validated" else 3
    stopped = fit(name, callback=lambda record: record.iteration == last)

    def interrupt(record: Any) -> None:
        if record.iteration == last:
            raise KeyboardInterrupt

    with pytest.warns(xm.InterruptedWarning, match=f"after {last} iterations"):
        model = learner(name, callback=interrupt, checkpoint=tmp_path / "run").fit(run(name)[2])
    np.testing.assert_array_equal(model.reward_.table(), stopped.reward_.table())
    assert (model.n_iter_, len(model.history_), model.converged_, stopped.converged_) == (last, last, False, False)
    assert np.any(model.reward_.table() != 0)
    if name == "causal":
        assert model.policy(seed=0).rollout(2)
    else:
        pair = {"start": 0, "goal": 3} if name in ("trips", "reject") else {}
        drawn, rule = model.distribution(**pair).sample(5, seed=0), getattr(model, "constraint", None)
        assert len(drawn) == 5
        assert rule is None or all(map(rule.accepts, drawn))
    assert_same(fit(name, checkpoint=tmp_path / "run", resume=True), whole(name))


@runs
def test_more_iterations_go_on(name: str, tmp_path: Path) -> None:
    short = {"checkpoint": tmp_path / "run", "checkpoint_every": 2}
    more = whole(name).max_iter
    if name in PLANNED:
        fit(name, max_iter=2, **short)
        with pytest.raises(xm.StorageError, match="max_iter"):
            fit(name, max_iter=more, resume=True, **short)
    else:
        with pytest.warns(xm.ConvergenceWarning, match="max_iter = 2 "):
            first = learner(name, max_iter=2, **short).fit(run(name)[2])
        assert (first.n_iter_, first.converged_) == (2, False)
        assert_same(fit(name, max_iter=more, resume=True, **short), whole(name))


@runs
def test_a_saved_model_is_the_model(name: str, tmp_path: Path) -> None:
    model, demos = whole(name), run(name)[2]
    with suppress(xm.EngineError):  # networks have no standard errors
        model.summary()
    model.save(tmp_path / "model")
    loaded = xm.load(tmp_path / "model")
    assert_same(loaded, model)
    assert type(loaded) is type(model)
    assert name == "validated" or repr(loaded) == repr(model)  # demonstrations are not stored
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned == {name for name in vars(loaded) if name.endswith("_")}
    for each in learned - {"reward_", "history_"}:
        np.testing.assert_equal(getattr(loaded, each), getattr(model, each))
    assert loaded.score(demos) == model.score(demos)
    if "covariance_" in learned:
        assert str(loaded.summary()) == str(model.summary())
    if name != "validated":
        assert_same(quietly(loaded, demos), model)


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from learners.test_stopping import fit
def wait_to_be_killed(record):
    print(record.iteration, flush=True)
    if record.iteration == {last}:
        sys.stdin.read()
fit({name!r}, checkpoint={file!r}, checkpoint_every=1, callback=wait_to_be_killed)
"""


@pytest.mark.system
@pytest.mark.parametrize(("name", "last"), [("exact", 5), ("cells", 2), ("adam", 5)])
def test_a_killed_process_leaves_a_file_to_go_on_from(name: str, last: int, tmp_path: Path) -> None:
    file, pipe = str(tmp_path / "run"), subprocess.PIPE
    code = KILLED.format(tests=str(Path(__file__).parents[1]), file=file, last=last, name=name)
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == last:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert_same(fit(name, checkpoint=file, checkpoint_every=1, resume=True), whole(name))
