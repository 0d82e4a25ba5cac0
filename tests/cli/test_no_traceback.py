"""Inputs that make no sense, or that libraries and Python choke on: a message and an exit code, never a traceback."""

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
from cli.commands import PROBLEM, refused, run, told
from storage.resealed import opened, put
from xmen.storage.codec import seal

pytestmark = pytest.mark.usefixtures("folder")

DIGITS, HEXADECIMAL, DEEP = "9" * 5000, "0x" + "f" * 400, "[" * 4000


def settings(text: str) -> bytes:
    return PROBLEM.replace("seed = 1", text).encode()


NUMBERS = {
    "width = 4": "width = {}",
    "seed = 1": "seed = 1\nmax_nodes = -{}",
    "goal = [3, 3]": "goal = [{}, 3]",
    "visit(key)": "count(key) <= {}",
    "height = 4": "height = 4\nhorizon = {}",
    'features = ["steps", "diagonal"]': 'features = ["steps", "diagonal"]\nweights = [{}, 1]',
}
SETTINGS = ["discount", "cell_size", "delta", "failure"]  # that no float holds
FILES = {
    "empty": b"",
    "zeros": b"\0" * 100,
    "noise": np.random.default_rng(0).bytes(1000),
    "utf-16": PROBLEM.encode("utf-16"),
    "latin-1": PROBLEM.replace("fetch", "für").encode("latin-1"),
    "a surrogate": PROBLEM.replace("fetch", "\ud800").encode("utf-8", "surrogatepass"),
    "digits": settings(f"seed = {DIGITS}"),
    "deep": settings(f"seed = {DEEP}"),
    "deep lists": settings("seed = " + "[" * 3000 + "]" * 3000),
    "deep tables": settings("seed = " + "{a=" * 900 + "1" + "}" * 900),
    "deep rule": PROBLEM.replace("visit(key)", "~" * 5000 + "visit(key)").encode(),
    "brackets": PROBLEM.replace("visit(key)", "(" * 5000 + "visit(key)" + ")" * 5000).encode(),
    "infinite": settings("time_limit = inf\ndiscount = nan"),
    "types": settings('seed = []\nmax_nodes = "x"'),
    "a text as delta": settings('delta = "x"'),
    "a list as failure": settings("failure = []"),
    "a list as validity": settings("validity = []"),
    "a date": settings("seed = 2020-01-01"),
    "JSON": b'{"format": 1}',
    **{name: settings(f"{name} = 1{'0' * 400}") for name in SETTINGS},
    **{f"digits in {old}": PROBLEM.replace(old, new.format(DIGITS)).encode() for old, new in NUMBERS.items()},
    **{f"hexadecimal {old}": PROBLEM.replace(old, new.format(HEXADECIMAL)).encode() for old, new in NUMBERS.items()},
}
FACTS = {
    "deep lists": "nested too deeply",
    "deep tables": "nested too deeply",
    **{name: f"[settings], {name}" for name in SETTINGS},
}
DEMOS = {
    "empty.csv": b"",
    "noise.csv": FILES["noise"],
    "digits.csv": f"demo,step,state,action\n0,0,{DIGITS},0\n".encode(),
    "surrogate.csv": "demo,step,state,action\n0,0,\ud800,0\n".encode("utf-8", "surrogatepass"),
    "field.csv": b'demo,step,state,action\n0,0,"' + b"1" * 200_000,
    "deep.jsonl": b"[" * 100_000,
    "deep.json": b'{"trajectories": ' + b"[" * 100_000,
    "digits.jsonl": f'{{"states": [{DIGITS}], "actions": []}}'.encode(),
    "types.jsonl": b'{"states": {"a": 1}, "actions": null}\n[]\n3\n',
    "nan.json": b'[{"states": [NaN, Infinity], "actions": [1e999]}]',
}
OPTIONS = [
    *(f"sample p.toml -n {n}" for n in (DIGITS, "-1", "x", "1e3", "0")),
    *(f"sample p.toml --best {n}" for n in (DIGITS, "x")),
    *(f"sample p.toml --also '{rule}'" for rule in (DIGITS, "~" * 3000, "\udcff", "\\x00", "count(key) <= 1e999")),
    *(f"plan p.toml --also '{rule}'" for rule in ("(" * 3000, "\udcff", "visit(at(99999999999))")),
    *(f"plan p.toml --validity {p}" for p in ("nan", "inf", "-1", "2", "x", DIGITS, "1e-400", "[]")),
    *(f"plan p.toml --rollouts {n}" for n in (DIGITS, 10**20, "x")),
    "plan p.toml --out /dev/null",
    "plan p.toml --out /dev/full/x",
    *(f"{command} p.toml --seed {DIGITS}" for command in ("fit", "sample", "plan", "plot")),
    *(f"fit p.toml --l2 {x}" for x in ("nan", "inf", "x", "1e999")),
    *(f"fit p.toml --max-iter {x}" for x in ("x", DIGITS)),
    *(f"fit p.toml --method '{m}'" for m in (f"paper(n_samples={DIGITS})", "paper(" * 500, "cells(cell_size=[])")),
    "fit p.toml --learner \udcff",
    "fit p.toml --out /dev/null",
    *(f"rules p.toml --{option}" for option in ("level nan", "tolerance nan", "tolerance inf", "min-gain nan")),
    *(f"rules p.toml --{option}" for option in (f"bootstrap {10**20}", f"max-rules {DIGITS}")),
    *(f"engines p.toml --limit {x}" for x in ("nan", "-1", "0")),
    "engines --engine \udcff",
    "check \udcff.toml",
    "check p.toml \udcff.csv",
    "plot p.toml --out /dev/full",
    "plot p.toml --what \udcff",
    "sample p.toml --out \udcff.csv -n 1",
    "new /dev/null/x.toml",
    "new \udcff.toml",
    "reproduce \udcff --out x",
    "reproduce roads --quick --out x",
]


def ended(command: str) -> int:
    """The exit code of a command that must end with an answer or a message of ours."""
    result = run(command)
    assert isinstance(result.exception, SystemExit | None), (command[:200], result.exception)
    assert result.exit_code in (0, 1, 2), (command[:200], result.output)
    assert "did not expect" not in result.stderr, (command[:200], result.stderr)
    assert "Traceback" not in result.output + result.stderr
    return result.exit_code


@pytest.mark.parametrize("name", FILES)
def test_problem_files(folder, name):
    assert FILES[name] != PROBLEM.encode()
    (folder / "p.toml").write_bytes(FILES[name])
    for command in ("check", "engines", "fit", "sample", "plan", "plot", "rules"):
        assert ended(f"{command} p.toml") == 2
    said = refused("check p.toml", "p.toml", FACTS.get(name, ""))
    assert len(said) < 2000
    (folder / "model").mkdir()
    (folder / "model" / "model.safetensors").write_bytes(FILES[name])
    for command in ("sample", "plan", "plot"):
        assert ended(f"{command} model") == 2


@pytest.mark.parametrize("name", DEMOS)
def test_demonstration_files(folder, name):
    (folder / name).write_bytes(DEMOS[name])
    for command in ("check", "fit", "rules"):
        assert ended(f"{command} p.toml {name}") in (1, 2)
    assert ended(f"fit p.toml --validation {name}") in (1, 2)
    assert ended(f"rules p.toml --held-out {name}") in (1, 2)


@pytest.mark.parametrize("command", OPTIONS, ids=range(len(OPTIONS)))
def test_options(command):
    ended(command)


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
        refused("sample p.toml --out full.csv", "full.csv: No space left")
    refused("check \udcff.toml", "No such file")
    refused("sample p.toml --also 'visit(\udcff)'", "--also")


def test_records_of_the_wrong_type(folder):
    """Every value of a record of `reproduce` in turn is another: it is made again, or refused."""
    record = {"format": 1, "sha256": "0" * 64, "name": "grid", "pictures": [{"file": "../../x"}], "tables": [3]}
    for wrong in (None, [], {}, "x", -1, {"pictures": None}, record):
        (folder / "grid.json").write_bytes(seal(json.dumps({"sha256": "0" * 64, "found": wrong}).encode()))
        assert ended("reproduce nothing --resume --out .") == 2


def test_values_of_the_wrong_type_in_a_model(folder):
    """Every value of a model's document in turn is replaced, under the right checksum: an answer or a message."""
    told("fit p.toml --l2 0.1 --out model")
    original, arrays = opened(folder / "model")
    places = [(key,) for key in original]
    places += [(part, key) for part in ("settings", "learned", "files") for key in original[part]]
    for place in places:
        for wrong in ("x", [], {}, None, -1, 10**30, [[1]], {"is": []}, {"is": "array", "key": 3}):
            document = json.loads(json.dumps(original))
            inner = document if len(place) == 1 else document[place[0]]
            inner[place[-1]] = wrong
            put(folder / "model", document, arrays)
            ended("sample model -n 1 --seed 0")  # 1, too: without rules it breaks them


CITY = {
    "transit.npy": [b"", b"noise", b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (9,)}"],
    "edge.txt": [b"", b"\xff\xfe", b"n_id,length,highway,u,v\nx,1,a,0,1\n", b"n_id\n" + DIGITS.encode() + b"\n"],
    "node.txt": [b"", b"\xff", b"osmid,x,y\n0,nan,\n"],
    "train_CV0_size1000.csv": [b"", b"path\nx_y\n", b"path\n7_8\n", b"path\n" + DIGITS.encode() + b"\n"],
    "test_CV0.csv": [b"", b"way\n0_1\n"],
}


@pytest.mark.parametrize(
    ("experiment", "damaged"),
    [
        *(("roads", name) for name in CITY),
        *(pytest.param("rules", name, marks=pytest.mark.system) for name in ("transit.npy", "edge.txt")),
    ],
)
def test_folders_of_trips(folder, experiment, damaged):
    city = folder / "city"
    city.mkdir()
    good = {
        "edge.txt": b"n_id,length,highway,u,v\n0,100,primary,0,1\n1,100,primary,1,0\n",
        "node.txt": b"osmid,x,y\n0,0,0\n1,1,1\n",
    }
    for name in ("path", "train_CV0_size1000", "train_CV0_size10000", "test_CV0"):
        good[f"{name}.csv"] = b"path\n0_1\n"
    np.save(city / "transit.npy", np.array([[0, 0, 1], [1, 0, 0]]))
    for name, content in good.items():
        (city / name).write_bytes(content)
    for content in CITY[damaged]:
        (city / damaged).write_bytes(content)
        assert ended(f"reproduce {experiment} --quick --data city --out out") in (1, 2)


def test_what_nobody_expected_is_said_without_a_traceback(monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("xmen.answers.check_rules", broken)
    result = run("check p.toml --json")
    assert result.exit_code == 2
    assert "did not expect this: ZeroDivisionError: division by zero" in result.stderr
    assert "XMEN_TRACEBACK" in result.stderr
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

GRID = xm.GridWorld(2, 2, (0, 0), (1, 1), moves=("up", "right"))
WRONG = [-1, 10**400, np.array([1, 2]), object()]


@pytest.mark.parametrize("setting", ["delta", "failure", "cell_size", "time_limit", "discount", "oracle", "engine"])
@pytest.mark.parametrize("value", ["x", [], {}, float("inf"), float("nan"), *WRONG], ids=lambda value: f"{value!r:.12}")
def test_settings_of_the_wrong_type_are_our_errors(setting, value):
    choices = {"engine": "xor", setting: value}
    with pytest.raises(xm.XmenError):
        xm.distribution(GRID, None, None, **choices)


@pytest.mark.parametrize("setting", ["l2", "max_iter", "tol", "checkpoint", "callback", "fixed", "method", "given"])
@pytest.mark.parametrize("value", WRONG, ids=lambda value: f"{value!r:.12}")
def test_settings_of_a_learner_of_the_wrong_type_are_our_errors(setting, value):
    demos = xm.distribution(GRID, None, None, seed=0).sample(4)
    if setting == "max_iter" and type(value) is int and value > 0:
        value = -value  # so many would be many, but whole
    with pytest.raises(xm.XmenError):
        xm.XMEN(GRID, None, **{"l2": 0.1, setting: value}).fit(demos)
