"""Every command on mistakes: exit code 2, one message that names what was asked for, the same as JSON, and no files."""

from __future__ import annotations

import json

import pytest

import xmen as xm
from cli.commands import PROBLEM, refused, report, run
from xmen.problem import read_problem

FILES = {
    "bare.toml": PROBLEM.replace('demonstrations = "demos.csv"', ""),
    "broken.toml": PROBLEM.replace("visit(key)", "visit(kee)"),
    "empty.csv": "demo,step,state,action\n",
    "fee.toml": PROBLEM.replace("visit(key)", "fee <= 4").replace("[events]", "[costs]\nfee = { key = 2 }\n[events]"),
    "gpu.toml": f'{PROBLEM}device = "gpu"\n',
    "number.toml": f"{PROBLEM}device = 1\n",
    "numbers.csv": "0,1,2\n1,1,3\n",
    "old.toml": "format = 0\n",
    "others.toml": PROBLEM.replace("demos.csv", "others.csv"),
    "single.toml": f'{PROBLEM}precision = "float32"\n',
    "tolls.toml": PROBLEM.replace("[events]", '[costs]\ntoll = "tolls.csv"\n[events]'),
    "tiny.toml": f'{PROBLEM}engine = "exact"\nmax_nodes = 3\n',
    "unknown.toml": PROBLEM.replace('"steps"', '"stps"'),
    "wrong.csv": "a,b\n1,2\n",
    "xor.toml": f'{PROBLEM}device = "cpu"\nengine = "xor"\n',
}


@pytest.fixture
def made(folder):
    """Files with one mistake each, and an empty folder."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("command", "kind", "facts"),
    [
        ("check .", "FileFormatError", ["error: . is a folder"]),
        ("check broken.toml", "ConstraintSyntaxError", ["did you mean `key`?", " visit(kee) ^"]),
        ("check fee.toml", "ConstraintSyntaxError", ["'fetch a key'", "total(fee)"]),
        ("check nowhere.toml", "MissingFileError", ["nowhere.toml"]),
        ("check old.toml", "PlacedError", ["old.toml, format:", "format 1", "format 0"]),
        ("check p.toml .", "FileFormatError", ["error: .:", ".csv", ".jsonl"]),
        ("check p.toml empty.csv", "TrajectoryError", ["empty.csv", "no demonstrations"]),
        ("check p.toml nowhere.csv", "MissingFileError", ["nowhere.csv", "asked for as demonstrations"]),
        ("check p.toml numbers.csv", "FileFormatError", ["numbers.csv, line 1:", "'0,1,2'", "name the columns"]),
        ("check p.toml p.toml", "FileFormatError", ["p.toml:", ".csv", ".jsonl"]),
        ("check p.toml wrong.csv", "FileFormatError", ["wrong.csv, line 1:", "demo,step,state,action", "columns a, b"]),
        ("check picture.png", "FileFormatError", ["picture.png", "UTF-8", "0x89"]),
        ("check tolls.toml", "MissingFileError", ["tolls.csv", "asked for as toll in tolls.toml, [costs]"]),
        ("engines .", "FileFormatError", ["error: . is a folder"]),
        (
            "engines broken.toml",
            "ConstraintSyntaxError",
            ["[[constraints]] number 1 ('fetch a key'), rule"],
        ),
        ("engines p.toml --engine exakt", "EngineError", ["engine 'exakt'", "did you mean 'exact'?"]),
        ("engines p.toml --limit 0", "EngineError", ["--limit 0"]),
        ("fit .", "FileFormatError", ["error: . is a folder"]),
        ("fit bare.toml", "FileFormatError", ["no demonstrations", 'demonstrations = "demos.csv"']),
        ("fit nowhere.toml", "MissingFileError", ["nowhere.toml"]),
        ("fit others.toml", "MissingFileError", ["others.csv", "asked for as demonstrations"]),
        ("fit p.toml --learner causal --outcomes lucky", "EngineError", ["outcomes 'lucky'", "'demonstrated'"]),
        ("fit p.toml --learner constraint-inference --resume", "EngineError", ["--resume", "constraint-inference;"]),
        ("fit p.toml --learner maxent --method cells", "EngineError", ["--method", "--learner maxent;", ": xmen."]),
        ("fit p.toml --learner relative-entropy --device cpu", "EngineError", ["--device", ": xmen, causal, maxent."]),
        ("fit p.toml --learner relative-entropy --l2 1", "EngineError", ["--l2", "--learner relative-entropy;"]),
        ("fit p.toml --learner relative-entropy --validation demos.csv", "EngineError", ["--validation", "maxent."]),
        ("fit p.toml --learner xman", "EngineError", ["--learner 'xman'", "did you mean 'xmen'?"]),
        ("fit p.toml --method exakt", "EngineError", ["--method exakt:", "did you mean 'exact'?"]),
        ("fit p.toml --method newton", "EngineError", ["method 'newton': choose one of 'auto'"]),
        ("fit p.toml --out no/where", "StorageError", ["--out no/where", "folder 'no'"]),
        ("fit p.toml --out p.toml", "StorageError", ["--out p.toml", "a model is a folder"]),
        ("fit p.toml --outcomes expected", "EngineError", ["--outcomes", "--learner xmen;", ": causal."]),
        ("fit p.toml --patience 3", "EngineError", ["--patience", "--validation FILE"]),
        ("fit p.toml --set features=1", "EngineError", ["--features", "--learner xmen;"]),
        ("fit p.toml --set momentum=1", "EngineError", ["--momentum", "--learner xmen;", ": none."]),
        ("fit p.toml --set tol", "EngineError", ["--set tol:", "NAME=VALUE"]),
        ("fit p.toml --validation no.csv", "MissingFileError", ["no.csv", "asked for as demonstrations to validate"]),
        ("fit p.toml --validity 0.6", "EngineError", ["--validity", "--learner xmen;", ": causal."]),
        ("fit p.toml nowhere.csv", "MissingFileError", ["nowhere.csv", "asked for as demonstrations"]),
        ("fit unknown.toml", "PlacedError", ["[reward], features:", "'stps'", "did you mean 'steps'?"]),
        ("new grid.toml --world gird", "FileFormatError", ["--world gird:", "grid, table, graph"]),
        ("new grid.txt", "FileFormatError", ["grid.txt", ".toml"]),
        ("new nowhere/grid.toml", "FileFormatError", ["nowhere/grid.toml:", "folder 'nowhere'"]),
        ("plan p.toml --validity 1.5", "EngineError", ["--validity", "'1.5'"]),
        ("plan p.toml --validity surely", "EngineError", ["--validity", "sure, best, or", "'surely'"]),
        ("plot bare.toml --what demos", "FileFormatError", ["no demonstrations"]),
        ("plot nowhere.toml", "MissingFileError", ["nowhere.toml"]),
        ("plot p.toml --also 'never(kye)'", "ConstraintSyntaxError", ["--also:", "did you mean `key`?"]),
        ("plot p.toml --out no/p.png", "FileFormatError", ["--out no/p.png:", "folder 'no'"]),
        ("plot p.toml --out p.xyz", "FileFormatError", ["--out p.xyz:", ".png or .pdf or .svg"]),
        ("plot p.toml --what foo", "EngineError", ["--what 'foo': choose one of 'overview'"]),
        ("plot p.toml --what history", "EngineError", ["--what history:", "folder of a model"]),
        ("plot p.toml --what wrld", "EngineError", ["--what 'wrld' (did you mean 'world'?)", "'overview'"]),
        ("rules nowhere.toml", "MissingFileError", ["nowhere.toml"]),
        ("rules p.toml --level 2", "EngineError", ["level", "2.0"]),
        ("rules p.toml --out gains.txt", "FileFormatError", ["--out gains.txt:", ".png or .pdf or .svg"]),
        ("sample empty", "StorageError", ["empty/model.safetensors"]),
        ("sample gpu.toml", "PlacedError", ["[settings], device:", "device 'gpu'"]),
        ("sample nowhere", "MissingFileError", ["nowhere"]),
        ("sample number.toml", "PlacedError", ["[settings], device:", "got 1"]),
        ("sample p.toml --also ''", "ConstraintSyntaxError", ["--also: "]),
        ("sample p.toml --also 'never(at(state(99)))'", "ConstraintError", ["--also never(at(state(99))):", "99"]),
        ("sample p.toml --also 'nver(key)'", "ConstraintSyntaxError", ["--also:", "`nver`", "did you mean `never`?"]),
        ("sample p.toml --best 2 --engine xor", "EngineError", ["xor", "engine='exact'"]),
        ("sample p.toml --engine exakt", "EngineError", ["engine 'exakt'", "did you mean 'exact'?"]),
        ("sample p.toml --out .", "FileFormatError", ["--out .:", ".csv or .jsonl"]),
        ("sample p.toml --out nowhere/samples.csv", "FileFormatError", ["folder 'nowhere'"]),
        ("sample p.toml --out samples.txt", "FileFormatError", ["--out samples.txt:", ".csv or .jsonl"]),
        ("sample single.toml", "PlacedError", ["[settings], precision:", "precision='float32'"]),
        ("sample tiny.toml", "ProductTooLargeError", ["max_nodes = 3", "'fetch a key'"]),
        ("sample xor.toml", "PlacedError", ["[settings], device:", "device='cpu'", "engine='xor'"]),
    ],
)
def test_a_mistake_is_an_error_message_and_exit_code_2(made, command, kind, facts):
    before = sorted(made.rglob("*"))
    refused(command, *facts)
    found = run(f"{command} --json")
    answer = json.loads(found.stdout)
    assert f"error: {answer['error']}\n" == found.stderr == run(command).stderr
    assert answer["kind"] == kind
    assert sorted(made.rglob("*")) == before


def test_a_table_without_names_of_columns_in_python(made):
    with pytest.raises(xm.FileFormatError, match=r"numbers\.csv, line 1: .*'0,1,2'"):
        xm.total("numbers.csv", read_problem("p.toml").world)


def test_csv_and_json_cannot_both_be_printed(folder):
    result = run("sample p.toml --out - --json")
    assert result.exit_code == 2
    assert "--out -" in json.loads(result.stdout)["error"]
    assert "--json" in result.stderr


@pytest.mark.parametrize(
    "command",
    ["sample", "sample p.toml -n 0", "sample p.toml --sed 1", "chekc", "check"]
    + [f"fit p.toml {option}" for option in ("--l2 -1", "--max-iter 0", "--seed -1", "--l2 x")],
)
def test_usage_errors_exit_with_2(folder, command):
    result = run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    assert set(report(command, code=2)) == {"error", "kind"}
