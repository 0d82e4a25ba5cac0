"""How methods and worlds look, the same in every figure.

Colours of methods are Okabe and Ito's, which readers with any colour vision can tell apart;
lines and markers differ too.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch

import xmen as xm

Cell = tuple[int, int]
Marks = Mapping[str, Any] | None  # of `xm.plot_world`


class Look(NamedTuple):
    label: str
    colour: str
    marker: str
    line: str = "-"

    @property
    def style(self) -> dict[str, Any]:
        """For a curve."""
        return {"color": self.colour, "marker": self.marker, "ls": self.line, "label": self.label}


LOOKS = {
    "demonstrations": Look("demonstrations", "#000000", "o"),
    "exact": Look("X-MEN exact", "#0072B2", "s"),
    "cells": Look("X-MEN cells", "#56B4E9", "D", "--"),
    "paper": Look("X-MEN paper", "#009E73", "^", "-."),
    "maxent": Look("MaxEnt", "#E69F00", "v"),
    "relative-entropy": Look("RE-IRL", "#D55E00", "X", "--"),  # relative entropy inverse reinforcement learning
    "constraint-inference": Look("MLCI", "#CC79A7", "P", "-."),  # maximum likelihood constraint inference
    "constraint-inference-maxent": Look("MLCI on MaxEnt", "#882255", "p", ":"),  # not as its authors use it
}
BROKEN: Any = {"color": "#000000", "ls": (0, (3, 1.5))}  # no learner has this colour
SPREAD = 0.26  # of a cell: lines of different trajectories are moved apart by at most this


def draw_world(ax: Axes, grid: xm.GridWorld, marks: Marks = None, outlined: bool = False) -> list[Any]:
    """The grid with its start, its goal and marked cells; returns handles for a legend.

    `outlined` draws marks as outlines, through which colours stay visible.
    """
    legend: Any = xm.plot_world(grid, marks, ax=ax).get_legend()
    legend.remove()
    for mark in (*ax.patches, *legend.legend_handles) if outlined else ():
        if isinstance(mark, Line2D):
            if mark in legend.legend_handles[:2]:  # start and goal, white on the dark cells that they are passed at
                mark.set(markeredgecolor="#081d58", markeredgewidth=3)
            else:
                mark.set_fillstyle("none")
        elif mark.get_fill() and (colour := mark.get_facecolor()[:3]) != (1.0, 1.0, 1.0):  # start and goal are white
            rim = "black" if isinstance(mark, PathPatch) else colour
            mark.set(facecolor="none", edgecolor=rim, alpha=None, zorder=3, linewidth=1.2)
    return list(legend.legend_handles)


def draw_panels(
    grid: xm.GridWorld, panels: Mapping[str, Any], marks: Marks, n_columns: int, most: float = 1.0
) -> Figure:
    """A panel per method by its key: (title, trajectories, which of them are valid), or (title, numbers by state).

    Trajectories are lines side by side, dashed and black where they break a rule; numbers are colours, on one scale
    that ends at `most`.
    """
    n_rows, heat = -(-len(panels) // n_columns), any(len(panel) == 2 for panel in panels.values())
    figure = plt.figure(figsize=(4.0 * n_columns, (3.4 if heat else 4.5) * n_rows + 0.9), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax, (key, (title, shown, *kept)) in zip(axes.flat, panels.items(), strict=False):
        if not kept:
            xm.plot_visits(grid, shown, ax=ax)
            ax.images[0].set_clim(0.0, most)
        handles = draw_world(ax, grid, marks, outlined=not kept)
        offsets = np.linspace(-SPREAD, SPREAD, len(shown)) if len(shown) > 1 else np.zeros(1)
        for tau, shift, valid in zip(shown, offsets, kept[0], strict=True) if kept else ():
            x, y = np.array([grid.cell(state) for state in tau.states]).T + np.array([[shift], [-shift]])
            if not valid:  # a rim, to be seen on obstacles
                ax.plot(x, y, color="white", linewidth=3.2, alpha=0.8, zorder=4.4)
            style = {"color": LOOKS[key].colour, "zorder": 4} if valid else {**BROKEN, "zorder": 4.5}
            ax.plot(x, y, lw=1.5, alpha=0.75, solid_capstyle="round", **style)
        ax.set_title(f"{LOOKS[key].label}\n{title}", fontsize=11)
        ax.label_outer()
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    if not heat:
        handles += [Line2D([], [], color="#404040", lw=1.8, label="valid")]
        handles += [Line2D([], [], lw=1.8, label="breaks a rule", **BROKEN)]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    return figure
