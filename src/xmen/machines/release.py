"""The check that every trajectory passes before a user sees it."""

from __future__ import annotations

import gc
import threading

import numpy as np
from numpy.typing import NDArray

from xmen.errors import XmenError
from xmen.machines.tables import CompiledConstraint
from xmen.worlds import Trajectory, Walks


def release(walks: Walks, compiled: CompiledConstraint) -> list[Trajectory]:
    """The walks as trajectories, every one checked against its world and the constraint, whoever made them."""
    require_valid(walks, compiled.check(walks))
    return as_trajectories(walks)


def require_valid(walks: Walks, keeps: NDArray[np.bool_]) -> None:
    """Stop where one of the walks is no trajectory of its world, or does not keep its constraint."""
    for right, wrong in ((walks.complete(), "left its world"), (keeps, "broke its constraint")):
        if not right.all():
            raise XmenError(f"a trajectory {wrong} inside an engine: this is a bug, please report it.")


def as_trajectories(walks: Walks) -> list[Trajectory]:
    """The walks as trajectories, not checked."""
    states, actions = tuple(walks.states().tolist()), tuple(walks.actions().tolist())
    trusted, out, begin = Trajectory._trusted, [], 0
    with _collector_paused:
        for i, end in enumerate(walks.offsets[1:].tolist()):
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
