"""Every message that has facts, as Python prints it and as the command line does for a problem: golden_messages.txt.

The problem gives events and features names of its own. After a change that is meant, `python tests/test_messages.py`
writes the file again: read its diff.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

import xmen as xm
from xmen.constraints.text import parse_constraint
from xmen.encoding import trajectories
from xmen.engines.diagnosis import remark
from xmen.errors import Words, XmenError, speaking
from xmen.learners import causal
from xmen.machines import tables
from xmen.methods import identify, runs
from xmen.problem import Problem
from xmen.worlds.demos import check_demos

GOLDEN = Path(__file__).with_name("golden_messages.txt")

GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"), walls=[(3, 0)])
KEY, LAVA, WALL, UP = GRID.at((1, 2)), GRID.at((2, 1), (2, 2)), GRID.at((3, 0)), GRID.doing("up")
TWO = xm.GridWorld(3, 2, start=[(0, 0), (2, 0)], goal=(2, 1), moves=("up", "right"))
POND = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"), slip=0.2, horizon=4)
WET = POND.at((1, 1))
BRIDGE = xm.MDP(5, 2, [(0, 0, 1, 1.0), (1, 0, 3, 0.9), (1, 0, 4, 0.1), (0, 1, 2, 1.0), (2, 0, 3, 1.0)], 0, [3, 4])
ALL_BUT_GOAL = GRID.at(*[(x, y) for x in range(4) for y in range(4) if (x, y) not in [(3, 0), (3, 3)]])
FEATURES = ["steps", "mud", "hills"]


def way(moves: str, world: xm.GridWorld = GRID) -> xm.Trajectory:
    """The trajectory from the lower left corner by u and r."""
    cells = [(moves[:t].count("r"), moves[:t].count("u")) for t in range(len(moves) + 1)]
    return xm.Trajectory([world.state(cell) for cell in cells], ["ur".index(move) for move in moves])


def small_tables() -> None:
    with patch.object(tables, "MAX_TABLE_ENTRIES", 8):
        xm.distribution(GRID, xm.count(KEY) + xm.length() <= 9).log_partition()


def small_lists() -> None:
    with patch.object(trajectories, "list_machine", lambda *asked: None):
        trajectories.Encoding(GRID, xm.sequence(KEY, LAVA))


def learn_what_is_risky(promise: str | float) -> None:
    demos = [way("ruru", POND), way("uurr", POND)]
    xm.CausalXMEN(POND, xm.never(WET), np.ones((9, 2, 1)), validity=promise).fit(demos)


def unfinished_demos() -> None:
    stayed = xm.Trajectory([POND.state((0, 0)), POND.state((1, 0))], [1])
    check_demos(POND, [way("ruru", POND), stayed, way("urru", POND)], xm.never(WET))


CASES: dict[str, tuple[xm.MDP, Callable[[], object]]] = {
    "a rule that nothing keeps": (GRID, lambda: xm.distribution(GRID, xm.visit(WALL))),
    "a bound that nothing keeps": (GRID, lambda: xm.distribution(GRID, xm.count(KEY | LAVA) >= 4)),
    "a share above 1": (GRID, lambda: xm.distribution(GRID, xm.share(KEY) >= 15)),
    "rules that contradict each other": (GRID, lambda: xm.distribution(GRID, [xm.visit(KEY), xm.count(UP) <= 1])),
    "one part of a named rule": (
        GRID,
        lambda: xm.distribution(GRID, (xm.visit(WALL) & xm.visit(KEY).named("fetch")).named("errands")),
    ),
    "a start without a trajectory": (
        TWO,
        lambda: xm.distribution(TWO, xm.visit(TWO.at((1, 0))), given="start").log_partition(),
    ),
    "a rule that nothing can break": (GRID, lambda: remark("no wall", xm.never(WALL), GRID)),
    "a product that is too large": (GRID, lambda: xm.distribution(GRID, xm.visit(KEY), engine="exact", max_nodes=5)),
    "a policy that is too large": (POND, lambda: xm.plan(POND, xm.never(WET), max_nodes=5)),
    "a machine that is too large": (GRID, small_tables),
    "a machine that is too large for clauses": (GRID, small_lists),
    "a demonstration that breaks a rule": (GRID, lambda: check_demos(GRID, [way("rruruu")], xm.never(LAVA))),
    "demonstrations that break rules": (
        GRID,
        lambda: check_demos(GRID, [way("rruruu"), way("uuurrr")], [xm.never(LAVA), xm.visit(KEY)]),
    ),
    "episodes that failed": (POND, unfinished_demos),
    "what a trajectory breaks": (GRID, lambda: (xm.count(ALL_BUT_GOAL) <= 3).explain(way("uuurrr"))),
    "no sure policy": (POND, lambda: xm.plan(POND, xm.never(WET))),
    "no policy of that probability": (POND, lambda: xm.plan(POND, xm.never(WET), validity=0.999)),
    "a step that the best policy does not take": (POND, lambda: learn_what_is_risky("best")),
    "a step that may cost a rule": (
        BRIDGE,
        lambda: xm.CausalXMEN(BRIDGE, xm.never(xm.at(4)), np.ones((5, 2, 1))).fit([xm.Trajectory([0, 1, 3], [0, 0])]),
    ),
    "text that is no rule": (GRID, lambda: parse_constraint("count(at((1, 2)))", world=GRID)),
    "text that is an event": (GRID, lambda: parse_constraint("at((1, 2)) & doing(up)", world=GRID)),
    "unbounded weights": (GRID, lambda: identify.warn_unbounded([0, 1, 2], "after 3 steps")),
    "weights that cannot be told": (
        GRID,
        lambda: identify.warn_unidentified(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -2.0]])),
    ),
    "weights that run to infinity": (
        GRID,
        lambda: causal._out_of_reach(np.array([1.0, -2.0, 0.0]), np.ones(3)),
    ),
    "a fit that stopped early": (GRID, lambda: runs.warn_of_end("after 3 rounds. Raise max_iter")),
}


def words_of(world: xm.MDP) -> Words:
    """The words of a problem in this world, which calls its events and features by names."""
    events = {
        GRID: {"key": KEY, "lava": LAVA, "wall": WALL, "climbing": UP},
        POND: {"pond": WET},
        BRIDGE: {"wet": xm.at(4)},
    }
    return Problem(world, events.get(world, {})).words._replace(features=FEATURES)


def messages() -> str:
    """All messages, each as Python and as the command line prints it."""
    lines = []
    for title, (world, ask) in CASES.items():
        said: object = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                said = ask()
            except XmenError as error:
                said = error
        said = said if said is not None else caught[-1].message
        with speaking(Words(options=True)):
            on_the_command_line = words_of(world).say(said)
        lines += [f"## {title}", "Python:", str(said), "command line:", on_the_command_line, ""]
    return "\n".join(lines)


def test_messages_are_as_in_the_golden_file() -> None:
    assert messages() == GOLDEN.read_text()


if __name__ == "__main__":
    GOLDEN.write_text(messages())
