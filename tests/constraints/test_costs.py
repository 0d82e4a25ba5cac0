"""Costs as people have them: tables in files, events with weights, arrays by name.

The truth is the reference's own sum over the array that the file was written from.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmen as xm
from cli.commands import report, run
from problem.files import grid_problem
from reference import OPERATORS, enumerate_trajectories, happens, positions, quantity
from xmen.answers import part_notes
from xmen.errors import CostsWarning
from xmen.problem import Problem, read_problem, write_problem

GRID = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
RNG = np.random.default_rng(0)
STATES, PAIRS = RNG.integers(0, 5, 9), RNG.integers(0, 5, (9, 2))
LISTED = [(states, actions) for states, actions, _ in enumerate_trajectories(GRID)]


def accepted(rule: xm.Constraint) -> list[bool]:
    return [rule.accepts(xm.Trajectory(*tau)) for tau in LISTED]


def expected(weights: np.ndarray, op: str, bound: int) -> list[bool]:
    rows = tuple(map(tuple, weights.tolist())) if weights.ndim == 2 else tuple(weights.tolist())
    return [OPERATORS[op](quantity(("total", rows), positions(*tau)), bound) for tau in LISTED]


def written(folder: Path, kind: str) -> tuple[Path, np.ndarray]:
    """A table of costs in one of the ways in which people write them, and the array it stands for."""
    file = folder / "energy.csv"
    cells = [(s, *GRID.cell(s)) for s in range(9)]
    steps = list(zip(GRID.source, GRID.action, GRID.target, strict=True))
    header, rows, array = {
        "numbers": ("state,cost", [f"{s},{STATES[s]}" for s in range(9)], STATES),
        "cells, spreadsheet": ("cell;energy (kWh)", [f"({x}, {y});{STATES[s]},0" for s, x, y in cells], STATES),
        "x and y": ("x,y,cost,remark", [f"{x},{y},{STATES[s]},-" for s, x, y in cells], STATES),
        "pairs": ("state,action,cost", [f"{s},{a},{PAIRS[s, a]}" for s, a in np.ndindex(9, 2)], PAIRS),
        "moves": (
            "x,y,move,cost",
            [f"{x},{y},{move},{PAIRS[s, a]}" for s, x, y in cells for a, move in enumerate(GRID.moves)],
            PAIRS,
        ),
        "edges": ("from,to,cost", [f"{s},{t},{PAIRS[s, a]}" for s, a, t in steps], np.where(GRID.available, PAIRS, 0)),
        "some": ("state,cost", ["4,7"], np.where(np.arange(9) == 4, 7, 0)),
    }[kind]
    file.write_text("\n".join([header, *rows]) + "\n")
    return file, array


BOUNDS = {"numbers": 7, "cells, spreadsheet": 7, "x and y": 7, "pairs": 10, "moves": 10, "edges": 10, "some": 6}


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_file_is_the_array_it_was_written_from(kind, tmp_path, monkeypatch):
    file, array = written(tmp_path, kind)
    with pytest.warns(CostsWarning, match=r"'energy\.csv'.* 8 of 9") if kind == "some" else nullcontext():
        rule = xm.total(file, GRID) <= BOUNDS[kind]
    assert rule == (xm.total(array) <= BOUNDS[kind])
    assert accepted(rule) == expected(array, "<=", BOUNDS[kind])
    assert 0 < sum(accepted(rule)) < len(LISTED)
    assert xm.parse_constraint(str(rule)) == rule  # the text has the numbers: it needs no file
    monkeypatch.chdir(tmp_path)
    if kind in ("numbers", "pairs"):
        assert (xm.total("energy.csv") <= BOUNDS[kind]) == rule


def test_costs_that_leave_out_places_are_noted_in_the_words_of_the_command_line(tmp_path):
    """Once, with as many states as have no cost; naming every state, with 0 or not, is no news."""
    walled = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"), walls=[(1, 1)])
    file = tmp_path / "toll.csv"
    file.write_text("x,y,cost\n0,1,3\n2,0,0\n")
    with pytest.warns(CostsWarning) as caught:
        rule = xm.total(file, walled) <= 3
    assert [str(one.message) for one in caught] == ["the costs 'toll.csv' are 0 in 7 of 8 states"]
    assert caught[0].filename == __file__
    problem = Problem(walled, rules={"cheap": rule}, costs={"toll": np.eye(9, dtype=int)[3] * 3})
    assert part_notes(problem) == ["the costs 'toll' are 0 in 7 of 8 states"]
    file.write_text("state,cost\n" + "".join(f"{s},0\n" for s in range(9) if s != 4))
    xm.total(file, walled)
    edges = zip(walled.source, walled.target, strict=True)  # none leaves the goal: an end costs nothing by itself
    file.write_text("from,to,cost\n" + "".join(f"{s},{t},1\n" for s, t in edges))
    xm.total(file, walled)


def test_events_with_weights():
    middle, right = GRID.at((1, 1), (1, 0)), GRID.doing("right")
    rule = xm.total({middle: 3, right: 2, ~middle: -1}) <= 4
    counted = [
        sum(
            3 * happens(("at", (4, 1)), p) + 2 * happens(("doing", (1,)), p) - (not happens(("at", (4, 1)), p))
            for p in positions(*tau)
        )
        for tau in LISTED
    ]
    assert accepted(rule) == [value <= 4 for value in counted]
    assert 0 < sum(accepted(rule)) < len(LISTED)
    text = "total({middle: 3, right: 2, ~middle: -1}) <= 4"
    names = {"middle": middle, "right": right}
    assert xm.parse_constraint(text, names) == rule
    assert xm.parse_constraint(str(rule)) == rule


def test_costs_have_names_in_text():
    names = {"energy": STATES, "fees": {GRID.at((1, 1)): 2}, "here": GRID.at((0, 1))}
    rule = xm.parse_constraint("2*total(energy) + total(fees) - count(here) <= 20", names)
    assert rule == (2 * xm.total(STATES) + 2 * xm.count(GRID.at((1, 1))) - xm.count(GRID.at((0, 1))) <= 20)


PROBLEM = (
    grid_problem(3, "up", "right")
    + """
[events]
mud = { cells = [[1, 1]] }

[costs]
energy = "energy.csv"
toll = { mud = 3 }
list = [0, 1, 2, 0, 1, 2, 0, 1, 2]

[[constraints]]
name = "a battery"
rule = "total(energy) + total(toll) <= 11"

[[constraints]]
name = "from the file"
rule = "total('energy.csv') + total(list) >= 4"
"""
)


@pytest.fixture
def problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "cells, spreadsheet")
    Path("p.toml").write_text(PROBLEM)
    xm.write_demos(read_problem("p.toml").distribution(seed=0).sample(20), "demos.csv")
    return tmp_path


def test_a_problem_file_names_costs(problem):
    found = read_problem("p.toml")
    listed = np.array([0, 1, 2] * 3)
    battery = xm.total(STATES) + 3 * xm.count(GRID.at((1, 1))) <= 11
    assert found.rules["a battery"] == battery.named("a battery")
    assert found.rules["from the file"] == (xm.total(STATES) + xm.total(listed) >= 4).named("from the file")
    (problem / "other").mkdir()
    for target in ("again.toml", "other/moved.toml"):  # beside the file of costs, and without it
        write_problem(found, target)
        again = read_problem(target)
        assert dict(again.rules) == dict(found.rules)
        assert again.parse("total(energy) <= 3") == (xm.total(STATES) <= 3)
    assert "total(energy) + total(toll) <= 11" in Path("other/moved.toml").read_text()
    report("fit p.toml --out m")
    assert report("sample m -n 5 --also 'total(energy) <= 10'")
    assert xm.load("m").constraint == found.constraint


def test_large_costs_go_to_a_file_of_their_own(tmp_path):
    grid = xm.GridWorld(20, 20, start=(0, 0), goal=(19, 19), moves=("up", "right"))
    costs = RNG.integers(0, 3, (400, 2))
    problem = Problem(grid, rules={"budget": xm.total(costs) <= 30}, costs={"energy": costs})
    write_problem(problem, tmp_path / "large.toml")
    assert (tmp_path / "large.energy.csv").is_file()
    assert read_problem(tmp_path / "large.toml").parse("total(energy) <= 30") == (xm.total(costs) <= 30)


ICY = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6, slip=0.2)
WRONG_FILES = [
    (GRID, "state,cost\n0,2.5\n", ["line 2: cost is 2.5", "multiply all costs and the bound"]),
    (GRID, "state,cost\n0,lots\n", ["line 2: cost is 'lots'"]),
    (GRID, "x,y,cost\n0,0,1e300\n", ["line 2: cost is '1e300'", "too large"]),
    (GRID, "state,cost\n99,1\n", ["line 2: state 99", "0 to 8"]),
    (GRID, "state,cost\n0,1\n0,2\n", ["line 3: there is already a cost"]),
    (GRID, "state,action,cost\n0,7,1\n", ["line 2: action 7"]),
    (GRID, "cost\n3\n", ["no column for the state"]),
    (GRID, "state,day,night\n0,1,2\n", ["which column"]),
    (GRID, "state,cost\n", ["no costs"]),
    (GRID, "from,to,cost\n0,8,1\n", ["no move leads from cell (0, 0) to cell (2, 2)"]),
    (None, "from,to,cost\n0,1,1\n", ["line 2: ", "world"]),
    (ICY, "from,to,cost\n0,1,1\n", ["write down which one"]),
]


@pytest.mark.parametrize(("world", "content", "words"), WRONG_FILES, ids=lambda value: str(value)[:40])
def test_files_that_are_no_costs(world, content, words, tmp_path):
    (tmp_path / "energy.csv").write_text(content)
    with pytest.raises(xm.FileFormatError) as caught:
        xm.total(tmp_path / "energy.csv", world)
    for word in ["energy.csv", *words]:
        assert word in str(caught.value)


AISLE = GRID.at((1, 1))
MEANT: dict[str, tuple[Any, str]] = {
    "per action": (lambda: (xm.total([2, 1]) <= 62).check_world(GRID), "`2*count(doing(0)) + count(doing(1)) <= 62`"),
    "transposed": (lambda: (xm.total(PAIRS.T) <= 62).check_world(GRID), "total(weights.T)"),
    "a map": (lambda: (xm.total(STATES.reshape(3, 3)) <= 62).check_world(GRID), "total(weights.ravel())"),
    "an event": (lambda: xm.total(AISLE), "count(at(4))"),
    "a number times an event": (lambda: 2 * AISLE + 1, "2*count(at(4)) + length() <= 62"),
    "the same in text": (
        lambda: xm.parse_constraint("total(2*aisle + 1) <= 62", {"aisle": AISLE}),
        "2*count(aisle) + length() <= 62",
    ),
    "a file without quotes": (lambda: xm.parse_constraint("total(energy.csv) <= 3"), 'total("energy.csv")'),
    "a form": (lambda: xm.total(2 * xm.count(AISLE) + xm.length()), "compare it itself"),
    "text without a problem": (lambda: xm.parse_constraint("total('energy.csv') <= 3"), "in a problem file"),
    "costs as an event": (lambda: xm.parse_constraint("visit(energy)", {"energy": STATES}), "takes an event"),
}


@pytest.mark.parametrize("case", MEANT)
def test_what_was_probably_meant_is_offered(case):
    make, offered = MEANT[case]
    with pytest.raises(xm.ConstraintError) as caught:
        make()
    assert offered in str(caught.value)


WRONG_COSTS = {
    "energy = 3": '"file.csv"',
    "energy = [1, 2, 3]": "(9,)",
    "energy = [[1], [2, 3]]": "whole numbers",
    "energy = { lava = 2 }": "'lava' is no event",
    "mud = [1]": "already an event",
    'energy = "missing.csv"': "missing.csv",
    'energy = "energy.txt"': ".csv file",
    "count = [1]": "own count",
}


@pytest.mark.parametrize("line", WRONG_COSTS)
def test_costs_of_a_problem_file_that_make_no_sense(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = PROBLEM.partition("[costs]")[0]
    Path("p.toml").write_text(f"{head}[costs]\n{line}\n")
    refused = run("check p.toml")
    assert refused.exit_code == 2
    assert " ".join(WRONG_COSTS[line].split()) in " ".join(refused.output.split())
