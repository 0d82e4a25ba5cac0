"""xmen check: counts, conflicts, and the demonstration, rule and position that do not fit."""

from __future__ import annotations

import math
import re

import pytest

import xmen as xm
import xmen.cli
from cli.commands import report, run
from cli.problems import CLASH, PROBLEM, RULES
from reference import enumerate_trajectories
from xmen.problem import read_problem

pytestmark = pytest.mark.usefixtures("folder")


def test_check_of_a_good_problem():
    result = run("check problem.toml demos.csv")
    assert result.exit_code == 0
    assert "feasible        yes" in result.output
    assert "4 of 4 in demos.csv keep all rules" in result.output
    assert RULES[0] in result.output  # a user's brackets are not markup
    found = report("check problem.toml demos.csv")
    assert found["feasible"] is True
    assert found["sizes"]["product nodes"] > 0
    expected = {"file": "demos.csv", "number": 4, "valid": 4, "share": 1.0, "broken": [], "violations": []}
    assert found["demonstrations"] == expected


def test_check_takes_rules_that_are_usually_kept_and_says_who_breaks_them(folder):
    values = read_problem("problem.toml")
    text = (folder / "problem.toml").read_text("utf-8")
    hard = report("check problem.toml demos.csv")
    for form in ("usually(R)", "usually(R, share=0.5)"):
        rule = form.replace("R", "longest_repeat() <= 1")
        more = f'\n[[constraints]]\nname = "turns"\nrule = "{rule}"\n'
        (folder / "usual.toml").write_text(text + more)
        found = report("check usual.toml demos.csv")
        assert found["trajectories"] == hard["trajectories"]
        assert not any("turns" in note for note in found["notes"])
        turns = xm.longest_repeat() <= 1
        broken_by = [i for i, tau in enumerate(xm.read_demos("demos.csv", values.world)) if not turns.accepts(tau)]
        assert found["demonstrations"]["not_kept"] == {"turns": broken_by}


def test_check_names_the_conflict():
    found = report("check clash.toml", code=1)
    assert found["feasible"] is False
    assert found["conflict"] == [RULES[0], "no keys"]
    result = run("check clash.toml")
    assert result.exit_code == 1
    assert "no keys" in result.output


def test_check_names_demonstration_constraint_and_position(folder):
    grid = read_problem("problem.toml").world
    straight = xm.Trajectory([grid.state((i, i)) for i in range(5)], [2] * 4)
    jump = xm.Trajectory([0, 24], [0])
    good = xm.read_demos("demos.csv")[0]
    xm.write_demos([good, straight, jump], "bad.jsonl")
    found = report("check problem.toml bad.jsonl", code=1)
    demos = found["demonstrations"]
    assert (found["feasible"], demos["number"], demos["valid"]) == (True, 3, 1)
    places = [(v["demonstration"], v["constraint"], v["position"]) for v in demos["violations"]]
    # The door at (3, 3) comes before any key, at position 3; the third equal move is made at position 2.
    assert places == [(1, RULES[0], 3), (1, RULES[1], 2), (2, None, 0)]
    result = run("check problem.toml bad.jsonl")
    assert result.exit_code == 1
    assert "1 of 3 in bad.jsonl keep all rules" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_check_mends_demonstrations(folder):
    problem = read_problem("problem.toml")
    grid = problem.world
    straight = xm.Trajectory([grid.state((i, i)) for i in range(5)], [2] * 4)
    good = xm.read_demos("demos.csv")[0]
    xm.write_demos([good, straight], "bad.jsonl")
    found = report("check problem.toml bad.jsonl --repair fixed.csv", code=1)["repaired"]
    assert [(one["demonstration"], len(one["edits"])) for one in found["changed"]] == [(1, found["changed"][0]["cost"])]
    kept, mended = xm.read_demos("fixed.csv", grid)
    assert kept == good
    assert mended == xm.repair(grid, problem.constraint, straight).trajectory
    assert report("check problem.toml fixed.csv")["demonstrations"]["valid"] == 2
    assert found["changed"][0]["edits"][0] in run("check problem.toml bad.jsonl --repair fixed.csv").output
    xm.write_demos([straight] * 9, "bad.jsonl")
    said = run("check problem.toml bad.jsonl --repair fixed.csv").output
    assert re.search(r"what was changed \(the first 5, \d+ more: see\s+--json\)", said)


def test_a_world_that_cannot_be_says_that_alone(folder):
    text = (folder / "problem.toml").read_text()
    for line in re.findall(r"^horizon = \d+.*$", text, re.M):
        text = text.replace(line, "")
    (folder / "short.toml").write_text(text.replace('kind = "grid"', 'kind = "grid"\nhorizon = 1'))
    found = report("check short.toml", code=1)
    assert (found["feasible"], found["conflict"], found["notes"]) == (False, [], [])
    assert "Raise the horizon" in found["message"]


def test_check_counts_by_rule_and_prints_the_first_of_many(folder):
    grid = read_problem("problem.toml").world
    straight = xm.Trajectory([grid.state((i, i)) for i in range(5)], [2] * 4)
    jump = xm.Trajectory([0, 24], [0])
    xm.write_demos([jump, *[straight] * 30], "many.csv")
    printed = run("check problem.toml many.csv").output
    assert "30 of 31" in printed
    assert printed.index("broken by") < printed.index("the first 5, 56 more")
    demos = report("check problem.toml many.csv", code=1)["demonstrations"]
    assert len(demos["violations"]) == 61
    assert demos["broken"] == [
        {"constraint": RULES[0], "demonstrations": 30, "first": 1, "name": "1", "position": 3},
        {"constraint": RULES[1], "demonstrations": 30, "first": 1, "name": "1", "position": 2},
        {"constraint": None, "demonstrations": 1, "first": 0, "name": "0", "position": 0},
    ]
    xm.write_demos([straight], "one.csv")
    assert "one by one" not in run("check problem.toml one.csv").output  # it would say the same again


def test_check_counts_trajectories_as_enumeration_does():
    problem = read_problem("problem.toml")
    every = [xm.Trajectory(states, actions) for states, actions, _ in enumerate_trajectories(problem.world)]
    found = report("check problem.toml")["trajectories"]
    assert found == {"valid": sum(map(problem.constraint.accepts, every)), "possible": len(every)}
    text = run("check problem.toml").output
    assert f"{found['valid']:,} are valid" in text


def test_rules_that_nothing_or_everything_breaks_are_remarked_on(folder):
    idle = '\n[[constraints]]\nname = "few keys"\nrule = "share(key) <= 15"\n'
    (folder / "idle.toml").write_text(PROBLEM + idle)
    (note,) = report("check idle.toml")["notes"]
    assert "'few keys'" in note
    assert "15 % is 0.15" in note
    (folder / "never.toml").write_text(PROBLEM + idle.replace("<=", ">="))
    (note,) = report("check never.toml", code=1)["notes"]
    assert "every trajectory of this world breaks it" in note
    xm.write_demos(read_problem("problem.toml").distribution().sample(3, seed=0), "few.csv")
    assert any("'few keys'" in note for note in report("fit idle.toml few.csv")["notes"])
    asked = run("sample problem.toml -n 1 --also 'share(key) <= 15'")
    assert asked.exit_code == 0
    assert "15 % is 0.15" in " ".join(asked.stderr.split())


def test_check_counts_outcomes_of_chance_too(folder):
    (folder / "walk.csv").write_text("state,action,next_state,probability\n0,0,1,0.25\n0,0,2,0.75\n1,0,2,1\n")
    (folder / "walk.toml").write_text(
        'format = 1\n[world]\nkind = "table"\ntransitions = "walk.csv"\nn_states = 3\nn_actions = 1\nstart = 0\n'
        'terminal = [2]\n[[constraints]]\nname = "past 1"\nrule = "visit(at(1))"\n'
    )
    assert report("check walk.toml")["trajectories"] == {"valid": 1, "possible": 2}


def test_check_counts_more_than_a_float_can_hold(folder):
    """Four moves at each of 4,000 steps are 4^4000 trajectories, and 2^4000 of them use two of the moves only."""
    text = (
        'format = 1\n[world]\nkind = "table"\ntransitions = "walk.csv"\nn_states = 1\nn_actions = 4\nstart = 0\n'
        'horizon = 4000\n[[constraints]]\nname = "one move"\nrule = "never(doing(2, 3))"\n'
    )
    (folder / "walk.csv").write_text(
        "state,action,next_state,probability\n" + "".join(f"0,{a},0,1\n" for a in range(4))
    )
    (folder / "long.toml").write_text(text)
    found = report("check long.toml")["trajectories"]
    assert found["valid"] is None  # no JSON number has its size
    assert found["log10"]["valid"] == pytest.approx(4000 * math.log10(2))
    assert found["log10"]["possible"] == pytest.approx(4000 * math.log10(4))
    shown = run("check long.toml").stdout
    assert "about 1.3e+1204 are valid, 7.6e-1203 % of about 1.7e+2408 possible ones" in " ".join(shown.split())


def test_check_uses_the_demonstrations_that_the_problem_names(folder):
    (folder / "named.toml").write_text(PROBLEM.replace("format = 1", 'format = 1\ndemonstrations = "demos.csv"'))
    assert report("check named.toml")["demonstrations"]["valid"] == 4
    xm.write_demos(xm.read_demos("demos.csv")[:1], "one.csv")
    assert report("check named.toml one.csv")["demonstrations"]["number"] == 1
    (folder / "demos.csv").unlink()
    assert run("sample named.toml -n 1").exit_code == 0  # needs none


def test_check_of_rules_needs_no_demonstrations(folder):
    named = 'format = 1\ndemonstrations = "later.csv"'
    (folder / "named.toml").write_text(PROBLEM.replace("format = 1", named))
    result = run("check named.toml")
    assert result.exit_code == 2
    assert "feasible        yes" in result.output
    assert "not checked: later.csv is missing" in result.stdout
    assert result.stderr == "note: the demonstrations that named.toml names are missing: later.csv\n"
    found = report("check named.toml", code=2)
    assert (found["feasible"], found["demonstrations"]) == (True, {"file": "later.csv", "missing": True})
    (folder / "named_clash.toml").write_text(CLASH.replace("format = 1", named))
    assert report("check named_clash.toml", code=1)["feasible"] is False


def test_check_names_weights_that_cannot_be_learned(folder):
    text = PROBLEM.replace(
        "[[constraints]]", 'up = { moves = ["up"] }\nright = { moves = ["right"] }\n[[constraints]]', 1
    )
    (folder / "features.toml").write_text(text + '\n[reward]\nfeatures = ["steps", "up", "right", "key"]\n')
    straight = xm.distribution(read_problem("problem.toml").world, read_problem("problem.toml").constraint)
    shortest = [tau for tau in straight.sample(300, seed=0) if len(tau) == 5][:3]
    xm.write_demos(shortest, "short.csv")
    notes = report("check features.toml short.csv")["notes"]
    assert len(notes) == 2
    # As many moves up as to the right: the corner is reached on the diagonal.
    assert "1 * 'up' -1 * 'right'" in notes[0]
    assert "feature " not in "".join(notes)
    assert "'steps'" in notes[1]
    assert "note: no demonstrations could tell" in run("check features.toml").stderr
