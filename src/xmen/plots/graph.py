"""Graphs whose nodes have a place, with roads as thick as they are used; and numbers of states, fits and rules."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from xmen.errors import WorldError
from xmen.plots.world import PALETTE, SYMBOLS, axes, legend_symbol
from xmen.progress import Record
from xmen.rewards import Floats
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
    ax: Axes, lines: Sequence[Any], amounts: Floats, cmap: Any, points: tuple[float, float], label: str
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
    side = SIDE * (float(np.ptp(np.concatenate(shapes)[:, 0])) or 1.0)
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


def _shapes(lines: Any) -> list[Floats]:
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


def _beside(shape: Floats, side: float) -> Floats:
    """The points of a link, moved to the right of its direction."""
    along = np.gradient(shape, axis=0)
    length = np.linalg.norm(along, axis=1, keepdims=True)
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.where(length > 0, length, 1.0)
    return shape + side * right


# ---- Numbers with names as horizontal bars: for worlds that have no map, and for weights of features

MOST_BARS = 25
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xxx")


def short(text: str, most: int) -> str:
    """The text, its end left out where it has more than `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


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
        rules = [getattr(rule, "rule", rule) for rule in model.rules_]  # of one that is usually kept the hard one
        keeps = np.array([[rule.accepts(tau) for tau in held_out] for rule in rules])
        top = ax.twiny()
        top.set_xlim(-0.02, 1.02)
        top.plot(np.logical_and.accumulate(keeps, axis=0).mean(axis=1), places, "o-", color=HELD_OUT_COLOUR)
        top.set_xlabel(f"share of {len(held_out):,} held-out demonstrations that keep all rules so far")
        top.xaxis.label.set_color(HELD_OUT_COLOUR)
        top.spines[["right"]].set_visible(False)
    return ax
