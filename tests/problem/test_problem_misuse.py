"""Problem files that are refused, and with which words."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from xmen.constraints.text import parse_event
from xmen.problem import Problem, read_problem


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"events": {"at": xm.at(0)}}, xm.ConstraintError),
        ({"events": {"far": xm.at(9)}}, xm.ConstraintError),
        ({"events": {"e": 3}}, xm.ConstraintError),
        ({"rules": {"r": xm.at(0)}}, xm.ConstraintError),
        ({"rules": {"r": xm.visit(xm.at(9))}}, xm.ConstraintError),
        ({"reward": np.zeros((3, 3))}, xm.RewardError),
    ],
)
def test_a_problem_that_does_not_fit_together_is_refused(parts, error):
    world = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, terminal=[1])
    with pytest.raises(error):
        Problem(world, **parts)


# (what to replace in GRID, by what, what the message must say)
BAD_GRIDS = [
    ("format = 1", "", ["'format'"]),
    ("format = 1", "format = 2", ["format 1", "format 2"]),
    ("format = 1", 'format = "1"', ["format", "got '1'"]),
    ("format = 1", "format = 1\nwrold = 3", ["'wrold'", "'world'"]),
    ("format = 1", "format = 1\ndemonstrations = 3", ["demonstrations", ".csv or .jsonl", "got 3"]),
    ("[world]", "[wrold]", ["'world' is missing", "wrold"]),
    ('kind = "grid"', 'kind = "gird"', ["[world], kind", '"table"', "'grid'"]),
    ("width = 4", "widht = 4", ["[world]", "'width' is missing", "'widht'"]),
    ("walls =", "wals =", ["[world]", "'wals'", "'walls'"]),
    ("width = 4", 'width = "4"', ["[world], width", "whole number"]),
    ("width = 4", "width = true", ["[world], width", "whole number"]),
    ("width = 4", "width = 0", ["[world]", "width", "1 or more"]),
    ("width = 4", "width = ", ["not valid TOML", "line 6"]),
    ("goal = [3, 3]", "goal = [3, 9]", ["[world]", "goal (3, 9)"]),
    ("goal = [3, 3]", "goal = [3]", ["[world], goal", "a cell [x, y]"]),
    ("goal = [3, 3]", "", ["[world]", "horizon"]),
    ("[[1, 1]]", "[[1, 1.5]]", ["[world], walls", "[1, 1.5]"]),
    ('"right"]\nwalls', '"rigth"]\nwalls', ["[world], moves", "'right'"]),
    ("key = {", "at = {", ["[events], at", "own at"]),
    ("key = {", '"my key" = {', ["[events], my key", "identifier"]),
    ("[[0, 2], [2, 0]]", "[[0, 7]]", ["[events], key", "off the grid"]),
    ("[[0, 2], [2, 0]]", "[]", ["[events], key", "at least one"]),
    ("key = { cells", "key = { cels", ["[events], key", "'cells'"]),
    ("east = { moves = [", 'east = { moves = ["down", ', ["[events], east", "'down'"]),
    ('"~key & ~at((1, 1))"', "5", ["[events], quiet", "expected a text"]),
    ('"~key & ~at((1, 1))"', '"~at(state(99))"', ["[events], quiet", "state 99"]),
    ('"~key & ~at((1, 1))"', '"visit(key)"', ["[events], quiet", "not an event", "    visit(key)\n    ^"]),
    ('"~key & ~at((1, 1))"', '"~kee & ~at((1, 1))"', ["[events], quiet", "`key`", "\n     ^"]),
    ('[[constraints]]\nname = "fetch', '[constraints]\nname = "fetch', ["TOML"]),
    ('name = "fetch the key"', 'nam = "fetch the key"', ["[[constraints]] number 1", "'name' is missing"]),
    ('"not too far east"', '"fetch the key"', ["[[constraints]] number 2, name", "already"]),
    ('"not too far east"', '""', ["[[constraints]] number 2, name", "needs a name"]),
    ('rule = "visit(key)"', "rule = 3", ["[[constraints]] number 1, rule", "text"]),
    ('rule = "visit(key)"', 'rule = "visit(kee)"', ["number 1 ('fetch the key'), rule", "`key`", "\n          ^"]),
    ('rule = "visit(key)"', 'rule = "key"', ["number 1 ('fetch the key'), rule", "not a constraint", "    key\n    ^"]),
    ('rule = "visit(key)"', 'rule = "visit(at(state(99)))"', ["number 1 ('fetch the key'), rule", "state 99"]),
    ('"steps"', '"stps"', ["[reward], features", "'steps'"]),
    ('"steps"', '"key"', ["[reward], features", "each feature once"]),
    ("[-1, 0.5, 2.0]", "[-1]", ["[reward], weights", "3 features", "1 weights"]),
    ("[-1, 0.5, 2.0]", "[-1, 0.5, nan]", ["[reward], weights", "finite"]),
    ("[reward]", '[reward]\ntable = "x.csv"', ["[reward]", "not both"]),
    ('features = ["steps", "goal distance", "key"]', 'table = "x.csv"', ["[reward], table", "x.csv"]),
    ("discount = 0.9", "discount = 1.5", ["[settings], discount", "1.5"]),
    ("discount = 0.9", "discont = 0.9", ["[settings]", "'discount'"]),
    ('"exact"', '"exakt"', ["[settings], engine", "'exact'"]),
    ("seed = 7", "seed = -7", ["[settings], seed", "-7"]),
    ("max_nodes = 1000", "max_nodes = 0", ["[settings], max_nodes", "got 0"]),
    ("max_nodes = 1000", f"max_nodes = 0x{'f' * 4000}", ["TOML", "digits"]),
]


BAD_TABLES = [
    ("walk.csv", "0,0,1,1\n", "0,0,1\n", ["walk.csv, line 2", "4 fields"]),
    ("walk.csv", "0,0,1,1\n", "0,0,x,1\n", ["walk.csv, line 2", "next_state", "'x'"]),
    ("walk.csv", "0,0,1,1\n", "0,0,-1,1\n", ["walk.csv, line 2", "next_state", "'-1'"]),
    ("walk.csv", "0,0,1,1\n", "0,0,1,nan\n", ["walk.csv, line 2", "probability", "'nan'"]),
    ("walk.csv", "0,0,1,1\n", "0,0,1,0.5\n", ["[world]", "sum to 0.5"]),
    ("walk.csv", "0,0,1,1\n", "0,0,7,1\n", ["[world]", "next_state is 7"]),
    ("walk.csv", "next_state", "target", ["walk.csv, line 1", "state,action,next_state,probability"]),
    ("reward.csv", "0,1,-2.5", "0,5,-2.5", ["[reward], table", "action 5"]),
    ("reward.csv", "1,0,1e-3", "0,1,1e-3", ["[reward], table", "state 0 and action 1"]),
    ("reward.csv", "-2.5", "inf", ["reward.csv, line 2", "finite"]),
    ("table.toml", "walk.csv", "wlk.csv", ["[world], transitions", "wlk.csv"]),
    ("table.toml", "start = 0", "start = [1.0]", ["[world]", "start must be"]),
    ("table.toml", "start = 0", "start = true", ["[world], start", "whole number"]),
    ("table.toml", "horizon = 5", "", ["[world]", "give a horizon"]),
    ("table.toml", "[reward]", "[events]\nhere = { cells = [[0, 0]] }\n[reward]", ["[events], here", "no cells"]),
    ("table.toml", 'table = "reward.csv"', 'table = "reward.csv"\nweights = [1]', ["[reward], weights"]),
]


BAD_GRAPHS = [
    ('source = "home"', 'source = "hom"', ["[world]", "'hom'"]),
    ('source = "home"', "source = 3", ["[world], source", "in quotes"]),
    ('["shop"]', '["shp"]', ["[events], shop", "'shp'"]),
    ('file = "roads.graphml"', 'file = "roads.toml"', ["[world], file", "GraphML"]),
    ('["length"]', '["lenght"]', ["[reward], features", "'length'"]),
]
BAD_FILES = [
    *(("grid_file", "grid.toml", *case) for case in BAD_GRIDS),
    *(("table_file", *case) for case in BAD_TABLES),
    *(("graph_file", "roads.toml", *case) for case in BAD_GRAPHS),
]


@pytest.mark.parametrize(("kind", "name", "old", "new", "words"), BAD_FILES, ids=[f"{x[3][:30]!r}" for x in BAD_FILES])
def test_a_bad_file_is_refused_with_file_table_and_key(request, kind, name, old, new, words):
    problem = request.getfixturevalue(kind)
    file = problem.with_name(name)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(xm.XmenError) as caught:
        read_problem(problem)
    said = str(caught.value)
    assert str(problem) in said or str(file) in said
    assert all(word in said for word in words), said


def test_a_feature_with_two_meanings_is_refused(graph_file):
    text = graph_file.read_text().replace("shop = {", "steps = {").replace("visit(shop)", "visit(steps)")
    graph_file.write_text(text.replace('["length"]', '["steps"]'))
    with pytest.raises(xm.XmenError, match="two meanings"):
        read_problem(graph_file)


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path):
    (tmp_path / "p.toml").write_bytes(b"format = 1\xff")
    with pytest.raises(xm.FileFormatError, match="UTF-8"):
        read_problem(tmp_path / "p.toml")
    with pytest.raises(FileNotFoundError):
        read_problem(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("visit(at(3))", "not an event"),
        ("count(at(3))", "not an event"),
        ("3", "not an event"),
        ("at(3) and at(4)", "`and`"),
        ("at(3) & visit(at(4))", "apply &"),
        ("~" * 500 + "at(3)", "nested"),
        (3, "reads text"),
    ],
)
def test_what_is_no_event_is_refused(text, message):
    with pytest.raises(xm.ConstraintSyntaxError, match=message):
        parse_event(text)
