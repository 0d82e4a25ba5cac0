"""Rewards as colours over a grid."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from xmen.errors import WorldError
from xmen.plots import canvas
from xmen.rewards import Reward, reward_table
from xmen.worlds.grid import GridWorld


def plot_reward(
    grid: GridWorld, reward: Reward | ArrayLike, ax: Axes | None = None, *, label: str = "reward of one move (mean)"
) -> Axes:
    """A map of r(s, a), the mean over the moves that are available in each cell.

    Rewards of both signs are purple below zero, white at zero and orange above; rewards of one sign get a scale from
    the least to the largest, bright for large. Cells without a move, such as the goal, stay empty.

    Parameters
    ----------
    grid
        The world of the reward.
    reward
        An array of shape (n_states, n_actions), or a reward: `model.reward_`.
    ax
        Where to draw; new axes if not given.
    label
        Of the colour bar.

    Returns
    -------
    Axes
        With the map; nothing is shown.

    Raises
    ------
    WorldError
        When the world is no grid, or the reward is one number per cell.
    """
    canvas.require_grid(grid)
    if not isinstance(reward, Reward) and np.shape(reward) == (grid.n_states,):
        raise WorldError(
            f"a reward has shape ({grid.n_states}, {grid.n_actions}); draw numbers per cell by plot_visits"
        )
    table = reward_table(reward, grid)
    moves = grid.available.sum(axis=1)
    numbers = np.where(moves > 0, np.where(grid.available, table, 0.0).sum(axis=1) / np.maximum(moves, 1), np.nan)
    low, high = float(np.nanmin(numbers, initial=np.inf)), float(np.nanmax(numbers, initial=-np.inf))
    if low < 0.0 < high or low == high:
        largest = max(-low, high) or 1.0
        cmap, limits = "PuOr_r", (-largest, largest)
    else:
        cmap, limits = "cividis", (low, high)
    ax = canvas.canvas(grid, ax, outlined=True)
    canvas.heat(ax, grid, numbers, cmap=cmap, limits=limits, label=label)
    return ax
