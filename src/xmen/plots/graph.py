"""Graphs whose nodes have a place: roads as lines, as thick as they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from xmen.errors import WorldError
from xmen.plots.canvas import PALETTE, SYMBOLS, axes, legend_symbol
from xmen.worlds.mdp import MDP
from xmen.worlds.svg import GOAL_COLOUR, START_COLOUR

MOST_LABELLED = 40  # nodes; more names would hide each other
_THICKEST = 7.0  # points
_ROADS = ("#9ecae1", "#4292c6", "#08306b")  # light blue to dark; unused roads are grey


def plot_graph(
    world: MDP,
    places: ArrayLike,
    ax: Axes | None = None,
    *,
    names: Sequence[str] = (),
    marks: Mapping[str, Sequence[int]] | None = None,
    uses: ArrayLike | None = None,
    label: str = "expected uses of the road",
) -> Axes:
    """The world's transitions as roads between places (n_states, 2), with names and marked states.

    Parameters
    ----------
    world
        Any world: its states are drawn at their places.
    places
        Coordinates, shape (n_states, 2).
    ax
        Where to draw; new axes if not given.
    names
        One per state.
    marks
        States to mark with a symbol, by what the legend calls them.
    uses
        Shape (n_states, n_actions), expected visits say: roads are the thicker and darker the more they are used in
        both directions, with a colour bar.
    label
        Of the colour bar.

    Returns
    -------
    Axes
        With the map; nothing is shown.

    Raises
    ------
    WorldError
        When places or uses have another shape.
    """

    points = np.asarray(places, dtype=np.float64)
    if points.shape != (world.n_states, 2) or not np.isfinite(points).all():
        raise WorldError(f"places must be finite and of shape ({world.n_states}, 2), got {points.shape}")
    ax = axes(ax, 7.5, 5.5)
    roads = np.unique(np.sort(np.stack([world.source, world.target], axis=1), axis=1), axis=0)
    lines = points[roads]
    ax.add_collection(LineCollection(list(lines), colors="#c8c8c8", linewidths=1.5, zorder=1))
    if uses is not None:
        amount = _by_road(world, roads, np.asarray(uses, dtype=np.float64))
        largest = float(amount.max(initial=0.0)) or 1.0
        used = amount > 1e-9 * largest
        coloured = LineCollection(
            list(lines[used]),
            cmap=LinearSegmentedColormap.from_list("roads", _ROADS),
            linewidths=1.5 + (_THICKEST - 1.5) * amount[used] / largest,
            zorder=2,
        )
        coloured.set_array(amount[used])
        coloured.set_clim(0.0, largest)
        ax.add_collection(coloured)
        ax.figure.colorbar(coloured, ax=ax, label=label, shrink=0.85)
    ax.plot(*points.T, "o", color="white", markeredgecolor="#606060", markersize=7, zorder=3)
    handles: list[Any] = []
    groups: list[tuple[str, Sequence[int], str, str]] = [
        ("start", np.flatnonzero(world.start).tolist(), "o", START_COLOUR),
        ("goal", np.flatnonzero(world.terminal).tolist(), "*", GOAL_COLOUR),
    ]
    for k, (name, states) in enumerate((marks or {}).items()):
        groups.append((name, states, SYMBOLS[k % len(SYMBOLS)], PALETTE[k % len(PALETTE)]))
    for name, states, marker, colour in groups:
        if len(states):
            size = 14 if marker == "*" else 10
            ax.plot(*points[list(states)].T, marker, color=colour, markeredgecolor="black", markersize=size, zorder=4)
            handles.append(legend_symbol(name, marker, colour))
    if names and len(names) <= MOST_LABELLED:
        rim = [withStroke(linewidth=2.5, foreground="white")]
        for name, point in zip(names, points, strict=True):
            above: dict[str, Any] = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
            ax.annotate(str(name), point, **above, fontsize=8, zorder=5, path_effects=rim)
    ax.set(aspect="equal", xlabel="x", ylabel="y")
    ax.margins(0.1)
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, frameon=False)
    return ax


def _by_road(world: MDP, roads: Any, uses: Any) -> Any:
    """How often each road is used, in both directions; an action's uses are split by the chances of its outcomes."""
    if uses.shape != (world.n_states, world.n_actions):
        raise WorldError(f"uses must have shape ({world.n_states}, {world.n_actions}), got {uses.shape}")
    ends = np.sort(np.stack([world.source, world.target], axis=1), axis=1).astype(np.int64)
    key = ends @ [world.n_states, 1]
    index = np.searchsorted(roads.astype(np.int64) @ [world.n_states, 1], key)
    return np.bincount(index, weights=uses[world.source, world.action] * world.probability, minlength=len(roads))
