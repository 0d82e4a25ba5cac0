"""Worlds from NetworkX graphs: walks from one node to another, and road networks as OpenStreetMap tools write them."""

import io
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property, reduce
from numbers import Real
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.errors import WorldError, extra_module, foreign_errors
from xmen.events import Event, at, doing
from xmen.files import XML, unpack_whole
from xmen.worlds.mdp import MDP
from xmen.worlds.names import Places, hashable, some, whole
from xmen.worlds.network import Network
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
        leaving = [list(graph.edges(node, data=True, **keys)) for node in self._nodes]
        self._edges: list[list[tuple[Any, ...]]] = [[edge[:-1] for edge in edges] for edges in leaving]
        found = [(state, action, *edge) for state, edges in enumerate(leaving) for action, edge in enumerate(edges)]
        start, goal = self._endpoint(source, "source"), self._endpoint(target, "target")
        rows = [(state, action, self._states[after], 1.0) for state, action, _, after, *_ in found]
        super().__init__(len(self._nodes), max(1, *map(len, self._edges)), rows, start, [goal], horizon)
        data = [edge[-1] for edge in found]
        numeric = {name: value for one in data for name, value in one.items() if isinstance(value, Real | np.bool_)}
        names = dict.fromkeys(name for one in data for name in one)  # in order of first appearance
        self.feature_names = tuple(name for name in names if name in numeric)
        self.ignored_attributes = tuple(name for name in names if name not in numeric)
        self.features = np.zeros((self.n_states, self.n_actions, len(self.feature_names)))
        for state, action, *edge, attributes in found:
            values = [_number(attributes, name, tuple(edge)) for name in self.feature_names]
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
        edges = self._edges[self.require_state(state)]
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
        lack = f"edge {edge} has no attribute {name!r}, which other edges have as a number"
        raise WorldError(f"{lack}: give it to every edge, or remove it from all")
    if not isinstance(data[name], Real | np.bool_) or not math.isfinite(data[name]):
        raise WorldError(f"edge {edge}: attribute {name!r} must be a finite number, got {data[name]!r:.60}")
    return float(data[name])


# ---- Road networks: attributes of links, as maps have them, as columns of numbers

MOST_CLASSES = 12  # different texts of an attribute that become one column each; names of streets have more
UNUSED = {"osmid": "not used", "id": "not used", "name": "not used", "geometry": "the shape of a link, for plots"}


def read_attributes(data: Sequence[dict[str, Any]]) -> tuple[dict[str, NDArray[np.float64]], dict[str, str]]:
    """Columns by name (n,), and what was done with each attribute, in words.

    Numbers and truth values are columns; so is text that reads as numbers. Other text is one column of 0 and 1 per
    class. Of a list the first entry counts. Where a number is missing its column is 0, and a column of its own is 1:
    a weight on both treats such links as a kind of their own, and not as links of length 0.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    notes: dict[str, str] = {}
    for name in dict.fromkeys(name for row in data for name in row):
        if name in UNUSED:
            notes[name] = UNUSED[name]
            continue
        given = [row.get(name) for row in data]
        lists = sum(isinstance(value, list | tuple) and len(value) > 1 for value in given)
        values = [value[0] if isinstance(value, list | tuple) and value else value for value in given]
        said = f"; of {lists} lists the first entry" if lists else ""
        missing = sum(value is None for value in values)
        numbers = [0.0 if value is None else _as_number(value) for value in values]
        if None not in numbers:
            columns[name] = np.array(numbers, dtype=np.float64)
            wrong = np.flatnonzero(~np.isfinite(columns[name]))
            if len(wrong):
                shown = f"{values[wrong[0]]!r:.40}"
                raise WorldError(f"link {wrong[0]}: attribute {name!r} must be a finite number, got {shown}")
            notes[name] = f"a number{said}"
            if missing:
                columns[absent(name)] = np.array([float(value is None) for value in values])
                notes[name] += f"; 0 for {missing} links without one, for which {absent(name)!r} is 1"
            continue
        counts = Counter(str(value) for value in values if value is not None)
        if len(counts) > MOST_CLASSES:
            notes[name] = f"not used: {len(counts)} different texts"
            continue
        for text in sorted(counts):
            columns[f"{name}={text}"] = np.array([float(str(value) == text) for value in values])
        notes[name] = f"one column for each of {len(counts)} classes{said}"
        notes[name] += f"; none for {missing} links without one" if missing else ""
    return columns, notes


def absent(name: str) -> str:
    """The column that says where a number is missing."""
    return f"{name} missing"


def shape_of(data: dict[str, Any], ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of a link (k, 2) from where it begins to where it ends, by its geometry if that can be read."""
    geometry = data.get("geometry")
    try:
        points = np.array(getattr(geometry, "coords", geometry), dtype=np.float64)
    except (TypeError, ValueError, NotImplementedError):
        return ends
    if points.ndim != 2 or len(points) < 2 or points.shape[1] < 2 or not np.isfinite(points).all():
        return ends
    points = points[:, :2]
    # A street that goes both ways may have one geometry for both of its links.
    there, back = (float(np.abs(points[[0, -1]] - order).sum()) for order in (ends, ends[::-1]))
    return points[::-1] if back < there else points


def _as_number(value: Any) -> float | None:
    """A number, a truth value, or a text that reads as a number; None for anything else."""
    try:
        return float(value) if isinstance(value, Real | np.bool_ | str) else None
    except ValueError:
        return None


# ---- Road networks: links or nodes as states

TURNS = ("straight", "left", "right", "u-turn")
STRAIGHT, AROUND = 45.0, 160.0  # degrees: up to the one a move goes straight on, from the other on it turns round


class RoadNetwork(Network):
    """A network made from a graph by `Network.from_networkx`.

    Attributes
    ----------
    names
        The link (u, v) or (u, v, key), or the node, of each state; `state(name)` is the inverse.
    features, feature_names
        Of what is entered by each move, scipy.sparse (n_states * n_actions, d); `select("length", "u-turn")` has some.
    attributes
        What was done with each attribute of the graph, in words.
    lines
        Where each link begins and ends, or where each node is, (n_states, 2, 2); None without places.
    shapes
        The points of each link (k, 2), as its "geometry" has them, else its ends; None without places.
    turn_class
        The class of each transition among "straight", "left", "right", "u-turn", (E,); None without places.
    """

    names: tuple[Hashable, ...]
    features: csr_matrix
    feature_names: tuple[str, ...]
    attributes: dict[str, str]
    lines: NDArray[np.float64] | None
    shapes: tuple[NDArray[np.float64], ...] | None
    turn_class: NDArray[np.int8] | None

    def __init__(self, graph: Any, states: str = "links", horizon: int | None = None) -> None:
        require_graph(graph, "Network.from_networkx")
        if states not in ("links", "nodes"):
            raise WorldError(f'states is "links" or "nodes"; got {states!r}.')
        nodes = list(graph.nodes)
        links = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
        data = [graph.edges[link] for link in links]
        if not graph.is_directed():
            links += [(link[1], link[0], *link[2:]) for link in links]
            data += data
        if not links:
            raise WorldError("the graph has no edges, so nobody can go anywhere")
        self.names = tuple(links) if states == "links" else tuple(nodes)
        place = _places(graph, nodes)
        leaving: dict[Hashable, list[int]] = {node: [] for node in nodes}
        for number, link in enumerate(links):
            leaving[link[0]].append(number)
        rows, entered = [], []
        for number, name in enumerate(self.names):
            for action, link in enumerate(leaving[name[1] if states == "links" else name]):  # type: ignore[index]
                rows.append((number, action, link if states == "links" else self._places.state(links[link][1]), 1.0))
                entered.append(link)
        if not rows:
            raise WorldError("no edge of the graph leads to another one, so no trip has more than one link")
        super().__init__(len(self.names), max(row[1] for row in rows) + 1, rows, horizon)
        self.lines = self.shapes = self.turn_class = None
        if place is not None and states == "nodes":
            self.lines = np.array([[place[node], place[node]] for node in nodes])
            self.shapes = tuple(self.lines)
        elif place is not None:
            self.lines = np.array([[place[link[0]], place[link[1]]] for link in links])
            self.shapes = tuple(map(shape_of, data, self.lines))
            self.turn_class = _turns(self, self.lines, links)
        columns, self.attributes = read_attributes(data)
        self._columns = columns if states == "links" else {}
        names, values = list(columns), [column[entered] for column in columns.values()]
        if self.turn_class is not None:
            names += TURNS[1:]
            values += [(self.turn_class == number).astype(np.float64) for number in range(1, len(TURNS))]
        self.feature_names = (*names, "moves")
        table = np.stack([*values, np.ones(len(entered))], axis=1)
        where, column = np.nonzero(table)
        pair = self.source[where].astype(np.int64) * self.n_actions + self.action[where]
        shape = (self.n_states * self.n_actions, len(self.feature_names))
        self.features = csr_matrix((table[where, column], (pair, column)), shape=shape)
        self._freeze()

    @classmethod
    def restored(
        cls, n_states: int, n_actions: int, rows: NDArray[Any], horizon: int | None, names: Iterable[Any], **known: Any
    ) -> "RoadNetwork":
        """A network as it was, from what was known of it, without its graph."""
        network = cls.__new__(cls)
        vars(network).update(names=tuple(map(hashable, names)), **known)
        Network.__init__(network, n_states, n_actions, rows, horizon)
        return network

    @cached_property
    def _places(self) -> Places:
        return Places(self.names)

    @cached_property
    def _joined(self) -> Places | None:
        """The nodes that links join; None where nodes are the states."""
        names: Any = self.names
        links = all(isinstance(name, tuple) and len(name) in (2, 3) for name in names)
        steps = zip(self.source.tolist(), self.target.tolist(), strict=True)
        if not links or not all(names[i][1] == names[j][0] for i, j in steps):
            return None
        return Places(tuple(dict.fromkeys(node for name in names for node in name[:2])))

    @property
    def joins_nodes(self) -> bool:
        """Whether links, which join nodes, are the states."""
        return self._joined is not None

    def node(self, name: Any) -> Hashable | None:
        """The node of this name that links join; None where there is none, or nodes are the states."""
        found = None if self._joined is None else self._joined.named(name)
        return None if found is None or self._joined is None else self._joined.names[found]

    def link(self, name: Any, parallel: str | None) -> int:
        """The state of a link as `state` has it; of several from u to v the one with the least of a feature."""
        if isinstance(name, tuple) and len(name) in (2, 3):
            ends = [self.node(end) for end in name[:2]]  # as the graph has them
            name = name if None in ends else (*ends, *(key if whole(key) is None else whole(key) for key in name[2:]))
        found = self._places.between(name)
        if len(found) > 1 and parallel in self.feature_names:
            among = np.isin(self.target, found)
            pair = self.source[among].astype(np.int64) * self.n_actions + self.action[among]
            columns = [column for column in (parallel, absent(parallel)) if column in self.feature_names]
            values = self.features[pair][:, [self.feature_names.index(column) for column in columns]].toarray()
            known = dict(zip(self.target[among].tolist(), values.tolist(), strict=True))
            if "_columns" in vars(self):  # also of links that no move enters, which a saved network has no values of
                known = {link: [float(self._columns[column][link]) for column in columns] for link in found}
            if len(known) == len(found) and not any(any(value[1:]) for value in known.values()):
                return min(found, key=lambda link: known[link][0])
        return self.state(name)

    def state_fields(self, state: int) -> dict[str, Any]:
        """The link or node by its name, where a file can tell all names apart."""
        if not self._places.distinct:
            return super().state_fields(state)
        return {"node" if self._joined is None else "link": self.names[state]}

    def state(self, name: Any) -> int:
        """The state of a link (u, v, key), or (u, v) where only one leads so, or of a node.

        A number is the state of this number only where no name is an integer.
        """
        return self._places.state(name)

    read_state = state

    def state_name(self, state: int) -> str:
        return repr(self.names[state])

    def name_of(self, state: int) -> Hashable:
        """The link or the node of a state."""
        return self.names[state]

    @cached_property
    def _segments(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Where the pieces of all shapes begin (m, 2), how they go on (m, 2), and the first piece of each state."""
        if self.shapes is None:
            raise WorldError('distances need places: make the network of a graph whose nodes have "x" and "y".')
        pieces = [np.diff(shape, axis=0) for shape in self.shapes]
        first = np.cumsum([0, *map(len, pieces[:-1])])
        return np.concatenate([shape[:-1] for shape in self.shapes]), np.concatenate(pieces), first

    def squared_distances(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far the shape of each link, or each node, lies from a point (x, y), squared: shape (n_states,)."""
        begin, along, first = self._segments
        square = np.maximum(np.square(along).sum(axis=1), 1e-300)  # of a piece without length, too
        share = np.clip(((point - begin) * along).sum(axis=1) / square, 0.0, 1.0)
        away = begin + share[:, None] * along - point
        return np.asarray(np.minimum.reduceat(np.square(away).sum(axis=1), first))

    def trip(self, names: Iterable[Hashable]) -> Trajectory:
        """The trajectory along links or nodes, by name."""
        return self.along([self.state(name) for name in names])

    def select(self, *names: str) -> csr_matrix:
        """Some of the features, in this order; a number that some links lack only together with where it is missing."""
        unknown = [name for name in names if name not in self.feature_names]
        if unknown:
            raise WorldError(f"there is no feature {unknown[0]!r}; there are {', '.join(self.feature_names)}.")
        for name in names:
            if absent(name) in self.feature_names and absent(name) not in names:
                missing = f"{name!r} is missing on some links ({self.attributes[name]}), and would be 0 there"
                raise WorldError(f"{missing}: give it to every edge of the graph, or select {absent(name)!r} as well.")
        return self.features[:, [self.feature_names.index(name) for name in names]]

    def turning(self, turn: str) -> Event:
        """The event that the move taken here turns "left", "right", goes "straight", or is a "u-turn"."""
        if self.turn_class is None:
            raise WorldError('turns are known where links are states and the graph\'s nodes have places "x" and "y".')
        if turn not in TURNS:
            raise WorldError(f"a turn is one of {', '.join(map(repr, TURNS))}; got {turn!r}.")
        return self._moves(self.turn_class == TURNS.index(turn), f"{turn} turns")

    def moving(self, before: Hashable, after: Hashable) -> Event:
        """The event that the move taken here leads from one state to another, both by name."""
        chosen = (self.source == self.state(before)) & (self.target == self.state(after))
        return self._moves(chosen, f"moves from {before!r} to {after!r}")

    def _moves(self, chosen: NDArray[np.bool_], what: str) -> Event:
        actions = np.unique(self.action[chosen]).tolist()
        parts = [at(*self.source[chosen & (self.action == action)].tolist()) & doing(action) for action in actions]
        if not parts:
            raise WorldError(f"this network has no {what}.")
        return reduce(or_, parts)

    def describe_state(self, state: int) -> str:
        return f"{self.names[state]!r}" if 0 <= state < len(self.names) else f"state {state}"

    def describe_action(self, action: int) -> str:
        return f"out-link {action}"


def _places(graph: Any, nodes: Sequence[Hashable]) -> dict[Hashable, tuple[float, float]] | None:
    """Where each node is, from "x" and "y" or "pos"; None unless all have one."""
    every = [graph.nodes[node] for node in nodes]
    places = [(data["x"], data["y"]) if "x" in data and "y" in data else data.get("pos") for data in every]
    if any(place is None for place in places):
        return None
    return {node: (float(x), float(y)) for node, (x, y, *_) in zip(nodes, places, strict=True)}


def _turns(network: Network, ends: NDArray[np.float64], links: Sequence[tuple[Any, ...]]) -> NDArray[np.int8]:
    """The class of each transition between links, by the angle between their directions."""
    heading = ends[:, 1] - ends[:, 0]
    degrees = np.degrees(np.arctan2(heading[:, 1], heading[:, 0]))
    angle = (degrees[network.target] - degrees[network.source] + 180.0) % 360.0 - 180.0
    turn = np.where(angle > 0, 1, 2).astype(np.int8)
    turn[np.abs(angle) <= STRAIGHT] = 0
    back = np.array([links[j][1] == links[i][0] for i, j in zip(network.source, network.target, strict=True)])
    turn[(np.abs(angle) >= AROUND) | back] = 3
    return turn
