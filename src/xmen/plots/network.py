"""Road networks: links as lines, as thick as they are used, and routes on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from xmen.errors import WorldError
from xmen.plots.canvas import PALETTE
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THICKEST = 6.0  # points
SIDE = 0.0035  # of the map's width: how far a link is drawn from its middle line, so that two ways are seen


def plot_network(
    lines: ArrayLike,
    flows: ArrayLike | None = None,
    routes: Sequence[Trajectory] = (),
    ax: Axes | None = None,
    *,
    label: str = "expected trips",
) -> Axes:
    """A road network with links as states: grey lines, flows as thickness and colour, routes on top.

    Parameters
    ----------
    lines
        Where each link begins and ends, shape (n_states, 2, 2), such as `lines` of a network made from a graph.
    flows
        One number per link, shape (n_states,), such as `model.flows(demand).states`.
    routes
        Trajectories, each drawn in a colour of its own.
    ax
        The axes to draw on; None makes some.
    label
        What the flows are, for the colour bar.

    Returns
    -------
    Axes
        What was drawn on.

    Raises
    ------
    WorldError
        Where shapes do not fit.
    """
    from matplotlib.collections import LineCollection

    ends = np.asarray(lines, dtype=np.float64)
    if ends.ndim != 3 or ends.shape[1:] != (2, 2) or not np.isfinite(ends).all():
        raise WorldError(f"lines must be finite and of shape (n_states, 2, 2), got {ends.shape}")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(8, 6.5), layout="constrained")
    along = ends[:, 1] - ends[:, 0]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.where(length > 0, length, 1.0)
    width = float(np.ptp(ends[..., 0])) or 1.0
    ends = ends + SIDE * width * right[:, None, :]
    ax.add_collection(LineCollection(list(ends), colors="#cccccc", linewidths=0.8, zorder=1))
    if flows is not None:
        amounts = np.asarray(flows, dtype=np.float64)
        if amounts.shape != (len(ends),):
            raise WorldError(f"flows have shape {amounts.shape}, but there are {len(ends)} links")
        largest = float(amounts.max(initial=0.0)) or 1.0
        order = np.argsort(amounts)
        drawn = order[amounts[order] > 1e-6 * largest]
        coloured = LineCollection(
            list(ends[drawn]),
            cmap="viridis_r",
            array=amounts[drawn],
            linewidths=0.8 + (THICKEST - 0.8) * amounts[drawn] / largest,
            zorder=2,
        )
        ax.add_collection(coloured)
        ax.figure.colorbar(coloured, ax=ax, label=label, shrink=0.7)
    for number, route in enumerate(routes):
        points = ends[list(route.states)].reshape(-1, 2)
        colour = PALETTE[number % len(PALETTE)]
        ax.plot(*points.T, color=colour, linewidth=2.2, alpha=0.9, zorder=3)
        ax.plot(*points[0], "o", color=colour, markersize=6, zorder=4)
        ax.plot(*points[-1], "s", color=colour, markersize=6, zorder=4)
    ax.autoscale_view()
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax
