"""A small problem with a rule, demonstrations and colours, as a file and as its values."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import xmen as xm
from problem.files import grid_problem
from xmen.problem import read_problem, read_values

PROBLEM = (
    "# written by hand\n"
    + grid_problem(4, "up", "right", "down", "left", demonstrations="p_demos.csv", walls=[[2, 2]], horizon=8)
    + """
[events]
key = { cells = [[0, 2], [2, 0]] }
mud = { cells = [[3, 1], [1, 2]] }
east = { moves = ["right"] }

[[constraints]]
name = "fetch the key"
rule = "visit(key)"

# after rain
[[constraints]]
name = "hardly any mud"  # none is best
rule = "count(mud) <= 1"

# learned in spring
[reward]
features = ["steps", "mud"]

[settings]
seed = 3

[studio]
colours = { key = "#E69F00" }
l2 = 0.1
held_out = 0.25
"""
)


def write_problem(folder: Path) -> Path:
    """p.toml, and twenty demonstrations of a known taste."""
    path = folder / "p.toml"
    path.write_text(PROBLEM)
    problem = read_problem(path)
    d = problem.distribution().with_reward(problem.reward.features @ [-0.5, -1.0])
    xm.write_demos(d.sample(20, seed=0), folder / "p_demos.csv")
    return path


def changed(values: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """The values of a problem with some tables replaced or, where they are dicts, updated."""
    new = copy.deepcopy(values)
    for name, table in tables.items():
        new[name] = {**new.get(name, {}), **table} if isinstance(table, dict) else table
    return new


def on_disk(folder: Path) -> dict[str, Any]:
    """What the file says now."""
    return read_values(folder / "p.toml")
