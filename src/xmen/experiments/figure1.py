"""The three pictures of the introduction: one world and one reward, three rules, and the most likely trajectory.

The coordinates of the paper's figure are not in its text: this map is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xmen.constraints.constraint import Constraint
from xmen.constraints.occurrence import never
from xmen.constraints.shares import share
from xmen.engines.choose import distribution
from xmen.engines.distribution import Distribution
from xmen.events import at
from xmen.experiments.notebook import Notebook
from xmen.plots import canvas
from xmen.rewards import Floats
from xmen.worlds.grid import MOVES, Cell, GridWorld
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

SIZE = 11
SHADE = [(x, y) for y in range(SIZE) for x in range(SIZE) if 2 <= y - x <= 5 and 5 <= x + y <= 15]
CLOSED = [(x, y) for y in range(4, 7) for x in range(3, 8)]
OFF_DIAGONAL = 0.05  # cost per step and cell away from the diagonal: small, so that no two trajectories tie

MODE_COLOUR, CELL_RULE_COLOUR = "#D55E00", "#404040"
SHADE_COLOUR = "#E69F00"


def run(book: Notebook) -> None:
    """Three panels, one table, and the proof that the third rule needs memory."""
    book.title("Three rules in one world")
    grid = GridWorld(SIZE, SIZE, start=(0, 0), goal=(SIZE - 1, SIZE - 1), moves=("up", "right", "up-right"))
    reward = reward_of(grid)
    half = (share(grid.at(*SHADE)) >= 0.5).named("at least half of the visited states in the shaded area")
    rules: dict[str, Constraint | None] = {
        "no rule": None,
        "forbidden cells": never(grid.at(*CLOSED)).named("never a forbidden cell"),
        "at least half in the shade": half,
    }
    book.set(
        grid=f"{SIZE} x {SIZE}, from corner to corner",
        moves=grid.moves,
        reward="minus the length of each move, minus 0.05 per cell away from the diagonal",
    )
    book.say(
        f"""One world and one reward: every move costs its length. Without a rule the most likely trajectory is the
        straight one. Forbidden cells bend it around them. The rule '{half.name}' bends it too, and changes how it goes:
        inside the shade it takes two short moves in place of a diagonal one, a longer way with more shaded states on
        it, and leaves the shade as soon as half is sure. The coordinates of the paper's figure are not in its text;
        this map is ours."""
    )

    with book.stage("three rules, exactly"):
        found = {name: distribution(grid, rule, reward) for name, rule in rules.items()}
        counts = {name: count_trajectories(grid, rule) for name, rule in rules.items()}
        free = found["no rule"].log_partition()
        rows = []
        for name, d in found.items():
            mode = d.mode()
            shaded = sum(grid.cell(state) in SHADE for state in mode.states)
            keeps = min(1.0, np.exp(d.log_partition() - free))
            in_shade = f"{shaded} of {len(mode.states)}"
            rows.append((name, counts[name], keeps, d.score(mode), d.log_prob(mode), in_shade))

    with book.stage("no list of forbidden cells is this rule"):
        cells, n_left, valid_share = strictest_cell_rule(found["at least half in the shade"], reward)
        first, second, step, mixed = swapped_tails(half, found["at least half in the shade"], book.seed)

    book.figure(
        _draw(grid, found, cells.mode()),
        "figure1",
        """The most likely trajectory (orange) under no rule, under forbidden cells, and when at least half of the
        visited states have to be in the shaded area (one of them, where several are equally likely); blue: the
        probability of passing each cell. Dashed: the most likely trajectory when only the cells are forbidden that
        no trajectory of the third rule ever visits; it does not even enter the shade.""",
    )
    book.table(
        "rules",
        {
            "rule": "",
            "valid trajectories": ",d",
            "P(kept without it)": ".3g",
            "reward of the mode": ".2f",
            "log P(mode)": ".2f",
            "states of the mode in the shade": "",
        },
        rows,
        note="All numbers are exact. P(kept without it): the probability that a trajectory drawn without the rule "
        "keeps it, exp(log Z under the rule - log Z).",
    )
    stray = cells.mode()
    book.say(
        f"The third rule cannot be had by forbidding cells. Forbid every cell that none of its "
        f"{counts['at least half in the shade']:,d} trajectories visits: any stricter list would forbid a valid "
        f"trajectory. {n_left:,d} trajectories are left, only {valid_share:.1%} of their probability keeps the rule, "
        f"and the most likely of them has {sum(grid.cell(s) in SHADE for s in stray.states)} of "
        f"{len(stray.states)} states in the shade (dashed in the figure)."
    )
    book.say(
        f"Nor by forbidding moves, not even at certain times: what such rules allow stays allowed when two "
        f"trajectories that meet exchange the rest of their ways. Two valid ones meet in cell "
        f"{grid.cell(first.states[step])} after {step} moves, with {_shaded(grid, first)} and "
        f"{_shaded(grid, second)} states in the shade; the start of one with the rest of the other has "
        f"{_shaded(grid, mixed)}, which is less than half. Whether a move is allowed depends on what was visited "
        "before: the rule needs memory."
    )


def reward_of(grid: GridWorld) -> Floats:
    """Minus the length of each move, and a little for being away from the diagonal; (n_states, n_actions)."""
    length = np.array([np.hypot(*MOVES[move]) for move in grid.moves])
    y, x = np.divmod(np.arange(grid.n_states), grid.width)
    reward: Floats = -length[None, :] - OFF_DIAGONAL * np.abs(x - y)[:, None]
    return reward


def count_trajectories(grid: GridWorld, rule: Constraint | None) -> int:
    """How many there are: Z without a reward, where chance plays no part."""
    return round(float(np.exp(distribution(grid, rule, None).log_partition())))


def strictest_cell_rule(d: Distribution, reward: Floats) -> tuple[Distribution, int, float]:
    """Forbid all cells that no valid trajectory visits: what is left, how many, and the share of it that is valid."""
    grid = d.world
    assert isinstance(grid, GridWorld)
    unused = np.flatnonzero(d.state_visits() == 0).tolist()
    rule = never(at(*unused))
    cells = distribution(grid, rule, reward)
    return cells, count_trajectories(grid, rule), float(np.exp(d.log_partition() - cells.log_partition()))


def swapped_tails(rule: Constraint, d: Distribution, seed: int) -> tuple[Trajectory, Trajectory, int, Trajectory]:
    """Two valid trajectories in the same cell after the same number of moves, whose mixture is invalid."""
    meetings: dict[tuple[int, int], list[Trajectory]] = {}
    for tau in d.sample(500, seed=seed):
        for step in range(1, len(tau)):
            met = meetings.setdefault((step, tau.states[step]), [])
            for other in met:
                for one, two in ((tau, other), (other, tau)):
                    mixed = Trajectory(one.states[:step] + two.states[step:], one.actions[:step] + two.actions[step:])
                    if not rule.accepts(mixed):
                        return one, two, step, mixed
            met.append(tau)
    raise AssertionError("valid trajectories can exchange their tails: is this rule about single cells?")


def _shaded(grid: GridWorld, tau: Trajectory) -> str:
    return f"{sum(grid.cell(state) in SHADE for state in tau.states)} of {len(tau.states)}"


def _draw(grid: GridWorld, found: dict[str, Distribution], cell_mode: Trajectory) -> Figure:
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(1, 3, figsize=(13.0, 5.0), layout="constrained", sharey=True)
    titles = ("no rule", "never a forbidden cell", "at least half of the visited states\nin the shaded area")
    for ax, title, (name, d) in zip(axes, titles, found.items(), strict=True):
        image = _panel(ax, grid, d)
        ax.set_title(title, fontsize=13)
        if name == "forbidden cells":
            _fill(ax, CLOSED, facecolor="#4d4d4d", hatch="///", edgecolor="#8c8c8c")
        if name == "at least half in the shade":
            _outline(ax, SHADE, SHADE_COLOUR)
            _line(ax, grid, cell_mode, CELL_RULE_COLOUR, width=1.8, style=(0, (4, 2)))
        _line(ax, grid, d.mode(), MODE_COLOUR, width=3.2)
        if ax is not axes[0]:
            ax.set_ylabel("")
    figure.colorbar(image, ax=axes, label="probability of passing a cell", shrink=0.82, pad=0.01)
    handles = [
        Line2D([], [], color=MODE_COLOUR, linewidth=3.2, marker="o", markersize=5, label="most likely trajectory"),
        Line2D(
            [],
            [],
            color=CELL_RULE_COLOUR,
            linewidth=1.8,
            linestyle=(0, (4, 2)),
            label="most likely one when the third rule's unused cells are forbidden instead",
        ),
        Patch(facecolor="#4d4d4d", hatch="///", edgecolor="#8c8c8c", label="forbidden"),
        Patch(facecolor=SHADE_COLOUR, alpha=0.3, edgecolor=SHADE_COLOUR, label="shaded area"),
        canvas.legend_symbol("start", "o", "white"),
        canvas.legend_symbol("goal", "*", "white"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=10)
    return figure


def _panel(ax: Axes, grid: GridWorld, d: Distribution) -> AxesImage:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    canvas.canvas(grid, ax, outlined=True)
    picture = d.state_visits().reshape(grid.height, grid.width)  # no cell is passed twice: visits are probabilities
    edge = SIZE - 0.5
    light = ListedColormap(colormaps["Blues"](np.linspace(0.0, 0.7, 256)))  # lines on it stay visible
    return ax.imshow(
        picture, origin="lower", extent=(-0.5, edge, -0.5, edge), cmap=light, vmin=0.0, vmax=1.0, zorder=0.5
    )


def _fill(ax: Axes, cells: list[Cell], **style: Any) -> None:
    from matplotlib.patches import Rectangle

    for x, y in cells:
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, linewidth=0, zorder=2, **style))


def _outline(ax: Axes, cells: list[Cell], colour: str) -> None:
    """A tint over the cells, and a line around all of them together."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Rectangle

    inside, border = set(cells), []
    for x, y in cells:
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=colour, alpha=0.2, linewidth=0, zorder=0.8))
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            if (x + dx, y + dy) not in inside:
                middle, along = np.array([x + dx / 2, y + dy / 2]), np.array([dy / 2, dx / 2])
                border.append([middle - along, middle + along])
    ax.add_collection(LineCollection(border, colors=colour, linewidths=2.0, capstyle="round", zorder=3), autolim=False)


def _line(
    ax: Axes,
    grid: GridWorld,
    tau: Trajectory,
    colour: str,
    width: float,
    style: tuple[int, tuple[int, ...]] | str = "-",
) -> None:
    x, y = zip(*(grid.cell(state) for state in tau.states), strict=True)
    solid = style == "-"
    ax.plot(x, y, color="white", linewidth=width + 1.6, alpha=0.8, zorder=4, solid_capstyle="round")
    ax.plot(x, y, color=colour, linewidth=width, linestyle=style, zorder=5, marker="o" if solid else "", markersize=5)
