"""Where the states of a graph or a table are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.answers.marks import node_places
from xmen.errors import MissingExtraError, extra_module
from xmen.problem import Problem
from xmen.rewards import Floats
from xmen.studio.words import state_word
from xmen.worlds import MDP, GridWorld

MOST_SPRUNG = 300  # states up to which springs find places


def layout(problem: Problem) -> dict[str, Any] | None:
    """Places in the unit square and the edges between them; None for a grid, which is its own layout."""
    world = problem.world
    if isinstance(world, GridWorld):
        return None
    given = node_places(problem)
    places = _unit(_computed(world) if given is None else given)
    columns = (world.source, world.action, world.target, world.probability)
    return {
        "states": [
            {"name": str(state_word(world, state)), "x": x, "y": y} for state, (x, y) in enumerate(places.tolist())
        ],
        "edges": [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)],
        "start": np.flatnonzero(world.start).tolist(),
        "goal": np.flatnonzero(world.terminal).tolist(),
        "computed": given is None,
    }


def _unit(places: Floats) -> Floats:
    """The same picture inside the unit square."""
    low, span = places.min(axis=0), float(np.ptp(places, axis=0).max()) or 1.0
    inside: Floats = (places - low) / span
    return inside


def _computed(world: MDP) -> Floats:
    """Springs between neighbours where that is quick, else a circle."""
    angles = np.linspace(0.0, 2.0 * np.pi, world.n_states, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    if world.n_states > MOST_SPRUNG:
        return circle
    try:
        networkx = extra_module("networkx", "a layout by springs")
    except MissingExtraError:
        return circle
    graph = networkx.Graph(zip(world.source.tolist(), world.target.tolist(), strict=True))
    graph.add_nodes_from(range(world.n_states))
    found = networkx.spring_layout(graph, seed=0, pos=dict(enumerate(circle)), iterations=100)
    return np.array([found[state] for state in range(world.n_states)])
