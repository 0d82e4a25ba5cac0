"""Tabular Markov decision processes, checked completely when they are built and never changed afterwards."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from xmen.errors import WorldError
from xmen.worlds.names import some, unknown
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.transitions import FIELDS, Columns, Transitions, read_rows, read_sizes, read_start, read_terminal

if TYPE_CHECKING:
    from xmen.worlds.from_networkx import GraphWorld


# ---- The shape of a world: what can be reached, whether there is a cycle, how long a trajectory can be


def reachable(source: NDArray[np.int32], target: NDArray[np.int32], roots: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the states that can be reached from `roots`, roots included. O(S + E)."""
    n_states, starts = len(roots), np.flatnonzero(roots)
    # One extra node points at all roots, so that a single breadth-first search serves them all.
    sources, targets = np.concatenate([source, np.full(len(starts), n_states)]), np.concatenate([target, starts])
    found = np.zeros(n_states + 1, dtype=np.bool_)
    graph = _graph(sources, targets, np.ones_like(found))
    found[breadth_first_order(graph, n_states, return_predecessors=False)] = True
    return found[:n_states]


def find_cycle(source: NDArray[np.int32], target: NDArray[np.int32], among: NDArray[np.bool_]) -> list[int] | None:
    """A cycle among the given states as [s, ..., s], or None. O(S + E)."""
    graph = _graph(source, target, among)
    loops = np.flatnonzero(graph.diagonal())
    if len(loops):
        return [int(loops[0])] * 2
    _, component = connected_components(graph, directed=True, connection="strong")
    members = np.flatnonzero(np.bincount(component)[component] > 1)
    if not len(members):
        return None
    # In a strongly connected component the shortest way back to any state closes a cycle.
    cycle = [int(members[0])]
    order, before = breadth_first_order(graph, cycle[0])
    state = order[np.isin(order, graph[:, [cycle[0]]].nonzero()[0])][0]
    while state != cycle[0]:
        cycle.append(int(state))
        state = before[state]
    return [cycle[0], *reversed(cycle)]


def longest_trajectory(source: NDArray[np.int32], target: NDArray[np.int32], among: NDArray[np.bool_]) -> int:
    """Number of edges on the longest trajectory among the given states, which must hold no cycle. O(S + E)."""
    graph = _graph(source, target, among)
    incoming = np.bincount(graph.indices, minlength=len(among))
    layer = np.flatnonzero(among & (incoming == 0))
    length = 0
    while True:  # layer by layer, peeling off states without predecessors
        first, counts = graph.indptr[layer], np.diff(graph.indptr)[layer]
        offsets = np.repeat(first - np.cumsum(counts) + counts, counts)
        successors = graph.indices[offsets + np.arange(len(offsets))]
        if not len(successors):
            return length
        touched, times = np.unique(successors, return_counts=True)
        incoming[touched] -= times
        layer = touched[incoming[touched] == 0]
        length += 1


def _graph(source: NDArray[np.integer], target: NDArray[np.integer], among: NDArray[np.bool_]) -> csr_matrix:
    """The successors of the states `among` that are among them too, as a CSR matrix; parallel edges are merged."""
    if not among.all():
        inside = among[source] & among[target]
        source, target = source[inside], target[inside]
    return csr_matrix((np.ones(len(source)), (source, target)), shape=(len(among), len(among)))


# ---- The world itself

UNBOUNDED = 2**30 - 1  # the `max_length` of trajectories of any length: more actions than memory could hold


class MDP(Transitions):
    """A world with finitely many states and actions, given by its transitions.

    A complete trajectory ends the first time it enters a terminal state, after at most `horizon` actions. Trajectories
    that do not get there do not exist. Without terminal states all trajectories have exactly `horizon` actions. A
    terminal start gives a trajectory of length 0. A goal that cannot be reached is legal here: `xm.distribution` says
    so.

    Parameters
    ----------
    n_states
        The number of states S. States are 0 to S - 1.
    n_actions
        The number of actions A. Actions are 0 to A - 1.
    transitions
        Rows (state, action, next_state, probability), or an array of shape (n, 4); or a dense table of probabilities of
        shape (S, A, S) or (A, S, S), the last axis the next state. Rows of the same state, action and next state are
        added. An action without rows is not available in that state. Rows that leave a terminal state
        are dropped.
    start
        The state in which every trajectory starts, or a probability vector of shape (S,).
    terminal
        The states that end a trajectory, as numbers or as a mask of shape (S,).
    horizon
        The largest number of actions. Required when the world has cycles or no terminal state.

    Attributes
    ----------
    source, action, target
        The E transitions as columns of shape (E,), sorted by source, action and target. Those that leave state s are
        `row_start[s]` to `row_start[s + 1]`. All arrays are read-only.
    probability
        The probability of each transition, shape (E,).
    row_start
        Where the transitions of each state begin, shape (S + 1,).
    start
        The probability of starting in each state, shape (S,).
    terminal
        Whether a state is terminal, shape (S,). `has_terminal` says whether any is.
    available
        Whether an action can be chosen in a state, shape (S, A).
    deterministic
        Whether every transition has probability 1.
    acyclic
        Whether no state that can be reached can be reached again.
    max_length
        The largest number of actions that a complete trajectory can have.

    Raises
    ------
    WorldError
        When rows name states or actions that do not exist, probabilities do not add up to 1, or a horizon is missing.
        The message names the state and the action.

    Examples
    --------
    >>> walk = MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 2, 0.75), (1, 0, 0, 0.25)],
    ...            start=0, terminal=[2], horizon=5)
    >>> walk.problem(Trajectory([0, 1, 2], [0, 0]))
    >>> walk.problem(Trajectory([0, 1], [0]))
    (1, 'ends in state 1, which is not terminal (terminal: state 2)')
    >>> MDP(2, 1, [(0, 0, 1, 0.9)], start=0, terminal=[1])
    Traceback (most recent call last):
    ...
    xmen.errors.WorldError: probabilities of action 0 in state 0 sum to 0.9, not to 1
    """

    start: NDArray[np.float64]
    acyclic: bool
    max_length: int
    unbounded: bool
    may_last_for_ever: ClassVar[bool] = False

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        transitions: Iterable[Sequence[float]] | NDArray[Any],
        start: int | ArrayLike,
        terminal: int | Iterable[int] | NDArray[Any] = (),
        horizon: int | None = None,
    ) -> None:
        n_states, n_actions = read_sizes(n_states, n_actions)
        columns = read_rows(transitions, n_states, n_actions)
        start_vector = read_start(start, n_states)
        terminal_mask = read_terminal(terminal, n_states)
        if not len(columns.source) and np.any(start_vector[~terminal_mask] > 0):
            raise WorldError(f"transitions is empty, so nothing can happen: give rows {FIELDS}")
        self._build(n_states, n_actions, columns, start_vector, terminal_mask, horizon)

    def _build(
        self,
        n_states: int,
        n_actions: int,
        columns: Columns,
        start: NDArray[np.float64],
        terminal: NDArray[np.bool_],
        horizon: int | None,
    ) -> None:
        """Everything after the arguments have been read; subclasses with checked columns enter here."""
        self.start = start
        self._build_table(n_states, n_actions, columns, terminal, horizon)
        self._measure()

    def _measure(self) -> None:
        """Set `acyclic` and `max_length`; refuse worlds that need a horizon and have none."""
        if not self.has_terminal and self.horizon is None:
            always = "without terminal states all trajectories have exactly `horizon` actions"
            raise WorldError(f"{always}: give a horizon, or terminal states")
        reached = reachable(self.source, self.target, self.start > 0)
        cycle = find_cycle(self.source, self.target, reached)
        self.acyclic = cycle is None
        self.unbounded = cycle is not None and self.horizon is None
        if cycle is not None and self.horizon is None and not self.may_last_for_ever:
            shown = " -> ".join(map(self.describe_state, cycle if len(cycle) <= 9 else cycle[:8]))
            circles = f"this world can go round in circles ({shown}{' -> ...' if len(cycle) > 9 else ''})"
            advice = "give a horizon (the largest number of actions)"
            raise WorldError(f"{circles}, so a trajectory could last for ever: {advice}")
        if cycle is None and self.has_terminal:
            self.max_length = self._longest(reached & reachable(self.target, self.source, self.terminal))
        else:
            self.max_length = UNBOUNDED if self.horizon is None else self.horizon

    def _longest(self, among: NDArray[np.bool_]) -> int:
        longest = longest_trajectory(self.source, self.target, among)
        return longest if self.horizon is None else min(longest, self.horizon)

    def with_start(self, start: int | ArrayLike) -> Self:
        """This world with another start, a state or a probability vector (n_states,); both share their arrays."""
        other = copy(self)
        other.start = read_start(start, self.n_states)
        other.start.flags.writeable = False
        other._measure()
        return other

    @property
    def any_task(self) -> MDP:
        """The world of all demonstrations: itself, where a network has that of every trip through it."""
        return self

    @cached_property
    def episode_length(self) -> int | None:
        """The largest number of actions that an episode can have, whether it arrives or not; None: no limit.

        An episode goes on until it enters a terminal state, has no action left, or has had `horizon` actions.
        """
        if not (self.acyclic and self.has_terminal):
            return self.horizon
        return self._longest(reachable(self.source, self.target, self.start > 0))

    def log_dynamics(self, trajectory: Trajectory) -> float:
        """The log-probability that chance plays along: log D(tau) = log d0(s_0) + sum_t log T(s_{t+1} | s_t, a_t).

        Whether the trajectory is complete (ends where it must) does not matter here: see `problem`.

        Parameters
        ----------
        trajectory
            Any trajectory.

        Returns
        -------
        float
            log D(tau), or -inf when a factor is 0.
        """
        first, edges = trajectory.states[0], self.find_steps(trajectory)
        if first >= self.n_states or self.start[first] == 0.0 or np.any(edges < 0):
            return -np.inf
        return float(np.log(self.start[first]) + np.log(self.probability[edges]).sum())

    def problem(self, trajectory: Trajectory) -> tuple[int, str] | None:
        """What is wrong with a trajectory in this world, if anything is.

        Parameters
        ----------
        trajectory
            The trajectory to check, from its start to its end.

        Returns
        -------
        tuple[int, str] | None
            None for a complete trajectory of this world, else the position of the first problem and a sentence about
            it.
        """
        states, actions, horizon = trajectory.states, trajectory.actions, self.horizon
        if states[0] >= self.n_states:
            return 0, unknown("state", states[0], self.n_states)
        if self.start[states[0]] == 0.0:
            starts = some(map(self.describe_state, np.flatnonzero(self.start > 0).tolist()))
            return 0, f"starts in {self.describe_state(states[0])}, which is not a start (start: {starts})"
        impossible = np.flatnonzero(self.find_steps(trajectory) < 0)
        first = int(impossible[0]) if len(impossible) else len(actions)
        if horizon is not None and horizon < len(actions) and horizon <= first:
            rule = "the horizon allows" if self.has_terminal else "without terminal states it must have exactly"
            return horizon, f"has {len(actions)} actions, {rule} {horizon}"
        if len(impossible):
            return self._impossible_step(first, states[first], actions[first], states[first + 1])
        if self.has_terminal and not self.terminal[states[-1]]:
            ends = some(map(self.describe_state, np.flatnonzero(self.terminal).tolist()))
            last = f"{self.describe_state(states[-1])}, which is not terminal (terminal: {ends})"
            if len(actions) == horizon:
                return len(actions), f"runs out of time: after all {horizon} actions of the horizon it is in {last}"
            stuck = "" if self.available[states[-1]].any() else " and has no actions"
            return len(actions), f"ends in {last}{stuck}"
        if not self.has_terminal and len(actions) != horizon:
            return len(actions), f"has {len(actions)} actions, without terminal states it must have exactly {horizon}"
        return None

    def _impossible_step(self, position: int, state: int, action: int, target: int) -> tuple[int, str]:
        here = self.describe_state(state)
        if self.terminal[state]:
            return position, f"goes on after {here}, which is terminal (a trajectory ends where it first meets one)"
        if action >= self.n_actions:
            return position, unknown("action", action, self.n_actions)
        what = self.describe_action(action)
        if not self.available[state, action]:
            choices = some(map(self.describe_action, np.flatnonzero(self.available[state]).tolist()))
            return position, f"{what} is not available in {here} (available: {choices})"
        if target >= self.n_states:  # the action was fine: the state after it is not
            return position + 1, unknown("state", target, self.n_states)
        row = slice(self.row_start[state], self.row_start[state + 1])
        outcomes = some(map(self.describe_state, self.target[row][self.action[row] == action].tolist()))
        return position, f"{what} in {here} never leads to {self.describe_state(target)} (it leads to {outcomes})"

    def unfinished(self, trajectory: Trajectory) -> bool:
        """Whether this can happen and does not arrive: the horizon is used up, or the last state has no actions.

        Parameters
        ----------
        trajectory
            An episode from its start to its end.

        Returns
        -------
        bool
            False for complete trajectories, and for those that cannot happen or break off.
        """
        if self.log_dynamics(trajectory) == -np.inf:
            return False
        last = trajectory.states[-1]
        arrived = self.terminal[last] if self.has_terminal else len(trajectory) == self.horizon
        return not arrived and (len(trajectory) == self.horizon or not self.available[last].any())

    @staticmethod
    def from_gymnasium(env: Any, *, horizon: int | None = None) -> GymnasiumWorld:
        """The world of a Gymnasium environment that has a transition table.

        Parameters
        ----------
        env
            An environment with a transition table (`env.unwrapped.P`), as `gymnasium.make` gives it: the toy-text
            family.
        horizon
            The largest number of actions. None: the environment's own limit on the number of steps, where it has one.

        Returns
        -------
        GymnasiumWorld
            An MDP with the environment's `rewards` and `observations`.

        Raises
        ------
        WorldError
            When the environment has no table of transitions.
        """
        return GymnasiumWorld(env, horizon=horizon)

    @staticmethod
    def from_networkx(graph: Any, source: Hashable, target: Hashable, *, horizon: int | None = None) -> GraphWorld:
        """The world of a walk through a NetworkX graph: states are nodes, actions are edges.

        Parameters
        ----------
        graph
            A NetworkX graph, directed or not.
        source
            The node in which trajectories start.
        target
            The node in which they end.
        horizon
            The largest number of edges; required when the graph has cycles.

        Returns
        -------
        GraphWorld
            An MDP that translates between nodes and states.

        Raises
        ------
        MissingExtraError
            When NetworkX is not installed.
        WorldError
            When the graph does not have these nodes, or a horizon is missing.
        """
        from xmen.worlds.from_networkx import GraphWorld

        return GraphWorld(graph, source, target, horizon=horizon)


# ---- Worlds from Gymnasium environments that publish their transition table (the toy-text family).
#
# The table `env.unwrapped.P[state][action]` lists (probability, next_state, reward, terminated). The flag belongs to
# the transition, while an `MDP` has terminal *states*; the two agree unless a state that episodes can reach is entered
# with and without it. Such a state is split: entering it with the flag leads to a terminal state of its own.


class GymnasiumWorld(MDP):
    """The world of a Gymnasium environment, state by state and action by action; made by `MDP.from_gymnasium`.

    Episodes that are cut off by a limit on the number of steps are not complete trajectories: see `MDP`.

    Attributes
    ----------
    rewards
        The environment's expected reward of each action, 0 where it is not available; shape (n_states, n_actions).
        Handy as a feature.
    observations
        What the environment calls each state, shape (n_states,). State s is observation s. A state that an episode can
        enter both with and without ending there is split in two; the extra terminal states are numbered after all
        others.
    """

    rewards: NDArray[np.float64]
    observations: NDArray[np.int64]

    def __init__(self, env: Any, *, horizon: int | None = None) -> None:
        if isinstance(env, str):
            raise WorldError(f"from_gymnasium takes an environment, got a name: pass gymnasium.make({env!r})")
        inner = getattr(env, "unwrapped", env)
        name = type(inner).__name__
        if getattr(inner, "P", None) is None:
            which = "which toy-text environments such as FrozenLake, CliffWalking and Taxi have"
            reads = f"from_gymnasium reads env.unwrapped.P, {which}; write other worlds as xmen.MDP(...)"
            raise WorldError(f"{name} has no transition table: {reads}")
        if getattr(inner, "fickle_passenger", False):
            why = "changes the destination outside its transition table, so the table does not describe its episodes"
            raise WorldError(f"{name} with fickle_passenger=True {why}: use fickle_passenger=False")
        n_observations, n_actions = _size(inner, "observation_space"), _size(inner, "action_space")
        rows = _read_table(inner.P, n_observations, n_actions)
        if getattr(inner, "initial_state_distrib", None) is None:
            missing = f"{name} has no initial_state_distrib, so nothing says where episodes start"
            raise WorldError(f"{missing}: set it to a probability vector over states")
        start = read_start(np.asarray(inner.initial_state_distrib), n_observations)

        # A state needs a terminal twin when an episode can start in it, or enter it without the flag, and can also end
        # in it. What happens in states that no episode reaches does not count: in Taxi, the state after a drop-off is
        # entered without the flag only from states where the passenger never is.
        state, action, target = rows[:, :3].T.astype(np.int32)
        ends = rows[:, 5] > 0
        alive = reachable(state[~ends], target[~ends], start > 0)
        endings = np.unique(target[ends])
        ended, extra = endings[~alive[endings]], endings[alive[endings]]
        self.observations = np.append(np.arange(n_observations), extra)
        self.rewards = np.zeros((len(self.observations), n_actions))
        np.add.at(self.rewards, (state, action), rows[:, 3] * rows[:, 4])
        self.rewards[ended] = 0.0
        if horizon is None:
            horizon = getattr(getattr(env, "spec", None), "max_episode_steps", None)
        split = ends & np.isin(target, extra)
        rows[split, 2] = n_observations + np.searchsorted(extra, target[split])
        start = np.append(start, np.zeros(len(extra)))
        terminal = np.append(ended, np.arange(n_observations, len(start)))
        super().__init__(len(start), n_actions, rows[:, :4], start, terminal, horizon)


def _size(inner: Any, which: str) -> int:
    space = getattr(inner, which, None)
    size = getattr(space, "n", None)
    if not isinstance(size, int | np.integer) or size < 1 or getattr(space, "start", 0) != 0:
        raise WorldError(f"{type(inner).__name__}: {which} must be Discrete(n) starting at 0, got {space}")
    return int(size)


def _read_table(table: Any, n_observations: int, n_actions: int) -> NDArray[np.float64]:
    """The rows (state, action, next_state, probability, reward, terminated) that can happen, shape (n, 6)."""
    rows = []
    for state, action in product(range(n_observations), range(n_actions)):
        try:
            outcomes = table[state][action]
        except (KeyError, IndexError):
            continue  # not listed: not available
        where = f"P[{state}][{action}]"
        try:
            found = [(state, action, int(t), float(p), float(r), bool(end)) for p, t, r, end in outcomes]
        except (TypeError, ValueError):
            expected = "must list (probability, next_state, reward, terminated)"
            raise WorldError(f"{where} {expected}, got {outcomes!r:.80}") from None
        for _, _, target, *_ in found:
            if not 0 <= target < n_observations:
                known = f"the observations are 0 to {n_observations - 1}"
                raise WorldError(f"{where} leads to state {target}, but {known}")
        rows += [row for row in found if row[3] != 0.0]
    return np.array(rows, dtype=np.float64).reshape(-1, 6)
