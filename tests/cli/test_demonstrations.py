"""The command line reads what it writes, and learns from the valid ones if asked to."""

from __future__ import annotations

import re

import pytest

import xmen as xm
from cli.commands import report, run, write_problem
from xmen.problem import read_problem
from xmen.worlds.tables import RecordedDemos


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    return tmp_path


def test_samples_are_demonstrations_in_every_form(folder):
    world = read_problem("p.toml").world
    expected = read_problem("p.toml").distribution(seed=4).sample(6)
    for command, file in (
        ("--out a.csv", "a.csv"),
        ("--out b.csv --names", "b.csv"),
        ("--out c.jsonl", "c.jsonl"),
        ("--out -", "d.csv"),
        ("--out - --names", "e.csv"),
        ("--json", "f.json"),
    ):
        answer = run(f"sample p.toml -n 6 --seed 4 {command}")
        assert answer.exit_code == 0, answer.output
        if not (folder / file).exists():
            (folder / file).write_text(answer.stdout)
        assert xm.read_demos(file, world) == expected
        assert report(f"check p.toml {file}")["demonstrations"]["valid"] == 6
    assert (folder / "b.csv").read_text() == (folder / "e.csv").read_text()
    assert (folder / "b.csv").read_text().startswith("demo,step,x,y,move\n0,0,0,0,")


def test_invalid_demonstrations_can_be_left_out(folder):
    good = xm.read_demos("demos.csv")
    around = xm.Trajectory([0, 4, 8, 12, 13, 14, 15], [0, 0, 0, 1, 1, 1])
    xm.write_demos([around, *good[:20], xm.Trajectory([0, 15], [0]), *good[20:]], "mixed.csv")
    assert run("fit p.toml mixed.csv --l2 0.1 --out m").exit_code == 1
    found = report("fit p.toml mixed.csv --l2 0.1 --out m --drop-invalid")
    assert [(one["demonstration"], one["constraint"]) for one in found["dropped"]] == [(0, "fetch a key"), (21, None)]
    assert found["demonstrations"] == len(good)
    assert found["weights"] == report("fit p.toml --l2 0.1 --out all")["weights"]
    said = run("fit p.toml mixed.csv --l2 0.1 --out m --drop-invalid")
    assert "2 demonstrations were left out" in said.output
    assert "0: break 'fetch a key'" in said.output
    assert "21: not possible in the world" in said.output
    xm.write_demos([around], "none.csv")
    answer = run("fit p.toml none.csv --drop-invalid")
    assert answer.exit_code == 1
    assert "none of the 1 demonstrations is valid" in answer.output


def test_demonstrations_have_one_name_everywhere(folder):
    good = xm.read_demos("demos.csv")
    around = xm.Trajectory([0, 4, 8, 12, 13, 14, 15], [0, 0, 0, 1, 1, 1])
    names = ["ann", "ben", "cy"]
    mixed = RecordedDemos([good[0], around, good[1]], [{}] * 3, names)
    xm.write_demos(mixed, "mixed.csv")
    assert "demonstration ben breaks a constraint" in run("fit p.toml mixed.csv --l2 0.1 --out m").output
    assert re.search(r"\bben\b", run("check p.toml mixed.csv").output)
    assert "\n  ben: break 'fetch a key'" in run("fit p.toml mixed.csv --l2 0.1 --out m --drop-invalid").output
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration ben breaks") as caught:
        xm.check_demos(read_problem("p.toml").world, mixed, xm.never(xm.at(4)))
    assert caught.value.index == 1


def test_tables_of_spreadsheets_are_read(folder):
    (folder / "t.toml").write_text(
        'format = 1\n[world]\nkind = "table"\nn_states = 2\nn_actions = 1\nstart = 0\nterminal = [1]\nhorizon = 3\n'
        'transitions = "t.csv"\n'
    )
    (folder / "t.csv").write_text("state;action;next_state;probability\n0;0;0;0,25\n0;0;1;0,75\n")
    world = read_problem("t.toml").world
    assert world.probability.tolist() == [0.25, 0.75]


def test_fit_weighs_demonstrations_by_the_column_sample_weight(folder):
    """A weight of 2 is the demonstration twice, and a weight of 0 is as good as none."""
    problem = read_problem("p.toml")
    demos = list(problem.demos())[:30]
    weights = [(0.0, 1.0, 2.0)[k % 3] for k in range(30)]
    repeated = [demo for demo, weight in zip(demos, weights, strict=True) for _ in range(int(weight))]
    xm.write_demos(RecordedDemos(demos, [{"sample_weight": w} for w in weights]), "weighted.csv", problem.world)
    xm.write_demos(repeated, "repeated.csv")
    one, other = (report(f"fit p.toml {name}.csv --l2 0.1 --out {name}") for name in ("weighted", "repeated"))
    assert one["weights"] == pytest.approx(other["weights"], abs=1e-6)
