"""Pictures of the obstacle tasks: trajectories, drawings, how often cells are passed, and held-out likelihoods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Rectangle

from xmen.experiments import lines
from xmen.experiments.human_heldout import HeldOut, mean_and_error
from xmen.experiments.human_paths import END, START
from xmen.experiments.human_tasks import DISC_CENTRE, DISC_RADIUS, HumanTask
from xmen.experiments.lines import draw_lines, points, shifts
from xmen.plots import canvas
from xmen.registry import LOOKS
from xmen.rewards import Floats
from xmen.worlds.grid import GOAL_COLOUR, START_COLOUR
from xmen.worlds.trajectory import Trajectory

OBSTACLE, OBSTACLE_RIM, CHOKE_COLOUR, DISC_RIM = "#4d4d4d", "#8c8c8c", "#F0E442", "#E69F00"


def draw_trajectories(
    task: HumanTask, panels: Mapping[str, Sequence[Trajectory]], notes: Mapping[str, str], n_columns: int
) -> Figure:
    """A panel per method with its trajectories; those that break a rule are dashed, in another colour."""
    figure, axes = _panels(task, len(panels), n_columns)
    broken = 0
    for ax, (name, trajectories) in zip(axes, panels.items(), strict=False):
        _world(ax, task)
        kept = [task.rules.accepts(tau) for tau in trajectories]
        broken += len(kept) - sum(kept)
        draw_lines(ax, task.grid, trajectories, kept, name)
        ax.set_title(f"{LOOKS[name].label}\n{notes[name]}", fontsize=11)
    _task_legend(figure, task, broken=bool(broken), kept=True)
    return figure


def draw_marginals(
    task: HumanTask, visits: Mapping[str, Floats], notes: Mapping[str, str], n_columns: int, most: float = 1.0
) -> Figure:
    """A panel per method: the expected visits (n_states,) of every cell, on one colour scale that ends at `most`."""
    figure, axes = _panels(task, len(visits), n_columns)
    for ax, (name, values) in zip(axes, visits.items(), strict=False):
        _world(ax, task, outlined=True)
        edge = task.grid.width - 0.5
        image = ax.imshow(values.reshape(task.grid.height, task.grid.width), origin="lower", cmap="YlGnBu", vmin=0.0,
                          vmax=most, extent=(-0.5, edge, -0.5, edge), zorder=0.5)  # fmt: skip
        ax.set_title(f"{LOOKS[name].label}\n{notes[name]}", fontsize=11)
    figure.colorbar(
        image,
        ax=axes.tolist(),
        label="expected visits per trajectory",
        shrink=0.7,
        pad=0.01,
        extend="max" if most < 1.0 else "neither",
    )
    _task_legend(figure, task, outlined=True)
    return figure


def draw_drawings(task: HumanTask) -> Figure:
    """The paths as they were drawn, and the cells they pass."""

    figure, (raw, cells) = plt.subplots(1, 2, figsize=(11.0, 5.6), layout="constrained")
    n = task.grid.width
    left_first = sorted(task.drawings, key=lambda drawing: float(drawing.points[:, 0].mean()))
    for index, drawing in enumerate(left_first):
        x, y = np.vstack([START, drawing.points, END]).T
        shade = plt.get_cmap("viridis")(index / max(1, len(left_first) - 1))
        raw.plot(x, y, "-", color=shade, linewidth=1.1, zorder=3)
        raw.plot(*drawing.points.T, ".", color=shade, markersize=5, zorder=3)
    raw.set(
        xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="x (sides of the square)", ylabel="y (sides of the square)"
    )
    raw.set_xticks(np.arange(n + 1) / n, minor=True)
    raw.set_yticks(np.arange(n + 1) / n, minor=True)
    raw.grid(which="minor", color="#c8c8c8", linewidth=0.6)
    raw.tick_params(which="minor", length=0)
    raw.set_axisbelow(True)
    raw.add_patch(Circle(DISC_CENTRE, DISC_RADIUS, facecolor=OBSTACLE, alpha=0.85, zorder=2))
    raw.plot(*START, "o", color=START_COLOUR, markersize=12, zorder=5, clip_on=False)
    raw.plot(*END, "*", color=GOAL_COLOUR, markersize=15, zorder=5, clip_on=False)
    raw.set_title(f"{len(task.drawings)} hand-drawn paths", fontsize=12)
    handles: list[Any] = [
        Line2D([], [], color="#21918c", marker=".", linewidth=1.1, label="drawn points, joined"),
        Patch(facecolor=OBSTACLE, alpha=0.85, label=f"obstacle, radius {DISC_RADIUS:g}"),
        canvas.legend_symbol("start", "o", START_COLOUR, rim="none"),
        canvas.legend_symbol("goal", "*", GOAL_COLOUR, rim="none"),
    ]
    _legend_below(raw, handles)

    _world(cells, task)
    for tau, shift in zip(task.demos, shifts(len(task.demos)), strict=True):
        x, y = points(task.grid, tau) + shift[:, None]
        cells.plot(x, y, color="black", linewidth=1.2, alpha=0.6, zorder=4)
    cells.add_patch(Circle(_in_cells(task), DISC_RADIUS * n, fill=False, edgecolor=DISC_RIM, linewidth=2.0, zorder=3))
    cells.set(xlabel="x (cells)", ylabel="y (cells)")
    cells.set_title(f"the same on {n} x {n} cells, moved apart to be seen", fontsize=12)
    handles = [
        Line2D([], [], color="black", alpha=0.6, label="discretised path"),
        _obstacle_handle("forbidden: centre in the disc"),
        Line2D([], [], color=DISC_RIM, linewidth=2.0, label="disc"),
    ]
    _legend_below(cells, handles)
    return figure


def draw_held_out(held_out: Mapping[str, HeldOut], against: str = "exact") -> Figure:
    """Paired differences of held-out log-likelihood from one method: a dot per path, mean and standard error."""

    others = [name for name in held_out if name != against]
    figure, axes = plt.subplots(1, 2, figsize=(11.0, 0.8 + 0.85 * len(others)), layout="constrained", sharey=True)
    kinds = ("as learned", "given the rules: renormalised to valid paths")
    for ax, kind in zip(axes, kinds, strict=True):
        for row, name in enumerate(others):
            scores = [
                h.log_likelihood if kind == kinds[0] else h.given_rules for h in (held_out[name], held_out[against])
            ]
            difference = scores[0] - scores[1]
            seen = difference[np.isfinite(difference)]
            method = LOOKS[name]
            spread = np.linspace(-0.22, 0.22, len(seen)) if len(seen) > 1 else np.zeros(len(seen))
            ax.scatter(seen, row + spread, s=16, color=method.colour, alpha=0.55, linewidths=0)
            mean, error = mean_and_error(difference)
            if mean is not None:
                ax.errorbar(mean, row, xerr=error, fmt=method.marker, color=method.colour, markersize=10,
                            markeredgecolor="black", capsize=5, linewidth=2.2, zorder=5)  # fmt: skip
        ax.axvline(0.0, color=LOOKS[against].colour, linewidth=2.0, zorder=1)
        ax.set_title(kind, fontsize=11)
        ax.grid(axis="x", color="#dddddd", linewidth=0.7)
    axes[0].set_yticks(range(len(others)), [LOOKS[name].label for name in others])
    axes[0].set_ylim(len(others) - 0.5, -0.5)
    figure.supxlabel(
        f"held-out log-likelihood less that of {LOOKS[against].label}, nats per path  (left of the line: worse)",
        fontsize=11,
    )
    return figure


def _panels(task: HumanTask, n: int, n_columns: int) -> tuple[Figure, Any]:
    n_rows = -(-n // n_columns)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=(3.3 * n_columns + 0.6, 3.75 * n_rows + 0.5),
                                layout="constrained", sharex=True, sharey=True, squeeze=False)  # fmt: skip
    for ax in axes.flat[n:]:
        ax.set_axis_off()
    return figure, axes.ravel()


def _world(ax: Axes, task: HumanTask, outlined: bool = False) -> None:
    canvas.canvas(task.grid, ax, outlined=outlined)
    for x, y in task.obstacles:
        style: dict[str, Any] = {"facecolor": OBSTACLE, "edgecolor": OBSTACLE_RIM, "hatch": "///"}
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, linewidth=0, zorder=2, **style))
    if task.choke is not None:
        x, y = task.choke
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor="none" if outlined else CHOKE_COLOUR,
                               edgecolor="black", linewidth=1.8, zorder=2.6))  # fmt: skip
    ax.label_outer()


def _in_cells(task: HumanTask) -> tuple[float, float]:
    """The disc's centre in units of cells, whose middles are whole numbers."""
    return DISC_CENTRE[0] * task.grid.width - 0.5, DISC_CENTRE[1] * task.grid.height - 0.5


def _legend_below(ax: Axes, handles: list[Any]) -> None:
    """One line of entries under the axis label."""
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": len(handles)}
    ax.legend(handles=handles, columnspacing=1.0, handletextpad=0.4, frameon=False, **place)


def _obstacle_handle(label: str) -> Any:
    return Patch(facecolor=OBSTACLE, hatch="///", edgecolor=OBSTACLE_RIM, label=label)


def _task_legend(
    figure: Figure, task: HumanTask, *, outlined: bool = False, broken: bool = False, kept: bool = False
) -> None:
    colours = ("white", "white", "black") if outlined else (START_COLOUR, GOAL_COLOUR, "none")
    handles = [
        canvas.legend_symbol("start", "o", colours[0], rim=colours[2]),
        canvas.legend_symbol("goal", "*", colours[1], rim=colours[2]),
        _obstacle_handle("obstacle"),
    ]
    if task.choke is not None:
        fill = "none" if outlined else CHOKE_COLOUR
        handles.append(Patch(facecolor=fill, edgecolor="black", linewidth=1.8, label="choke point"))
    handles += lines.handles(kept=kept, broken=broken)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
