"""Callbacks: several at once, and event files that TensorBoard reads."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from learners.quiet import quietly
from learners.tasks import grid_task
from learners.test_contract import DEMOS, learners
from xmen.errors import InterruptedWarning
from xmen.methods.runs import Outcome, Run, drive
from xmen.progress import Monitor, Record

# --- several ------------------------------------------------------------------------------------------------------


def test_all_callbacks_are_called_and_any_can_stop():
    grid, rule, features, demos = grid_task(5)
    first, last = [], []
    stop = xm.Callbacks(first.append, lambda record: record.iteration == 3, last.append)
    model = xm.XMEN(grid, rule, features, callback=stop).fit(demos)
    assert model.n_iter_ == 3
    assert first == last == model.history_
    never = xm.Callbacks(lambda record: "a text is true, and not True")
    assert xm.XMEN(grid, rule, features, callback=never).fit(demos).converged_
    with pytest.raises(xm.EngineError, match="got 3"):
        xm.Callbacks(first.append, 3)


# --- TensorBoard --------------------------------------------------------------------------------------------------


def read_events(folder: Path) -> tuple[dict[str, dict[int, float]], list[int]]:
    """Curves by name and step, and the steps at which runs began: all that is in the files, in their order."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    curves: dict[str, dict[int, float]] = {}
    starts = []
    for file in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        for event in LegacyEventFileLoader(str(file)).Load():
            if event.HasField("session_log"):
                starts.append(event.step)
            for value in event.summary.value:
                curves.setdefault(value.tag, {})[event.step] = value.simple_value
    return curves, starts


def accumulate(folder: Path) -> list[tuple[int, float]]:
    """The curve of the loss as TensorBoard shows it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, event.value) for event in events.Scalars("loss")]


@pytest.fixture
def tensorboard():
    pytest.importorskip("tensorboard", reason="needs the extra xmen-irl[tensorboard]")


@pytest.mark.usefixtures("tensorboard")
def test_records_are_read_back(tmp_path):
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features, callback=xm.TensorBoard(tmp_path / "runs" / "a")).fit(demos)
    curves, starts = read_events(tmp_path / "runs" / "a")  # the callback is still open
    assert set(curves) == {"loss", "gradient_norm", "seconds"}
    assert starts == [1]
    for name, curve in curves.items():
        assert list(curve) == list(range(1, model.n_iter_ + 1))
        np.testing.assert_allclose(list(curve.values()), [getattr(r, name) for r in model.history_], rtol=1e-6)


@pytest.mark.usefixtures("tensorboard")
def test_details_errors_and_what_is_not_known(tmp_path):
    callback = xm.TensorBoard(str(tmp_path))
    callback(Record(1, 2.5, 0.5, 0.1, loss_std=0.25, gradient_std=float("nan"), details={"parities": 7.0}))
    callback(Record(2, float("nan"), 0.25, 0.2))
    curves, _ = read_events(tmp_path)
    assert curves["loss"] == {1: 2.5}
    assert curves["loss_std"] == {1: 0.25}
    assert curves["parities"] == {1: 7.0}
    assert curves["gradient_norm"] == {1: 0.5, 2: 0.25}
    assert "gradient_std" not in curves
    callback.close()
    callback.close()


@learners
@pytest.mark.usefixtures("tensorboard")
def test_every_learner_can_be_watched(make, tmp_path):
    model = quietly(make(callback=xm.TensorBoard(tmp_path)), DEMOS)
    curves = read_events(tmp_path)[0]
    assert len(curves["seconds"]) == model.n_iter_ > 0
    last = model.history_[-1].as_dict() | model.history_[-1].details
    assert all(curves[name][model.n_iter_] == pytest.approx(last[name], rel=1e-6) for name in curves)


@pytest.mark.usefixtures("tensorboard")
def test_a_resumed_fit_goes_on_with_its_curves(tmp_path):
    grid, rule, features, demos = grid_task(4)
    settings = dict(features=features, checkpoint=tmp_path / "c", checkpoint_every=4)
    folder = tmp_path / "run"

    def crash(record):
        if record.iteration == 6:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        xm.XMEN(grid, rule, callback=xm.Callbacks(xm.TensorBoard(folder), crash), **settings).fit(demos)
    model = xm.XMEN(grid, rule, callback=xm.TensorBoard(folder), resume=True, **settings).fit(demos)
    curves, starts = read_events(folder)
    assert starts == [1, 5]  # TensorBoard drops what the first run wrote from 5 on
    assert list(curves["loss"]) == list(range(1, model.n_iter_ + 1))
    shown = accumulate(folder)
    assert [step for step, _ in shown] == list(range(1, model.n_iter_ + 1))
    np.testing.assert_allclose([value for _, value in shown], [r.loss for r in model.history_], rtol=1e-6)
    again = xm.TensorBoard(folder)
    model = xm.XMEN(grid, rule, features, callback=again).fit(demos)
    model.fit(demos)  # the same callback, from 1 again
    assert read_events(folder)[1] == [1, 5, 1, 1]
    assert [step for step, _ in accumulate(folder)] == list(range(1, model.n_iter_ + 1))


@pytest.mark.usefixtures("tensorboard")
def test_copies_write_on_their_own(tmp_path):
    clone = pytest.importorskip("sklearn.base").clone
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features, callback=xm.TensorBoard(tmp_path)).fit(demos)
    other = clone(model).fit(demos)
    assert other.callback is not model.callback
    assert repr(other.callback) == f"TensorBoard({str(tmp_path)!r})"
    assert read_events(tmp_path)[1] == [1, 1]


@pytest.mark.usefixtures("tensorboard")
def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(xm.StorageError, match=r"file .* folder"):
        xm.TensorBoard(tmp_path / "file")
    with pytest.raises(xm.StorageError, match="below"):
        xm.TensorBoard(tmp_path / "file" / "below")(Record(1, 1.0, 1.0, 1.0))


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)  # importing it now fails
    with pytest.raises(xm.MissingExtraError, match=r"TensorBoard .*xmen-irl\[tensorboard\]"):
        xm.TensorBoard(tmp_path)


def test_a_ctrl_c_that_a_finaliser_swallows_is_not_lost(monkeypatch):
    """Python drops what is raised in a finaliser; the next record ends the fit all the same."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: dropped.append(what.exc_type))

    class Finaliser:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    seen = []

    def swallow(record):
        seen.append(record.iteration)
        if record.iteration == 2:
            Finaliser()

    def fit():
        with Monitor(swallow) as monitor:
            while not monitor.record(loss=1.0, gradient_norm=0.5):
                assert len(seen) < 5
        return monitor

    with pytest.warns(InterruptedWarning, match="after 2 iterations"):
        monitor = fit()
    assert dropped == [KeyboardInterrupt]
    assert monitor.interrupted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("module", ["numba.core.compiler", "llvmlite.binding.executionengine"])
def test_a_ctrl_c_while_loops_are_compiled_waits_for_the_next_record(module):
    """The compiler calls Python from machine code: an exception that is raised there ends the process."""
    compile_something = eval("lambda: signal.raise_signal(signal.SIGINT)", {"__name__": module, "signal": signal})

    def fit():
        with Monitor(None) as monitor:
            compile_something()
            assert monitor.record(loss=1.0, gradient_norm=0.5)
        return monitor

    with pytest.warns(InterruptedWarning, match="after 1 iterations"):
        assert fit().interrupted


class Counting(Run):
    """Five steps; the state is how many were made."""

    state_type = tuple

    def start(self):
        return (0,)

    def finished(self, state):
        return state[0] == 5

    def step(self, state):
        return (state[0] + 1,), {"loss": state[0] + 1.0, "gradient_norm": 0.0}

    def conclude(self, state, monitor):
        return Outcome(np.array(state, dtype=float), True, None)


@pytest.mark.parametrize("moment", ["before the record", "after the record", "in the callback"])
def test_ctrl_c_around_the_record_of_a_step_leaves_one_record_per_step(monkeypatch, moment):
    """A state that is a step ahead of its history, or behind it, would end with one record too few or too many."""
    note, asked = Monitor.note, []

    def interrupted(self, *values, **details):
        asked.append(len(asked))
        if len(asked) == 3 and moment == "before the record":
            raise KeyboardInterrupt
        entry = note(self, *values, **details)
        if len(asked) == 3 and moment == "after the record":
            raise KeyboardInterrupt
        return entry

    def callback(record):
        if record.iteration == 3 and moment == "in the callback":
            raise KeyboardInterrupt

    monkeypatch.setattr(Monitor, "note", interrupted)
    monitor = Monitor(callback)
    with pytest.warns(InterruptedWarning):
        outcome = drive(Counting(), monitor, None)
    assert outcome.answer.tolist() == [3.0]
    assert [record.iteration for record in monitor.history] == [1, 2, 3]
    assert [record.loss for record in monitor.history] == [1.0, 2.0, 3.0]
