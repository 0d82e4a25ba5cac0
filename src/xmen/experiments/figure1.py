"""The three pictures of the introduction: one world and one reward, and rules that are added one after the other.

The text of the paper says which trajectories are left, and neither coordinates nor rewards: those are ours.
"""

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

import xmen as xm
from xmen.experiments.methods import draw_world, n_trajectories
from xmen.experiments.notebook import Notebook

WIDTH, HEIGHT, MIDDLE = 7, 9, 3
HORIZON = 16  # four moves more than the shortest detour
CLOSED = [(x, y) for y in range(3, 6) for x in range(2, 5)]
SHADE = [(x, y) for y in range(1, 8) for x in range(5, 7)]
AWAY = 0.1  # cost per step and column away from the middle: small, so that one detour per side is best
DEMONSTRATION = [(3, 0), (3, 1), (4, 1), *((5, y) for y in range(1, 8)), (4, 7), (3, 7), (3, 8)]
RIGHT = [(x, 4) for x in range(MIDDLE + 1, WIDTH)]  # every trajectory crosses this row, on one side of the middle

FREE, CELLS, SHADED = "no rule", "forbidden cells", "and half in the shade"
TITLES = ("(a) no rule", "(b) never a red cell", "(c) and at least half of the states\nin the shade")

MODE_COLOUR, DEMONSTRATION_COLOUR, CELL_RULE_COLOUR = "#0072B2", "#D62728", "#404040"
CLOSED_COLOUR, SHADE_COLOUR = "#E8A09A", "#D0D0D0"
DASHED = (0, (3, 1.4))
ARROW: dict[str, Any] = {"arrowstyle": "-|>", "linestyle": DASHED, "linewidth": 1.8, "mutation_scale": 10}
ARROW |= {"color": MODE_COLOUR, "shrinkA": 2, "shrinkB": 2}

MOVES = ("up", "right", "down", "left")
GRID = xm.GridWorld(WIDTH, HEIGHT, start=(MIDDLE, 0), goal=(MIDDLE, HEIGHT - 1), moves=MOVES, horizon=HORIZON)
REWARD = np.repeat((-1.0 - AWAY * np.abs(np.arange(GRID.n_states) % WIDTH - MIDDLE))[:, None], len(MOVES), axis=1)
C1 = xm.never(GRID.at(*CLOSED)).named("never a forbidden cell")
C2 = (xm.share(GRID.at(*SHADE)) >= 0.5).named("at least half of the visited states in the shaded area")
RULES = {FREE: None, CELLS: C1, SHADED: C1 & C2}


def run(book: Notebook) -> None:
    """Three panels, one table, and the proof that the third rule needs memory."""
    book.title("Three rules in one world")
    book.set(grid=f"{WIDTH} x {HEIGHT}, at most {HORIZON} moves", moves=MOVES)
    book.set(reward=f"minus 1 per move, minus {AWAY} per column away from the middle")
    book.say("""One world and one reward, and rules that are added one after the other. Without a rule the best
        trajectory goes straight up. Forbidden cells leave two detours that are equally good. When at least half of all
        states have to be in the shade as well, only the right one is left. Coordinates and rewards are ours.""")

    with book.stage("three rules, exactly"):
        found = {name: xm.distribution(GRID, rule, REWARD) for name, rule in RULES.items()}
        counts = {name: round(n_trajectories(GRID, rule)) for name, rule in RULES.items()}
        rows = []
        for name, d in found.items():
            mode, right = d.mode(), d.probability(xm.visit(GRID.at(*RIGHT)))
            keeps = min(1.0, np.exp(d.log_partition() - found[FREE].log_partition()))
            rows.append((name, counts[name], keeps, right, d.score(mode), d.log_prob(mode), _shaded(mode)))

    with book.stage("no list of forbidden cells is this rule"):
        cells, n_left, valid_share = strictest_cell_rule(found[SHADED])
        first, second, step, mixed = swapped_tails(found[SHADED], book.seed)

    caption = """The best trajectories (blue, dashed) under no rule, under forbidden cells (red), and when at least half
        of the visited states have to be in the shade (grey) as well; the demonstration is the red line, the numbers are
        the rewards of one step. Dotted: the best trajectory when all cells are forbidden instead that no valid
        trajectory visits."""
    book.figure(_draw(found, cells.mode()), "figure1", caption)
    columns = {"rule": "", "valid trajectories": ",d", "P(kept without it)": ".3g", "P(right side)": ".1%"}
    columns |= {"reward of the mode": ".1f", "log P(mode)": ".2f", "its states in the shade": ""}
    note = """All exact. P(kept without it): that a trajectory drawn without any rule keeps it. P(right side): of
        passing the forbidden block's height right of the middle."""
    book.table("rules", columns, rows, note)
    book.say(f"""The third rule cannot be had by forbidding cells. Forbid every cell that none of its
        {counts[SHADED]:,d} trajectories visits: {n_left:,d} trajectories are left, only {valid_share:.1%} of their
        probability keeps the rule, and the most likely of them has {_shaded(cells.mode())} states in the shade. Nor by
        forbidding moves, even at certain times: two valid trajectories meet in cell {GRID.cell(first.states[step])}
        after {step} moves, with {_shaded(first)} and {_shaded(second)} states in the shade; the start of one with the
        rest of the other has {_shaded(mixed)}, less than half. Whether a move is allowed depends on what was visited
        before: the rule needs memory.""")


def strictest_cell_rule(d: xm.Distribution) -> tuple[xm.Distribution, int, float]:
    """Forbid all cells that no valid trajectory visits: what is left, how many, and the share of it that is valid."""
    rule = xm.never(xm.at(*np.flatnonzero(d.state_visits() == 0).tolist()))
    cells = xm.distribution(GRID, rule, REWARD)
    return cells, round(n_trajectories(GRID, rule)), float(np.exp(d.log_partition() - cells.log_partition()))


def swapped_tails(d: xm.Distribution, seed: int) -> tuple[xm.Trajectory, xm.Trajectory, int, xm.Trajectory]:
    """Two valid trajectories in the same cell after the same number of moves, whose mixture is invalid."""
    assert d.constraint is not None
    meetings: dict[tuple[int, int], list[xm.Trajectory]] = {}
    for tau in d.sample(500, seed=seed):
        for step in range(1, len(tau)):
            met = meetings.setdefault((step, tau.states[step]), [])
            for other in met:
                for one, two in ((tau, other), (other, tau)):
                    states = one.states[:step] + two.states[step:]
                    mixed = xm.Trajectory(states, one.actions[:step] + two.actions[step:])
                    if not d.constraint.accepts(mixed):
                        return one, two, step, mixed
            met.append(tau)
    raise AssertionError("valid trajectories can exchange their tails: is this rule about single cells?")


def _shaded(tau: xm.Trajectory) -> str:
    return f"{sum(GRID.cell(state) in SHADE for state in tau.states)} of {len(tau.states)}"


def _draw(found: dict[str, xm.Distribution], cell_mode: xm.Trajectory) -> Figure:
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 5.9), layout="constrained", sharey=True)
    for ax, title, (name, d) in zip(axes, TITLES, found.items(), strict=True):
        draw_world(ax, GRID)
        for shown, cells, colour in ((name == SHADED, SHADE, SHADE_COLOUR), (name != FREE, CLOSED, CLOSED_COLOUR)):
            for x, y in cells if shown else ():
                ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, linewidth=0, facecolor=colour, zorder=0.8))
        for (x, y), value in zip(map(GRID.cell, range(GRID.n_states)), REWARD[:, 0], strict=True):
            ax.text(x - 0.46, y - 0.46, f"{value:g}", fontsize=6.5, color="#606060", va="bottom")
        # Lines are moved aside, so that lines on the same cells stay apart.
        ax.plot(*np.array(DEMONSTRATION).T + 0.1, color=DEMONSTRATION_COLOUR, linewidth=2.4, zorder=4)
        if name == SHADED:
            cells = [GRID.cell(state) for state in cell_mode.states]
            ax.plot(*np.array(cells).T - 0.12, color=CELL_RULE_COLOUR, linewidth=2.4, linestyle=":", zorder=4)
        first, second = d.best(2)
        as_good = np.isclose(d.log_prob(first), d.log_prob(second))  # its mirror image
        for mode in [first, second] if as_good else [first]:
            for before, after in pairwise(GRID.cell(state) for state in mode.states):
                ax.annotate("", after, before, zorder=5, arrowprops=ARROW)
        ax.set(title=title, ylabel="y" if name == FREE else "")
    handles = [
        Line2D([], [], color=MODE_COLOUR, linewidth=2.2, linestyle=DASHED, label="best trajectory"),
        Line2D([], [], color=DEMONSTRATION_COLOUR, linewidth=2.4, label="demonstration"),
        Line2D([], [], color=CELL_RULE_COLOUR, linewidth=2.0, linestyle=":", label="best with cells forbidden instead"),
        Patch(facecolor=CLOSED_COLOUR, label="forbidden"),
        Patch(facecolor=SHADE_COLOUR, label="shade"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=10)
    return figure
