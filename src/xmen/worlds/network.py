"""Networks: worlds without a start and a goal of their own, through which every trip brings its own pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import WorldError
from xmen.worlds.mdp import MDP, UNBOUNDED
from xmen.worlds.names import unknown
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.transitions import Columns, Transitions, read_rows, read_sizes, read_start, read_terminal

if TYPE_CHECKING:
    from xmen.worlds.from_networkx import RoadNetwork


class Network(Transitions):
    """States, actions and transitions, without a start or a goal: a road network, say, with links as states.

    Parameters
    ----------
    n_states, n_actions
        How many there are; both are numbered from 0.
    transitions
        Rows (state, action, next_state, probability), or an array of shape (n, 4). Each row may be there once.
    horizon
        The largest number of actions of a trajectory; None allows trajectories of any length.

    Raises
    ------
    WorldError
        Rows that cannot be read, that are there twice, or whose probabilities do not sum to 1.

    Examples
    --------
    >>> ring = Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
    >>> ring.task(0, 2)
    NetworkTask(state 0 -> state 2 of 3 states, 3 transitions, horizon=None)
    >>> ring.problem(Trajectory([1, 2, 0, 1], [0, 0, 0]))
    (0, 'moves although it starts at its goal, state 1: a trip ends the first time it enters its goal')
    """

    step_word = "move"

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        transitions: Iterable[Sequence[float]] | NDArray[Any],
        horizon: int | None = None,
    ) -> None:
        self.n_states, self.n_actions = read_sizes(n_states, n_actions)
        columns = read_rows(transitions, self.n_states, self.n_actions)
        keys = self._key(*columns[:3])
        order = np.argsort(keys, kind="stable")
        twice = np.flatnonzero(np.diff(keys[order]) == 0)
        if len(twice):
            first, second = order[twice[0] : twice[0] + 2]
            source, action, target = (int(column[first]) for column in columns[:3])
            way = f"leads from {self.describe_state(source)} to {self.describe_state(target)} twice"
            advice = "Two parallel links are two states, or two actions; drop the row that is there by mistake."
            same = f"transition rows {first} and {second} are the same"
            raise WorldError(f"{same}: {self.describe_action(action)} {way}. {advice}")
        self._build_table(self.n_states, self.n_actions, columns, np.zeros(self.n_states, dtype=np.bool_), horizon)

    def name_of(self, state: int) -> Any:
        """The name of a state in a network made from a graph, else its number; `read_state` reads both."""
        return state

    def task(self, start: Any, goal: Any, horizon: int | None = None) -> NetworkTask:
        """The world of one trip: trajectories from `start` that end the first time they enter `goal`.

        Parameters
        ----------
        start, goal
            States, or the names that a network made from a graph has for them; where some name is an integer, integers
            are names. Where they are the same, the one trajectory has length 0.
        horizon
            The largest number of actions; None takes the network's own, which may be none at all.

        Returns
        -------
        NetworkTask
            An MDP. Without a horizon it may have cycles: the exact and the reject engine serve it, xor asks for one.
        """
        return NetworkTask(self, self.read_state(start), self.read_state(goal), horizon)

    @staticmethod
    def from_networkx(graph: Any, states: str = "links", horizon: int | None = None) -> RoadNetwork:
        """The road network of a NetworkX graph, as OpenStreetMap tools write it (a MultiDiGraph, say).

        Parameters
        ----------
        graph
            Undirected edges go both ways. Nodes with "x" and "y" have places, and links then have turns.
        states
            "links": states are links, so that "no link twice" is `no_revisit()` and a U-turn is an event. "nodes":
            states are nodes.
        horizon
            The largest number of moves of a trip; None for any number.

        Returns
        -------
        RoadNetwork
            A Network with `names`, `features` and `feature_names` of the links that moves enter, `attributes` (what was
            done with each), `trip`, `turning` and `moving`.

        Examples
        --------
        >>> import networkx as nx
        >>> roads = nx.MultiDiGraph()
        >>> roads.add_edges_from([("a", "b", {"length": 2.0, "highway": "primary"}),
        ...                       ("b", "c", {"length": 1.0, "highway": ["service", "primary"]})])
        [0, 0]
        >>> network = Network.from_networkx(roads)
        >>> network.feature_names
        ('length', 'highway=primary', 'highway=service', 'moves')
        >>> network.attributes["highway"]
        'one column for each of 2 classes; of 1 lists the first entry'
        """
        from xmen.worlds.from_networkx import RoadNetwork

        return RoadNetwork(graph, states, horizon)

    def problem(self, trajectory: Trajectory) -> tuple[int, str] | None:
        """None for a trip of this network, else (position, sentence) of its first problem."""
        states, goal = trajectory.states, trajectory.states[-1]
        if max(states) >= self.n_states:
            position = next(t for t, state in enumerate(states) if state >= self.n_states)
            return position, unknown("state", states[position], self.n_states)
        early, last, name = states.index(goal), len(states) - 1, self.describe_state(goal)
        if early < last:
            how = f"passes its goal, {name}, at position {early}, before its end at position {last}"
            how = how if early else f"moves although it starts at its goal, {name}"
            return early, f"{how}: a trip ends the first time it enters its goal"
        return NetworkTask(self, states[0], goal).problem(trajectory)

    @cached_property
    def any_task(self) -> AnyTask:
        """All trips at once: every state is a start and an end."""
        return AnyTask(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "any_task"}


class _Trips(MDP):
    """Trips through a network, in its own words."""

    may_last_for_ever: ClassVar[bool] = True
    step_word = "move"
    network: Network

    def describe_state(self, state: int) -> str:
        return self.network.describe_state(state)

    def describe_action(self, action: int) -> str:
        return self.network.describe_action(action)

    def read_state(self, name: Any) -> int:
        return int(self.network.read_state(name))

    @property
    def squared_distances(self) -> Any:
        """As the network has it; None where it has no places."""
        return getattr(self.network, "squared_distances", None)


class NetworkTask(_Trips):
    """One trip through a network: from `origin`, until `goal` is entered for the first time."""

    def __init__(self, network: Network, start: int, goal: int, horizon: int | None = None) -> None:
        self.network = network
        self.origin, self.goal = (network.require_state(s, f"{n} state") for n, s in (("start", start), ("goal", goal)))
        begin, end = read_start(self.origin, network.n_states), read_terminal(self.goal, network.n_states)
        columns = Columns(network.source, network.action, network.target, network.probability)
        limit = network.horizon if horizon is None else horizon
        self._build(network.n_states, network.n_actions, columns, begin, end, limit)

    def __repr__(self) -> str:
        ends = f"{self.describe_state(self.origin)} -> {self.describe_state(self.goal)}"
        sizes = f"{self.n_states} states, {len(self.source)} transitions, horizon={self.horizon}"
        return f"{type(self).__name__}({ends} of {sizes})"


class AnyTask(_Trips):
    """Every trajectory of a network, whatever its start and its end: what all tasks have in common.

    Machines are compiled over it, and products explored in it, once for all tasks. Its start (uniform over all states,
    or over the origins of `with_start`) only says where to begin looking.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        for name in Transitions.__annotations__:
            setattr(self, name, getattr(network, name))
        self.start = np.full(self.n_states, 1.0 / self.n_states)
        self._freeze()
        self._measure()

    def _measure(self) -> None:
        self.acyclic, self.unbounded = False, self.horizon is None
        self.max_length = UNBOUNDED if self.horizon is None else self.horizon

    def problem(self, trajectory: Trajectory) -> tuple[int, str] | None:
        """None for a trip of the network, else (position, sentence) of its first problem."""
        return self.network.problem(trajectory)

    def starting_in(self, states: ArrayLike) -> AnyTask:
        """All trips that begin in these states."""
        start = np.zeros(self.n_states)
        start[np.unique(np.asarray(states))] = 1.0
        return self.with_start(start / start.sum())
