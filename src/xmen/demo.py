"""`make demo`: a constrained grid world from end to end, with pictures.

A 9x9 grid with the moves up, right and up-right. The rules: pass the triangle before any other symbol, never a
cross, exactly one square and exactly one circle, and at most three equal moves in a row.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import xmen as xm

SYMBOLS = {
    "triangle": [(1, 2), (2, 1)],
    "cross": [(4, 4), (2, 5), (6, 3)],
    "square": [(2, 4), (3, 6), (4, 2), (6, 4)],
    "circle": [(5, 7), (4, 7), (7, 5), (7, 6)],
}


def main(folder: str = "demo") -> None:
    """Build the world, state the rules, count and sample what is valid, and draw it into `folder`."""
    import matplotlib.pyplot as plt

    console = Console()
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))
    triangle, cross, square, circle = (grid.at(*cells) for cells in SYMBOLS.values())
    rules = [
        xm.first(triangle, among=triangle | cross | square | circle).named("triangle first"),
        xm.never(cross).named("no crosses"),
        (xm.count(square) == 1).named("exactly one square"),
        (xm.count(circle) == 1).named("exactly one circle"),
        (xm.longest_repeat() <= 3).named("at most three equal moves in a row"),
    ]

    began = time.perf_counter()
    table = Table("rules so far", "valid trajectories", title="9x9 grid, moves up, right, up-right")
    free = xm.distribution(grid, None, reward=None)
    table.add_row("none", f"{np.exp(free.log_partition()):,.0f}")
    for k, rule in enumerate(rules, start=1):
        n_valid = np.exp(xm.distribution(grid, rules[:k], reward=None).log_partition())
        table.add_row(f"+ {rule.name}", f"{n_valid:,.0f}")
    console.print(table)

    d = xm.distribution(grid, rules, reward=None, seed=0)
    samples = d.sample(100)
    valid = sum(all(rule.accepts(tau) for rule in rules) for tau in samples)
    lucky = np.mean([all(rule.accepts(tau) for rule in rules) for tau in free.sample(10_000, seed=0)])
    console.print(f"{valid} of {len(samples)} samples keep every rule; without the rules {lucky:.1%} would.")
    console.print(f"one sample: {' '.join(str(grid.cell(s)) for s in samples[0].states)}")

    broken = next(tau for tau in free.sample(100, seed=1) if not rules[0].accepts(tau))
    console.print(f"why another path is not valid: {rules[0].explain(broken)}")
    try:
        xm.distribution(grid, [*rules, xm.visit(grid.at((8, 0))).named("look into the corner")], reward=None)
    except xm.InfeasibleError as error:
        console.print(f"one rule too many: {error}")

    figure, axes = plt.subplots(1, 3, figsize=(16, 5.2), layout="constrained")
    xm.plot_world(grid, marks=SYMBOLS, ax=axes[0]).set_title("the world")
    xm.plot_trajectories(grid, samples[:30], ax=axes[1]).set_title("30 random valid trajectories")
    xm.plot_visits(grid, d.state_visits(), ax=axes[2]).set_title("expected visits, exact")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    figure.savefig(target / "demo.png", dpi=120)
    console.print(f"picture: {target / 'demo.png'}   ({time.perf_counter() - began:.1f} s)")


if __name__ == "__main__":
    main(*sys.argv[1:2])
