"""A batch of trajectories as padded tables: what candidates are read off, and what they are checked on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint
from xmen.events import NO_ACTION, Bools, Ints
from xmen.machines.tables import CompiledConstraint
from xmen.rules.words import Word
from xmen.worlds.mdp import MDP
from xmen.worlds.trajectory import Trajectory

UNANSWERED = np.iinfo(np.int64).max  # longer than any wait


@dataclass(frozen=True)
class Batch:
    """n trajectories of one world: states (n, T + 1) and actions (n, T) up to their lengths (n,)."""

    world: MDP
    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    lengths: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lengths)

    def keeps(self, constraint: Constraint) -> Bools:
        """Which of them keep the constraint (n,), by running its machines."""
        return CompiledConstraint(constraint, self.world).check(self.states, self.actions, self.lengths)

    @cached_property
    def inside(self) -> Bools:
        """Which positions (n, T + 1) there are."""
        positions: Bools = np.arange(self.states.shape[1]) <= self.lengths[:, None]
        return positions

    @cached_property
    def _moves(self) -> NDArray[np.int32]:
        """The action at each position (n, T + 1), NO_ACTION from the last one on."""
        padded = np.full(self.states.shape, NO_ACTION, dtype=np.int32)
        moving = np.arange(self.actions.shape[1]) < self.lengths[:, None]
        padded[:, :-1][moving] = self.actions[moving]
        return padded

    def happens(self, word: Word) -> Bools:
        """At which positions (n, T + 1) the event happens."""
        happens: Bools = word.table[self.states, self._moves] & self.inside
        return happens

    def counts(self, word: Word) -> Ints:
        """How often the event happens in each (n,)."""
        counts: Ints = np.count_nonzero(self.happens(word), axis=1)
        return counts

    def sizes(self) -> Ints:
        """The number of visited states of each (n,)."""
        return self.lengths.astype(np.int64) + 1

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
        for t in range(self.actions.shape[1]):
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


def batch_of(world: MDP, trajectories: Sequence[Trajectory]) -> Batch:
    """Complete trajectories of the world as one batch."""
    lengths = np.fromiter(map(len, trajectories), dtype=np.int32, count=len(trajectories))
    longest = int(lengths.max(initial=0))
    states = np.zeros((len(trajectories), longest + 1), dtype=np.int32)
    actions = np.zeros((len(trajectories), longest), dtype=np.int32)
    for row, tau in enumerate(trajectories):
        states[row, : len(tau) + 1] = tau.states
        actions[row, : len(tau)] = tau.actions
    return Batch(world, states, actions, lengths)
