"""Worlds from NetworkX graphs: walks from one node to another, along edges that carry features."""

import io
import math
from collections.abc import Hashable, Iterable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import WorldError, extra_module, foreign_errors
from xmen.files import XML, unpack_whole
from xmen.worlds.mdp import MDP
from xmen.worlds.names import Places, some
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.transitions import require_index


def require_graph(graph: Any, needed_for: str) -> None:
    """Refuse what is no networkx graph."""
    if not isinstance(graph, extra_module("networkx", needed_for).Graph):
        raise WorldError(f"from_networkx takes a networkx graph, got {type(graph).__name__} {graph!r:.60}")


def read_graph(file: Path, where: str = "") -> Any:
    """The networkx graph in a .graphml, .graphml.gz or .graphml.bz2 file; `where` begins what a message says of it."""
    networkx = extra_module("networkx", 'a world of kind "graphml"')
    with foreign_errors(f"{where or file}: {str(file)!r} is not a GraphML file"):
        return networkx.read_graphml(io.BytesIO(unpack_whole(file, XML)))


class GraphWorld(MDP):
    """Trajectories through a graph, from one node until they first reach another; made by `MDP.from_networkx`.

    Nodes are states, numbered in the graph's order. Action i in a node is its i-th out-edge, in the graph's order;
    undirected edges go both ways, and parallel edges of a multigraph are different actions. `n_actions` is the largest
    out-degree. An attribute that only some edges have as a number is refused.

    Attributes
    ----------
    features
        The numeric attributes of edges (numbers and truth values), shape (n_states, n_actions, d); 0 where an action is
        not available.
    feature_names
        The attributes in `features`, in order of first appearance.
    ignored_attributes
        Those without any number (street names, geometries), which are left out.

    Examples
    --------
    >>> import networkx as nx
    >>> roads = nx.DiGraph()
    >>> roads.add_edge("home", "park", length=2.0)
    >>> roads.add_edge("home", "shop", length=1.0)
    >>> roads.add_edge("park", "work", length=1.0)
    >>> roads.add_edge("shop", "work", length=4.0)
    >>> world = MDP.from_networkx(roads, "home", "work")
    >>> world.trajectory(["home", "shop", "work"])
    Trajectory(states=[0, 2, 3], actions=[1, 0])
    >>> world.feature_names, world.features[0, 1]
    (('length',), array([1.]))
    """

    features: NDArray[np.float64]
    feature_names: tuple[str, ...]
    ignored_attributes: tuple[str, ...]
    step_word = "edge"

    def __init__(self, graph: Any, source: Hashable, target: Hashable, *, horizon: int | None = None) -> None:
        require_graph(graph, "MDP.from_networkx")
        if not len(graph):
            raise WorldError("the graph is empty: it has no nodes")
        self._nodes: tuple[Hashable, ...] = tuple(graph.nodes)
        self._states: dict[Hashable, int] = {node: state for state, node in enumerate(self._nodes)}
        self._places = Places(self._nodes)
        self.numbers_are_states = not self._places.integers
        keys = {"keys": True} if graph.is_multigraph() else {}
        found = [
            (state, action, edge[:-1], edge[-1])
            for state, node in enumerate(self._nodes)
            for action, edge in enumerate(graph.edges(node, data=True, **keys))
        ]
        self._edges: list[list[tuple[Any, ...]]] = [[] for _ in self._nodes]
        numeric: dict[str, bool] = {}
        for state, _, edge, data in found:
            self._edges[state].append(edge)
            for name, value in data.items():
                numeric[name] = numeric.get(name, False) or isinstance(value, Real | np.bool_)
        start, goal = self._endpoint(source, "source"), self._endpoint(target, "target")
        rows = [(state, action, self._states[edge[1]], 1.0) for state, action, edge, _ in found]
        super().__init__(len(self._nodes), max(1, *map(len, self._edges)), rows, start, [goal], horizon)
        self.feature_names = tuple(name for name, used in numeric.items() if used)
        self.ignored_attributes = tuple(name for name, used in numeric.items() if not used)
        self.features = np.zeros((self.n_states, self.n_actions, len(self.feature_names)))
        for state, action, edge, data in found:
            values = [_number(data, name, edge) for name in self.feature_names]
            if self.available[state, action]:
                self.features[state, action] = values
        self._freeze()

    def node(self, state: int) -> Any:
        """The node of a state."""
        return self._nodes[self.require_state(state)]

    def state(self, node: Hashable) -> int:
        """The state of a node."""
        return self._endpoint(node, "node")

    def edge(self, state: int, action: int) -> tuple[Any, ...]:
        """The edge (u, v), in a multigraph (u, v, key), that an action takes."""
        edges = self._edges[self._states[self.node(state)]]
        number: int = require_index("action", action, least=0)
        if number >= len(edges):
            raise WorldError(f"{self.describe_state(state)} has {len(edges)} out-edges, got action {number}")
        return edges[number]

    def trajectory(self, nodes: Iterable[Hashable]) -> Trajectory:
        """The trajectory along a path of nodes; in a multigraph each step must be the only edge there."""
        return self.along([self.state(node) for node in nodes])

    def _steps_from(self, state: int) -> list[tuple[int, int]]:
        # The edges that leave the target too: no trajectory takes them, and events may name them.
        return [(action, self._states[edge[1]]) for action, edge in enumerate(self._edges[state])]

    def describe_state(self, state: int) -> str:
        return f"node {self._nodes[state]!r}"

    def describe_action(self, action: int) -> str:
        return f"out-edge {action}"

    def state_name(self, state: int) -> str:
        node = self._nodes[state]
        return repr(node) if isinstance(node, str | tuple) else repr(str(node))

    def read_state(self, name: Any) -> int:
        return self._places.state(name)

    def state_fields(self, state: int) -> dict[str, Any]:
        return {"node": self._nodes[state]} if self._places.distinct else super().state_fields(state)

    def step_text(self, state: int, action: int) -> str:
        # The number of an edge says nothing to a reader, unless another edge leads to the same node.
        after = [target for _, target in self._steps_from(state)]
        return "->" if after.count(after[action]) == 1 else super().step_text(state, action)

    def _endpoint(self, node: Hashable, what: str) -> int:
        try:
            return self._states[node]
        except (KeyError, TypeError):
            known = some(map(repr, self._nodes))
            raise WorldError(f"{what} {node!r:.60} is not a node of the graph (nodes: {known})") from None


def _number(data: dict[str, Any], name: str, edge: tuple[Any, ...]) -> float:
    if name not in data:
        raise WorldError(
            f"edge {edge} has no attribute {name!r}, which other edges have as a number: "
            "give it to every edge, or remove it from all"
        )
    if not isinstance(data[name], Real | np.bool_) or not math.isfinite(data[name]):
        raise WorldError(f"edge {edge}: attribute {name!r} must be a finite number, got {data[name]!r:.60}")
    return float(data[name])
