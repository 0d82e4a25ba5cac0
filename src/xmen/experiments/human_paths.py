"""Hand-drawn paths: read them, and put them on a grid.

A path is a text file of points `x,y`, one per line, in the unit square, drawn from the middle of the lower edge to the
middle of the upper one. Consecutive points are joined by straight lines, and so are both ends with the places where
the drawing was to start and to end.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.errors import FileFormatError
from xmen.files import read_text
from xmen.worlds import MOVES, Cell, GridWorld, Trajectory

Points = NDArray[np.float64]

START, END = (0.5, 0.0), (0.5, 1.0)
FARTHEST = 0.2  # from these; a straight line bridges the rest
LEAST_PATHS = 3  # to leave one out and still have something to learn from
CLIPPED = 0.5  # of a cell's width: a corner cell that holds less of the path is passed diagonally


class Drawing(NamedTuple):
    """A path as it was drawn: the name of its file, and its points (n, 2)."""

    name: str
    points: Points


def read_drawings(folder: Path) -> list[Drawing]:
    """All `*.txt` in the folder, t2 before t10; errors name the file and the line."""
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is not a folder: give one with a file of points for each drawn path (t1.txt).")
    files = sorted(folder.glob("*.txt"), key=lambda file: [int(part) for part in re.findall(r"\d+", file.stem)])
    files.sort(key=lambda file: re.sub(r"\d+", "", file.stem))
    if len(files) < LEAST_PATHS:
        raise FileFormatError(
            f"{folder} has {len(files)} files *.txt, but at least {LEAST_PATHS} paths are needed: one text file "
            "each, with one point x,y per line."
        )
    return [Drawing(file.stem, _read_points(file)) for file in files]


def _read_points(file: Path) -> Points:
    try:
        lines = read_text(file).splitlines()
    except (OSError, FileFormatError) as error:
        raise FileFormatError(f"{file} cannot be read: {error}") from None
    points = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            x, y = (float(value) for value in line.split(","))
        except ValueError:
            raise FileFormatError(f"{file}, line {number}: expected a point x,y, got {line!r:.60}") from None
        if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):
            raise FileFormatError(
                f"{file}, line {number}: the point ({x:g}, {y:g}) is outside the unit square; both numbers must be "
                "from 0 to 1."
            )
        points.append((x, y))
    if len(points) < 2:
        raise FileFormatError(f"{file}: a path needs at least 2 points, got {len(points)}.")
    for what, point, place in (("start", points[0], START), ("end", points[-1], END)):
        if np.hypot(point[0] - place[0], point[1] - place[1]) > FARTHEST:
            raise FileFormatError(
                f"{file}: the path must {what} within {FARTHEST} of {place}, but that point is "
                f"({point[0]:g}, {point[1]:g})."
            )
    return np.array(points)


def path_cells(points: Points, n: int) -> list[Cell]:
    """The cells (x, y) of an n by n grid that a path passes, each a neighbour of the one before.

    The lines are cut where they cross the grid, so every cell that is touched is known together with the length of
    path in it. A cell in which less than half a cell's width of path lies is only clipped when the cells before and
    after it are neighbours or the same: it is left out, the shortest first, and the step becomes diagonal (or none).

    >>> path_cells(np.array([(0.5, 0.1), (0.5, 0.9)]), 3)
    [(1, 0), (1, 1), (1, 2)]
    >>> path_cells(np.array([(0.5, 0.17), (0.9, 0.56)]), 3)[:2]  # crosses the border just beside the corner
    [(1, 0), (2, 1)]
    """
    passed: list[tuple[Cell, float]] = []
    whole = np.vstack([START, points, END])
    for begin, end in pairwise(whole):
        for cell, length in _cut(begin * n, end * n, n):
            _extend(passed, cell, length)
    while True:
        corners = [i for i in range(1, len(passed) - 1) if _touching(passed[i - 1][0], passed[i + 1][0])]
        shortest = min(corners, key=lambda i: passed[i][1], default=None)
        if shortest is None or passed[shortest][1] >= CLIPPED:
            return [cell for cell, _ in passed]
        kept, passed = passed[:shortest] + passed[shortest + 1 :], []
        for cell, length in kept:
            _extend(passed, cell, length)


def _extend(passed: list[tuple[Cell, float]], cell: Cell, length: float) -> None:
    """One cell more, or more path in the last one."""
    if passed and passed[-1][0] == cell:
        length += passed.pop()[1]
    passed.append((cell, length))


def _cut(begin: Points, end: Points, n: int) -> list[tuple[Cell, float]]:
    """The cells along a line in units of cells, with the length of the line in each."""
    cuts = {0.0, 1.0}
    for start, step in zip(begin, end - begin, strict=True):
        low, high = sorted((start, start + step))
        if step:
            cuts |= {(line - start) / step for line in range(int(np.ceil(low)), int(np.floor(high)) + 1)}
    inside = np.array(sorted(cut for cut in cuts if 0.0 <= cut <= 1.0))
    lengths = np.diff(inside) * float(np.hypot(*(end - begin)))
    middles = begin + (inside[:-1, None] + inside[1:, None]) / 2 * (end - begin)
    cells = np.clip(np.floor(middles).astype(int), 0, n - 1)
    return [((int(x), int(y)), float(d)) for (x, y), d in zip(cells, lengths, strict=True) if d > 1e-9]


def _touching(one: Cell, other: Cell) -> bool:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= 1


def as_trajectory(grid: GridWorld, drawing: Drawing) -> Trajectory:
    """The trajectory along the cells of a drawing; refuses one whose moves the grid does not have."""
    cells = path_cells(drawing.points, grid.width)
    actions = []
    for before, after in pairwise(cells):
        step = (after[0] - before[0], after[1] - before[1])
        move = next((name for name in grid.moves if MOVES[name] == step), None)
        if move is None:
            raise FileFormatError(
                f"{drawing.name}.txt: the path goes from cell {before} to cell {after} of {grid.width} x "
                f"{grid.height}, but the moves here are {', '.join(grid.moves)}: paths have to go up, without turning "
                "back down."
            )
        actions.append(grid.moves.index(move))
    return Trajectory([grid.state(cell) for cell in cells], actions)
