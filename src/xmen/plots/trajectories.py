"""Trajectories as lines over a grid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from numpy.typing import NDArray

from xmen.errors import TrajectoryError
from xmen.plots import canvas
from xmen.worlds import GridWorld, Trajectory

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000", "#D55E00")
_WIDEST_SHIFT = 0.3  # of a cell, so that no line leaves the cells it visits
_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))


def plot_trajectories(grid: GridWorld, trajectories: Trajectory | Iterable[Trajectory], ax: Axes | None = None) -> Axes:
    """Draw one line per trajectory, each shifted a little so that equal steps lie side by side.

    A handful get their own colours and arrows. Many share one colour, and steps that are taken more often look darker.
    A dot marks a position at which a trajectory stays where it is.

    Parameters
    ----------
    grid
        The GridWorld.
    trajectories
        One trajectory or several.
    ax
        Where to draw, over what is there; None makes a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Raises
    ------
    TrajectoryError
        When a trajectory visits a state that the grid does not have.
    """

    canvas.require_grid(grid)
    new = ax is None or not canvas.is_drawn(ax)
    lines = [_points(grid, index, tau) for index, tau in enumerate(_read(trajectories))]
    ax = canvas.canvas(grid, ax)
    few = len(lines) <= len(_COLOURS)
    colours = [_COLOURS[index if few else 0] for index in range(len(lines))]
    alpha = 0.9 if few else max(0.12, min(0.6, 6.0 / len(lines)))
    lines = [line + shift for line, shift in zip(lines, _shifts(len(lines)), strict=True)]
    ax.add_collection(
        LineCollection(lines, colors=colours, alpha=alpha, linewidths=2.0 if few else 1.4, capstyle="round", zorder=5),
        autolim=False,
    )
    for line, colour in zip(lines, colours, strict=True):
        steps = np.diff(line, axis=0)
        still = ~steps.any(axis=1)
        ax.plot(*line[:-1][still].T, ".", color=colour, alpha=alpha, markersize=7, zorder=5)
        if few:
            _arrows(ax, line[:-1][~still], steps[~still], colour)
    if new:
        canvas.legend(ax, grid, [])
    return ax


def _arrows(ax: Axes, origins: NDArray[np.float64], steps: NDArray[np.float64], colour: str) -> None:
    """Arrow heads a little past the middle of each step, in the units of the cells."""

    direction = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    across = direction[:, ::-1] * (-1.0, 1.0)
    tip = origins + 0.5 * steps + 0.11 * direction
    back = tip - 0.22 * direction
    heads = np.stack([tip, back + 0.09 * across, back - 0.09 * across], axis=1)
    ax.add_collection(PolyCollection(list(heads), facecolors=colour, linewidths=0, zorder=5.1), autolim=False)


def _shifts(n: int) -> NDArray[np.float64]:
    """n points spread evenly over a small disc (a sunflower's seeds), the first in its middle; (n, 2)."""
    index = np.arange(n)
    radius = _WIDEST_SHIFT * np.sqrt(index / max(n, 4))
    return np.column_stack([radius * np.cos(index * _GOLDEN_ANGLE), radius * np.sin(index * _GOLDEN_ANGLE)])


def _read(trajectories: Any) -> list[Any]:
    if isinstance(trajectories, Trajectory):
        return [trajectories]
    if not isinstance(trajectories, Iterable):
        raise TrajectoryError(f"expected trajectories, got {type(trajectories).__name__} {trajectories!r:.60}")
    return list(trajectories)


def _points(grid: GridWorld, index: int, trajectory: Any) -> NDArray[np.float64]:
    if not isinstance(trajectory, Trajectory):
        raise TrajectoryError(f"trajectory {index} must be a Trajectory, got {trajectory!r:.60}")
    wrong = [state for state in trajectory.states if state >= grid.n_states]
    if wrong:
        raise TrajectoryError(
            f"trajectory {index} visits state {wrong[0]}, but the grid has states 0 to {grid.n_states - 1}"
        )
    states = np.array(trajectory.states)
    return np.column_stack([states % grid.width, states // grid.width]).astype(np.float64)
