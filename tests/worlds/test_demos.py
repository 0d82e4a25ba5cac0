"""Demonstrations in files, in frames and from other libraries; as people have them; and how they are checked."""

import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xmen as xm
from xmen.worlds.demos import as_trajectories
from xmen.worlds.tables import RecordedDemos


@st.composite
def trajectories(draw: st.DrawFn) -> xm.Trajectory:
    actions = draw(st.lists(st.integers(0, 10**12), max_size=8))
    states = draw(st.lists(st.integers(0, 10**12), min_size=len(actions) + 1, max_size=len(actions) + 1))
    return xm.Trajectory(states, actions)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".CSV"])
@given(demos=st.lists(trajectories(), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_is_exact(tmp_path: Path, suffix: str, demos: list[xm.Trajectory]) -> None:
    path = tmp_path / f"demos{suffix}"
    xm.write_demos(demos, path)
    assert xm.read_demos(str(path)) == demos


def test_the_formats_are_what_the_documentation_says(tmp_path: Path) -> None:
    demos = [xm.Trajectory([0, 1, 3], [0, 1]), xm.Trajectory([3], [])]
    xm.write_demos(demos, tmp_path / "demos.csv")
    assert (tmp_path / "demos.csv").read_text() == "demo,step,state,action\n0,0,0,0\n0,1,1,1\n0,2,3,\n1,0,3,\n"
    xm.write_demos(iter(demos), tmp_path / "demos.jsonl")
    assert (tmp_path / "demos.jsonl").read_text() == (
        '{"states": [0, 1, 3], "actions": [0, 1]}\n{"states": [3], "actions": []}\n'
    )


def test_gaps_are_written_to_tables_and_read_back(tmp_path: Path) -> None:
    grid, file = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=9), tmp_path / "d.csv"
    whole, numbers = xm.Trajectory([0, 1], [1]), xm.Sighting([0, None, 4, None, None])
    for world, seen in ((None, numbers), (grid, numbers), (grid, xm.Sighting([(0, 0), None, 4, None, None]))):
        xm.write_demos([seen, whole], file, world)
        assert xm.read_demos(file, world) == [numbers, whole]
    for more in ({"noise": xm.confusion(0.1)}, {"more": True}, {"each": 0.5}):
        with pytest.raises(xm.TrajectoryError, match="complete trajectories"):
            xm.write_demos([xm.Sighting([0], **more)], file)
    with pytest.raises(xm.TrajectoryError, match="complete trajectories"):
        xm.write_demos([numbers], tmp_path / "d.jsonl")


def test_line_ends_of_other_systems_and_blank_lines_are_fine(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"demo,step,state,action\r\n0,0,5,1\r\n0,1,6,\r\n\r\n")
    (tmp_path / "a.jsonl").write_bytes(b'{"actions": [1], "states": [5, 6]}\r\n\r\n')
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbfdemo,step,state,action\n0,0,5,1\n0,1,6,\n")
    for name in ("a.csv", "a.jsonl", "b.csv"):
        assert xm.read_demos(tmp_path / name) == [xm.Trajectory([5, 6], [1])]


HEADER = "demo,step,state,action\n"
GRID = xm.GridWorld(3, 2, (0, 0), (2, 1), moves=("up", "right"))
GOOD = xm.Trajectory([0, 3, 4, 5], [0, 1, 1])
UNREADABLE = [
    ("a.csv", "", "a.csv, line 1: .*demo,step,state,action"),
    ("a.csv", "state,action\n", "line 1: .* state, action"),
    ("a.csv", "demo,step,state,state\n", "line 1: .*same name"),
    ("a.csv", "demo,step,state,action,Action\n", "line 1: .*same name"),
    ("a.csv", "demo,step\n", "line 1: .* demo, step"),
    ("a.csv", HEADER + "0,0,1\n", "line 2: expected 4 fields .*got 3: '0,0,1'"),
    ("a.csv", HEADER + "0,0,1,2,3\n", "line 2: expected 4 fields .*got 5"),
    ("a.csv", HEADER + "0,0,x,1\n", "line 2, demonstration '0': 'x' is no state"),
    ("a.csv", HEADER + "0,0,1.5,1\n", r"line 2, demonstration '0': '1\.5' is no state"),
    ("a.csv", HEADER + "0,0,-1,1\n", "line 2, demonstration '0': '-1' is no state"),
    ("a.csv", HEADER + "0,0,1,up\n0,1,2,\n", "line 2, demonstration '0': 'up' is no action"),
    ("a.csv", HEADER + "0,0,,1\n", "line 2, demonstration '0': '' is no state"),
    ("a.csv", HEADER + "0,0,1,0\n0,2,1,\n", "line 3, .*step 2 follows step 0"),
    ("a.csv", HEADER + "0,first,1,0\n", "line 2, .*step first"),
    ("a.csv", HEADER + "0,0,1,0\n1,0,1,\n", "line 2, demonstration '0': .*last row .*'0'"),
    ("a.csv", HEADER + "0,0,1,\n0,1,2,\n", "line 2, demonstration '0': .*world="),
    ("a.csv", HEADER + "0,0,1,\n1,0,1,\n0,1,2,\n", "line 4: .*'0' do not stand together"),
    ("a.csv", HEADER + "0,0,1,0\n", "line 2, demonstration '0': .*last row .*'0'"),
    ("a.csv", HEADER + '0,0,"1,0\n', "line 2: expected 4 fields"),
    ("a.csv", HEADER + '0,0,"' + "1" * 200_000, "a.csv, line 2: .*field limit"),
    ("a.csv", HEADER + "0,0," + "1" * 5000 + ",\n", "line 2, demonstration '0': '111.* is no state"),
    ("a.jsonl", '{"states": [' + "1" * 5000 + '], "actions": []}', "line 1: expected JSON"),
    ("a.jsonl", "[1, 2]\n", r"a.jsonl, line 1: .*\[1, 2\].*states and actions"),
    ("a.jsonl", "{\n", "line 1: expected JSON"),
    ("a.jsonl", '{"states": [0, 1]}\n', "line 1: .*world="),
    ("a.jsonl", '{"states": 0, "actions": []}', "line 1: .*'states': 0"),
    ("a.jsonl", '{"states": [0, 1], "actions": [true]}', "line 1: True is no action"),
    ("a.jsonl", '{"states": [0, 1.5], "actions": [0]}', r"line 1: 1\.5 is no state"),
    ("a.jsonl", '{"states": [0, -1], "actions": [0]}', "line 1: -1 is no state"),
    ("a.jsonl", '\n{"states": [0, 1], "actions": []}', "line 2: .*2 states and 0 actions"),
    ("a.jsonl", b'{"states": "\xff"}', "UTF-8 .*0xff"),
    ("a.txt", "", "a.txt: .*'.txt'"),
    ("a", "", "suffix ''"),
]
UNREADABLE_IN_A_WORLD = [
    ("a.csv", "a,b\n1,2\n", "column demo or .* a, b"),
    ("a.csv", "demo,action\n0,1\n", "state, cell, node, link, or x and y"),
    ("a.csv", "demo,Demo,state\n", "same name"),
    ("a.csv", "demo,state\n0\n", "line 2: expected 2 fields"),
    ("a.csv", "demo,state\n,1\n", "line 2: .*column demo"),
    ("a.csv", "demo,state\n0,nowhere\n", "demonstration '0': 'nowhere' is no state: .*cell"),
    ("a.csv", "demo,state,move\n0,0,fly\n0,3,\n", "'fly' is no action: .*up, right"),
    ("a.csv", "demo,cell\n0,9 9\n", r"cell \(9, 9\)"),
    ("a.csv", "demo,state\n0,0\n0,5\n", r"position 0: .*cell \(0, 0\) to cell \(2, 1\)"),
    ("a.csv", "demo,state\n0,77\n0,5\n", "state 77"),
    ("a.csv", "demo,state,action\n0,0,0\n0,3,\n0,4,1\n0,5,\n", "position 1 has no action"),
]
CASES = [(None, *case) for case in UNREADABLE] + [(GRID, *case) for case in UNREADABLE_IN_A_WORLD]


@pytest.mark.parametrize(("world", "name", "text", "message"), CASES)
def test_what_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, world: xm.GridWorld | None, name: str, text: str | bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(xm.FileFormatError, match=message):
        xm.read_demos(tmp_path / name, world)


def test_columns_may_stand_in_any_order_that_the_header_says(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("Action, state,step,demo\n1,0,0,0\n,5,1,0\n,3,0,1\n")
    assert xm.read_demos(file) == [xm.Trajectory([0, 5], [1]), xm.Trajectory([3], [])]


def test_tables_of_numbers_need_no_world(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("trip;who;state;action\nA;Ada;3,0;1\nA;Ada;4;\n\nB;Bob;4;\n")
    demos = xm.read_demos(tmp_path / "a.csv")
    assert demos == [xm.Trajectory([3, 4], [1]), xm.Trajectory([4], [])]
    assert demos.metadata == [{"who": "Ada"}, {"who": "Bob"}]


def test_a_wrong_entry_leaves_no_half_written_file(tmp_path: Path) -> None:
    with pytest.raises(xm.TrajectoryError, match=r"demonstration 1 .*list \[0\]"):
        xm.write_demos([xm.Trajectory([0], []), [0]], tmp_path / "a.csv")  # type: ignore[list-item]
    with pytest.raises(xm.FileFormatError, match="suffix"):
        xm.write_demos([xm.Trajectory([0], [])], tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_good_demonstrations_pass() -> None:
    xm.check_demos(GRID, [GOOD])
    xm.check_demos(GRID, [GOOD], xm.visit(GRID.at((1, 1))))


CORNER, KEY = (xm.visit(GRID.at(cell)).named(name) for cell, name in (((2, 0), "the corner"), ((0, 1), "key first")))
DRY = xm.never(GRID.at((1, 1))).named("not the swamp")


@pytest.mark.parametrize(
    ("walk", "rules", "constraint", "position", "words"),
    [
        (xm.Trajectory([0, 5], [0]), None, None, 0, r"cell \(0, 0\)"),
        (GOOD, KEY & DRY, "not the swamp", 2, "not the swamp"),
        (GOOD, [CORNER, DRY], "not the swamp", 2, "not the swamp"),  # the corner is lost at the end only
        (GOOD, CORNER & DRY, "not the swamp", 2, "not the swamp"),
        (xm.Trajectory([0, 100], [0]), None, None, 1, "state 100"),
        (xm.Trajectory([0, 3, 100], [0, 1]), None, None, 2, "state 100"),
        (xm.Trajectory([100], []), None, None, 0, "state 100"),
        (xm.Trajectory([0, 100], [9]), None, None, 0, "action 9"),  # the action comes first
    ],
)
def test_a_wrong_demonstration_is_named_with_constraint_and_position(
    walk: xm.Trajectory, rules: Any, constraint: str | None, position: int, words: str
) -> None:
    before = [] if rules is not None else [GOOD]
    with pytest.raises(xm.InvalidDemonstrationError, match=f"demonstration {len(before)} .*{words}") as caught:
        xm.check_demos(GRID, [*before, walk], rules)
    error = caught.value
    assert (error.index, error.constraint, error.position) == (len(before), constraint, position)


def test_rules_may_be_a_list() -> None:
    xm.check_demos(GRID, [GOOD], [])
    xm.check_demos(GRID, [GOOD], (rule for rule in [xm.visit(GRID.at((1, 1)))]))
    said = []
    for rules in ([CORNER, DRY], CORNER & DRY):
        with pytest.raises(xm.InvalidDemonstrationError) as caught:
            xm.check_demos(GRID, [GOOD], rules)
        said.append(str(caught.value))
    assert said[0] == said[1]
    for wrong in ([CORNER, GRID.at((1, 1))], "visit(at(3))", [[CORNER]]):
        with pytest.raises(xm.ConstraintError, match="check_demos"):
            xm.check_demos(GRID, [GOOD], wrong)  # type: ignore[arg-type]


def test_what_a_learner_keeps_does_not_change_with_the_list_of_its_user():
    demos = RecordedDemos([xm.Trajectory([0, 1], [1])], names=["ann"])
    kept = as_trajectories(demos)
    demos.append(xm.Trajectory([0], []))
    assert (kept, kept.names) == (demos[:1], ["ann"])


def test_as_many_as_are_explained_are_all_of_them():
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    short = xm.Trajectory([0, 1], [1])
    for n, said in ((200, "\n200 of 200 "), (201, "\n200 or more of 201 ")):
        with pytest.raises(xm.InvalidDemonstrationError, match=said):
            xm.check_demos(grid, [short] * n)


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        ([], "no demonstrations"),
        (GOOD, "got one Trajectory"),
        ([GOOD, (0, 1)], r"demonstration 1 .*tuple \(0, 1\)"),
        (3, "got int 3"),
        ("demos.csv", "got str"),
    ],
)
def test_refuses_what_is_not_a_list_of_trajectories(demos: object, message: str) -> None:
    with pytest.raises(xm.TrajectoryError, match=message):
        xm.check_demos(GRID, demos)  # type: ignore[arg-type]


# --- as people have them: cells, names, further columns, semicolons, frames -----------------------------------------

WALKS = [GOOD, xm.Trajectory([0, 1, 2, 5], [1, 1, 0])]


def roads() -> Any:
    graph = nx.DiGraph([("home", "park"), ("home", "shop"), ("park", "work"), ("shop", "work")])
    return xm.MDP.from_networkx(graph, "home", "work")


FILES = {
    "cells": "demo,step,cell,move\n0,0,\"(0, 0)\",up\n0,1,\"(0, 1)\",right\n0,2,1 1,Right\n0,3,\"2,1\",\n",
    "x and y": "Demo,X,Y,Move\n7,0,0,up\n7,0,1,right\n7,1,1,right\n7,2,1,\n",
    "no actions": "episode,x,y\na,0,0\na,0,1\na,1,1\na,2,1\n",
    "semicolons": "demo;step;state;action\n0;1,0;0,0;0,0\n0;2,0;3,0;1\n0;3;4;1\n0;4;5;\n",
    "tabs": "trip\tstate\taction\nA\t0\t0\nA\t3\t1\nA\t4\t1\nA\t5\t\n\t\t\n",
    "plain": "demo,step,state,action\n0,0,0,0\n0,1,3,1\n0,2,4,1\n0,3,5,\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_the_same_walk_in_many_files(tmp_path, kind):
    (tmp_path / "demos.csv").write_text(FILES[kind])
    assert xm.read_demos(tmp_path / "demos.csv", GRID) == WALKS[:1]


def test_further_columns_are_kept(tmp_path):
    text = "id,demo,step,state,action,time\nK7,0,0,0,0,08:00\nK7,0,1,3,1,08:01\nK7,0,2,4,1,08:03\nK7,0,3,5,,08:09\n"
    (tmp_path / "demos.csv").write_text(text)
    demos = xm.read_demos(tmp_path / "demos.csv", GRID)
    assert demos == WALKS[:1]
    assert demos.metadata == [{"id": "K7", "time": ["08:00", "08:01", "08:03", "08:09"]}]
    xm.write_demos(demos, tmp_path / "again.csv", GRID)
    assert (tmp_path / "again.csv").read_text().startswith("demo,step,x,y,move,id,time\n0,0,0,0,up,K7,08:00\n")
    again = xm.read_demos(tmp_path / "again.csv", GRID)
    assert (again, again.metadata) == (demos, demos.metadata)


def test_nodes_and_names_of_your_own(tmp_path):
    world = roads()
    (tmp_path / "a.csv").write_text("demo,node\n0,home\n0,shop\n0,work\n1,home\n1,park\n1,work\n")
    demos = xm.read_demos(tmp_path / "a.csv", world)
    assert demos == [world.trajectory(["home", "shop", "work"]), world.trajectory(["home", "park", "work"])]
    xm.write_demos(demos, tmp_path / "b.csv", world)
    assert "0,1,shop,0" in (tmp_path / "b.csv").read_text()
    assert xm.read_demos(tmp_path / "b.csv", world) == demos
    (tmp_path / "c.csv").write_text("demo,state,action\n0,well,carry\n0,house,\n")
    named = {"states": ["well", "house"], "actions": {"carry": 3}}
    assert xm.read_demos(tmp_path / "c.csv", **named) == [xm.Trajectory([0, 1], [3])]
    numbers = nx.DiGraph([(20, 10), (10, 0)])  # nodes whose names are numbers, but not those of their states
    backwards = xm.MDP.from_networkx(numbers, 20, 0)
    assert xm.read_demos({"demo": [0, 0, 0], "node": [20, 10, 0]}, backwards)[0].states == (0, 1, 2)


def test_json_has_names_and_metadata_too(tmp_path):
    lines = [{"states": [[0, 0], [0, 1], "(1, 1)", 5], "actions": ["up", "right", 1], "who": "Ada"}]
    lines.append({"states": [0, 1, 2, 5]})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    demos = xm.read_demos(tmp_path / "a.jsonl", GRID)
    assert (demos, demos.metadata) == (WALKS, [{"who": "Ada"}, {}])
    (tmp_path / "a.json").write_text(json.dumps({"engine": "exact", "trajectories": lines}))
    assert xm.read_demos(tmp_path / "a.json", GRID) == WALKS


class Frame:
    """As much of a data frame as pandas and polars have in common."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]


def test_frames_in_and_out():
    columns = xm.convert_demos(WALKS, "columns")
    assert columns["action"] == [0, 1, 1, None, 1, 1, 0, None]
    assert xm.read_demos(columns) == WALKS
    holes = {name: [float("nan") if v is None else float(v) for v in values] for name, values in columns.items()}
    assert xm.read_demos(Frame(holes)) == WALKS  # pandas has floats where an integer is missing
    assert xm.read_demos(Frame(xm.convert_demos(WALKS, "columns", GRID)), GRID) == WALKS


@dataclass
class Imitation:
    obs: Any
    acts: Any
    infos: Any = None
    terminal: bool = True


@dataclass
class Episode:
    observations: Any
    actions: Any
    id: int


class Dataset:
    """As Minari's."""

    def iterate_episodes(self) -> Any:
        return (Episode(np.array(tau.states), np.array(tau.actions), i) for i, tau in enumerate(WALKS))


def test_trajectories_of_other_libraries():
    assert xm.read_demos([Imitation(np.array(tau.states), np.array(tau.actions)) for tau in WALKS]) == WALKS
    coordinates = [Imitation(np.array([GRID.cell(s) for s in tau.states]), np.array(tau.actions)) for tau in WALKS]
    assert xm.read_demos(coordinates, GRID) == WALKS
    demos = xm.read_demos(Dataset())
    assert (demos, demos.metadata) == (WALKS, [{"id": 0}, {"id": 1}])


@pytest.mark.parametrize("library", ["imitation", "minari"])
def test_trajectories_for_other_libraries(library):
    if importlib.util.find_spec(library) is None:
        with pytest.raises(xm.MissingExtraError, match=rf"xmen-irl\[{library}\]"):
            xm.convert_demos(WALKS, library)
    else:
        assert xm.read_demos(xm.convert_demos(WALKS, library)) == WALKS


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: xm.read_demos(3), xm.TrajectoryError, "expected a file, a frame"),
        (lambda: xm.read_demos([3]), xm.TrajectoryError, "demonstration 0: got int"),
        (lambda: xm.read_demos({"demo": [0], "state": [[2, []]]}, GRID), xm.FileFormatError, "is no state"),
        (lambda: xm.convert_demos(WALKS, "gym"), xm.TrajectoryError, '"columns", "imitation" or "minari"'),
        (lambda: xm.read_demos({"demo": [0], "state": [0]}, states=["a", "a"]), xm.WorldError, "twice"),
    ],
)
def test_what_is_no_source_is_named(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_trips_from_spreadsheets_and_frames(tmp_path):
    ring = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
    expected = [xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([0, 2], [1])]
    (tmp_path / "a.csv").write_bytes("\ufeffStart;Goal;Path;kost\n0;2;0_1_2;1,5\n0;2,0;0 2;\n".encode())
    assert xm.read_trips(tmp_path / "a.csv", ring) == expected
    frame = Frame({"path": [[0, 1, 2], "0 2"], "start": [0.0, float("nan")], "goal": [None, 2]})
    assert xm.read_trips(frame, ring) == expected
    for name, data, message in (
        ("b.csv", b"path\n\xb2\n", "UTF-8"),
        ("b.csv", "path\n²\n".encode(), "line 2: '²' is no state"),
        ("b.csv", b"path\n" + b"9" * 5000, "is no state"),
        ("b.csv", b"path,start\n0 1\n", "line 2: expected 2 fields"),
        ("b.jsonl", b"[" * 100_000, "line 1: expected JSON"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(xm.XmenError, match=message):
            xm.read_trips(tmp_path / name, ring)


def test_all_rows_of_a_csv_that_cannot_be_read_are_listed_with_their_lines(tmp_path):
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    file = tmp_path / "walks.csv"
    rows = ["a,0,0,0", "a,1,9,0", "a,2,0,7", "b,0,0,0", "b,2,1,0", "c,0,0,0", "c,1,1,0", "a,3,0,0"]
    file.write_text("demo,step,x,y\n" + "\n".join(rows) + "\n")
    with pytest.raises(xm.FileFormatError) as caught:
        xm.read_demos(file, grid)
    said = str(caught.value)
    assert said.startswith("4 rows ")
    assert re.findall(r"walks.csv, line (\d+)", said) == ["3", "4", "6", "9"]
    for words in ("cell (9, 0)", "cell (0, 7)", "step 2 follows step 0", "do not stand together"):
        assert words in said
    file.write_text("demo,step,x,y\n" + "\n".join([*rows[:3], "d,0,0,0,0"]) + "\n")
    with pytest.raises(xm.FileFormatError) as caught:
        xm.read_demos(file, grid)
    assert re.findall(r"walks.csv, line (\d+)", str(caught.value)) == ["5", "3", "4"]  # of the wrong length, too
    file.write_text("demo,step,x,y\n" + "\n".join(rows[5:7]) + "\n")
    assert len(xm.read_demos(file, grid)) == 1
