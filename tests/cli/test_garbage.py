"""Every command on files and options that make no sense: a message and an exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli.commands import PROBLEM, run, write_problem
from xmen.storage.codec import seal

DIGITS, HEXADECIMAL, DEEP = "9" * 5000, "0x" + "f" * 400, "[" * 4000

COMMANDS = ["check", "engines", "fit", "sample", "plan", "plot", "rules"]
FILES = {
    "empty": b"",
    "zeros": b"\0" * 100,
    "noise": np.random.default_rng(0).bytes(1000),
    "utf-16": PROBLEM.encode("utf-16"),
    "latin-1": PROBLEM.replace("fetch", "für").encode("latin-1"),
    "a surrogate": PROBLEM.replace("fetch", "\ud800").encode("utf-8", "surrogatepass"),
    "digits": PROBLEM.replace("seed = 1", f"seed = {DIGITS}").encode(),
    "hexadecimal": PROBLEM.replace("width = 4", f"width = {HEXADECIMAL}").encode(),
    "deep": PROBLEM.replace("seed = 1", f"seed = {DEEP}").encode(),
    "deep rule": PROBLEM.replace("visit(key)", "~" * 5000 + "visit(key)").encode(),
    "brackets": PROBLEM.replace("visit(key)", "(" * 5000 + "visit(key)" + ")" * 5000).encode(),
    "a rule of digits": PROBLEM.replace("visit(key)", f"count(key) <= {DIGITS}").encode(),
    "infinite": PROBLEM.replace("seed = 1", "time_limit = inf\ndiscount = nan").encode(),
    "types": PROBLEM.replace("seed = 1", 'seed = []\nmax_nodes = "x"').encode(),
    "delta": PROBLEM.replace("seed = 1", 'delta = "x"').encode(),
    "failure": PROBLEM.replace("seed = 1", "failure = []").encode(),
    "validity": PROBLEM.replace("seed = 1", "validity = []").encode(),
    "a date": PROBLEM.replace("seed = 1", "seed = 2020-01-01").encode(),
    "JSON": b'{"format": 1}',
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
    "check p.toml \udcff.csv",
    "plot p.toml --out /dev/full",
    "plot p.toml --what \udcff",
    "sample p.toml --out \udcff.csv -n 1",
    "new /dev/null/x.toml",
    "new \udcff.toml",
    "reproduce \udcff --out x",
    "reproduce roads --quick --out x",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    return tmp_path


def expected(command: str) -> int:
    """The exit code of a command that must end with an answer or a message of ours."""
    result = run(command)
    assert isinstance(result.exception, SystemExit | None), (command[:200], result.exception)
    assert result.exit_code in (0, 1, 2), (command[:200], result.output)
    assert "did not expect" not in result.stderr, (command[:200], result.stderr)
    assert "Traceback" not in result.output + result.stderr
    return result.exit_code


@pytest.mark.parametrize("name", FILES)
def test_problem_files(folder, name):
    (folder / "p.toml").write_bytes(FILES[name])
    for command in COMMANDS:
        assert expected(f"{command} p.toml") == 2
    (folder / "model").mkdir()
    (folder / "model" / "model.safetensors").write_bytes(FILES[name])
    for command in ("sample", "plan", "plot"):
        assert expected(f"{command} model") == 2


@pytest.mark.parametrize("name", DEMOS)
def test_demonstration_files(folder, name):
    (folder / name).write_bytes(DEMOS[name])
    for command in ("check", "fit", "rules"):
        assert expected(f"{command} p.toml {name}") in (1, 2)
    assert expected(f"fit p.toml --validation {name}") in (1, 2)
    assert expected(f"rules p.toml --held-out {name}") in (1, 2)


@pytest.mark.parametrize("command", OPTIONS, ids=range(len(OPTIONS)))
def test_options(command):
    expected(command)


def test_records_of_the_wrong_type(folder):
    """Every value of a record of `reproduce` in turn is another: it is made again, or refused."""
    record = {"format": 1, "sha256": "0" * 64, "name": "grid", "pictures": [{"file": "../../x"}], "tables": [3]}
    for wrong in (None, [], {}, "x", -1, {"pictures": None}, record):
        (folder / "grid.json").write_bytes(seal(json.dumps({"sha256": "0" * 64, "found": wrong}).encode()))
        assert expected("reproduce nothing --resume --out .") == 2


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
        assert expected(f"reproduce {experiment} --quick --data city --out out") in (1, 2)
