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
from xmen.worlds._problem import find_problem
from xmen.worlds._table import Columns, read_rows
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.transitions import Transitions, refuse_overflow

if TYPE_CHECKING:
    from xmen.worlds.from_gymnasium import GymnasiumWorld
    from xmen.worlds.from_networkx import GraphWorld

__all__ = ["MDP"]

UNBOUNDED = 2**30 - 1  # the `max_length` of trajectories of any length: more actions than memory could hold


class MDP(Transitions):
    """A world with finitely many states and actions, given by its transitions.

    `transitions` are rows (state, action, next_state, probability), or an array of shape (n, 4).
    Rows of the same (state, action, next_state) are added; an action without rows is not available
    in that state; rows that leave a terminal state are dropped. `start` is a state or a probability
    vector of shape (n_states,).

    A complete trajectory ends the first time it enters a terminal state, after at most `horizon`
    actions; trajectories that do not get there do not exist. Without terminal states all
    trajectories have exactly `horizon` actions. A horizon is required when the world has cycles or
    no terminal state. A terminal start gives a trajectory of length 0.

    Arrays (read-only; S states, A actions, E transitions sorted by source, action, target):

    - `source`, `action`, `target` (E,) int32 and `probability` (E,) float64: the transitions;
      those that leave state s are `row_start[s]` to `row_start[s + 1]`, `row_start` (S + 1,) int64.
    - `start` (S,) float64: the probability of starting in each state.
    - `terminal` (S,) bool, `has_terminal`: whether any is.
    - `available` (S, A) bool: whether the action can be chosen in the state.
    - `deterministic`: every transition has probability 1. `acyclic`: no state that can be reached
      can be reached again. `max_length`: the largest number of actions a complete trajectory can have, and
      `unbounded` where there is none, which only tasks of a `Network` may be.

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

    horizon: int | None
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
        refuse_overflow(n_states, n_actions)
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
            longest = _structure.longest_path(self.source, self.target, completing)
            self.max_length = longest if self.horizon is None else min(longest, self.horizon)
        else:
            self.max_length = UNBOUNDED if self.horizon is None else self.horizon

    def with_start(self, start: int | ArrayLike) -> Self:
        """The same world, its arrays shared, with another start: a state or a probability vector (n_states,)."""
        other = copy(self)
        other.start = read_start(start, self.n_states)
        other.start.flags.writeable = False
        other._measure()
        return other

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_states={self.n_states}, n_actions={self.n_actions}, "
            f"{len(self.source)} transitions, horizon={self.horizon})"
        )

    @cached_property
    def episode_length(self) -> int | None:
        """The largest number of actions that an episode can have, whether it arrives or not; None: no limit.

        An episode goes on until it enters a terminal state, has no action left, or has had `horizon` actions.
        """
        if not (self.acyclic and self.has_terminal):
            return self.horizon
        reached = _structure.reachable(self.source, self.target, self.start > 0)
        longest = _structure.longest_path(self.source, self.target, reached)
        return longest if self.horizon is None else min(longest, self.horizon)

    def log_dynamics(self, trajectory: Trajectory) -> float:
        """log D(tau) = log d0(s_0) + sum_t log T(s_{t+1} | s_t, a_t); -inf when a factor is 0.

        Whether the trajectory is complete (ends where it must) does not matter here: see `problem`.
        """
        first = trajectory.states[0]
        if first >= self.n_states or self.start[first] == 0.0:
            return -np.inf
        edges = self.find_steps(trajectory)
        if np.any(edges < 0):
            return -np.inf
        return float(np.log(self.start[first]) + np.log(self.probability[edges]).sum())

    def problem(self, trajectory: Trajectory) -> tuple[int, str] | None:
        """None for a complete trajectory of this world, else (position, sentence) of the first problem."""
        return find_problem(self, trajectory)

    @staticmethod
    def from_gymnasium(env: Any, *, horizon: int | None = None) -> GymnasiumWorld:
        """The world of a Gymnasium environment that has a transition table: see `GymnasiumWorld`."""
        from xmen.worlds.from_gymnasium import from_gymnasium

        return from_gymnasium(env, horizon=horizon)

    @staticmethod
    def from_networkx(graph: Any, source: Hashable, target: Hashable, *, horizon: int | None = None) -> GraphWorld:
        """The world of a walk through a NetworkX graph: see `GraphWorld`."""
        from xmen.worlds.from_networkx import from_networkx

        return from_networkx(graph, source, target, horizon=horizon)
