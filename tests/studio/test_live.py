"""The live status against enumeration, and what is said of mistakes, conflicts and demonstrations."""

from __future__ import annotations

import itertools

import pytest

import xmen as xm
from waiting import DEADLINE
from xmen.constraints.constraint import FUNCTIONS
from xmen.problem import read_problem
from xmen.studio import document as limits
from xmen.studio.app import TEMPLATES


def walks(world: xm.GridWorld) -> list[xm.Trajectory]:
    """Every trajectory, one step after the other; deterministic worlds only."""
    steps = {}
    for source, action, target in zip(world.source.tolist(), world.action.tolist(), world.target.tolist(), strict=True):
        steps.setdefault(source, []).append((action, target))
    found, open_ones = [], [((world.start.argmax().item(),), ())]
    while open_ones:
        states, actions = open_ones.pop()
        if world.terminal[states[-1]]:
            found.append(xm.Trajectory(states, actions))
        elif len(actions) < world.horizon:
            open_ones += [((*states, target), (*actions, action)) for action, target in steps.get(states[-1], [])]
    return found


def test_counts_are_those_of_enumeration(window, tmp_path):
    problem = read_problem(tmp_path / "p.toml")
    every = walks(problem.world)
    valid = [tau for tau in every if problem.constraint.accepts(tau)]
    found = window.check()
    counted = found["trajectories"]
    assert (counted["valid"], counted["possible"]) == (len(valid), len(every))
    assert counted["share"] == pytest.approx(len(valid) / len(every))
    assert counted["text"] == f"{len(valid):,} of {len(every):,}"
    assert (found["feasible"], found["conflict"], found["engine"], found["errors"]) == (True, [], "exact", [])
    assert found["product"]["nodes"] > 0
    assert found["policy"] is None  # nothing is left to chance


def test_conflicts_are_named_and_rules_with_mistakes_left_out(window):
    rules = [
        {"name": "fetch the key", "rule": "visit(key)"},
        {"name": "typing", "rule": "never(ke"},
        {"name": "no key", "rule": "never(key)"},
        {"name": "harmless", "rule": "count(mud) <= 3"},
    ]
    window.change(constraints=rules)
    found = window.check()
    assert (found["feasible"], sorted(found["conflict"])) == (False, ["fetch the key", "no key"])
    (mistake,) = found["errors"]
    assert (mistake["part"], mistake["index"], mistake["offset"]) == ("rule", 1, 5)
    rules[2]["off"] = True
    window.change(constraints=rules)
    assert window.check()["feasible"] is True


def test_demonstrations_are_judged_by_rule_and_position(window, tmp_path):
    problem = read_problem(tmp_path / "p.toml")
    right, up = ["right"] * 3, ["up"] * 3
    records = [
        {"states": [[0, 0], [1, 0], [2, 0], [3, 0], [3, 1], [3, 2], [3, 3]], "actions": [*right, *up]},
        {"states": [[0, 0], [0, 1], [0, 2], [0, 3]], "actions": up},
        {"states": [[0, 0], [1, 1]], "actions": ["up"]},
        {"states": [[0, 0], [9, 9]], "actions": ["up"]},
        {"states": [[0, 0], [0, 1]], "actions": ["fly"]},
    ]
    window.change(records)
    first, unfinished, jump, outside, unknown = window.check()["demonstrations"]
    assert first == {"valid": True, "broken": []}
    for verdict in (unfinished, jump, outside, unknown):
        assert verdict["valid"] is False
        assert verdict["broken"][0]["rule"] is None  # the world itself
    assert outside["broken"][0]["position"] == 1
    assert "off the grid" in outside["broken"][0]["message"]
    there = [[0, 0], [0, 1], [0, 2], [1, 2], [0, 2], [1, 2], [1, 3], [2, 3], [3, 3]]
    muddy = {"states": there, "actions": [*up[:2], "right", "left", "right", "up", *right[:2]]}
    window.change([muddy])
    (broken,) = window.check()["demonstrations"][0]["broken"]
    tau = xm.Trajectory([problem.world.state(tuple(cell)) for cell in there], [0, 0, 1, 3, 1, 0, 1, 1])
    explained = problem.rules["hardly any mud"].explain(tau)
    assert (broken["rule"], broken["position"]) == ("hardly any mud", explained.position) == ("hardly any mud", 5)


def test_a_world_that_is_not_complete_is_a_mistake_of_its_own(window):
    window.change(world={"goal": [2, 2]})
    found = window.check()
    assert [mistake["part"] for mistake in found["errors"]] == ["world"]
    assert found["feasible"] is None
    assert {verdict["valid"] for verdict in found["demonstrations"]} == {None}


def test_a_rule_that_nothing_can_break_is_remarked_on(window):
    texts = {"some mud": "share(mud) <= 15", "usually": "usually(count(mud) <= 20)", "typing": "visit(at(5, 6))"}
    window.change(constraints=[{"name": name, "rule": text} for name, text in texts.items()])
    found = window.check()
    for name, fact in (("some mud", "0.15"), ("usually", "can break it")):
        assert any(f"'{name}'" in note and fact in note for note in found["notes"])
    (mistake,) = found["errors"]
    assert "at(state(5), state(6))" in mistake["message"]


def test_with_chance_the_status_says_what_policies_can_promise(window):
    lava = {"name": "no lava", "rule": "never(at((1, 1), (2, 1)))"}
    window.change(world={"slip": 0.2, "walls": None, "horizon": 20}, constraints=[lava])
    found = window.check()["policy"]
    assert found["sure"] is False
    assert 0 < found["best"] < 1


def test_what_takes_too_long_is_said_to_be_so_and_the_next_question_is_answered(window, document, monkeypatch):
    window.check()
    before = window.session.live_worker.warm().pid
    monkeypatch.setattr(limits, "CHECK", 0.2)
    marks = {f"m{k}": {"cells": [[3 * k % 97, 5 * k % 89]]} for k in range(14)}
    rules = [{"name": name, "rule": f"visit({name})"} for name in marks]
    large = {"width": 100, "height": 100, "horizon": 300, "goal": [99, 99], "walls": None}
    window.change([], world=large, events=marks, constraints=rules)
    found = window.check()
    assert found["feasible"] is None
    assert "0.2 s" in found["message"]
    assert found["errors"] == []
    assert window.session.live_worker.warm().pid != before
    monkeypatch.setattr(limits, "CHECK", DEADLINE)
    window.put(document["problem"], document["demonstrations"])
    assert window.check()["feasible"] is True


def test_a_question_about_a_document_that_is_gone_is_not_answered(window, monkeypatch):
    versions = iter([1, 2])
    document = window.session.desk.look()[1]
    monkeypatch.setattr(window.session.desk, "look", lambda: (next(versions), document))
    found = window.session.check()
    assert (found["superseded"], found["version"], found["feasible"]) == (True, 2, None)


def test_every_template_is_a_rule_and_every_word_has_a_sentence(window):
    words = window.get("vocabulary")
    world = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=9)
    marks = {name: world.at((k, 1)) for k, name in enumerate("abc")}
    for template in words["templates"]:
        rule = template["rule"].replace("{a}", "a").replace("{b}", "b").replace("{c}", "c")
        xm.parse_constraint(rule, marks).check_world(world)
        assert template["sentence"].endswith(".")
        assert template["marks"] == sum(mark in template["rule"] for mark in ("{a}", "{b}", "{c}"))
    assert len(words["templates"]) == len(TEMPLATES) == len({one["title"] for one in words["templates"]})
    assert {one["name"] for one in words["primitives"]} == set(FUNCTIONS)
    every = itertools.chain(words["primitives"], words["operators"], words["methods"], words["learners"])
    assert all(one["sentence"] for one in every)
