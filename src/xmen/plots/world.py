"""Pictures of a grid: the world with its marked cells, heat maps over its cells, and trajectories as lines.

Cell (x, y) is the unit square around the point (x, y). Symbols are drawn in the units of the
cells, so they fit whatever the size of the figure.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.colors import is_color_like
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D
from numpy.typing import ArrayLike

from xmen.errors import TrajectoryError, WorldError
from xmen.rewards import Floats, Reward, reward_table
from xmen.worlds import Trajectory
from xmen.worlds.grid import GOAL_COLOUR, START_COLOUR, WALL_COLOUR, Cell, GridWorld

# Okabe and Ito's colours, without the two that mean start and goal.
PALETTE = ("#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
SHAPES = dict(triangle="^", square="s", diamond="D", pentagon="p", hexagon="h", plus="P", cross="X", circle="o")
SYMBOLS = ("^", "s", "D", "p", "h", "v", "P", "X")

_DRAWN = "xmen-grid"  # the tag that says an Axes already shows its grid
_MOST_LINED_CELLS = 60  # longer sides would be grey all over
_SYMBOL_SIZE = 0.58  # of a cell
_SMALLEST_SYMBOL = 0.025  # of the longest side: on large grids a symbol may cover several cells


def require_grid(grid: Any) -> None:
    """Refuse other worlds, before a figure is opened."""
    if not isinstance(grid, GridWorld):
        raise WorldError(f"pictures are drawn of a GridWorld, got {type(grid).__name__}")


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The Axes to draw on: those given, or those of a new figure of this size in inches."""
    return ax or plt.subplots(figsize=(width, height), layout="constrained")[1]


def canvas(grid: GridWorld, ax: Axes | None, *, outlined: bool = False) -> Axes:
    """The Axes with the grid on it, new for None; `outlined`: start and goal are white, to be seen on colours."""
    inches = min(0.5, 6.5 / max(grid.width, grid.height))  # of a cell
    ax = axes(ax, max(3.0, grid.width * inches) + 1.8, max(1.8, grid.height * inches) + 0.6)
    if is_drawn(ax):
        return ax
    right, top = grid.width - 0.5, grid.height - 0.5
    ax.set(xlim=(-0.5, right), ylim=(-0.5, top), xlabel="x", ylabel="y", aspect="equal")
    for axis, cells in ((ax.xaxis, grid.width), (ax.yaxis, grid.height)):
        if cells <= 12:
            axis.set_ticks(range(cells))
        else:
            axis.set_major_locator(MaxNLocator(nbins=10, integer=True, min_n_ticks=1))
    ax.tick_params(length=0)

    frame = Rectangle((-0.5, -0.5), grid.width, grid.height, fill=False, edgecolor="#808080", gid=_DRAWN, zorder=2.5)
    ax.add_patch(frame)
    if max(grid.width, grid.height) <= _MOST_LINED_CELLS:
        lines = [[(x - 0.5, -0.5), (x - 0.5, top)] for x in range(1, grid.width)]
        lines += [[(-0.5, y - 0.5), (right, y - 0.5)] for y in range(1, grid.height)]
        ax.add_collection(LineCollection(lines, colors="#c8c8c8", linewidths=0.7, zorder=1), autolim=False)
    squares = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in sorted(grid.walls)]
    look: dict[str, Any] = {"facecolor": WALL_COLOUR, "edgecolor": "#8c8c8c", "hatch": "///", "linewidth": 0}
    ax.add_collection(PatchCollection(squares, zorder=2, **look), autolim=False)
    start, goal, rim = _endpoint_colours(outlined)
    for cell in grid.start_cells:
        symbol(ax, grid, cell, "o", start, rim=rim, zorder=6)
    for cell in grid.goal_cells:
        symbol(ax, grid, cell, "*", goal, rim=rim, zorder=6)
    return ax


def is_drawn(ax: Axes) -> bool:
    """Whether an Axes shows its grid already."""
    return any(child.get_gid() == _DRAWN for child in ax.get_children())


def symbol(
    ax: Axes, grid: GridWorld, cell: Cell, marker: str, colour: str, *, rim: str = "black", zorder: float = 3
) -> None:
    """A marker that fills most of a cell."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    size = max(_SYMBOL_SIZE, _SMALLEST_SYMBOL * max(grid.width, grid.height))
    placed = path.transformed(Affine2D().scale(size / max(*path.get_extents().size, 1e-9)).translate(*cell))
    face, edge, width = (colour, rim, 0.8) if style.is_filled() else ("none", colour, 2.0)
    ax.add_patch(PathPatch(placed, facecolor=face, edgecolor=edge, linewidth=width, clip_on=False, zorder=zorder))


def heat(
    grid: GridWorld, ax: Axes | None, numbers: Floats, cmap: str, limits: tuple[float, float | None], label: str
) -> Axes:
    """The grid with one colour per cell and a colour bar; walls and cells without a number are left out."""
    ax = canvas(grid, ax, outlined=True)
    picture = np.ma.masked_invalid(numbers.reshape(grid.height, grid.width))
    for x, y in grid.walls:
        picture[y, x] = np.ma.masked
    extent = (-0.5, grid.width - 0.5, -0.5, grid.height - 0.5)
    scale: dict[str, Any] = {"cmap": cmap, "vmin": limits[0], "vmax": limits[1], "interpolation": "nearest"}
    image = ax.imshow(picture, origin="lower", extent=extent, zorder=0.5, **scale)
    # Beside the cells and exactly as high as they are, also for long and thin grids.
    width = 0.045 * max(1.0, grid.height / grid.width)
    ax.figure.colorbar(image, cax=ax.inset_axes((1.0 + width, 0.0, width, 1.0)), label=label)
    return ax


def legend_symbol(label: str, marker: str, colour: str, *, rim: str = "black") -> Line2D:
    """The entry of a legend for a symbol."""
    rim = rim if MarkerStyle(marker).is_filled() else colour
    return Line2D([], [], linestyle="none", marker=marker, color=colour, markeredgecolor=rim, markersize=9, label=label)


def legend(ax: Axes, grid: GridWorld, more: list[Any]) -> None:
    """A legend beside the cells, never on them; entries that are there already are kept."""
    start, goal, rim = _endpoint_colours(outlined=bool(ax.images))
    handles: list[Any] = [legend_symbol("start", "o", start, rim=rim)]
    if grid.goal_cell is not None:
        handles.append(legend_symbol("goal", "*", goal, rim=rim))
    old = ax.get_legend()
    handles = (handles if old is None else list(old.legend_handles)) + more
    if ax.child_axes:  # a colour bar is on the right already
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": min(4, len(handles))}
    else:
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    ax.legend(handles=handles, borderaxespad=0, frameon=False, **place)


def _endpoint_colours(outlined: bool) -> tuple[str, str, str]:
    return ("white", "white", "black") if outlined else (START_COLOUR, GOAL_COLOUR, "none")


# ---- The world and its marked cells


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
    require_grid(grid)
    read = {str(label): _read_mark(grid, str(label), value) for label, value in (marks or {}).items()}
    ax, markers, handles = canvas(grid, ax), _default_markers(list(read)), list[Any]()
    colours = itertools.cycle(PALETTE)
    for label, (cells, style) in read.items():
        if style is not None and not _is_marker(style):
            for x, y in cells:
                ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=style, alpha=0.45, linewidth=0, zorder=0.8))
            handles.append(Patch(color=style, alpha=0.45, linewidth=0, label=label))
            continue
        colour, marker = next(colours), style or markers[label]
        for cell in cells:
            symbol(ax, grid, cell, marker, colour)
        handles.append(legend_symbol(label, marker, colour))
    legend(ax, grid, handles)
    return ax


def _default_markers(labels: list[str]) -> dict[str, str]:
    """The shape that a label names, or else the next one that no label names."""
    shapes = SHAPES | {f"{name}{'es' if name == 'cross' else 's'}": mark for name, mark in SHAPES.items()}
    named = {label: shapes.get(label.lower()) for label in labels}
    free = itertools.cycle([mark for mark in SYMBOLS if mark not in named.values()] or SYMBOLS)
    return {label: marker or next(free) for label, marker in named.items()}


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
    require_grid(grid)
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
    return heat(grid, ax, numbers, cmap="YlGnBu", limits=(lowest, None), label=label)


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
    require_grid(grid)
    new = ax is None or not is_drawn(ax)
    if not isinstance(trajectories, Iterable):  # a Trajectory is none, either
        trajectories = [trajectories]
    lines = [_points(grid, index, tau) for index, tau in enumerate(trajectories)]
    ax = canvas(grid, ax)
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
        legend(ax, grid, [])
    return ax


def _arrows(ax: Axes, origins: Floats, steps: Floats, colour: str) -> None:
    """Arrow heads a little past the middle of each step, in the units of the cells."""
    direction = steps / np.linalg.norm(steps, axis=1, keepdims=True)
    across = direction[:, ::-1] * (-1.0, 1.0)
    tip = origins + 0.5 * steps + 0.11 * direction
    back = tip - 0.22 * direction
    heads = np.stack([tip, back + 0.09 * across, back - 0.09 * across], axis=1)
    ax.add_collection(PolyCollection(list(heads), facecolors=colour, linewidths=0, zorder=5.1), autolim=False)


def _points(grid: GridWorld, index: int, trajectory: Any) -> Floats:
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
    require_grid(grid)
    if not isinstance(reward, Reward) and np.shape(reward) == (grid.n_states,):
        raise WorldError(f"a reward has shape {grid.n_states, grid.n_actions}; draw numbers per cell by plot_visits")
    table = reward_table(reward, grid)
    moves = grid.available.sum(axis=1)
    numbers = np.where(moves > 0, np.where(grid.available, table, 0.0).sum(axis=1) / np.maximum(moves, 1), np.nan)
    low, high = float(np.nanmin(numbers, initial=np.inf)), float(np.nanmax(numbers, initial=-np.inf))
    largest, both = max(-low, high) or 1.0, low < 0.0 < high or low == high
    limits = (-largest, largest) if both else (low, high)
    return heat(grid, ax, numbers, cmap="PuOr_r" if both else "cividis", limits=limits, label=label)
