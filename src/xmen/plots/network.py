"""Road networks: links as lines, as thick as they are used, and routes on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import ArrayLike, NDArray

from xmen.errors import WorldError
from xmen.plots.canvas import PALETTE, axes
from xmen.worlds.roads import RoadNetwork
from xmen.worlds.trajectory import Trajectory

THICKEST = 6.0  # points
SIDE = 0.0035  # of the map's width: how far a link is drawn from its middle line, so that two ways are seen


def plot_network(
    lines: RoadNetwork | ArrayLike | Sequence[ArrayLike],
    flows: ArrayLike | None = None,
    routes: Sequence[Trajectory] = (),
    ax: Axes | None = None,
    *,
    label: str | None = None,
) -> Axes:
    """A road network with links as states: grey lines, flows as thickness and colour, routes on top.

    Where some flows are negative, as differences are, colours diverge from a pale 0: red for more, blue for less.

    Parameters
    ----------
    lines
        A network made from a graph whose nodes have places; or the points of each link, as one array (n_states, k, 2)
        or as a list of arrays (k, 2).
    flows
        One number per link, shape (n_states,), such as `model.flows(demand).states`, or a difference of two such.
    routes
        Trajectories, each drawn in a colour of its own.
    ax
        The axes to draw on; None makes some.
    label
        What the flows are, for the colour bar; None: "expected trips", or "difference" where some are negative.

    Returns
    -------
    Axes
        What was drawn on.

    Raises
    ------
    WorldError
        Where shapes do not fit.
    """

    shapes = _shapes(lines)
    ax = axes(ax, 8.0, 6.5)
    everywhere = np.concatenate(shapes)
    side = SIDE * (float(np.ptp(everywhere[:, 0])) or 1.0)
    shapes = [_beside(shape, side) for shape in shapes]
    ax.add_collection(LineCollection(shapes, colors="#cccccc", linewidths=0.8, zorder=1))
    if flows is not None:
        amounts = np.asarray(flows, dtype=np.float64)
        if amounts.shape != (len(shapes),):
            raise WorldError(f"flows have shape {amounts.shape}, but there are {len(shapes)} links")
        if not np.isfinite(amounts).all():
            raise WorldError(f"flows must be finite; got {amounts[~np.isfinite(amounts)][0]}")
        size, differences = np.abs(amounts), bool((amounts < 0).any())
        largest = float(size.max(initial=0.0)) or 1.0
        order = np.argsort(size)
        drawn = order[size[order] > 1e-6 * largest]
        coloured = LineCollection(
            [shapes[link] for link in drawn.tolist()],
            cmap="coolwarm" if differences else "viridis_r",
            array=amounts[drawn],
            linewidths=0.8 + (THICKEST - 0.8) * size[drawn] / largest,
            zorder=2,
        )
        if differences:
            coloured.set_clim(-largest, largest)
        ax.add_collection(coloured)
        said = label or ("difference" if differences else "expected trips")
        ax.figure.colorbar(coloured, ax=ax, label=said, shrink=0.7)
    for number, route in enumerate(routes):
        points = np.concatenate([shapes[state] for state in route.states])
        colour = PALETTE[number % len(PALETTE)]
        ax.plot(*points.T, color=colour, linewidth=2.2, alpha=0.9, zorder=3)
        ax.plot(*points[0], "o", color=colour, markersize=6, zorder=4)
        ax.plot(*points[-1], "s", color=colour, markersize=6, zorder=4)
    ax.autoscale_view()
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _shapes(lines: Any) -> list[NDArray[np.float64]]:
    """The points of each link."""
    if isinstance(lines, RoadNetwork):
        if lines.shapes is None:
            raise WorldError('this network has no places to draw: its graph\'s nodes need "x" and "y".')
        lines = lines.shapes
    try:
        shapes = [np.asarray(line, dtype=np.float64) for line in lines]
    except (TypeError, ValueError):
        raise WorldError(f"lines are a network or the points of each link, (k, 2) each; got {lines!r:.60}") from None
    for link, shape in enumerate(shapes):
        if shape.ndim != 2 or shape.shape[1] != 2 or len(shape) < 2 or not np.isfinite(shape).all():
            raise WorldError(f"link {link}: its points must be finite and of shape (k, 2), k >= 2; got {shape.shape}")
    if not shapes:
        raise WorldError("there are no links to draw")
    return shapes


def _beside(shape: NDArray[np.float64], side: float) -> NDArray[np.float64]:
    """The same, moved to the right of its direction."""
    along = np.gradient(shape, axis=0)
    length = np.linalg.norm(along, axis=1, keepdims=True)
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.where(length > 0, length, 1.0)
    return shape + side * right
