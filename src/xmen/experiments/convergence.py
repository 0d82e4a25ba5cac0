"""Does Algorithm 1 converge as its theorems say, and at what cost? Truth is the list of all valid trajectories.

Theorem 3's bound is drawn with the bias term that its proof leaves out (a factor on E_P[f] is not a factor on the
gradient), and the oracle's work is set against Theorem 5's count, which leaves out cells that give no draw and the
solutions that have to be read from every cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xmen.experiments.notebook import Notebook
from xmen.experiments.theory_runs import COMMON, Curve, Setting, compare
from xmen.experiments.theory_tasks import slippery, straight
from xmen.registry import LOOKS

DELTAS, M1S, DRAWS = (1.05, 1.18, 1.35), (1, 4, 16), (2, 8, 32)
LOWEST_GAP = 1e-4  # nats; below it a curve leaves the figure
MEASURED, BOUND = LOOKS["paper"].colour, LOOKS["demonstrations"].colour
WORK = {  # Tol's muted colours: none of them is the colour of a method
    "theorem5": ("Theorem 5's count", "#000000", "|"),
    "points": ("solutions read", "#882255", "P"),
    "search_cells": ("cells of the search", "#332288", "s"),
    "failed": ("cells without a draw", "#999933", "v"),
    "drawn": ("cells that gave a draw", "#44AA99", "^"),
}
FONT: Any = {"font.size": 9.0, "axes.titlesize": 9.0, "legend.fontsize": 8.0}


def settings() -> list[list[Setting]]:
    """Rows of settings: delta, M1 and 2 M2 vary around one that all rows share."""
    return [
        [COMMON._replace(delta=delta) for delta in DELTAS],
        [COMMON._replace(m1=m1) for m1 in M1S],
        [COMMON._replace(n_draws=n) for n in DRAWS],
    ]


def weighted_settings(quick: bool) -> list[list[Setting]]:
    """Settings for a world with chance, where c = delta^2: the paper's split sample, and below it one ratio."""
    sizes = (8, 32) if quick else (8, 32, 64)
    return [[Setting(1.1, 16, n, self_normalised) for n in sizes] for self_normalised in (False, True)]


def run(book: Notebook) -> None:
    """`xmen reproduce convergence`."""
    book.title("Convergence of Algorithm 1, and what it asks of the oracle")
    n_iter, n_seeds = book.pick(16, 120), book.pick(3, 6)
    book.set(iterations=n_iter, seeds=n_seeds, burn_in=0.0, failure=0.05, oracle="listed")
    book.say(
        f"""L(mean of the first k iterates) - L*, in nats, for {n_seeds} runs of {n_iter} iterations with the largest
        step that Theorem 4 allows. Both worlds are small on purpose: L* and every gap come from the list of all valid
        trajectories. Theorem 3 is drawn as printed, with delta^2 and M2, and in the form that is used here,
        c |theta*|^2 / (2 eta K) + eta (sigma1^2 / M1 + sigma2^2 / M2) / c, with features in units of their span. This
        experiment is ours."""
    )

    with book.stage("the deterministic 5x5 grid") as stage:
        problem, rows = straight(book.seed), settings()
        plain = compare(problem, [one for row in rows for one in row], n_iter, n_seeds, book.seed, stage.done)
    truth = problem.truth
    book.say(
        f"""The 5x5 grid has {len(truth.rows)} valid trajectories, L(0) - L* = {truth.gap(np.zeros(2)):.3f} nats and
        |theta*|^2 = {truth.best @ truth.best:.2f}. Its dynamics are deterministic: no importance weights, c = delta,
        and all 2 M2 draws enter one mean."""
    )
    book.figure(
        draw_gaps([[plain[one] for one in row] for row in rows]),
        "convergence_curves",
        f"""Loss above the optimum on the 5x5 grid: mean over {n_seeds} seeds, from the best to the worst seed shaded,
        with Theorem 3's bound and the bias term that it leaves out. One of delta, M1 and 2 M2 varies in each row.""",
    )

    with book.stage("the slippery 3x3 grid") as stage:
        problem, rows = slippery(book.seed), weighted_settings(book.quick)
        weighted = compare(problem, [one for row in rows for one in row], n_iter, n_seeds, book.seed, stage.done)
    book.say(
        f"""The 3x3 grid where one move in five slips has {len(problem.truth.rows)} valid trajectories. Draws from Q
        need importance weights here, c = delta^2, and E_P[f] is a ratio of two means: neither bound covers its bias,
        which falls as 1 / M2 and is far smaller for a self-normalised mean."""
    )
    book.figure(
        draw_gaps([[weighted[one] for one in row] for row in rows]),
        "convergence_weighted",
        """The same on the slippery 3x3 grid, where draws carry importance weights: above with the paper's split sample,
        below with one self-normalised mean of all draws.""",
    )

    curves = [*plain.values(), *weighted.values()]
    book.figure(
        draw_work(curves),
        "convergence_queries",
        """What one iteration asks of the oracle, mean over all iterations and seeds. Theorem 5 counts n' levels of
        24 ln(n' / failure) cells for the search and one cell for each draw; n' is the number of hash bits plus 1.""",
    )
    book.table("The oracle's work per iteration", *work_table(curves), note=WORK_NOTE)
    book.table(f"Gap to L* after {n_iter} iterations, {n_seeds} seeds", *summary_table(curves), note=SUMMARY_NOTE)


def draw_gaps(rows: Sequence[Sequence[Curve]]) -> Figure:
    """One panel for each curve, all on the same axes."""

    n_columns = max(len(row) for row in rows)
    with plt.rc_context(FONT):
        figure, panels = plt.subplots(
            len(rows),
            n_columns,
            figsize=(2.7 * n_columns + 0.4, 2.1 * len(rows) + 0.6),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axes, row in zip(panels, rows, strict=True):
            for ax, curve in zip(axes, row, strict=True):
                k = np.arange(1, curve.n_iter + 1)
                ax.fill_between(k, curve.gaps.min(axis=0), curve.gaps.max(axis=0), color=MEASURED, alpha=0.25, lw=0)
                ax.plot(k, curve.mean, color=MEASURED, lw=1.8, label="measured: mean, best to worst seed")
                # Broad, because with importance weights our form is the printed one and lies on it.
                ax.plot(k, curve.printed, color="#c4c4c4", lw=3.6, label="Theorem 3 as printed")
                ax.plot(k, curve.theorem3, color=BOUND, lw=1.2, label="Theorem 3")
                ax.plot(k, curve.theorem3 + curve.bias, color=BOUND, lw=1.2, ls="--", label="Theorem 3 + bias term")
                ax.set_title(curve.setting.title)
                ax.set(xscale="log", yscale="log", xlim=(1, curve.n_iter))
                _tidy(ax)
        bottom, top = panels[0, 0].get_ylim()
        panels[0, 0].set_ylim(max(bottom, LOWEST_GAP), top)
        figure.supxlabel("iterations K", fontsize=9)
        figure.supylabel("L(mean iterate) - L*  (nats)", fontsize=9)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def draw_work(curves: Sequence[Curve]) -> Figure:
    """One line for each setting: the parts of the oracle's work per iteration, and Theorem 5's count."""

    with plt.rc_context(FONT):
        figure, ax = plt.subplots(figsize=(7.2, 0.3 * len(curves) + 1.3), layout="constrained")
        heights = range(len(curves))
        for name, (label, colour, marker) in WORK.items():
            values = [getattr(curve.counts, name) for curve in curves]
            size = 14 if marker == "|" else 7
            ax.plot(values, heights, marker, color=colour, ms=size, mew=2 if marker == "|" else 0, label=label)
        ax.set_yticks(heights, [_label(curve) for curve in curves])
        ax.set(xscale="log", xlabel="cells, or solutions, per iteration")
        ax.invert_yaxis()
        ax.grid(axis="x", color="#dddddd", lw=0.6)
        ax.set_axisbelow(True)
        _tidy(ax)
        figure.legend(loc="outside upper center", ncols=3, frameon=False, handletextpad=0.2)
    return figure


NAMES_NOTE = """Common: the 5x5 grid with delta 1.18, M1 16 and 2 M2 8, from which other rows differ as they say. Slip:
the slippery grid with delta 1.1, M1 16 and so many draws 2 M2; sn: self-normalised."""
WORK_NOTE = f"""A cell is one question to the oracle, as Theorem 5 (Th. 5) counts them: are there P solutions under
these parities? Read: solutions read from all cells. Calls: of a solver that finds one solution at a time.
{NAMES_NOTE}"""
SUMMARY_NOTE = f"""Mean and worst gap over seeds, Theorem 3's bound (Th. 3), and that bound with the bias term, in nats;
under: whether the mean gap is under the latter after every iteration. Solver calls, Theorem 5's cells (Th. 5) and
solutions read, per iteration. {NAMES_NOTE}"""


def work_table(curves: Iterable[Curve]) -> tuple[dict[str, str], list[list[Any]]]:
    """Columns and rows: where the cells and solver calls of one iteration go."""
    names = ("search cells", "draws", "failed draws", "all cells", "Th. 5", "read", "calls")
    rows = []
    for curve in curves:
        n = curve.counts
        rows.append([curve.name, n.search_cells, n.drawn, n.failed, n.cells, n.theorem5, n.points, n.queries])
    return {"setting": "", **dict.fromkeys(names, ",.0f")}, rows


def summary_table(curves: Iterable[Curve]) -> tuple[dict[str, str], list[list[Any]]]:
    """Columns and rows: the gap at the end against the bounds, and the cost against Theorem 5."""
    nats = dict.fromkeys(("mean", "worst", "Th. 3", "+bias"), ".3f")
    columns = {"setting": "", **nats, "under": "", **dict.fromkeys(("calls", "Th. 5", "read"), ",.0f")}
    rows = []
    for curve in curves:
        end, bound, n = curve.gaps[:, -1], curve.theorem3[-1], curve.counts
        gaps = [end.mean(), end.max(), bound, bound + curve.bias, curve.under_bound]
        rows.append([curve.name, *gaps, n.queries, n.theorem5, n.points])
    return columns, rows


def _label(curve: Curve) -> str:
    return f"{curve.problem.split()[0]} {curve.setting}"


def _tidy(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
