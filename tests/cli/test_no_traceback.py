"""Inputs that libraries and Python choke on: a message and an exit code, never a traceback."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import PROBLEM, run, write_problem
from storage.resealed import opened, put

DIGITS = "9" * 5000
HEXADECIMAL = "0x" + "f" * 400


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    return tmp_path


def refused(command: str, *words: str) -> str:
    """What stderr says about a mistake, in at most a screenful of words."""
    result = run(command)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr
    assert "did not expect" not in result.stderr
    return result.stderr


PLACES = {
    "width = 4": "width = {}",
    "seed = 1": "seed = 1\nmax_nodes = -{}",
    "goal = [3, 3]": "goal = [{}, 3]",
    "visit(key)": "count(key) <= {}",
    "height = 4": "height = 4\nhorizon = {}",
    'features = ["steps", "diagonal"]': 'features = ["steps", "diagonal"]\nweights = [{}, 1]',
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [DIGITS, HEXADECIMAL], ids=["digits", "hexadecimal"])
def test_numbers_of_many_digits(folder, place, number):
    assert place in PROBLEM
    (folder / "n.toml").write_text(PROBLEM.replace(place, PLACES[place].format(number)))
    assert len(refused("check n.toml", "n.toml")) < 2000


@pytest.mark.parametrize("setting", ["discount", "cell_size", "delta", "failure"])
def test_settings_that_no_float_holds(folder, setting):
    (folder / "n.toml").write_text(PROBLEM.replace("seed = 1", f"{setting} = 1{'0' * 400}"))
    refused("check n.toml", "n.toml, [settings]", setting)


@pytest.mark.parametrize("value", ["[" * 3000 + "]" * 3000, "{a=" * 900 + "1" + "}" * 900], ids=["lists", "tables"])
def test_deep_nesting(folder, value):
    (folder / "n.toml").write_text(PROBLEM.replace("seed = 1", f"seed = {value}"))
    refused("check n.toml", "n.toml: not valid TOML: it is nested too deeply")


GRAPHS = {
    "half.graphml": b"<graphml",
    "encoding.graphml": b'<?xml version="1.0" encoding="klingon"?><graphml/>',
    "deep.graphml": b"<a>" * 20000,
    "cut.graphml.gz": gzip.compress(b"<graphml/>" * 50)[:-9],
    "none.graphml.gz": b"\x1f\x8bnothing of the sort",
    "cut.graphml.bz2": bz2.compress(b"<graphml/>" * 50)[:-9],
    "none.graphml.bz2": b"BZh9nothing of the sort",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_that_are_none(folder, name):
    (folder / name).write_bytes(GRAPHS[name])
    world = f'format = 1\n[world]\nkind = "graphml"\nfile = "{name}"\nsource = "a"\ntarget = "b"\nhorizon = 3\n'
    (folder / "g.toml").write_text(world)
    refused("check g.toml", name)


def test_a_full_device_and_names_that_are_no_text(folder):
    if Path("/dev/full").exists():
        (folder / "full.csv").symlink_to("/dev/full")
        refused("sample p.toml --out full.csv", "full.csv: No space left on device")
    refused("check \udcff.toml", "No such file")
    refused("sample p.toml --also 'visit(\udcff)'", "--also")


def test_values_of_the_wrong_type_in_a_model(folder):
    """Every value of a model's document in turn is replaced, under the right checksum: an answer or a message."""
    assert run("fit p.toml --l2 0.1 --out model").exit_code == 0
    original, arrays = opened(folder / "model")
    places = [(key,) for key in original]
    places += [(part, key) for part in ("settings", "learned", "files") for key in original[part]]
    for place in places:
        for wrong in ("x", [], {}, None, -1, 10**30, [[1]], {"is": []}, {"is": "array", "key": 3}):
            document = json.loads(json.dumps(original))
            inner = document if len(place) == 1 else document[place[0]]
            inner[place[-1]] = wrong
            put(folder / "model", document, arrays)
            result = run("sample model -n 1 --seed 0")
            assert result.exit_code in (0, 1, 2), (place, wrong, result.output)  # 1: without rules it breaks them
            assert "did not expect" not in result.stderr, (place, wrong, result.stderr)


def test_what_nobody_expected_is_said_without_a_traceback(monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("xmen.answers.check_rules", broken)
    result = run("check p.toml --json")
    assert result.exit_code == 2
    assert "xmen did not expect this: ZeroDivisionError: division by zero" in result.stderr
    assert "Please report it" in result.stderr
    assert json.loads(result.stdout)["kind"] == "ZeroDivisionError"
    monkeypatch.setenv("XMEN_TRACEBACK", "1")
    assert isinstance(run("check p.toml").exception, ZeroDivisionError)


@pytest.mark.system
def test_output_that_cannot_be_encoded(folder):
    """A terminal of another century and a name of this one."""
    (folder / "u.toml").write_text(PROBLEM.replace("fetch a key", "das Schlüsselchen \U0001f511"), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "xmen.cli", "check", "u.toml"]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


# --- in Python ---

WRONG = ["x", [], {}, float("inf"), float("nan"), -1, 10**400, np.array([1, 2]), object()]


@pytest.mark.parametrize("setting", ["delta", "failure", "cell_size", "time_limit", "discount", "oracle", "engine"])
@pytest.mark.parametrize("value", WRONG, ids=lambda value: f"{value!r:.12}")
def test_settings_of_the_wrong_type_are_our_errors(setting, value):
    grid = xm.GridWorld(2, 2, (0, 0), (1, 1), moves=("up", "right"))
    choices = {"engine": "xor", setting: value}
    with pytest.raises(xm.XmenError):
        xm.distribution(grid, None, None, **choices)


@pytest.mark.parametrize("setting", ["l2", "max_iter", "tol", "checkpoint", "callback", "fixed", "method", "given"])
@pytest.mark.parametrize("value", [-1, 10**400, np.array([1, 2]), object()], ids=lambda value: f"{value!r:.12}")
def test_settings_of_a_learner_of_the_wrong_type_are_our_errors(setting, value):
    grid = xm.GridWorld(2, 2, (0, 0), (1, 1), moves=("up", "right"))
    demos = xm.distribution(grid, None, None, seed=0).sample(4)
    if setting == "max_iter" and type(value) is int and value > 0:
        value = -value  # so many would be many, but whole
    with pytest.raises(xm.XmenError):
        xm.XMEN(grid, None, **{"l2": 0.1, setting: value}).fit(demos)
