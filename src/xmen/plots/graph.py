"""Graphs whose nodes have a place: roads as lines, as thick as they are used."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike, NDArray

from xmen.errors import WorldError
from xmen.plots.canvas import PALETTE, SYMBOLS, axes, legend_symbol, short
from xmen.rules.inference import RuleInference
from xmen.worlds import MDP, Trajectory
from xmen.worlds.from_networkx import RoadNetwork
from xmen.worlds.grid import GOAL_COLOUR, START_COLOUR

MOST_LABELLED = 40  # nodes; more names would hide each other
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
    ends = np.sort(np.stack([world.source, world.target], axis=1), axis=1)
    roads, road = np.unique(ends, axis=0, return_inverse=True)
    lines = points[roads]
    ax.add_collection(LineCollection(list(lines), colors="#c8c8c8", linewidths=1.5, zorder=1))
    if uses is not None:
        used = np.asarray(uses, dtype=np.float64)
        if used.shape != (world.n_states, world.n_actions):
            raise WorldError(f"uses must have shape ({world.n_states}, {world.n_actions}), got {used.shape}")
        # Of each road in both directions; an action's uses are split by the chances of its outcomes.
        amount: Any = np.bincount(road.reshape(-1), weights=used[world.source, world.action] * world.probability)
        blues = LinearSegmentedColormap.from_list("roads", _ROADS)
        _colour(ax, list(lines), amount, blues, (1.5, 7.0), label).set_clim(vmin=0.0)
    ax.plot(*points.T, "o", color="white", markeredgecolor="#606060", markersize=7, zorder=3)
    handles: list[Any] = []
    groups: list[Any] = [("start", np.flatnonzero(world.start), "o", START_COLOUR)]
    groups += [("goal", np.flatnonzero(world.terminal), "*", GOAL_COLOUR)]
    looks = zip(itertools.cycle(SYMBOLS), itertools.cycle(PALETTE), strict=False)
    groups += [(name, states, *look) for (name, states), look in zip((marks or {}).items(), looks, strict=False)]
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


def _colour(
    ax: Axes, lines: Sequence[Any], amounts: NDArray[np.float64], cmap: Any, points: tuple[float, float], label: str
) -> LineCollection:
    """Lines that are the thicker, between two widths in points, the larger their amounts, with a colour bar."""
    size = np.abs(amounts)
    largest = float(size.max(initial=0.0)) or 1.0
    order = np.argsort(size, kind="stable")
    drawn = order[size[order] > 1e-6 * largest]  # what is next to nothing stays grey
    widths = np.interp(size[drawn], (0.0, largest), points)
    coloured = LineCollection([lines[k] for k in drawn.tolist()], cmap=cmap, linewidths=widths, zorder=2)
    coloured.set_array(amounts[drawn])
    if (amounts < 0).any():
        coloured.set_clim(-largest, largest)
    ax.add_collection(coloured)
    ax.figure.colorbar(coloured, ax=ax, label=label, shrink=0.8)
    return coloured


# ---- Road networks: links as lines, as thick as they are used, and routes on top

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
        cmap, said = ("coolwarm", "difference") if (amounts < 0).any() else ("viridis_r", "expected trips")
        _colour(ax, shapes, amounts, cmap, (0.8, 6.0), label or said)
    for number, route in enumerate(routes):
        points = np.concatenate([shapes[state] for state in route.states])
        colour = PALETTE[number % len(PALETTE)]
        ax.plot(*points.T, color=colour, linewidth=2.2, alpha=0.9, zorder=3)
        ax.plot(*points[0], "o", color=colour, markersize=6, zorder=4)
        ax.plot(*points[-1], "s", color=colour, markersize=6, zorder=4)
    ax.autoscale_view()
    ax.set(aspect="equal", xticks=[], yticks=[])
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
    """The points of a link, moved to the right of its direction."""
    along = np.gradient(shape, axis=0)
    length = np.linalg.norm(along, axis=1, keepdims=True)
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.where(length > 0, length, 1.0)
    return shape + side * right


# ---- Rules that were found: what each gained, and whether demonstrations that were held out keep them

GAIN_COLOUR, HELD_OUT_COLOUR = "#0072B2", "#D55E00"
LONGEST_TEXT = 44


def plot_rules(model: RuleInference, held_out: Sequence[Trajectory] | None = None, ax: Axes | None = None) -> Axes:
    """The gain of each rule in the order found, and the share of held-out demonstrations that keep all rules so far.

    Parameters
    ----------
    model
        A fitted `RuleInference`.
    held_out
        Demonstrations that it has not seen; without them only gains are drawn.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    Axes
        Gains on the lower scale, in nats per demonstration; a dashed line is the gain that a further rule would have
        had to reach. The share of held-out demonstrations is on the upper scale.

    Raises
    ------
    WorldError
        Where no rule was found: there is nothing to draw.
    """
    if not model.rules_:
        raise WorldError("no rule was found: there is nothing to draw")
    ax = axes(ax, 7.5, 1.8 + 0.45 * len(model.rules_))
    places = np.arange(len(model.rules_))
    ax.barh(places, model.gains_, height=0.6, color=GAIN_COLOUR)
    ax.axvline(model.least_gain_, color=GAIN_COLOUR, linestyle="--", linewidth=1.0)
    ax.set_yticks(places, [short(text, LONGEST_TEXT) for text in model.texts_])
    ax.set_xlim(0.0, 1.1 * float(model.gains_.max()))
    ax.set_ylim(len(places) - 0.5, -0.5)  # the first on top
    ax.set_xlabel("gain (nats per demonstration; dashed: the least that counts)", color=GAIN_COLOUR)
    ax.spines[["top", "right"]].set_visible(False)
    if held_out is not None and len(held_out):
        keeps = np.array([[rule.accepts(tau) for tau in held_out] for rule in model.rules_])
        top = ax.twiny()
        top.set_xlim(-0.02, 1.02)
        top.plot(np.logical_and.accumulate(keeps, axis=0).mean(axis=1), places, "o-", color=HELD_OUT_COLOUR)
        top.set_xlabel(f"share of {len(held_out):,} held-out demonstrations that keep all rules so far")
        top.xaxis.label.set_color(HELD_OUT_COLOUR)
        top.spines[["right"]].set_visible(False)
    return ax
