"""Batches of trajectories as arrays, and the one door through which trajectories leave the library: checked."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmen.errors import XmenError
from xmen.machines.tables import CompiledConstraint
from xmen.worlds.mdp import MDP
from xmen.worlds.trajectory import Trajectory

Index = NDArray[np.int32]


@dataclass(frozen=True)
class Walks:
    """A batch of trajectories: start states, the world edges they take, and how many of these count."""

    starts: Index  # (n,)
    edges: Index  # (n, longest); anything past the end
    lengths: Index  # (n,)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Walks:
        return Walks(self.starts[which], self.edges[which], self.lengths[which])

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which entries of `edges` count."""
        return np.arange(self.edges.shape[1]) < self.lengths[:, None]

    def states(self, world: MDP) -> Index:
        """The states, shape (n, longest + 1)."""
        out = np.empty((len(self), self.edges.shape[1] + 1), dtype=np.int32)
        out[:, 0] = self.starts
        out[:, 1:] = world.target[self.edges]
        return out

    def actions(self, world: MDP) -> Index:
        """The actions, shape (n, longest)."""
        return world.action[self.edges]

    def valid(self, compiled: CompiledConstraint) -> NDArray[np.bool_]:
        """Which of them keep the constraint, by running its machines over states and actions."""
        world = compiled.world
        return compiled.check(self.states(world), self.actions(world), self.lengths)


def release(walks: Walks, compiled: CompiledConstraint) -> list[Trajectory]:
    """The walks as trajectories, every one checked against the constraint, whoever made them."""
    if not walks.valid(compiled).all():
        raise XmenError("a trajectory broke its constraint inside an engine: this is a bug, please report it.")
    return as_trajectories(walks, compiled.world)


def as_trajectories(walks: Walks, world: MDP) -> list[Trajectory]:
    """The walks as trajectories, not checked."""
    inside = walks.inside
    visited = np.concatenate([np.ones((len(walks), 1), dtype=np.bool_), inside], axis=1)
    states, actions = tuple(walks.states(world)[visited].tolist()), tuple(walks.actions(world)[inside].tolist())
    trusted, out, begin = Trajectory._trusted, [], 0
    with _collector_paused:
        for i, end in enumerate(np.cumsum(walks.lengths).tolist()):
            out.append(trusted(states[begin + i : end + i + 1], actions[begin:end]))
            begin = end
    return out


class _CollectorPaused:
    """No garbage collection inside: looking through many thousand new tuples would double the time to make them.

    Collection goes on when the last thread has left, if it was on when the first one entered.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._was_enabled = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_enabled:
                gc.enable()


_collector_paused = _CollectorPaused()
