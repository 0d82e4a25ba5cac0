"""Heat maps over the cells of a grid."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from xmen.errors import WorldError
from xmen.plots import canvas
from xmen.worlds.grid import GridWorld


def plot_visits(grid: GridWorld, values: ArrayLike, ax: Axes | None = None, *, label: str = "expected visits") -> Axes:
    """Draw one number per cell as a heat map, with a colour bar.

    Parameters
    ----------
    grid
        The GridWorld.
    values
        Shape (n_states,), or (n_states, n_actions), which is summed over actions.
    ax
        Where to draw; None makes a new figure.
    label
        What the colour bar says.

    Returns
    -------
    Axes
        The axes that were drawn on. Walls are hatched and take no part in the colour scale.

    Raises
    ------
    WorldError
        When the world is not a grid, or the shape does not fit.
    """
    canvas.require_grid(grid)
    numbers = _read_values(grid, values)
    ax = canvas.canvas(grid, ax, outlined=True)
    free = np.array([grid.cell(state) not in grid.walls for state in range(grid.n_states)])
    lowest = float(numbers[free & np.isfinite(numbers)].min(initial=0.0))
    canvas.heat(ax, grid, numbers, cmap="YlGnBu", limits=(lowest, None), label=label)
    return ax


def _read_values(grid: GridWorld, values: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise WorldError(f"values must be numbers, got {values!r:.60}") from None
    expected = ((grid.n_states,), (grid.n_states, grid.n_actions))
    if numbers.shape not in expected:
        raise WorldError(f"values must have shape {expected[0]} or {expected[1]}, got {numbers.shape}")
    return numbers.sum(axis=1) if numbers.ndim == 2 else numbers
