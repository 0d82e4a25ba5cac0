"""Demonstrations for other libraries: columns for data frames, trajectories of imitation, episodes of Minari."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from xmen.errors import TrajectoryError, extra_module
from xmen.worlds.demo_tables import demo_columns
from xmen.worlds.names import Names
from xmen.worlds.trajectory import Trajectory


def convert_demos(demos: Iterable[Trajectory], to: str, world: Any = None) -> Any:
    """Demonstrations or samples in the form of another library; `read_demos` takes all of them back.

    Parameters
    ----------
    demos
        Trajectories of any lengths.
    to
        "columns": a dict of lists, which `pandas.DataFrame` and `polars.DataFrame` take. "imitation": a list of
        `imitation.data.types.Trajectory`. "minari": a list of Minari's `EpisodeBuffer`, for
        `minari.create_dataset_from_buffers`.
    world
        If given, columns hold cells, moves or nodes instead of numbers.

    Returns
    -------
    dict or list
        As `to` says.

    Raises
    ------
    MissingExtraError
        When that library is not installed.
    TrajectoryError
        When `to` is something else.

    Examples
    --------
    >>> from xmen.worlds import GridWorld, Trajectory
    >>> grid = GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    >>> convert_demos([Trajectory([0, 2, 3], [0, 1])], "columns", grid)
    {'demo': [0, 0, 0], 'step': [0, 1, 2], 'x': [0, 0, 1], 'y': [0, 1, 1], 'move': ['up', 'right', None]}
    """
    if to == "columns":
        return demo_columns(demos, Names(world))
    if to not in _CONVERTED:
        raise TrajectoryError(f'demonstrations can be converted to "columns", "imitation" or "minari", got {to!r:.60}')
    return _CONVERTED[to](list(demos))


def _to_imitation(demos: list[Trajectory]) -> list[Any]:
    kind = extra_module("imitation.data.types", 'convert_demos(..., "imitation")').Trajectory
    return [
        kind(obs=np.array(tau.states), acts=np.array(tau.actions, dtype=int), infos=None, terminal=True)
        for tau in demos
        if len(tau)  # imitation knows no trajectory without an action
    ]


def _to_minari(demos: list[Trajectory]) -> list[Any]:
    kind = extra_module("minari.data_collector", 'convert_demos(..., "minari")').EpisodeBuffer
    return [
        kind(
            id=index,
            observations=list(tau.states),
            actions=list(tau.actions),
            rewards=[0.0] * len(tau),
            terminations=[t == len(tau) - 1 for t in range(len(tau))],
            truncations=[False] * len(tau),
        )
        for index, tau in enumerate(demos)
    ]


_CONVERTED: dict[str, Callable[[list[Trajectory]], list[Any]]] = {"imitation": _to_imitation, "minari": _to_minari}
