"""Three problem files, one of each kind of world, and when two problems are the same."""

from __future__ import annotations

import numpy as np

from xmen.problem import Problem, toml_text


def grid_problem(side: int, *moves: str, demonstrations: str | None = "demos.csv", **world: object) -> str:
    """The head of a problem file on a square grid, from one corner to the other; the rest is added to it."""
    grid = {"kind": "grid", "width": side, "height": side, "start": [0, 0], "goal": [side - 1, side - 1]}
    named = {} if demonstrations is None else {"demonstrations": demonstrations}
    return toml_text({"format": 1, **named, "world": {**grid, "moves": moves, **world}})


GRID = """
format = 1

[world]
kind = "grid"
width = 4
height = 4
start = [0, 0]
goal = [3, 3]
moves = ["up", "right"]
walls = [[1, 1]]

[events]
key = { cells = [[0, 2], [2, 0]] }
east = { moves = ["right"] }
here = { cells = [[0, 2]], moves = ["up"] }
quiet = "~key & ~at((1, 1))"

[[constraints]]
name = "fetch the key"
rule = "visit(key)"

[[constraints]]
name = "not too far east"
rule = "longest_run(east) <= 2"

[reward]
features = ["steps", "goal distance", "key"]
weights = [-1, 0.5, 2.0]

[settings]
discount = 0.9
engine = "exact"
seed = 7
max_nodes = 1000
"""
TABLE = """
format = 1

[world]
kind = "table"
transitions = "walk.csv"
n_states = 3
n_actions = 2
start = 0
terminal = [2]
horizon = 5

[[constraints]]
name = "short"
rule = "length() <= 4"

[reward]
table = "reward.csv"
"""
WALK = "state,action,next_state,probability\n0,0,1,1\n0,1,2,1.0\n1,0,2,0.75\n1,0,0,0.25\n"
REWARD = "state,action,reward\n0,1,-2.5\n1,0,1e-3\n"


def assert_same(one: Problem, other: Problem) -> None:
    """Equal in everything that engines read."""
    assert type(one.world) is type(other.world)
    assert np.allclose(one.world.transitions, other.world.transitions, atol=0, rtol=1e-15)
    assert np.array_equal(one.world.start, other.world.start)
    assert np.array_equal(one.world.terminal, other.world.terminal)
    assert one.world.horizon == other.world.horizon
    assert one.events == other.events
    assert list(one.rules.items()) == list(other.rules.items())
    assert one.settings == other.settings
    assert (one.reward is None) == (other.reward is None)
    if one.reward is not None:
        tables = [getattr(p.reward, "table", lambda p=p: p.reward)() for p in (one, other)]
        assert np.array_equal(*tables)
