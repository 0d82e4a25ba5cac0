"""What of a problem can be put on a map: events that are places, rewards of states, coordinates of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.events import NO_ACTION, At
from xmen.problem import Problem
from xmen.rewards import Floats, reward_table
from xmen.worlds import GridWorld
from xmen.worlds.graph_files import read_graph

MOST_SYMBOLS = 6  # cells; larger events are shaded as areas
AREA_COLOURS = ("#DDCC77", "#88CCEE", "#CC6677", "#999933", "#AA4499")
COORDINATES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"))


def event_states(problem: Problem) -> dict[str, list[int]]:
    """The states of every event that is a place: it depends on the state alone, and is not almost everywhere."""
    world = problem.world
    states = np.arange(world.n_states)
    found = {}
    for name, event in problem.events.items():
        columns = [event.holds(states, np.full_like(states, a)) for a in (NO_ACTION, *range(world.n_actions))]
        everywhere = not isinstance(event, At) and 2 * int(columns[0].sum()) > world.n_states
        if columns[0].any() and not everywhere and all(np.array_equal(columns[0], other) for other in columns):
            found[name] = np.flatnonzero(columns[0]).tolist()
    return found


def grid_marks(problem: Problem, grid: GridWorld) -> dict[str, Any]:
    """The marks of `plot_world`: symbols for a few cells, shades for areas, which come last in the legend."""
    symbols: dict[str, Any] = {}
    areas: dict[str, Any] = {}
    for name, states in event_states(problem).items():
        cells = [grid.cell(state) for state in states]
        if len(cells) <= MOST_SYMBOLS:
            symbols[name] = cells
        else:
            areas[name] = (cells, AREA_COLOURS[len(areas) % len(AREA_COLOURS)])
    return {**symbols, **areas}


def node_places(problem: Problem) -> Floats | None:
    """Where the nodes of a graph are, (n_states, 2), if its file says so."""
    graph = problem.spelling.graph
    if graph is None or graph.world is not problem.world:
        return None
    nodes = [data for _, data in read_graph(graph.path).nodes(data=True)]
    for keys in COORDINATES:
        try:
            places = np.array([[float(data[key]) for key in keys] for data in nodes])
        except (KeyError, TypeError, ValueError):
            continue
        if np.isfinite(places).all():
            return places
    return None


def mean_reward(reward: Any, world: Any) -> Floats:
    """r(s, a), the mean over available actions; 0 where there is none."""
    table = np.where(world.available, reward_table(reward, world), 0.0)
    means: Floats = table.sum(axis=1) / np.maximum(world.available.sum(axis=1), 1)
    return means
