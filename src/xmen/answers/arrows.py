"""What a policy does on a grid, as text: an arrow in every cell for the move that it makes most often there."""

from __future__ import annotations

import numpy as np

from xmen.rewards import Floats
from xmen.worlds import GridWorld

ARROWS = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "up-right": "↗",
    "up-left": "↖",
    "down-right": "↘",
    "down-left": "↙",
    "stay": "o",
}
WALL, GOAL, SELDOM = "#", "*", "."
LEGEND = f"{GOAL} goal, {WALL} wall, {SELDOM} hardly ever entered"
LEAST_VISITS = 1e-3  # an episode, on average; cells with fewer say more about chance than about the policy
LARGEST = 60  # cells in a row or a column; larger drawings fit no terminal


def arrows(grid: GridWorld, visits: Floats) -> list[str]:
    """The grid as lines of text, the upper row first, given visits (n_states, n_actions); none where it is too large.

    >>> grid = GridWorld(3, 2, start=(0, 0), goal=(2, 1), moves=("up", "right"), walls=[(1, 1)])
    >>> visits = np.zeros((6, 2)); visits[[0, 1], 1] = 1.0; visits[2, 0] = 1.0
    >>> print(*arrows(grid, visits), sep="\\n")
    1  . # *
    0  → → ↑
       0 1 2
    """
    if max(grid.width, grid.height) > LARGEST:
        return []
    wide, high = (len(str(size - 1)) for size in (grid.width, grid.height))
    signs = np.full((grid.height, grid.width), SELDOM)
    for state in np.flatnonzero(visits.sum(axis=1) >= LEAST_VISITS).tolist():
        x, y = grid.cell(state)
        signs[y, x] = ARROWS[grid.moves[int(np.argmax(visits[state]))]]
    for sign, cells in ((WALL, grid.walls), (GOAL, grid.goal_cells)):
        for x, y in cells:
            signs[y, x] = sign
    rows = [f"{y:>{high}}  " + " ".join(f"{sign:>{wide}}" for sign in signs[y]) for y in range(grid.height - 1, -1, -1)]
    return [*rows, " " * (high + 2) + " ".join(f"{x:>{wide}}" for x in range(grid.width))]
