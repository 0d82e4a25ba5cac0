"""Damaged rule texts, problem files, worlds and demonstrations: each is an answer or an XmenError (see limits.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmen as xm
from fuzz.edits import TOKENS, edited, edits
from fuzz.limits import fuzzing, limited
from problem.files import grid_problem
from xmen.problem import read_problem
from xmen.worlds.tables import read_costs

GRID = xm.GridWorld(3, 3, (0, 0), (2, 2), moves=("up", "right"), horizon=6)
NAMES = {"key": xm.at(1, 3), "door": xm.at(5) & xm.doing(0)}
WALKS = [xm.Trajectory([0, 1, 2, 5, 8], [1, 1, 0, 0]), xm.Trajectory([0], [])]
RULES = [
    "visit(key) & before(key, door)",
    "(2*count(key) >= length()) | never(at(4))",
    "~(share(key) >= 1/3) >> (longest_repeat() <= 2)",
    'exactly(1, visit(key), always(~door)).named("one")',
    "ltlf('G(!a | X b)', a=key, b=door) & no_revisit()",
    "response(key, door, within=2) & (total([1, 0, 2, 0, 0, 0, 0, 0, 1]) <= 3)",
    "sequence(key, door, at(8)) & (longest_run(key | anytime) <= 9)",
]


@given(rule=st.sampled_from(RULES), changes=edits(5))
@fuzzing(2)
def test_rule_texts(rule, changes):
    check_rule(edited(rule.encode(), changes).decode("utf-8", "surrogateescape"))


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=12))
@fuzzing(2)
def test_rule_texts_from_nothing(tokens):
    check_rule("".join(tokens))


def check_rule(text: str) -> None:
    """What is read can be judged, explained and written, and is read back the same."""
    with limited():
        rule = xm.parse_constraint(text, NAMES)
        assert xm.parse_constraint(str(rule)) == rule
        for walk in WALKS:
            assert (rule.explain(walk) is None) == rule.accepts(walk)
        rule.check_world(GRID)


PROBLEM = (
    grid_problem(3, "up", "right", walls=[[1, 1]], horizon=6, slip=0.0).encode()
    + b"""[events]
key = { cells = [[1, 0], [0, 1]] }
up = { moves = ["up"] }
both = "key & ~up"
[costs]
toll = { key = 2, up = 1 }
climb = [0, 0, 0, 1, 1, 1, 2, 2, 2]
[[constraints]]
name = "fetch"
rule = "visit(key) & (count(both) <= 2) & (total(toll) <= 9)"
[reward]
features = ["steps", "up"]
weights = [-0.5, 1.0]
[settings]
seed = 1
discount = 0.9
max_nodes = 1000
"""
)
TABLE = b"""format = 1
[world]
kind = "table"
transitions = "rows.csv"
n_states = 3
n_actions = 2
start = [0.5, 0.5, 0.0]
terminal = [2]
horizon = 4
"""
ROWS = b"state,action,next_state,probability\n0,0,1,0.25\n0,0,0,0.75\n0,1,2,1.0\n1,0,2,1\n"
GRAPH = b"""format = 1
[world]
kind = "graphml"
file = "roads.graphml"
source = "n0"
target = "n2"
horizon = 5
"""
GRAPHML = b"""<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="edge" attr.name="length" attr.type="double"/>
<graph edgedefault="directed"><node id="n0"/><node id="n1"/><node id="n2"/>
<edge source="n0" target="n1"><data key="d0">1.5</data></edge>
<edge source="n1" target="n2"><data key="d0">2</data></edge>
<edge source="n1" target="n0"><data key="d0">1</data></edge></graph></graphml>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("fuzz")
    (place / "demos.csv").write_text("demo,step,state,action\n0,0,0,0\n0,1,3,\n")
    return place


@given(changes=edits())
@fuzzing()
def test_problem_files(folder, changes):
    (folder / "p.toml").write_bytes(edited(PROBLEM, changes))
    with limited():
        problem = read_problem(folder / "p.toml")
        problem.world.problem(WALKS[0])
        problem.distribution(max_nodes=1000).mode()


@pytest.mark.parametrize(("problem", "name", "good"), [(TABLE, "rows.csv", ROWS), (GRAPH, "roads.graphml", GRAPHML)])
@given(changes=edits())
@fuzzing(2)
def test_files_of_worlds(folder, problem, name, good, changes):
    (folder / "w.toml").write_bytes(problem)
    (folder / name).write_bytes(edited(good, changes))
    with limited():
        world = read_problem(folder / "w.toml").world
        assert world.n_actions >= 1
        assert world.n_states == 3 or name != "rows.csv"


DEMOS = {
    ".csv": b"demo,step,state,action\n0,0,0,1\n0,1,1,1\n0,2,2,0\n0,3,5,0\n0,4,8,\n1,0,8,\n",
    ".jsonl": b'{"states": [0, 1, 2, 5, 8], "actions": [1, 1, 0, 0]}\n{"states": [[2, 2]], "actions": [], "id": "a"}\n',
    ".json": b'{"trajectories": [{"states": ["(0, 0)", 1], "actions": ["right"]}, {"states": [0, 3, 6]}]}',
}
NAMED = b"trip;x;y;move;time\na;0;0;right;8,5\na;1;0;right;9\na;2;0;up;9,5\na;2;1;up;10\na;2;2;;11\n"


@given(suffix=st.sampled_from(sorted(DEMOS)), named=st.booleans(), changes=edits())
@fuzzing()
def test_demonstrations(folder, suffix, named, changes):
    file = folder / f"d{suffix}"
    file.write_bytes(edited(NAMED if named and suffix == ".csv" else DEMOS[suffix], changes))
    for world in (None, GRID):
        with limited():
            demos = xm.read_demos(file, world)
            assert len(demos) == len(demos.metadata)
            for demo in demos:
                GRID.problem(demo)


RING = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
TRIPS = {
    ".csv": b"start,goal,path,who\n0,2,0_1_2,a\n0,2,0 2,b\n",
    ".jsonl": b'{"start": 0, "goal": 2, "path": [0, 1, 2]}\n{"path": "0 2"}\n',
}


@given(suffix=st.sampled_from(sorted(TRIPS)), changes=edits())
@fuzzing(4)
def test_trips(folder, suffix, changes):
    file = folder / f"t{suffix}"
    file.write_bytes(edited(TRIPS[suffix], changes))
    with limited():
        xm.read_trips(file, RING)


COSTS = b"x;y;move;cost\n0;0;up;3\n1;0;right;-2\n2;1;up;7\n"
NUMBERED = b"state,cost\n0,1\n1,0\n2,5\n"


@given(named=st.booleans(), changes=edits())
@fuzzing(4)
def test_costs(folder, named, changes):
    file = folder / "c.csv"
    file.write_bytes(edited(COSTS if named else NUMBERED, changes))
    for world in (GRID, None):
        with limited():
            (xm.total(read_costs(file, world)[0]) <= 5).check_world(GRID)
