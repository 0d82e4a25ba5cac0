"""Two tasks of obstacle avoidance: a map with a choke point and made-up demonstrations, and people's drawings.

A drawing is a text file of points `x,y`, one per line, in the unit square, from the middle of the lower edge to the
middle of the upper one. Consecutive points are joined by straight lines, and so are both ends with the places where
the drawing was to start and to end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby, pairwise
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np

import xmen as xm
from xmen.experiments.looks import Cell
from xmen.experiments.methods import Effort, Task, fit_one, noticed
from xmen.experiments.notebook import Floats
from xmen.files import read_text

SIZE = 10
OBSTACLES = ((2, 2), (3, 6), (2, 6), (4, 5), (6, 3), (7, 3), (7, 2), (7, 6), (6, 8))
CHOKE = (5, 4)
GAP = (4, 4)  # a choke point in a gap that takes three moves to the right: the move before has to be up
GAP_OBSTACLES = ((4, 3), (5, 3), (4, 5), (5, 5), (4, 2), (5, 6), (1, 7), (8, 1))
BEFORE_GAP = (3, 3)  # and from here it is
N_DEMOS = 10
BESIDE, RIGHT = -0.8, 0.6  # what the made-up demonstrators value: room to obstacles, the right-hand side

RESOLUTION = 13  # cells along each side of the unit square; odd, so that start and goal are in the middle of a cell
DISC_RADIUS = 0.15  # around the middle of the square
DRAWN_MOVES = {"left": (-1, 0), "up-left": (-1, 1), "up": (0, 1), "up-right": (1, 1), "right": (1, 0)}
N_BANDS = 3  # below, beside and above the disc
CLEARANCES = ((0.15, 0.2), (0.2, 0.25), (0.25, 0.3), (0.3, 0.35))  # from the disc's centre, in sides of the square
START, END = (0.5, 0.0), (0.5, 1.0)
FARTHEST = 0.2  # from these; a straight line bridges the rest
LEAST_PATHS = 3  # to leave one out and still have something to learn from
CLIPPED = 0.5  # of a cell's width: a corner cell that holds less of the path is passed diagonally


@dataclass(frozen=True)
class HumanTask:
    """What there is to learn, and what it is called in pictures."""

    grid: xm.GridWorld
    parts: tuple[xm.Constraint, ...]
    features: Floats  # (n_states, n_actions, d)
    feature_names: str
    demos: list[xm.Trajectory]
    obstacles: tuple[Cell, ...]
    choke: Cell | None = None
    truth: Any = None  # the weights of those who made the demonstrations, where they are known

    @cached_property
    def rules(self) -> xm.Constraint:
        return reduce(and_, self.parts)

    @property
    def marks(self) -> dict[str, Any]:
        """What `xm.plot_world` shows of the task."""
        marks: dict[str, Any] = {"obstacle": (self.obstacles, "#4d4d4d")}
        return marks if self.choke is None else {**marks, "choke point": ([self.choke], "#E69F00")}

    @property
    def given(self) -> Task:
        return self.grid, self.rules, self.features, self.demos

    def fit(self, name: str, effort: Effort, seed: int, demos: Sequence[xm.Trajectory] | None = None) -> Any:
        """A method, fitted without a word to these or to all demonstrations."""
        with noticed():
            return fit_one(name, (*self.given[:3], demos or self.demos), effort, seed)

    def share_kept(self, taus: Sequence[xm.Trajectory]) -> float:
        """The share of these that keeps all rules."""
        return sum(map(self.rules.accepts, taus)) / len(taus)


def choke_task(
    seed: int, moves: Any = ("up", "right"), horizon: Any = None, obstacles: Any = OBSTACLES, choke: Cell = CHOKE
) -> HumanTask:
    """Corner to corner around obstacles, through a choke point, with at most three equal moves in a row.

    The demonstrations are the same for all `moves`: shortest valid paths, drawn with weights BESIDE and RIGHT.
    """
    grid = xm.GridWorld(SIZE, SIZE, start=(0, 0), goal=(SIZE - 1, SIZE - 1), moves=moves, horizon=horizon)
    rules = (
        xm.never(grid.at(*obstacles)).named("never on an obstacle"),
        xm.visit(grid.at(choke)).named("through the choke point"),
        (xm.longest_repeat() <= 3).named("at most three equal moves in a row"),
    )
    y, x = np.divmod(np.arange(grid.n_states), grid.width)
    away = np.abs(np.stack([x, y], axis=1)[:, None] - np.array(obstacles)).max(axis=2)  # in moves of a king
    per_state = np.column_stack([(away <= 1).any(axis=1), (x - y) / (SIZE - 1), np.eye(grid.n_states)])
    per_move = np.repeat(np.eye(grid.n_actions)[None], grid.n_states, axis=0)
    features = np.concatenate([np.repeat(per_state[:, None], grid.n_actions, axis=1), per_move], axis=2)
    truth = np.zeros(features.shape[2])
    truth[:2] = BESIDE, RIGHT
    if tuple(moves) == ("up", "right"):
        demos = xm.distribution(grid, rules, features @ truth, engine="exact").sample(N_DEMOS, seed=seed)
    else:
        index = [grid.moves.index(move) for move in ("up", "right")]
        demos = choke_task(seed, obstacles=obstacles, choke=choke).demos
        demos = [xm.Trajectory(tau.states, [index[action] for action in tau.actions]) for tau in demos]
    names = f"beside an obstacle; x - y; one per cell ({grid.n_states}); one per move ({grid.n_actions})"
    return HumanTask(grid, rules, features, names, demos, obstacles, choke, truth)


def drawn_task(folder: Path) -> HumanTask:
    """People's paths around a round obstacle on a grid; the rules are checked against every one of them."""
    drawings, n, middle = read_drawings(folder), RESOLUTION, RESOLUTION // 2
    grid = xm.GridWorld(n, n, start=(middle, 0), goal=(middle, n - 1), moves=tuple(DRAWN_MOVES), horizon=2 * n)
    centres = (np.arange(n) + 0.5) / n
    distance = np.hypot(centres[None, :] - 0.5, centres[:, None] - 0.5)  # [y, x]
    obstacles = tuple((int(x), int(y)) for y, x in np.argwhere(distance <= DISC_RADIUS))
    left, right, up_left, up_right = (grid.doing(move) for move in ("left", "right", "up-left", "up-right"))
    # No move after one that it turns away from by more than a right angle; so no cell is visited twice either.
    turns = "G(l -> N !(r | ur)) & G(ul -> N !r) & G(r -> N !(l | ul)) & G(ur -> N !l)"
    rules = (
        xm.never(grid.at(*obstacles)).named("never on the obstacle"),
        xm.ltlf(turns, l=left, r=right, ul=up_left, ur=up_right).named("no turn sharper than a right angle"),
    )
    demos = [as_trajectory(grid, name, points) for name, points in drawings.items()]
    try:
        xm.check_demos(grid, demos, rules[0] & rules[1])
    except xm.InvalidDemonstrationError as error:
        where = f"{list(drawings)[error.index]}.txt on a grid of {n} x {n} cells"
        facts: Any = {"index": error.index, "constraint": error.constraint, "position": error.position}
        raise xm.InvalidDemonstrationError(f"{where}: {error}", **facts) from error

    y, x = np.divmod(np.arange(grid.n_states), n)
    away, side = np.abs(x - middle)[:, None] / middle, np.sign(x - middle)[:, None]
    sideways = np.array([step[0] for step in DRAWN_MOVES.values()])
    flat = np.ones((1, grid.n_actions))
    outwards = np.where(side == 0, sideways != 0, sideways * side > 0)
    columns = [np.repeat(move[None], grid.n_states, axis=0) for move in np.eye(grid.n_actions)]
    for band in range(N_BANDS):
        here = (np.minimum(N_BANDS * y // n, N_BANDS - 1) == band)[:, None]
        columns += [here * outwards, here * (sideways * side < 0), here * away * flat, here * away**2 * flat]
    columns += [((distance.ravel() > low) & (distance.ravel() <= high))[:, None] * flat for low, high in CLEARANCES]
    columns += [state[:, None] * flat for state in np.eye(grid.n_states)]
    names = f"one per move ({grid.n_actions}); moves outwards and inwards, distance from the middle line and its square"
    names += f", for each third of the height ({4 * N_BANDS})"
    names += f"; rings around the obstacle ({len(CLEARANCES)}); one per cell"
    return HumanTask(grid, rules, np.stack(columns, axis=2).astype(float), names, demos, obstacles)


def read_drawings(folder: Path) -> dict[str, Floats]:
    """The points of all `*.txt` in the folder by their names, t2 before t10; errors name the file and the line."""
    if not folder.is_dir():
        raise xm.FileFormatError(f"{folder} is not a folder: give one with a file of points for each drawn path.")
    parted = {file: re.split(r"(\d+)", file.stem) for file in folder.glob("*.txt")}
    files = sorted(parted, key=lambda file: (parted[file][::2], [int(number) for number in parted[file][1::2]]))
    if len(files) < LEAST_PATHS:
        asked = f"at least {LEAST_PATHS} paths are needed: one text file each, with one point x,y per line"
        raise xm.FileFormatError(f"{folder} has {len(files)} files *.txt, but {asked}.")
    return {file.stem: _read_points(file) for file in files}


def _read_points(file: Path) -> Floats:
    try:
        lines = read_text(file).splitlines()
    except (OSError, xm.FileFormatError) as error:
        raise xm.FileFormatError(f"{file} cannot be read: {error}") from None
    points = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                x, y = (float(value) for value in line.split(","))
            except ValueError:
                raise xm.FileFormatError(f"{file}, line {number}: expected a point x,y, got {line!r:.60}") from None
            if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):
                what = f"the point ({x:g}, {y:g}) is outside the unit square; both numbers must be from 0 to 1"
                raise xm.FileFormatError(f"{file}, line {number}: {what}.")
            points.append((x, y))
    if len(points) < 2:
        raise xm.FileFormatError(f"{file}: a path needs at least 2 points, got {len(points)}.")
    for what, (x, y), place in (("start", points[0], START), ("end", points[-1], END)):
        if np.hypot(x - place[0], y - place[1]) > FARTHEST:
            asked = f"the path must {what} within {FARTHEST} of {place}"
            raise xm.FileFormatError(f"{file}: {asked}, but that point is ({x:g}, {y:g}).")
    return np.array(points)


def path_cells(points: Floats, n: int) -> list[Cell]:
    """The cells (x, y) of an n by n grid that a path passes, each a neighbour of the one before.

    The lines are cut where they cross the grid. A cell with less than half a cell's width of path in it is only clipped
    when the cells before and after it are neighbours or the same: it is left out, the shortest first.
    """
    whole = np.vstack([START, points, END]) * n
    parts = [part for begin, end in pairwise(whole) for part in _cut(begin, end, n)]
    while True:
        runs = groupby(parts, key=lambda part: part[0])
        passed = [(cell, sum(length for _, length in run)) for cell, run in runs]
        between = [(i, passed[i - 1][0], passed[i + 1][0]) for i in range(1, len(passed) - 1)]
        corners = [i for i, one, other in between if max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= 1]
        shortest = min(corners, key=lambda i: passed[i][1], default=None)
        if shortest is None or passed[shortest][1] >= CLIPPED:
            return [cell for cell, _ in passed]
        parts = passed[:shortest] + passed[shortest + 1 :]


def _cut(begin: Floats, end: Floats, n: int) -> list[tuple[Cell, float]]:
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


def as_trajectory(grid: xm.GridWorld, name: str, points: Floats) -> xm.Trajectory:
    """The trajectory along the cells of a drawing; refuses one whose moves the grid does not have."""
    cells, actions = path_cells(points, grid.width), []
    for before, after in pairwise(cells):
        step = (after[0] - before[0], after[1] - before[1])
        if step not in DRAWN_MOVES.values():
            where = f"{name}.txt: the path goes from cell {before} to cell {after} of {grid.width} x {grid.height}"
            asked = f"the moves here are {', '.join(grid.moves)}: paths have to go up, without turning back down"
            raise xm.FileFormatError(f"{where}, but {asked}.")
        actions.append(list(DRAWN_MOVES.values()).index(step))
    return xm.Trajectory([grid.state(cell) for cell in cells], actions)
