"""Mistakes in what is given, in the words of what was asked for; and what is worth a note."""

from __future__ import annotations

from pathlib import Path

import pytest

import xmen as xm
from cli.commands import PROBLEM, report, run, write_problem
from xmen.answers import make_learner
from xmen.problem import read_problem


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    return tmp_path


def changed(before: str, after: str) -> None:
    assert before in PROBLEM
    Path("p.toml").write_text(PROBLEM.replace(before, after))


def test_files_that_are_missing_say_what_for(folder: Path) -> None:
    changed("[events]", '[costs]\ntoll = "tolls.csv"\n\n[events]')
    assert f"tolls.csv: No such file or directory in {folder}, asked for as toll in p.toml, [costs]" in run(
        "check p.toml"
    ).stderr.replace("\n", " ")
    changed("demos.csv", "others.csv")
    assert run("fit p.toml").stderr.endswith("asked for as demonstrations\n")
    write_problem(folder)
    assert "asked for as demonstrations to validate with" in run("fit p.toml --validation no.csv").stderr


def test_a_table_without_names_of_columns(folder: Path) -> None:
    Path("numbers.csv").write_text("0,1,2\n1,1,3\n")
    assert "the first line has to name the columns" in run("check p.toml numbers.csv").stderr
    with pytest.raises(xm.FileFormatError, match=r"numbers\.csv, line 1: these are numbers, '0,1,2'"):
        xm.total("numbers.csv", read_problem("p.toml").world)


def test_costs_of_few_places_are_noted(folder: Path) -> None:
    Path("tolls.csv").write_text("x,y,cost\n1,1,3\n2,0,5\n3,3,0\n")
    changed(
        "[events]",
        '[costs]\ntoll = "tolls.csv"\nfee = { key = 2 }\nall = { anywhere = 1 }\n\n[events]\nanywhere = "anytime"',
    )
    notes = report("check p.toml")["notes"]
    assert "the costs 'toll' are 0 in 14 of 16 states" in notes
    assert "the costs 'fee' are 0 in 14 of 16 states" in notes
    assert not any("'all'" in note for note in notes)


def test_costs_are_not_compared_themselves(folder: Path) -> None:
    changed("[events]", "[costs]\nfee = { key = 2 }\n\n[events]")
    Path("p.toml").write_text(Path("p.toml").read_text() + '\n[[constraints]]\nname = "cheap"\nrule = "fee <= 4"\n')
    assert "compare their sum along the way, total(fee)" in run("check p.toml").stderr


def test_a_search_that_finds_nothing_says_that_the_file_is_as_it_was(folder: Path) -> None:
    before = Path("p.toml").read_bytes()
    assert "nothing: p.toml is as it was" in run("rules p.toml --write --max-rules 0").stdout
    assert report("rules p.toml --write --max-rules 0")["written"] == []
    assert Path("p.toml").read_bytes() == before


def test_patience_in_the_problem_file(folder: Path) -> None:
    assert make_learner("xmen", read_problem("p.toml")).patience == 10  # the learner's own
    changed("seed = 1", "seed = 1\npatience = 3")
    problem = read_problem("p.toml")
    assert make_learner("xmen", problem).patience == 3
    assert make_learner("xmen", problem, patience=7).patience == 7
    problem.write("again.toml")
    assert read_problem("again.toml").settings == problem.settings
    assert problem.distribution().log_partition() > 0.0
    changed("seed = 1", "patience = 0")
    with pytest.raises(xm.FileFormatError, match=r"\[settings\], patience: patience"):
        read_problem("p.toml")


def test_any_other_setting_is_set_by_its_name() -> None:
    found = report("fit p.toml --set tol=1.0 --set oracle=cadical --l2 0.1")
    assert found["iterations"] < report("fit p.toml --out near --l2 0.1")["iterations"]
    model = xm.load("p_model")
    assert (model.tol, model.oracle, model.engine.oracle) == (1.0, "cadical", "cadical")
    assert "write NAME=VALUE" in run("fit p.toml --set tol").stderr
    assert "--momentum is no option of --learner xmen; these have it: none" in run("fit p.toml --set momentum=1").stderr
    assert "--features is no option" in run("fit p.toml --set features=1").stderr
