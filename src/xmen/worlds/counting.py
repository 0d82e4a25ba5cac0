"""How many trajectories may be asked for: a whole number of them, and no more than memory holds."""

from __future__ import annotations

from typing import Any

from xmen.errors import EngineError
from xmen.limits import MEMORY
from xmen.options import as_int
from xmen.worlds.kernels import distance_to
from xmen.worlds.mdp import MDP

TRAJECTORY_BYTES, ACTION_BYTES = 300, 16  # of a trajectory, and for each of its actions


def require_count(n: Any, world: MDP) -> int:
    """`n` as an int, if so many of the world's shortest trajectories fit in memory."""
    number = as_int(n)
    if number is None or number < 0:
        raise EngineError(f"sample(n) takes a whole number of trajectories, 0 or more; got {n!r:.60}.")
    if number * (TRAJECTORY_BYTES + ACTION_BYTES * world.max_length) > MEMORY.most:
        require_room(number, world)
    return number


def require_room(number: float, world: MDP) -> None:
    """Refuse more trajectories than fit in memory, however short."""
    shortest = world.max_length
    if world.has_terminal:
        shortest = int(distance_to(world.terminal, world.source, world.target)[world.start > 0].min())
    number = min(number, 1e300)  # whole numbers may have any number of digits
    shown = f"{number:,.0f}" if number < 1e15 else f"{number:.0e}"
    what = f"a list of {shown} trajectories of {shortest:,} actions or more"
    MEMORY.require(number * (TRAJECTORY_BYTES + ACTION_BYTES * shortest), what, EngineError, "Ask for fewer at a time")
