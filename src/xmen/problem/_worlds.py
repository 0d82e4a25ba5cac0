"""The [world] table: a grid, a table of transitions, or a graph."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xmen.problem._columns import columns_text, read_columns
from xmen.problem._document import TomlTable
from xmen.worlds import MDP, MOVES, GridWorld
from xmen.worlds.graph_files import read_graph

TRANSITIONS = ("state", "action", "next_state", "probability")


class GraphFile(NamedTuple):
    """Where a graph world came from: its file cannot be rebuilt from the world."""

    path: Path
    source: str
    target: str
    world: MDP


def read_world(table: TomlTable) -> tuple[MDP, GraphFile | None]:
    """The world, and where its graph came from."""
    readers = {"grid": _read_grid, "table": _read_table, "graphml": _read_graph}
    known = "one of " + ", ".join(f'"{kind}"' for kind in readers)
    kind = table.text("kind", expected=known)
    if kind not in readers:
        close = get_close_matches(kind, readers, n=1)
        table.fail("kind", f"expected {known}, got {kind!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return readers[kind](table)


def _read_grid(table: TomlTable) -> tuple[MDP, None]:
    settings: dict[str, Any] = {
        "width": table.integer("width"),
        "height": table.integer("height"),
        "start": table.cell_or_cells("start"),
        "goal": table.cell_or_cells("goal", None),
        "moves": table.texts("moves", ("up", "right", "down", "left")),
        "walls": table.cells("walls", ()),
        "horizon": table.integer("horizon", None),
        "slip": table.number("slip", 0.0),
        "bump": table.boolean("bump", False),
    }
    table.finish()
    for move in settings["moves"]:
        close = get_close_matches(move, MOVES, n=1)
        if move not in MOVES:
            hint = f"; did you mean {close[0]!r}?" if close else "."
            table.fail("moves", f"unknown move {move!r}{hint} The moves are {', '.join(MOVES)}")
    with table.explaining():
        return GridWorld(**settings), None


def _read_table(table: TomlTable) -> tuple[MDP, None]:
    file = table.path("transitions")
    n_states, n_actions = table.integer("n_states"), table.integer("n_actions")
    states = "a state, or one probability per state in a list"
    single = type(table.values.get("start")) is not list
    start = table.integer("start") if single else table.listed("start", (int, float), states)
    terminal = table.listed("terminal", (int,), "a list of states", [])
    horizon = table.integer("horizon", None)
    table.finish()
    rows = read_columns(file, TRANSITIONS)
    with table.explaining():
        return MDP(n_states, n_actions, rows, start, terminal, horizon), None


def _read_graph(table: TomlTable) -> tuple[MDP, GraphFile]:
    file = table.path("file")
    node = "the id of a node, in quotes"
    source, target = table.text("source", expected=node), table.text("target", expected=node)
    horizon = table.integer("horizon", None)
    table.finish()
    graph = read_graph(file, table.where("file"))
    with table.explaining():
        world = MDP.from_networkx(graph, source, target, horizon=horizon)
    return world, GraphFile(file, source, target, world)


def write_world(world: MDP, graph: GraphFile | None, target: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    """The [world] table, and the files that go with it: content by path."""
    if isinstance(world, GridWorld):
        return _grid_table(world), {}
    horizon = {} if world.horizon is None else {"horizon": world.horizon}
    if graph is not None and graph.world is world:
        # A graph in another folder comes along, so that the written problem stands on its own.
        near = graph.path.parent.resolve() == target.parent.resolve()
        name = graph.path.name if near else f"{target.stem}.graphml"
        files = {} if near else {target.parent / name: graph.path.read_bytes()}
        return {"kind": "graphml", "file": name, "source": graph.source, "target": graph.target, **horizon}, files
    file = target.with_name(f"{target.stem}.transitions.csv")
    columns = (world.source, world.action, world.target, world.probability)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    certain = np.flatnonzero(world.start)
    values = {
        "kind": "table",
        "transitions": file.name,
        "n_states": world.n_states,
        "n_actions": world.n_actions,
        "start": int(certain[0]) if len(certain) == 1 else world.start.tolist(),
        "terminal": np.flatnonzero(world.terminal).tolist(),
        **horizon,
    }
    return values, {file: columns_text(TRANSITIONS, rows).encode()}


def _grid_table(grid: GridWorld) -> dict[str, Any]:
    values: dict[str, Any] = {
        "kind": "grid",
        "width": grid.width,
        "height": grid.height,
        "start": grid.given_start,
        "goal": grid.given_goal,
        "moves": grid.moves,
        "walls": sorted(grid.walls) or None,
        "horizon": grid.horizon,
        "slip": grid.slip or None,
        "bump": grid.bump or None,
    }
    return {key: value for key, value in values.items() if value is not None}
