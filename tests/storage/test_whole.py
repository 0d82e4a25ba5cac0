"""Saves that are stopped at every possible moment: the old is there, or the new, and nothing is in the way."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import run, write_problem
from learners.tasks import grid_task
from problem.files import grid_problem
from storage.resealed import edit
from xmen import files
from xmen.cli._subject import claim, save_model
from xmen.experiments.notebook import Notebook, Picture
from xmen.problem import Problem, read_problem
from xmen.problem import write_problem as write_problem_file
from xmen.registry import load_with_problem
from xmen.storage.codec import sha256
from xmen.studio.document import Desk, Document


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A problem of the command line and its demonstrations, in the folder that is worked in."""
    write_problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
        for name in ("replace", "unlink", "rmdir", "mkdir", "rename", "chmod"):
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))

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


def tree(folder):
    """Everything below a folder, with its content and its age: what reading must leave as it is."""
    entries = sorted(folder.rglob("*"))
    return [(e, e.lstat().st_mtime_ns, e.read_bytes() if e.is_file() else None) for e in entries]


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


FULL = OSError(errno.ENOSPC, "No space left on device")
stopped_by = pytest.mark.parametrize("error", [Killed, KeyboardInterrupt, FULL], ids=["kill", "ctrl-c", "full disk"])
there_before = pytest.mark.parametrize("before", [True, False], ids=["over what was there", "into nothing"])


@stopped_by
@there_before
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
    assert every_moment(monkeypatch, error, lambda: new.save(folder), check) > 3


@stopped_by
@there_before
def test_a_model_of_the_command_line_and_its_problem_are_of_one_save(here, monkeypatch, error, before):
    """Two problems of different sizes: weights, world and demonstrations of both would not fit together."""
    (here / "q.toml").write_text((here / "p.toml").read_text().replace('"steps", ', ""))
    xm.write_demos(xm.read_demos("demos.csv")[:9], "nine.csv")
    for command in ("fit p.toml --l2 0.1 --out old", "fit q.toml nine.csv --l2 0.1 --out new"):
        assert run(command).exit_code == 0
    model, folder = xm.load("new"), here / "model"
    problem = replace(read_problem("q.toml"), demonstrations=here / "nine.csv", reward=model.reward_)
    sizes = {"old": (2, 60), "new": (1, 9)}
    (here / "old" / "notes.txt").write_text("mine")

    def check(stopped):
        left = tree(here)
        try:
            loaded, known = load_with_problem(folder)
        except xm.StorageError:
            assert stopped
            assert not before
            left = []
        else:
            found = len(loaded.weights_), len(known.demos())
            assert len(known.reward.weights) == found[0]
            assert found == sizes["new"] or (stopped and before and found == sizes["old"])
            assert run("sample model -n 2 --also 'never(corner)'").exit_code == 0
        if (folder / "problem.toml").exists():
            alone = read_problem(folder / "problem.toml")
            assert (len(alone.reward.weights), len(alone.demos())) in sizes.values()
        assert left in ([], tree(here))  # reading writes nothing
        assert not before or (folder / "notes.txt").read_text() == "mine"
        claim(folder, Path("q.toml"), problem, "XMEN", force=True)  # whatever was left behind is no obstacle
        save_model(model, problem, folder)
        assert len(xm.load(folder).weights_) == 1
        fresh()

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree("old", folder) if before else folder.mkdir()

    fresh()
    assert every_moment(monkeypatch, error, lambda: save_model(model, problem, folder), check) > 12
    save_model(model, problem, folder)
    names = {"model.safetensors", "problem.toml", "problem_demos.csv"} | ({"notes.txt"} if before else set())
    assert {path.name for path in folder.iterdir()} == names


@stopped_by
@pytest.mark.parametrize("how", ["studio", "python"])
def test_a_problem_is_the_old_one_or_the_new_one(tmp_path, monkeypatch, error, how):
    """The new demonstrations are of a world that the old file does not have, and the other way round.

    After a stop the user edits every file by hand: opening and the command line see the same, and all edits stay.
    """
    folder = tmp_path / "problem"
    folder.mkdir()
    file, demos = folder / "p.toml", folder / ("walks.csv" if how == "studio" else "p_demos.csv")
    walk = "{0},0,0,0\n{0},1,2,1\n{0},2,3,\n"
    (tmp_path / "two.csv").write_text("demo,step,state,action\n" + walk.format(0) + walk.format(1))

    def fresh():
        shutil.rmtree(folder)
        folder.mkdir()
        file.write_text(grid_problem(3, "up", "right", demonstrations=demos.name))
        demos.write_text("demo,step,state,action\n0,0,0,0\n0,1,3,0\n0,2,6,1\n0,3,7,1\n0,4,8,\n")
        (folder / "mine.txt").write_text("mine")

    def save():
        if how == "studio":
            desk = Desk(file)
            walks = [{"states": [[0, 0], [0, 1], [1, 1]], "actions": ["up", "right"], "weight": 1.0}] * 2
            world = {**desk.look()[1].problem["world"], "width": 2, "height": 2, "goal": [1, 1]}
            desk.put(1, Document({**desk.look()[1].problem, "world": world}, walks))
            desk.save()
        else:
            small = xm.GridWorld(2, 2, (0, 0), (1, 1), moves=("up", "right"))
            write_problem_file(Problem(small, demonstrations=tmp_path / "two.csv"), file)

    def state():
        problem = read_problem(file)
        walks = problem.demos()
        assert all(problem.world.problem(walk) is None for walk in walks)
        return problem.world.n_states, len(walks)

    def check(stopped):
        left = tree(folder)
        found = state()
        assert found == (4, 2) or (stopped and found == (9, 1))
        document = Desk(file).look()[1]
        assert (document.problem["world"]["width"] ** 2, len(document.demonstrations)) == found
        assert tree(folder) == left  # reading writes nothing
        assert (folder / "mine.txt").read_text() == "mine"
        for path in folder.glob("*.*"):
            path.write_text(path.read_text() + "\n")
        edited = {path: path.read_text() for path in folder.glob("*.*")}
        assert state() == found
        desk = Desk(file)
        assert {path: path.read_text() for path in folder.glob("*.*")} == edited
        desk.save()
        assert state() == found
        fresh()

    fresh()
    assert every_moment(monkeypatch, error, save, check) > 8


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
    assert sorted(path.name for path in folder.iterdir()) == ["model.safetensors"]


def test_what_was_left_behind_long_ago_is_removed(models, tmp_path):
    models[0].save(tmp_path / "model")
    old, young, mine = (tmp_path / "model" / name for name in (".xmen-" + "0" * 16, ".xmen-" + "1" * 16, ".xmen-saved"))
    old.write_text("half")
    young.write_text("half")
    os.utime(old, (0, 0))
    models[1].save(tmp_path / "model")  # the other one may be at work at this moment
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.safetensors", young.name}
    mine.mkdir()
    (mine / "notes.txt").write_text("not of xmen")
    with pytest.raises(xm.StorageError, match=r"\.xmen-saved"):
        models[1].save(tmp_path / "model")
    assert (mine / "notes.txt").exists()


def test_fitting_from_the_problem_in_its_own_folder_keeps_its_demonstrations(here):
    assert run("fit p.toml --l2 0.1 --out model").exit_code == 0
    for _ in range(2):
        assert run("fit model/problem.toml --l2 0.2 --out model").exit_code == 0
        assert len(read_problem("model/problem.toml").demos()) == 60


# --- links --------------------------------------------------------------------------------------------------------


@pytest.fixture
def linked(here):
    """A model of the command line, and files of somebody else to which its folder may be linked."""
    assert run("fit p.toml --l2 0.1 --out model").exit_code == 0
    shutil.copytree("model", "elsewhere")
    (here / "elsewhere" / "thesis.tex").write_text("years of work")
    return here


def test_reading_moves_nothing_through_a_linked_folder(linked):
    """What a tar or a checkout may bring: a link under the name that saves once used for what is on its way."""
    for folder in (linked, linked / "model"):
        (folder / ".xmen-saved").symlink_to(linked / "elsewhere")
    before = tree(linked)
    xm.load("model")
    assert run("sample model -n 1").exit_code == 0
    read_problem("p.toml")
    Desk(linked / "p.toml")
    Desk(linked / "model" / "problem.toml")
    assert tree(linked) == before
    assert run("fit p.toml --l2 0.3 --out model").exit_code == 0
    assert Desk(linked / "p.toml").save()
    assert (linked / "elsewhere" / "thesis.tex").read_text() == "years of work"
    assert len([*(linked / "elsewhere").iterdir()]) == 4


@pytest.mark.parametrize("name", ["model.safetensors", "problem.toml", "problem_demos.csv"])
def test_a_model_holds_its_files_itself(linked, name):
    (linked / "model" / name).unlink()
    (linked / "model" / name).symlink_to(linked / "elsewhere" / name)
    before = tree(linked)
    with pytest.raises(xm.StorageError, match="is a link"):
        xm.load("model")
    for command in ("sample model", "fit p.toml --l2 0.3 --out model --force"):
        refused = run(command)
        assert refused.exit_code == 2
        assert f"model/{name} is a link" in refused.stderr
    assert tree(linked) == before
    (linked / "latest").symlink_to("model")  # the user's own word for a folder is followed
    (linked / "model" / name).unlink()
    (linked / "model" / name).write_bytes((linked / "elsewhere" / name).read_bytes())
    xm.load("latest")


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "last_state.safetensors"])
def test_a_fit_goes_on_from_no_link(linked, name):
    xm.XMEN(*grid_task(4)[:3], checkpoint=linked / "elsewhere" / "c").fit(grid_task(4)[3])
    (linked / "model" / name).symlink_to(linked / "elsewhere" / "c")
    before = tree(linked)
    for command in ("fit p.toml --out model --force", "fit p.toml --out model --resume"):
        assert f"model/{name} is a link" in run(command).stderr
    assert tree(linked) == before


@pytest.mark.parametrize("key", ["demonstrations", "validation", "costs"])
def test_the_problem_of_a_model_names_no_file_outside(linked, key):
    """A problem of one's own may name files anywhere; what came with a model may not, whatever its checksums say."""
    outside = '[costs]\ntoll = "../toll.csv"\n' if key == "costs" else ""
    first = "" if key == "costs" else f'{key} = "../elsewhere/problem_demos.csv"\n'
    (linked / "toll.csv").write_text("state,cost\n" + "".join(f"{state},1\n" for state in range(16)))
    file = linked / "model" / "problem.toml"
    text = "".join(line for line in file.read_text().splitlines(True) if not line.startswith("demonstrations"))
    file.write_text(first + text + outside)
    read_problem(file)
    edit(linked / "model", lambda document: document["files"].update({file.name: sha256(file.read_bytes())}))
    with pytest.raises(xm.StorageError, match="outside"):
        xm.load("model")


def test_names_of_files_in_a_model_lead_nowhere_else(linked):
    secret = linked / "elsewhere" / "thesis.tex"
    for name in ("../elsewhere/thesis.tex", str(secret), "..", "sub/thesis.tex"):
        edit(linked / "model", lambda document, name=name: document.update(files={name: sha256(secret.read_bytes())}))
        with pytest.raises(xm.StorageError, match="its files are"):
            xm.load("model")
        assert run("fit p.toml --l2 0.3 --out model --force").exit_code == 2
        assert secret.exists()


# --- commands -----------------------------------------------------------------------------------------------------

COMMANDS = {
    "sample p.toml -n 5 --seed 9 --out there.csv": "there.csv",
    "sample p.toml -n 5 --seed 9 --out there.jsonl": "there.jsonl",
    "plot p.toml --what world --out there.png": "there.png",
    "plot p.toml --what world --out there.svg": "there.svg",
    "new there.toml --force": "there_demos.csv",
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, FULL])
@pytest.mark.parametrize("command", COMMANDS)
@there_before
def test_commands_write_whole_files_or_none(command, error, before, here, monkeypatch):
    file = here / COMMANDS[command]
    if before:
        file.write_text("as it was")
    there = {path.name for path in here.iterdir()}
    with monkeypatch.context() as patch:
        last = 3 if command.startswith("new") else 1  # after a draft and the problem file
        Stops(patch, last, error, only_writing=True)
        stopped = run(command)
    assert stopped.exit_code == (130 if error is KeyboardInterrupt else 2), stopped.output
    assert error is KeyboardInterrupt or f"{COMMANDS[command]}: No space left" in stopped.stderr
    assert {path.name for path in here.iterdir()} == there
    assert not before or file.read_text() == "as it was"
    assert run(command).exit_code == 0
    assert file.stat().st_size > 100


def test_links_are_followed_and_rights_are_kept(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to("real.csv")
    files.write_whole(tmp_path / "link.csv", b"new")
    real = tmp_path / "real.csv"
    assert (tmp_path / "link.csv").is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)
    files.write_whole(os.devnull, b"nothing")  # a device is written into, not replaced
    assert not Path(os.devnull).is_file()


def test_a_record_cannot_name_files_outside_its_folder(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"mine")
    (tmp_path / "report").mkdir()
    file, record = tmp_path / "report" / "grid.json", Notebook("grid", tmp_path / "report", quick=True, seed=0).finish()
    for name in ("../secret.png", str(tmp_path / "secret.png"), "..", "", "sub/secret.png", "grid.json"):
        record.pictures = [Picture(name, "a secret")]
        record.write(file)
        assert type(record).read(file) is None
    record.pictures = []
    record.write(file)
    assert type(record).read(file) == record
    document = json.loads(file.read_text())
    for key, wrong in (("tables", [{"title": 1}]), ("pictures", 3), ("seed", []), ("tables", [["x"]])):
        file.write_text(json.dumps({**document, key: wrong}))
        assert type(record).read(file) is None or key == "seed"
