"""Trajectories of one method on a grid: in its colour where they keep the rules, dashed and black where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from xmen.registry import LOOKS
from xmen.rewards import Floats
from xmen.worlds import GridWorld, Trajectory

BROKEN = "#000000"  # no learner has this colour
DASHED = (0, (3, 1.5))
SPREAD = 0.26  # of a cell: lines of different trajectories are moved apart by at most this


def draw_lines(
    ax: Axes, grid: GridWorld, trajectories: Sequence[Trajectory], kept: Sequence[bool], method: str
) -> None:
    """One line per trajectory, `kept` saying which keep the rules; equal ones lie side by side."""
    for tau, shift, fine in zip(trajectories, shifts(len(trajectories)), kept, strict=True):
        x, y = points(grid, tau) + shift[:, None]
        if not fine:  # a rim, to be seen on obstacles
            ax.plot(x, y, color="white", linewidth=3.2, alpha=0.8, zorder=4.4)
        colour, line = (LOOKS[method].colour, "-") if fine else (BROKEN, DASHED)
        zorder = 4 if fine else 4.5
        ax.plot(x, y, color=colour, ls=line, lw=1.5, alpha=0.75, zorder=zorder, solid_capstyle="round")


def handles(*, kept: bool = True, broken: bool = True) -> list[Any]:
    """Entries of a legend."""

    found = [Line2D([], [], color="#404040", linewidth=1.8, label="valid")] if kept else []
    if broken:
        found.append(Line2D([], [], color=BROKEN, linestyle=DASHED, linewidth=1.8, label="breaks a rule"))
    return found


def points(grid: GridWorld, tau: Trajectory) -> Floats:
    """The cells as x and y, (2, L + 1)."""
    return np.array([grid.cell(state) for state in tau.states], dtype=float).T


def shifts(n: int) -> Floats:
    """Small steps across the diagonal, so that equal ones lie side by side; (n, 2)."""
    offsets = np.linspace(-SPREAD, SPREAD, n) if n > 1 else np.zeros(n)
    return np.column_stack([offsets, -offsets])
