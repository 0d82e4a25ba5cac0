"""xmen check: counts, conflicts, and the demonstration, rule and position that do not fit."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import xmen as xm
from cli.commands import report, run, told
from cli.problems import CLASH, PROBLEM, RULES
from reference import enumerate_trajectories
from xmen.problem import read_problem

pytestmark = pytest.mark.usefixtures("problems")

STRAIGHT = xm.Trajectory([0, 6, 12, 18, 24], [2] * 4)  # breaks both rules
JUMP = xm.Trajectory([0, 24], [0])
NAMED = PROBLEM.replace("format = 1", 'format = 1\ndemonstrations = "later.csv"')


def extended(name: str, rule: str) -> str:
    """Write the problem with one more rule."""
    Path(f"{name}.toml").write_text(f'{PROBLEM}\n[[constraints]]\nname = "{name}"\nrule = "{rule}"\n')
    return f"{name}.toml"


def walk(world: str, rows: str) -> str:
    """Write a problem in a world that is a table."""
    Path("walk.csv").write_text(f"state,action,next_state,probability\n{rows}")
    Path("walk.toml").write_text(f'format = 1\n[world]\nkind = "table"\ntransitions = "walk.csv"\nstart = 0\n{world}')
    return "walk.toml"


def test_check_of_a_good_problem():
    said = told("check problem.toml demos.csv")
    assert "feasible yes" in said
    assert "4 of 4 in demos.csv" in said
    assert RULES[0] in said  # a user's brackets are not markup
    found = report("check problem.toml demos.csv")
    assert found["feasible"] is True
    assert found["sizes"]["product nodes"] > 0
    expected = {"file": "demos.csv", "number": 4, "valid": 4, "share": 1.0, "broken": [], "violations": []}
    assert found["demonstrations"] == expected


@pytest.mark.parametrize("form", ["usually(R)", "usually(R, share=0.5)"])
def test_check_takes_rules_that_are_usually_kept_and_says_who_breaks_them(form):
    found = report(f"check {extended('turns', form.replace('R', 'longest_repeat() <= 1'))} demos.csv")
    assert found["trajectories"] == report("check problem.toml demos.csv")["trajectories"]
    assert not any("turns" in note for note in found["notes"])
    turns = xm.longest_repeat() <= 1
    broken_by = [i for i, tau in enumerate(xm.read_demos("demos.csv")) if not turns.accepts(tau)]
    assert found["demonstrations"]["not_kept"] == {"turns": broken_by}


def test_check_names_the_conflict():
    found = report("check clash.toml", code=1)
    assert (found["feasible"], found["conflict"]) == (False, [RULES[0], "no keys"])
    assert "no keys" in told("check clash.toml", code=1)


def test_check_names_demonstration_constraint_and_position():
    xm.write_demos([xm.read_demos("demos.csv")[0], STRAIGHT, JUMP], "bad.jsonl")
    found = report("check problem.toml bad.jsonl", code=1)
    demos = found["demonstrations"]
    assert (found["feasible"], demos["number"], demos["valid"]) == (True, 3, 1)
    places = [(v["demonstration"], v["constraint"], v["position"]) for v in demos["violations"]]
    # The door at (3, 3) comes before any key, at position 3; the third equal move is made at position 2.
    assert places == [(1, RULES[0], 3), (1, RULES[1], 2), (2, None, 0)]
    printed = run("check problem.toml bad.jsonl").output
    assert "1 of 3 in bad.jsonl" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_check_mends_demonstrations():
    problem = read_problem("problem.toml")
    good = xm.read_demos("demos.csv")[0]
    xm.write_demos([good, STRAIGHT], "bad.jsonl")
    command = "check problem.toml bad.jsonl --repair fixed.csv"
    (one,) = report(command, code=1)["repaired"]["changed"]
    assert (one["demonstration"], len(one["edits"])) == (1, one["cost"])
    kept, mended = xm.read_demos("fixed.csv", problem.world)
    assert kept == good
    assert mended == xm.repair(problem.world, problem.constraint, STRAIGHT).trajectory
    assert report("check problem.toml fixed.csv")["demonstrations"]["valid"] == 2
    assert one["edits"][0] in told(command, code=1)
    xm.write_demos([STRAIGHT] * 9, "bad.jsonl")
    assert re.search(r"first 5, \d+ more: see --json", told(command, code=1))


def test_a_world_that_cannot_be_says_that_alone():
    text = re.sub(r"^horizon = .*$", "", PROBLEM, flags=re.MULTILINE)
    Path("short.toml").write_text(text.replace('kind = "grid"', 'kind = "grid"\nhorizon = 1'))
    found = report("check short.toml", code=1)
    assert (found["feasible"], found["conflict"], found["notes"]) == (False, [], [])
    assert "horizon" in found["message"]


def test_check_counts_by_rule_and_prints_the_first_of_many():
    xm.write_demos([JUMP, *[STRAIGHT] * 30], "many.csv")
    printed = told("check problem.toml many.csv", code=1)
    assert "30 of 31" in printed
    assert printed.index("broken by") < printed.index("first 5, 56 more")
    demos = report("check problem.toml many.csv", code=1)["demonstrations"]
    assert len(demos["violations"]) == 61
    assert demos["broken"] == [
        {"constraint": RULES[0], "demonstrations": 30, "first": 1, "name": "1", "position": 3},
        {"constraint": RULES[1], "demonstrations": 30, "first": 1, "name": "1", "position": 2},
        {"constraint": None, "demonstrations": 1, "first": 0, "name": "0", "position": 0},
    ]
    assert "one by one" in printed
    xm.write_demos([STRAIGHT], "one.csv")
    assert "one by one" not in told("check problem.toml one.csv", code=1)  # it would say the same again


def test_check_counts_trajectories_as_enumeration_does():
    problem = read_problem("problem.toml")
    every = [xm.Trajectory(states, actions) for states, actions, _ in enumerate_trajectories(problem.world)]
    found = report("check problem.toml")["trajectories"]
    assert found == {"valid": sum(map(problem.constraint.accepts, every)), "possible": len(every)}
    assert f"{found['valid']:,} are valid" in told("check problem.toml")


def test_rules_that_nothing_or_everything_breaks_are_remarked_on():
    idle = extended("few keys", "share(key) <= 15").replace(" ", "\\ ")
    (note,) = report(f"check {idle}")["notes"]
    assert "'few keys'" in note
    assert "0.15" in note
    (note,) = report(f"check {extended('never', 'share(key) >= 15')}", code=1)["notes"]
    assert "every trajectory" in note
    xm.write_demos(read_problem("problem.toml").distribution().sample(3, seed=0), "few.csv")
    assert any("'few keys'" in note for note in report(f"fit {idle} few.csv")["notes"])
    assert "0.15" in told("sample problem.toml -n 1 --also 'share(key) <= 15'")


def test_costs_of_few_places_are_noted():
    Path("tolls.csv").write_text("x,y,cost\n1,1,3\n2,0,5\n3,3,0\n")
    costs = '[costs]\ntoll = "tolls.csv"\nfee = { key = 2 }\nall = { anywhere = 1 }\n\n[events]\nanywhere = "anytime"'
    Path("costs.toml").write_text(PROBLEM.replace("[events]", costs))
    notes = report("check costs.toml")["notes"]
    for name in ("toll", "fee"):
        assert any(f"'{name}'" in note and "23 of 25 states" in note for note in notes)
    assert not any("'all'" in note for note in notes)


def test_check_counts_outcomes_of_chance_too():
    rule = '[[constraints]]\nname = "past 1"\nrule = "visit(at(1))"\n'
    problem = walk(f"n_states = 3\nn_actions = 1\nterminal = [2]\n{rule}", "0,0,1,0.25\n0,0,2,0.75\n1,0,2,1\n")
    assert report(f"check {problem}")["trajectories"] == {"valid": 1, "possible": 2}


def test_check_counts_more_than_a_float_can_hold():
    """Four moves at each of 4,000 steps are 4^4000 trajectories, and 2^4000 of them use two of the moves only."""
    rule = '[[constraints]]\nname = "one move"\nrule = "never(doing(2, 3))"\n'
    problem = walk(f"n_states = 1\nn_actions = 4\nhorizon = 4000\n{rule}", "".join(f"0,{a},0,1\n" for a in range(4)))
    found = report(f"check {problem}")["trajectories"]
    assert found["valid"] is None  # no JSON number has its size
    assert found["log10"]["valid"] == pytest.approx(4000 * math.log10(2))
    assert found["log10"]["possible"] == pytest.approx(4000 * math.log10(4))
    shown = told(f"check {problem}")
    for number in ("1.3e+1204", "7.6e-1203 %", "1.7e+2408"):
        assert number in shown


def test_check_uses_the_demonstrations_that_the_problem_names():
    Path("named.toml").write_text(NAMED)
    demos = xm.read_demos("demos.csv")
    xm.write_demos(demos, "later.csv")
    assert report("check named.toml")["demonstrations"]["valid"] == 4
    xm.write_demos(demos[:1], "one.csv")
    assert report("check named.toml one.csv")["demonstrations"]["number"] == 1


def test_rules_need_no_demonstrations():
    Path("named.toml").write_text(NAMED)
    result = run("check named.toml")
    assert result.exit_code == 2
    assert "feasible        yes" in result.stdout
    assert "not checked: later.csv" in result.stdout
    assert re.fullmatch("note: .*named.toml.* later.csv\n", result.stderr)
    found = report("check named.toml", code=2)
    assert (found["feasible"], found["demonstrations"]) == (True, {"file": "later.csv", "missing": True})
    Path("named_clash.toml").write_text(NAMED + CLASH.removeprefix(PROBLEM))
    assert report("check named_clash.toml", code=1)["feasible"] is False
    told("sample named.toml -n 1")


def test_check_names_weights_that_cannot_be_learned():
    moves = 'up = { moves = ["up"] }\nright = { moves = ["right"] }\n[[constraints]]'
    text = PROBLEM.replace("[[constraints]]", moves, 1)
    Path("features.toml").write_text(text + '\n[reward]\nfeatures = ["steps", "up", "right", "key"]\n')
    samples = read_problem("problem.toml").distribution().sample(300, seed=0)
    xm.write_demos([tau for tau in samples if len(tau) == 5][:3], "short.csv")
    first, second = report("check features.toml short.csv")["notes"]
    # As many moves up as to the right: the corner is reached on the diagonal.
    assert "1 * 'up' -1 * 'right'" in first
    assert "feature " not in first + second
    assert "'steps'" in second
    assert "1 * 'up' -1 * 'right'" in told("check features.toml")
