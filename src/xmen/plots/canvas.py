"""What all pictures of a grid share: the axes, walls, start and goal, symbols and the legend.

Cell (x, y) is the unit square around the point (x, y). Symbols are drawn in the units of the
cells, so they fit whatever the size of the figure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from xmen.errors import WorldError
from xmen.progress import Record
from xmen.rewards import Floats
from xmen.worlds.grid import GOAL_COLOUR, START_COLOUR, WALL_COLOUR, Cell, GridWorld

# Okabe and Ito's colours, without the two that mean start and goal.
PALETTE = ("#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
SHAPES = dict(triangle="^", square="s", diamond="D", pentagon="p", hexagon="h", plus="P", cross="X", circle="o")
SYMBOLS = ("^", "s", "D", "p", "h", "v", "P", "X")

_DRAWN = "xmen-grid"  # the tag that says an Axes already shows its grid
_MOST_LINED_CELLS = 60  # longer sides would be grey all over
_SYMBOL_SIZE = 0.58  # of a cell
_SMALLEST_SYMBOL = 0.025  # of the longest side: on large grids a symbol may cover several cells


def short(text: str, most: int) -> str:
    """The text, its end left out where it has more than `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def require_grid(grid: Any) -> None:
    """Refuse other worlds, before a figure is opened."""
    if not isinstance(grid, GridWorld):
        raise WorldError(f"pictures are drawn of a GridWorld, got {type(grid).__name__}")


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The Axes to draw on: those given, or those of a new figure of this size in inches."""
    return ax or plt.subplots(figsize=(width, height), layout="constrained")[1]


def canvas(grid: GridWorld, ax: Axes | None, *, outlined: bool = False) -> Axes:
    """The Axes to draw on, with the grid on it; a new figure when there is none.

    `outlined` draws start and goal as white symbols with a black rim, which stay visible on colours.
    """
    inches = min(0.5, 6.5 / max(grid.width, grid.height))  # of a cell
    ax = axes(ax, max(3.0, grid.width * inches) + 1.8, max(1.8, grid.height * inches) + 0.6)
    if not is_drawn(ax):
        _draw_grid(ax, grid, outlined)
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


def _draw_grid(ax: Axes, grid: GridWorld, outlined: bool) -> None:
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


# ---- Numbers with names as horizontal bars: for worlds that have no map, and for weights of features

MOST_BARS = 25
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xxx")


def plot_bars(
    names: Sequence[str], series: Mapping[str, Sequence[float]], ax: Axes | None = None, *, label: str = ""
) -> Axes:
    """One group of bars per name, one bar in it per series; of many names, those with the largest numbers.

    Parameters
    ----------
    names
        What the numbers belong to: states, features.
    series
        One number per name, in each series.
    ax
        Where to draw; new axes if not given.
    label
        Of the scale.

    Returns
    -------
    Axes
        With the bars; nothing is shown.

    Raises
    ------
    WorldError
        When a series has another length than `names`.

    Examples
    --------
    plot_bars(["new", "worn"], {"demonstrations": [8.1, 2.0], "model": [8.0, 2.1]}, label="visits per trajectory")
    """
    values = np.array([list(numbers) for numbers in series.values()], dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names) or not len(names):
        raise WorldError(f"there are {len(names)} names, and series of {[len(s) for s in series.values()]} numbers")
    kept = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MOST_BARS])
    ax = axes(ax, 7.0, 1.2 + 0.18 * len(kept) * (1 + len(series)))
    thick = 0.8 / len(series)
    for k, (name, numbers) in enumerate(zip(series, values, strict=True)):
        where = np.arange(len(kept)) + (k - (len(series) - 1) / 2) * thick
        style = k % len(_COLOURS)
        look: dict[str, Any] = {"color": _COLOURS[style], "hatch": _HATCHES[style], "edgecolor": "white"}
        ax.barh(where, numbers[kept], height=thick, label=name, **look)
    ax.set_yticks(np.arange(len(kept)), [short(names[k], 30) for k in kept])
    ax.set_ylim(len(kept) - 0.4, -0.6)  # the first on top
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_xlabel(label + (f"   (the largest {len(kept)} of {len(names)})" if len(kept) < len(names) else ""))
    ax.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=len(series))
    return ax


# ---- How learning went: the loss and the norm of its gradient, iteration by iteration

LOSS_COLOUR, VALIDATION_COLOUR, GRADIENT_COLOUR = "#0072B2", "#009E73", "#D55E00"


def plot_history(history: Sequence[Record], ax: Axes | None = None) -> Axes:
    """The loss (left scale) and the gradient's norm (right scale, logarithmic) of a learner's `history_`.

    Where a method has errors, the loss has a band of two standard errors on each side, and a dotted line shows the
    gradient's own standard error: below it there is only noise. A loss that a method does not know is left out. With
    validation its loss is a curve of its own, marked where it is least.

    Parameters
    ----------
    history
        `model.history_`.
    ax
        Where to draw; new axes if not given.

    Returns
    -------
    Axes
        With the curves; nothing is shown.

    Raises
    ------
    WorldError
        When there is nothing to draw.
    """
    if not history:
        raise WorldError("there is no history to draw: this model was fitted without a single iteration")
    ax = axes(ax, 7.0, 4.0)
    names = ("iteration", "loss", "loss_std", "gradient_norm", "gradient_std")
    x, loss, error, norm, norm_error = np.array([[getattr(one, name) for name in names] for one in history]).T
    held_out = np.array([record.details.get("validation_loss", np.nan) for record in history])
    right: Any = ax.twinx() if np.isfinite([loss, held_out]).any() else ax
    handles, marker = list[Any](), "." if len(history) <= 60 else None
    if right is not ax:
        if (error > 0).any():
            ax.fill_between(x, loss - 2 * error, loss + 2 * error, color=LOSS_COLOUR, alpha=0.2, linewidth=0)
        if np.isfinite(loss).any():
            handles += ax.plot(x, loss, "-", color=LOSS_COLOUR, marker=marker, label="loss")
        if np.isfinite(held_out).any():
            best = int(np.nanargmin(held_out))
            handles += ax.plot(x, held_out, "-", color=VALIDATION_COLOUR, marker=marker, label="validation")
            ring: dict[str, Any] = {"color": VALIDATION_COLOUR, "fillstyle": "none", "markersize": 11}
            handles += ax.plot(x[best], held_out[best], "o", label="its least", **ring)
        ax.set_ylabel("loss (nats per demonstration)", color=LOSS_COLOUR)
    for given, line, label in ((norm, "--", "gradient norm"), (norm_error, ":", "its standard error")):
        values = np.where(given > 0, given, np.nan)  # zero has no place on a logarithmic scale
        if np.isfinite(values).any():
            right.set_yscale("log")
        elif given is norm_error:
            continue
        handles += right.plot(x, values, line, color=GRADIENT_COLOUR, marker=marker, label=label)
    right.set_ylabel("norm of the gradient", color=GRADIENT_COLOUR)
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False)
    return ax
