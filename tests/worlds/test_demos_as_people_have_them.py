"""Demonstrations with cells, names, further columns, semicolons; from frames and from other libraries."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest

import xmen as xm
from xmen import FileFormatError, Trajectory, TrajectoryError

GRID = xm.GridWorld(3, 2, (0, 0), (2, 1), moves=("up", "right"))
WALKS = [Trajectory([0, 3, 4, 5], [0, 1, 1]), Trajectory([0, 1, 2, 5], [1, 1, 0])]


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
    assert xm.read_demos(tmp_path / "c.csv", **named) == [Trajectory([0, 1], [3])]
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
    ("text", "message"),
    [
        ("a,b\n1,2\n", "expected a column demo or .*, got the columns a, b"),
        ("demo,action\n0,1\n", "expected a column state, cell, node, link, or x and y"),
        ("demo,Demo,state\n", "two columns have the same name"),
        ("demo,state\n0\n", "line 2: expected 2 fields"),
        ("demo,state\n,1\n", "line 2: there is nothing in the column demo"),
        ("demo,state\n0,nowhere\n", "demonstration '0': 'nowhere' is no state: expected a number or a cell"),
        ("demo,state,move\n0,0,fly\n0,3,\n", "'fly' is no action: expected a number or one of up, right"),
        ("demo,cell\n0,9 9\n", r"cell \(9, 9\)"),
        ("demo,state\n0,0\n0,5\n", r"position 0: no move leads from cell \(0, 0\) to cell \(2, 1\)"),
        ("demo,state\n0,77\n0,5\n", "state 77 does not exist"),
        ("demo,state,action\n0,0,0\n0,3,1\n", "its last row has the action '1'"),
        ("demo,state,action\n0,0,0\n0,3,\n0,4,1\n0,5,\n", "position 1 has no action, and is not its last"),
        ("demo,step,state\n0,0,0\n0,2,3\n", "step 2 follows step 0"),
        ("demo,state\n0,0\n1,0\n0,3\n", "rows of demonstration '0' do not stand together"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        xm.read_demos(tmp_path / "a.csv", GRID)


def test_what_is_no_source_is_named():
    deep = {"demo": [0], "state": [[2, []]]}
    for wrong, message in ((3, "expected a file, a frame"), ([3], "demonstration 0: got int")):
        with pytest.raises(TrajectoryError, match=message):
            xm.read_demos(wrong)
    with pytest.raises(FileFormatError, match="is no state"):
        xm.read_demos(deep, GRID)
    with pytest.raises(TrajectoryError, match='"columns", "imitation" or "minari"'):
        xm.convert_demos(WALKS, "gym")
    with pytest.raises(xm.WorldError, match="a name stands there twice"):
        xm.read_demos({"demo": [0], "state": [0]}, states=["a", "a"])


def test_trips_from_spreadsheets_and_frames(tmp_path):
    ring = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
    expected = [Trajectory([0, 1, 2], [0, 0]), Trajectory([0, 2], [1])]
    (tmp_path / "a.csv").write_bytes("\ufeffStart;Goal;Path;kost\n0;2;0_1_2;1,5\n0;2,0;0 2;\n".encode())
    assert xm.read_trips(tmp_path / "a.csv", ring) == expected
    frame = Frame({"path": [[0, 1, 2], "0 2"], "start": [0.0, float("nan")], "goal": [None, 2]})
    assert xm.read_trips(frame, ring) == expected
    for data, message in (
        (b"path\n\xb2\n", "expected UTF-8 text"),
        ("path\n²\n".encode(), "line 2: '²' is no state"),
        (b"path\n" + b"9" * 5000, "is no state"),
        (b"path,start\n0 1\n", "line 2: expected 2 fields"),
    ):
        (tmp_path / "b.csv").write_bytes(data)
        with pytest.raises(xm.XmenError, match=message):
            xm.read_trips(tmp_path / "b.csv", ring)
    (tmp_path / "b.jsonl").write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match="line 1: expected JSON"):
        xm.read_trips(tmp_path / "b.jsonl", ring)


def test_all_rows_of_a_csv_that_cannot_be_read_are_listed_with_their_lines(tmp_path):
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    file = tmp_path / "walks.csv"
    rows = ["a,0,0,0", "a,1,9,0", "a,2,0,7", "b,0,0,0", "b,2,1,0", "c,0,0,0", "c,1,1,0", "a,3,0,0"]
    file.write_text("demo,step,x,y\n" + "\n".join(rows) + "\n")
    with pytest.raises(xm.FileFormatError) as caught:
        xm.read_demos(file, grid)
    said = str(caught.value)
    assert said.startswith("4 rows cannot be read: ")
    assert re.findall(r"walks.csv, line (\d+)", said) == ["3", "4", "6", "9"]
    for words in ("cell (9, 0)", "cell (0, 7)", "step 2 follows step 0", "do not stand together"):
        assert words in said
    file.write_text("demo,step,x,y\n" + "\n".join([*rows[:3], "d,0,0,0,0"]) + "\n")
    with pytest.raises(xm.FileFormatError) as caught:
        xm.read_demos(file, grid)
    assert re.findall(r"walks.csv, line (\d+)", str(caught.value)) == ["5", "3", "4"]  # of the wrong length, too
    file.write_text("demo,step,x,y\n" + "\n".join(rows[5:7]) + "\n")
    assert len(xm.read_demos(file, grid)) == 1
