"""Demonstrations with empty states: `xmen check` counts what was seen, `xmen fill` completes it."""

import json

import numpy as np
import pytest

import xmen as xm
from xmen.cli.check import run_check
from xmen.cli.sample import run_fill
from xmen.problem import Problem, read_problem, write_problem

GRID = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
HIDDEN = "demo,step,x,y,move\na,0,0,0,up\na,1,,,\na,2,1,1,\na,3,,,\na,4,2,2,\n"
SEEN = HIDDEN + "b,0,0,0,\nb,1,1,0,\nb,2,1,1,\nb,3,2,1,\nb,4,2,2,\n"


@pytest.fixture
def folder(tmp_path):
    key = GRID.at((0, 1))
    write_problem(Problem(GRID, {"key": key}, {"fetch": xm.visit(key)}), tmp_path / "grid.toml")
    (tmp_path / "seen.csv").write_text(SEEN)
    return tmp_path


JSON_LINES = '{"states": [0, null, [1, 1], null, 8]}\n{"states": [0, 1, 4, 5, 8]}\n'


@pytest.mark.parametrize(("name", "text"), [("seen.csv", SEEN), ("seen.jsonl", JSON_LINES)])
def test_empty_states_are_sightings(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    first, second = xm.read_demos(tmp_path / name, GRID)
    assert first == xm.Sighting([0, None, 4, None, 8])
    assert second == xm.Trajectory([0, 1, 4, 5, 8], [1, 0, 1, 0])


def test_states_beside_gaps_have_to_exist(tmp_path):
    (tmp_path / "seen.jsonl").write_text('{"states": [0, null, 9]}\n')
    with pytest.raises(xm.XmenError, match="line 1: state 9"):
        xm.read_demos(tmp_path / "seen.jsonl", GRID)


def test_check_counts_what_was_seen(folder, capsys):
    assert run_check(folder / "grid.toml", folder / "seen.csv", None, True) == 1  # the second breaks a rule
    report = json.loads(capsys.readouterr().out)["demonstrations"]
    assert report["seen_in_part"] == {"demonstrations": 1, "positions": 5, "seen": 3}
    assert [one["demonstration"] for one in report["violations"]] == [1]


def test_check_reports_rules_that_contradict_each_other_where_states_are_missing(folder, capsys):
    key = xm.visit(GRID.at((0, 1)))
    write_problem(Problem(GRID, {}, {"fetch": key, "leave it": ~key}), folder / "clash.toml")
    assert run_check(folder / "clash.toml", folder / "seen.csv", None, True) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["feasible"], sorted(report["conflict"])) == (False, ["fetch", "leave it"])
    assert [one["demonstration"] for one in report["demonstrations"]["violations"]] == [1, 0]


def test_fill_writes_completions_with_their_probabilities(folder, capsys):
    (folder / "one.csv").write_text(HIDDEN)
    run_fill(folder / "grid.toml", folder / "one.csv", 5, None, [], True)
    found = json.loads(capsys.readouterr().out)["completions"]
    assert sorted(one["states"] for one in found) == [[0, 3, 4, 5, 8], [0, 3, 4, 7, 8]]
    assert [one["probability"] for one in found] == pytest.approx([0.5, 0.5])
    run_fill(folder / "grid.toml", folder / "one.csv", 1, folder / "out.csv", [], False)
    written = xm.read_demos(folder / "out.csv", GRID)
    assert [written.metadata[0][name] for name in ("of", "rank")] == ["a", "1"]
    with pytest.raises(xm.InfeasibleError, match=r"seen.csv, demonstration 'b': .*'fetch'"):
        run_fill(folder / "grid.toml", folder / "seen.csv", 1, None, [], True)
    (folder / "none.csv").write_text("demo,step,x,y\n")
    with pytest.raises(xm.TrajectoryError, match=r"none\.csv: "):
        run_fill(folder / "grid.toml", folder / "none.csv", 1, None, [], True)


def test_problem_files_say_the_noise(folder):
    text = (folder / "grid.toml").read_text() + "\n[settings]\nnoise = 0.1\n"
    (folder / "noisy.toml").write_text(text.replace("format = 1", 'format = 1\ndemonstrations = "seen.csv"'))
    problem = read_problem(folder / "noisy.toml")
    first, second = problem.demos()
    assert first.noise == second.noise == xm.confusion(0.1)
    assert np.isfinite(problem.distribution().log_seen(second))  # a wrong entry explains what no rule allows
    (folder / "seen.csv").write_text("demo,step,x,y\na,0,0,0\na,1,2,0\na,2,1,1\na,3,2,1\na,4,2,2\n")  # leaps
    (leap,) = problem.demos()
    assert leap == xm.Sighting([0, 2, 4, 5, 8], noise=xm.confusion(0.1))
    assert np.isfinite(problem.distribution().log_seen(leap))
    write_problem(problem, folder / "again.toml")
    assert read_problem(folder / "again.toml").settings.noise == 0.1
