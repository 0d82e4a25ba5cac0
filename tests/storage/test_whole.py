"""Saves that are stopped at every possible moment: the old is there, or the new, and nothing is in the way."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import run, write_problem
from learners.tasks import grid_task
from xmen import files
from xmen.cli._folder import save_model
from xmen.experiments.notebook import Notebook, Picture
from xmen.problem import read_problem
from xmen.storage.sealing import seal


class Killed(BaseException):
    """The process is gone: nothing that it would have done afterwards happens."""


class Stops:
    """Stands in for the system: the call with this number stops in the middle; after a kill all later ones, too."""

    def __init__(self, monkeypatch, when, error, only_writing=False):
        self.n_calls, self._when, self._error = 0, when, error
        real_open = Path.open

        def half_write(file, data):
            stopping = self._now()
            with real_open(file, "xb") as stream:
                stream.write(data[: len(data) // 2] if stopping else data)
            self._stop(stopping)

        monkeypatch.setattr(files, "_write", half_write)
        if only_writing:
            return
        for owner, name in ((os, "replace"), (os, "unlink"), (os, "rmdir"), (os, "mkdir"), (os, "rename")):
            monkeypatch.setattr(owner, name, self._before(getattr(owner, name)))
        monkeypatch.setattr(shutil, "rmtree", self._before(shutil.rmtree))

    def _now(self):
        self.n_calls += 1
        return self.n_calls == self._when or (self._error is Killed and self.n_calls > self._when)

    def _stop(self, stopping):
        if stopping:
            raise self._error

    def _before(self, function):
        def call(*arguments, **named):
            self._stop(self._now())
            return function(*arguments, **named)

        return call


@pytest.fixture(scope="module")
def models():
    grid, rule, features, demos = grid_task(4)
    return [xm.XMEN(grid, rule, features, l2=l2, seed=0).fit(demos) for l2 in (0.1, 3.0)]


def every_moment(monkeypatch, error, save, check):
    """Stop `save` at its first call, its second, and so on, until it is not stopped any more."""
    for when in range(1, 60):
        with monkeypatch.context() as patch:
            stops = Stops(patch, when, error)
            with contextlib.suppress(Killed, KeyboardInterrupt, OSError, xm.StorageError):
                save()
            stopped = stops.n_calls >= when
        check(stopped)
        if not stopped:
            return when
    raise AssertionError("a save makes fewer calls than that")


ERRORS = [Killed, KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")]


@pytest.mark.parametrize("error", ERRORS, ids=["kill", "ctrl-c", "full disk"])
@pytest.mark.parametrize("before", [True, False], ids=["over a model", "into nothing"])
def test_a_model_is_the_old_one_or_the_new_one(models, tmp_path, monkeypatch, error, before):
    old, new = models
    folder = tmp_path / "model"

    def check(stopped):
        try:
            found = xm.load(folder).weights_
        except xm.StorageError:
            assert stopped
            assert not before
        else:
            assert np.array_equal(found, new.weights_) or (stopped and before and np.array_equal(found, old.weights_))
        if folder.exists():
            new.save(folder)  # whatever was left behind is no obstacle
            assert np.array_equal(xm.load(folder).weights_, new.weights_)
            shutil.rmtree(folder)
        if before:
            old.save(folder)

    if before:
        old.save(folder)
    assert every_moment(monkeypatch, error, lambda: new.save(folder), check) > 5


@pytest.mark.parametrize("error", ERRORS, ids=["kill", "ctrl-c", "full disk"])
def test_a_model_of_the_command_line_and_its_problem_are_of_one_save(tmp_path, monkeypatch, error):
    write_problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    for l2 in (0.1, 3.0):
        assert run(f"fit p.toml --l2 {l2} --out {l2}").exit_code == 0
    (old, new), folder = (xm.load("0.1"), xm.load("3.0")), tmp_path / "model"
    problem = read_problem("3.0/problem.toml")
    (tmp_path / "0.1" / "notes.txt").write_text("mine")

    def check(stopped):
        weights = xm.load(folder).weights_.tolist()
        assert read_problem(folder / "problem.toml").reward.weights.tolist() == weights
        assert weights == new.weights_.tolist() or (stopped and weights == old.weights_.tolist())
        assert run("sample model -n 2 --also 'never(corner)'").exit_code == 0
        assert (folder / "notes.txt").read_text() == "mine"
        shutil.rmtree(folder)
        shutil.copytree("0.1", folder)

    shutil.copytree("0.1", folder)
    every_moment(monkeypatch, error, lambda: save_model(new, problem, folder), check)


def test_two_saves_at_once(models, tmp_path):
    folder, together = tmp_path / "model", threading.Barrier(3)
    models[0].save(folder)

    def save(model):
        together.wait()
        for _ in range(15):
            model.save(folder)

    with ThreadPoolExecutor(2) as pool:
        saving = [pool.submit(save, model) for model in models]
        together.wait()
        while not all(one.done() for one in saving):
            assert xm.load(folder).weights_.tolist() in [model.weights_.tolist() for model in models]
    for one in saving:
        one.result()
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.safetensors", "model.json"]


def test_what_was_left_behind_long_ago_is_removed(models, tmp_path):
    models[0].save(tmp_path / "model")
    for name in (".xmen-0123", ".xmen-4567"):
        (tmp_path / "model" / name).mkdir()
        (tmp_path / "model" / name / "model.json").write_text("half")
    os.utime(tmp_path / "model" / ".xmen-0123", (0, 0))
    models[1].save(tmp_path / "model")  # the other one may be at work at this moment
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        *("arrays.safetensors", "model.json", ".xmen-4567"),
    }


# --- commands -----------------------------------------------------------------------------------------------------

COMMANDS = {
    "sample p.toml -n 5 --seed 9 --out there.csv": "there.csv",
    "sample p.toml -n 5 --seed 9 --out there.jsonl": "there.jsonl",
    "plot p.toml --what world --out there.png": "there.png",
    "plot p.toml --what world --out there.svg": "there.svg",
    "new there.toml --force": "there_demos.csv",
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("before", [True, False])
def test_commands_write_whole_files_or_none(command, error, before, tmp_path, monkeypatch):
    write_problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / COMMANDS[command]
    if before:
        file.write_text("as it was")
    there = {path.name for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        last = 3 if command.startswith("new") else 1  # after a draft and the problem file
        Stops(patch, last, error, only_writing=True)
        stopped = run(command)
    assert stopped.exit_code == (130 if error is KeyboardInterrupt else 2), stopped.output
    assert error is KeyboardInterrupt or f"{COMMANDS[command]}: No space left" in stopped.stderr
    assert {path.name for path in tmp_path.iterdir()} == there
    assert not before or file.read_text() == "as it was"
    assert run(command).exit_code == 0
    assert file.stat().st_size > 100


def test_links_are_followed_and_rights_are_kept(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to("real.csv")
    files.write_whole(tmp_path / "link.csv", b"new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == b"new"
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o640
    files.write_whole(os.devnull, b"nothing")  # a device is written into, not replaced
    assert not Path(os.devnull).is_file()


def test_a_record_cannot_name_files_outside_its_folder(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"mine")
    book = Notebook("grid", tmp_path / "report", quick=True, seed=0)
    (tmp_path / "report").mkdir()
    record = book.finish()
    for name in ("../secret.png", str(tmp_path / "secret.png"), "..", "", "sub/secret.png", "grid.json"):
        record.pictures = [Picture(name, "a secret")]
        record.write(tmp_path / "report" / "grid.json")
        assert type(record).read(tmp_path / "report" / "grid.json") is None
    record.pictures = []
    record.write(tmp_path / "report" / "grid.json")
    assert type(record).read(tmp_path / "report" / "grid.json") == record
    document = json.loads((tmp_path / "report" / "grid.json").read_text())
    for key, wrong in (("tables", [{"title": 1}]), ("pictures", 3), ("seed", []), ("tables", [["x"]])):
        text = json.dumps({**document, key: wrong}).encode()
        (tmp_path / "report" / "grid.json").write_bytes(seal(text))
        assert type(record).read(tmp_path / "report" / "grid.json") is None or key == "seed"
