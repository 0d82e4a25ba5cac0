"""The picture of a grid world with its marked cells."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import is_color_like
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike, NDArray

from xmen.errors import TrajectoryError, WorldError
from xmen.plots import canvas
from xmen.rewards import Reward, reward_table
from xmen.worlds import Cell, GridWorld, Trajectory


def plot_world(grid: GridWorld, marks: Mapping[str, Any] | None = None, ax: Axes | None = None) -> Axes:
    """Draw walls, start, goal and marked cells of a grid, with a legend beside it.

    Parameters
    ----------
    grid
        The GridWorld.
    marks
        From a label to its cells, or to (cells, style). A marker of matplotlib ("^", "s", "D") puts that symbol on each
        cell, a colour ("tab:olive", "#ddcc77") shades the cells, as fits areas. Labels without a style get symbols and
        colours that colour-blind readers can tell apart; a label that names a shape ("triangle", "squares", "cross")
        gets that shape.
    ax
        Where to draw; None makes a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on. Nothing is shown: call `plt.show()` or save the figure.

    Raises
    ------
    WorldError
        When the world is not a grid, or a mark is off it.

    Examples
    --------
        plot_world(grid, {"triangle": [(1, 4)], "squares": [(3, 2), (3, 5)], "area": (cells, "#ddcc77")})
    """
    canvas.require_grid(grid)
    read = {str(label): _read_mark(grid, str(label), value) for label, value in (marks or {}).items()}
    ax, markers, handles = canvas.canvas(grid, ax), _default_markers(list(read)), list[Any]()
    colours = itertools.cycle(canvas.PALETTE)
    for label, (cells, style) in read.items():
        if style is not None and not _is_marker(style):
            for x, y in cells:
                ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=style, alpha=0.45, linewidth=0, zorder=0.8))
            handles.append(Patch(color=style, alpha=0.45, linewidth=0, label=label))
            continue
        colour, marker = next(colours), style or markers[label]
        for cell in cells:
            canvas.symbol(ax, grid, cell, marker, colour)
        handles.append(canvas.legend_symbol(label, marker, colour))
    canvas.legend(ax, grid, handles)
    return ax


def _default_markers(labels: list[str]) -> dict[str, str]:
    """The shape that a label names, or else the next one that no label names."""
    words = {label: label.lower() for label in labels}
    singular = {label: word.removesuffix("es" if word.endswith("sses") else "s") for label, word in words.items()}
    named = {label: canvas.SHAPES.get(words[label]) or canvas.SHAPES.get(singular[label]) for label in labels}
    free = [marker for marker in canvas.SYMBOLS if marker not in named.values()] or list(canvas.SYMBOLS)
    unnamed = itertools.cycle(free)
    return {label: marker or next(unnamed) for label, marker in named.items()}


def _read_mark(grid: GridWorld, label: str, value: Any) -> tuple[list[Cell], str | None]:
    style: str | None = None
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        value, style = value
        if not _is_marker(style) and not is_color_like(style):
            raise WorldError(f"mark {label!r}: {style!r} is neither a marker nor a colour of matplotlib")
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise WorldError(f"mark {label!r} must be cells (x, y), or (cells, style), got {value!r:.60}")
    cells = list(value)
    if len(cells) == 2 and not any(isinstance(entry, Iterable) for entry in cells):
        cells = [tuple(cells)]  # one cell instead of a list of cells
    return [grid.cell(grid.state(cell)) for cell in cells], style


def _is_marker(style: str) -> bool:
    return style in Line2D.markers and style.strip() not in ("", "None", "none")


# ---- Heat maps over the cells of a grid


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
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise WorldError(f"values must be numbers, got {values!r:.60}") from None
    expected = ((grid.n_states,), (grid.n_states, grid.n_actions))
    if numbers.shape not in expected:
        raise WorldError(f"values must have shape {expected[0]} or {expected[1]}, got {numbers.shape}")
    numbers = numbers.reshape(grid.n_states, -1).sum(axis=1)
    free = np.array([grid.cell(state) not in grid.walls for state in range(grid.n_states)])
    lowest = float(numbers[free & np.isfinite(numbers)].min(initial=0.0))
    return canvas.heat(grid, ax, numbers, cmap="YlGnBu", limits=(lowest, None), label=label)


# ---- Trajectories as lines over a grid

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
    if not isinstance(trajectories, Iterable):  # a Trajectory is none, either
        trajectories = [trajectories]
    lines = [_points(grid, index, tau) for index, tau in enumerate(trajectories)]
    ax = canvas.canvas(grid, ax)
    few = len(lines) <= len(_COLOURS)
    colours = [_COLOURS[index if few else 0] for index in range(len(lines))]
    alpha = 0.9 if few else max(0.12, min(0.6, 6.0 / len(lines)))
    # Spread evenly over a small disc (a sunflower's seeds), the first in its middle.
    angle = _GOLDEN_ANGLE * np.arange(len(lines))
    radius = _WIDEST_SHIFT * np.sqrt(np.arange(len(lines)) / max(len(lines), 4))
    shifts = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    lines = [line + shift for line, shift in zip(lines, shifts, strict=True)]
    look: dict[str, Any] = {"colors": colours, "alpha": alpha, "linewidths": 2.0 if few else 1.4, "capstyle": "round"}
    ax.add_collection(LineCollection(lines, zorder=5, **look), autolim=False)
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


def _points(grid: GridWorld, index: int, trajectory: Any) -> NDArray[np.float64]:
    if not isinstance(trajectory, Trajectory):
        raise TrajectoryError(f"trajectory {index} must be a Trajectory, got {trajectory!r:.60}")
    states, last = np.array(trajectory.states), grid.n_states - 1
    if (states > last).any():
        wrong = states[states > last][0]
        raise TrajectoryError(f"trajectory {index} visits state {wrong}, but the grid has states 0 to {last}")
    return np.column_stack([states % grid.width, states // grid.width]).astype(np.float64)


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
        shape = grid.n_states, grid.n_actions
        raise WorldError(f"a reward has shape {shape}; draw numbers per cell by plot_visits")
    table = reward_table(reward, grid)
    moves = grid.available.sum(axis=1)
    numbers = np.where(moves > 0, np.where(grid.available, table, 0.0).sum(axis=1) / np.maximum(moves, 1), np.nan)
    low, high = float(np.nanmin(numbers, initial=np.inf)), float(np.nanmax(numbers, initial=-np.inf))
    largest, both = max(-low, high) or 1.0, low < 0.0 < high or low == high
    limits = (-largest, largest) if both else (low, high)
    return canvas.heat(grid, ax, numbers, cmap="PuOr_r" if both else "cividis", limits=limits, label=label)
