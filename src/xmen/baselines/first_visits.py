"""The probability that a trajectory ever meets an event, for many events at once.

The first-visit accrual of Scobee and Sastry (2020, Algorithm 1), exact: one backward pass turns the distribution
over trajectories into a Markov chain over states that depends on time,

    p_t(s, a, s') = T(s' | s, a) exp(gamma^t r(s, a)) Z_{t+1}(s') / Z_t(s),

and one forward pass per event carries the mass that has not met it yet. What is left at the end never meets it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.events import NO_ACTION, Event
from xmen.limits import require_horizon
from xmen.rewards import Floats
from xmen.worlds.mdp import MDP

Bools = NDArray[np.bool_]

BLOCK_CELLS = 4_000_000  # events are carried in blocks of at most this many (transition, event) cells


def meeting_probabilities(
    world: MDP,
    reward: Floats,
    discount: float,
    events: Sequence[Event],
    forbidden: Sequence[Event] = (),
    given: str | None = None,
) -> Floats:
    """P(the event happens at some position) under exp(R) D over trajectories on which nothing `forbidden` happens.

    `reward` has shape (n_states, n_actions); the answer has one number per event. With H the world's `max_length` and
    E its transitions: O(H E) for the backward pass and O(H E) per event, in blocks of numpy. Some trajectory must be
    left (otherwise the numbers are nan): whoever asks has demonstrations that are. `given`: "start" for starts as the
    world says.
    """
    banned_edge, banned_end = happens(world, forbidden)
    chain = _Chain(world, reward, discount, np.invert(banned_edge.any(axis=1)), np.invert(banned_end.any(axis=1)))
    meets_edge, meets_end = happens(world, events)
    width = max(1, BLOCK_CELLS // max(1, len(world.source)))
    answer = np.empty(len(events))
    for begin in range(0, len(events), width):
        block = slice(begin, begin + width)
        answer[block] = 1.0 - chain.mass_that_avoids(meets_edge[:, block], meets_end[:, block], given)
    return np.clip(answer, 0.0, 1.0)


def happens(world: MDP, events: Sequence[Event]) -> tuple[Bools, Bools]:
    """Where events happen: on each transition (at its source), shape (E, n); at each last state, shape (S, n)."""
    edges, ends = np.zeros((len(world.source), len(events)), bool), np.zeros((world.n_states, len(events)), bool)
    source, action = world.source.astype(np.int64), world.action.astype(np.int64)
    states = np.arange(world.n_states)
    for column, event in enumerate(events):
        edges[:, column] = event.holds(source, action)
        ends[:, column] = event.holds(states, np.full(world.n_states, NO_ACTION))
    return edges, ends


class _Chain:
    """The distribution over trajectories as a chain over states, one transition probability per edge and time."""

    def __init__(self, world: MDP, reward: Floats, discount: float, edge_allowed: Bools, end_allowed: Bools) -> None:
        self.world, self.horizon = world, world.max_length
        self._ends = world.terminal if world.has_terminal else np.ones(world.n_states, dtype=bool)
        self._log_dynamics = np.where(edge_allowed, np.log(world.probability), -np.inf)
        self._reward, self._discount = reward[world.source, world.action], discount
        # Edges are sorted by source, so that a sum over the edges of a state is a sum over a stretch.
        self._leaving = np.flatnonzero(np.diff(world.row_start))
        self._into = csr_matrix(
            (np.ones(len(world.source)), (world.target, np.arange(len(world.source)))),
            shape=(world.n_states, len(world.source)),
        )
        self._from = csr_matrix(
            (np.ones(len(world.source)), (np.arange(len(world.source)), world.source)),
            shape=(len(world.source), world.n_states),
        )
        require_horizon(self.horizon, 8 * world.n_states * self.horizon)
        stop = np.where(self._ends & end_allowed, 0.0, -np.inf)
        self._values = [stop]
        for t in range(self.horizon - 1, -1, -1):
            self._values.append(self._before(t, self._values[-1], stop))
        self._values.reverse()

    def _weights(self, t: int, after: Floats) -> Floats:
        return self._log_dynamics + self._discount**t * self._reward + after[self.world.target]

    def _before(self, t: int, after: Floats, stop: Floats) -> Floats:
        value = stop.copy() if self.world.has_terminal else np.full(len(stop), -np.inf)
        if len(self._leaving):
            rows = self.world.row_start[self._leaving]
            # Terminal states have no edges, so nothing is overwritten here.
            value[self._leaving] = np.logaddexp.reduceat(self._weights(t, after), rows)
        return value

    def _step(self, t: int) -> Floats:
        """p_t of every edge; 0 for edges that cannot be taken at time t."""
        here = self._values[t][self.world.source]
        possible = here > -np.inf
        weights = self._weights(t, self._values[t + 1])
        step: Floats = np.exp(np.where(possible, weights - np.where(possible, here, 0.0), -np.inf))
        return step

    def mass_that_avoids(self, meets_edge: Bools, meets_end: Bools, given: str | None) -> Floats:
        """The probability of never meeting each event; columns as in `happens`."""
        start = self.world.start
        if given is None:
            with np.errstate(divide="ignore"):
                start = np.log(start) + self._values[0]
            start = np.exp(start - np.logaddexp.reduce(start))
        here = np.repeat(start[:, None], meets_edge.shape[1], axis=1)
        done = np.zeros(meets_edge.shape[1])
        by_state = bool(np.all(meets_edge == meets_end[self.world.source]))
        for t in range(self.horizon + 1):
            if by_state:
                here *= ~meets_end
            if self.world.has_terminal or t == self.horizon:
                done += np.sum(here[self._ends] * ~meets_end[self._ends], axis=0)
            if t < self.horizon:
                step = self._step(t)
                if by_state:  # no need to look at single edges: one product of a sparse and a dense matrix
                    here = (self._into.multiply(step).tocsr() @ self._from) @ here
                else:
                    here = self._into @ (step[:, None] * here[self.world.source] * ~meets_edge)
        return done
