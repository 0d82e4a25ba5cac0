"""A batch of trajectories position by position: what candidates are read off, and what they are checked on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xmen.constraints.constraint import Constraint
from xmen.events import NO_ACTION, Bools, Ints
from xmen.machines.tables import CompiledConstraint
from xmen.rules.words import Word
from xmen.worlds import MDP, Trajectory, Walks

UNANSWERED = np.iinfo(np.int64).max  # longer than any wait


@dataclass(frozen=True)
class Positions:
    """Complete trajectories of one world, position by position: tables (n, T + 1) with one column per position."""

    walks: Walks

    def __len__(self) -> int:
        return len(self.walks)

    def keeps(self, constraint: Constraint) -> Bools:
        """Which of them keep the constraint (n,), by running its machines."""
        return CompiledConstraint(constraint, self.walks.world).check(self.walks)

    @cached_property
    def inside(self) -> Bools:
        """Which positions (n, T + 1) there are."""
        positions: Bools = np.arange(self._moves.shape[1]) <= self.walks.lengths[:, None]
        return positions

    @cached_property
    def _states(self) -> Ints:
        """The state at each position (n, T + 1)."""
        states = np.zeros(self._moves.shape, dtype=np.int64)
        states[self.inside] = self.walks.states()
        return states

    @cached_property
    def _moves(self) -> Ints:
        """The action at each position (n, T + 1), NO_ACTION from the last one on."""
        moves = np.full((len(self), int(self.walks.lengths.max(initial=0)) + 1), NO_ACTION, dtype=np.int64)
        moves[self.walks.owner, self.walks.time] = self.walks.actions()
        return moves

    def happens(self, word: Word) -> Bools:
        """At which positions (n, T + 1) the event happens."""
        happens: Bools = word.table[self._states, self._moves] & self.inside
        return happens

    def counts(self, word: Word) -> Ints:
        """How often the event happens in each (n,)."""
        counts: Ints = np.count_nonzero(self.happens(word), axis=1)
        return counts

    def sizes(self) -> Ints:
        """The number of visited states of each (n,)."""
        sizes: Ints = self.walks.lengths + 1
        return sizes

    def longest_runs(self, word: Word) -> Ints:
        """The longest stretch of the event in each (n,)."""
        happens = self.happens(word)
        run, longest = np.zeros((2, len(self)), dtype=np.int64)
        for t in range(happens.shape[1]):
            run = (run + 1) * happens[:, t]
            longest = np.maximum(longest, run)
        return longest

    def longest_repeats(self) -> Ints:
        """The longest stretch of the same action in each (n,)."""
        run, longest = np.zeros((2, len(self)), dtype=np.int64)
        before = np.full(len(self), NO_ACTION)
        for t in range(self._moves.shape[1] - 1):
            action = self._moves[:, t]
            run = np.where(action == NO_ACTION, 0, np.where(action == before, run + 1, 1))
            longest, before = np.maximum(longest, run), action
        return longest

    def waits(self, trigger: Word, answer: Word) -> Ints:
        """The longest wait (n,) from a trigger to the next answer, `UNANSWERED` where one never comes."""
        asked, answered = self.happens(trigger), self.happens(answer)
        wait, longest = np.full(len(self), UNANSWERED), np.zeros(len(self), dtype=np.int64)
        for t in range(asked.shape[1] - 1, -1, -1):
            wait = np.where(answered[:, t], 0, np.where(wait == UNANSWERED, UNANSWERED, wait + 1))
            longest = np.where(asked[:, t], np.maximum(longest, wait), longest)
        return longest


def batch_of(world: MDP, trajectories: Sequence[Trajectory]) -> Positions:
    """Complete trajectories of the world as one batch."""
    return Positions(Walks.of(world, trajectories))
