"""Tabular Markov decision processes: the worlds in which trajectories live.

An `MDP` is checked completely when it is built and never changes afterwards. Engines read its
transitions as sorted columns; people read its errors, which name states and actions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import WorldError
from xmen.worlds import _structure
from xmen.worlds._checks import read_horizon, read_start, read_terminal, whole_number
from xmen.worlds._problem import find_problem, is_unfinished
from xmen.worlds._table import Columns, read_rows
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.transitions import Transitions, require_size

if TYPE_CHECKING:
    from xmen.worlds.from_gymnasium import GymnasiumWorld
    from xmen.worlds.from_networkx import GraphWorld

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
        Rows (state, action, next_state, probability), or an array of shape (n, 4). Rows of the same state, action and
        next state are added. An action without rows is not available in that state. Rows that leave a terminal state
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
        n_states = whole_number(n_states, "n_states", at_least=1)
        n_actions = whole_number(n_actions, "n_actions", at_least=1)
        require_size(n_states, n_actions)
        columns = read_rows(transitions, n_states, n_actions)
        start_vector = read_start(start, n_states)
        terminal_mask = read_terminal(terminal, n_states)
        if not len(columns.source) and np.any(start_vector[~terminal_mask] > 0):
            raise WorldError(
                "transitions is empty, so nothing can happen: give rows (state, action, next_state, probability)"
            )
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
        self.horizon = read_horizon(horizon)
        self.start = start
        self._build_table(n_states, n_actions, columns, terminal)
        self._freeze()
        self._measure()

    def _measure(self) -> None:
        """Set `acyclic` and `max_length`; refuse worlds that need a horizon and have none."""
        if not self.has_terminal and self.horizon is None:
            raise WorldError(
                "without terminal states all trajectories have exactly `horizon` actions: "
                "give a horizon, or terminal states"
            )
        reached = _structure.reachable(self.source, self.target, self.start > 0)
        cycle = _structure.find_cycle(self.source, self.target, reached)
        self.acyclic = cycle is None
        self.unbounded = cycle is not None and self.horizon is None
        if cycle is not None and self.horizon is None and not self.may_last_for_ever:
            shown = " -> ".join(map(self.describe_state, cycle if len(cycle) <= 9 else cycle[:8]))
            raise WorldError(
                f"this world can go round in circles ({shown}{' -> ...' if len(cycle) > 9 else ''}), so a "
                "trajectory could last for ever: give a horizon (the largest number of actions)"
            )
        if cycle is None and self.has_terminal:
            completing = reached & _structure.reachable(self.target, self.source, self.terminal)
            longest = _structure.longest_trajectory(self.source, self.target, completing)
            self.max_length = longest if self.horizon is None else min(longest, self.horizon)
        else:
            self.max_length = UNBOUNDED if self.horizon is None else self.horizon

    def with_start(self, start: int | ArrayLike) -> Self:
        """The same world with another start; its arrays are shared.

        Parameters
        ----------
        start
            A state, or a probability vector of shape (n_states,).

        Returns
        -------
        MDP
            A world of the same class.
        """
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
        reached = _structure.reachable(self.source, self.target, self.start > 0)
        longest = _structure.longest_trajectory(self.source, self.target, reached)
        return longest if self.horizon is None else min(longest, self.horizon)

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
        first = trajectory.states[0]
        if first >= self.n_states or self.start[first] == 0.0:
            return -np.inf
        edges = self.find_steps(trajectory)
        if np.any(edges < 0):
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
        return find_problem(self, trajectory)

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
        return is_unfinished(self, trajectory)

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
        from xmen.worlds.from_gymnasium import GymnasiumWorld

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
