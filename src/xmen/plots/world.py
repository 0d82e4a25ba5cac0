"""The picture of a grid world with its marked cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import is_color_like
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from xmen.errors import WorldError
from xmen.plots import canvas
from xmen.worlds.grid import Cell, GridWorld


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
    ax = canvas.canvas(grid, ax)
    markers = _default_markers(list(read))
    handles: list[Any] = []
    n_symbols = 0
    for label, (cells, style) in read.items():
        if style is not None and not _is_marker(style):
            for x, y in cells:
                ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=style, alpha=0.45, linewidth=0, zorder=0.8))
            handles.append(Patch(color=style, alpha=0.45, linewidth=0, label=label))
            continue
        colour = canvas.PALETTE[n_symbols % len(canvas.PALETTE)]
        marker = style or markers[label]
        n_symbols += 1
        for cell in cells:
            canvas.symbol(ax, grid, cell, marker, colour)
        handles.append(canvas.legend_symbol(label, marker, colour))
    canvas.legend(ax, grid, handles)
    return ax


def _default_markers(labels: list[str]) -> dict[str, str]:
    """The shape that a label names, or else the next one that no label names."""
    named = {label: canvas.SHAPES.get(label.lower()) or canvas.SHAPES.get(_singular(label)) for label in labels}
    free = [marker for marker in canvas.SYMBOLS if marker not in named.values()] or list(canvas.SYMBOLS)
    unnamed = [label for label in labels if named[label] is None]
    return {
        **{label: marker for label, marker in named.items() if marker is not None},
        **{label: free[index % len(free)] for index, label in enumerate(unnamed)},
    }


def _singular(label: str) -> str:
    word = label.lower()
    return word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s")


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
