"""Two tasks of obstacle avoidance: a map with a choke point and made-up demonstrations, and people's drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint
from xmen.constraints.ltlf import ltlf
from xmen.constraints.occurrence import never, visit
from xmen.constraints.repetition import longest_repeat
from xmen.engines.choose import distribution
from xmen.errors import InvalidDemonstrationError
from xmen.experiments.human_paths import Drawing, as_trajectory, read_drawings
from xmen.rewards import Floats
from xmen.worlds import MOVES, Cell, GridWorld, Trajectory, check_demos

SIZE = 10
OBSTACLES = ((2, 2), (3, 6), (2, 6), (4, 5), (6, 3), (7, 3), (7, 2), (7, 6), (6, 8))
CHOKE = (5, 4)
GAP = (4, 4)  # a choke point in a gap that takes three moves to the right: the move before has to be up
GAP_OBSTACLES = ((4, 3), (5, 3), (4, 5), (5, 5), (4, 2), (5, 6), (1, 7), (8, 1))
BEFORE_GAP = (3, 3)  # and from here it is
N_DEMOS = 10
BESIDE, RIGHT = -0.8, 0.6  # what the made-up demonstrators value: room to obstacles, the right-hand side

RESOLUTION = 13  # cells along each side of the unit square; odd, so that start and goal are in the middle of a cell
DISC_CENTRE, DISC_RADIUS = (0.5, 0.5), 0.15
DRAWN_MOVES = ("left", "up-left", "up", "up-right", "right")
BANDS = ("below", "beside", "above")  # thirds of the height
CLEARANCES = ((0.15, 0.2), (0.2, 0.25), (0.25, 0.3), (0.3, 0.35))  # from the disc's centre, in sides of the square


@dataclass(frozen=True)
class HumanTask:
    """What there is to learn, and what it is called in pictures."""

    grid: GridWorld
    parts: tuple[Constraint, ...]
    features: Floats  # (n_states, n_actions, d)
    feature_names: str
    demos: list[Trajectory]
    obstacles: tuple[Cell, ...]
    choke: Cell | None = None
    truth: Floats | None = None  # the weights of those who made the demonstrations, where they are known
    drawings: tuple[Drawing, ...] = ()

    @cached_property
    def rules(self) -> Constraint:
        """All of them together."""
        return reduce(and_, self.parts)

    @property
    def rule_names(self) -> list[str]:
        """What the rules are called."""
        return [str(part.name) for part in self.parts]


def choke_task(
    seed: int,
    moves: Sequence[str] = ("up", "right"),
    horizon: int | None = None,
    obstacles: tuple[Cell, ...] = OBSTACLES,
    choke: Cell = CHOKE,
) -> HumanTask:
    """Corner to corner around obstacles, through a choke point, with at most three equal moves in a row.

    The demonstrations are the same for all `moves`: shortest valid paths, drawn at random with weights for room
    to the obstacles and for the right-hand side.
    """
    grid = GridWorld(SIZE, SIZE, start=(0, 0), goal=(SIZE - 1, SIZE - 1), moves=moves, horizon=horizon)
    rules = (
        never(grid.at(*obstacles)).named("never on an obstacle"),
        visit(grid.at(choke)).named("through the choke point"),
        (longest_repeat() <= 3).named("at most three equal moves in a row"),
    )
    y, x = np.divmod(np.arange(grid.n_states), grid.width)
    near = {(a + dx, b + dy) for a, b in obstacles for dx, dy in MOVES.values()}
    beside = np.array([grid.cell(state) in near for state in range(grid.n_states)])
    per_state = np.column_stack([beside, (x - y) / (SIZE - 1), np.eye(grid.n_states)])
    per_move = np.repeat(np.eye(grid.n_actions)[None], grid.n_states, axis=0)
    features = np.concatenate([np.repeat(per_state[:, None], grid.n_actions, axis=1), per_move], axis=2)
    truth = np.zeros(features.shape[2])
    truth[:2] = BESIDE, RIGHT
    if tuple(moves) == ("up", "right"):
        demos = distribution(grid, rules, features @ truth, engine="exact").sample(N_DEMOS, seed=seed)
    else:
        demos = choke_task(seed, obstacles=obstacles, choke=choke).demos
        index = [grid.moves.index(move) for move in ("up", "right")]
        demos = [Trajectory(tau.states, [index[action] for action in tau.actions]) for tau in demos]
    names = f"beside an obstacle; x - y; one per cell ({grid.n_states}); one per move ({grid.n_actions})"
    return HumanTask(grid, rules, features, names, demos, obstacles, choke, truth)


def drawn_task(folder: Path) -> HumanTask:
    """People's paths around a round obstacle on a grid; the rules are checked against every one of them."""
    drawings = read_drawings(folder)
    n, middle = RESOLUTION, RESOLUTION // 2
    grid = GridWorld(n, n, start=(middle, 0), goal=(middle, n - 1), moves=DRAWN_MOVES, horizon=2 * n)
    centres = (np.arange(n) + 0.5) / n
    distance = np.hypot(centres[None, :] - DISC_CENTRE[0], centres[:, None] - DISC_CENTRE[1])  # [y, x]
    obstacles = tuple((int(x), int(y)) for y, x in np.argwhere(distance <= DISC_RADIUS))
    rules = (never(grid.at(*obstacles)).named("never on the obstacle"), right_angles(grid))
    demos = [as_trajectory(grid, drawing) for drawing in drawings]
    try:
        check_demos(grid, demos, reduce(and_, rules))
    except InvalidDemonstrationError as error:
        name, index = drawings[error.index].name, error.index
        raise InvalidDemonstrationError(
            f"{name}.txt on a grid of {n} x {n} cells: {error}",
            index=index,
            constraint=error.constraint,
            position=error.position,
        ) from error
    features, names = drawn_features(grid, distance)
    return HumanTask(grid, rules, features, names, demos, obstacles, drawings=tuple(drawings))


def right_angles(grid: GridWorld) -> Constraint:
    """No move after one that it turns away from by more than a right angle; so no cell is visited twice either."""
    l, r, ul, ur = (grid.doing(move) for move in ("left", "right", "up-left", "up-right"))  # noqa: E741
    formula = "G(l -> N !(r | ur)) & G(ul -> N !r) & G(r -> N !(l | ul)) & G(ur -> N !l)"
    return ltlf(formula, l=l, r=r, ul=ul, ur=ur).named("no turn sharper than a right angle")


def drawn_features(grid: GridWorld, distance: NDArray[np.float64]) -> tuple[Floats, str]:
    """One per move; per third of the height the distance from the middle line, its square, moves outwards and
    inwards; rings around the obstacle; one per cell."""
    n, middle, n_actions = grid.width, grid.width // 2, grid.n_actions
    y, x = np.divmod(np.arange(grid.n_states), n)
    away = np.abs(x - middle) / middle
    sideways = np.array([MOVES[move][0] for move in grid.moves])
    side = np.sign(x - middle)[:, None]
    outwards = np.where(side == 0, sideways != 0, sideways * side > 0).astype(float)
    inwards = (sideways * side < 0).astype(float)
    flat = np.ones((1, n_actions))
    columns = [np.repeat(np.eye(n_actions)[i][None], grid.n_states, axis=0) for i in range(n_actions)]
    for band in range(len(BANDS)):
        here = (np.minimum(len(BANDS) * y // n, len(BANDS) - 1) == band)[:, None].astype(float)
        columns += [here * outwards, here * inwards, here * away[:, None] * flat, here * away[:, None] ** 2 * flat]
    near = distance.ravel()
    columns += [((near > low) & (near <= high))[:, None] * flat for low, high in CLEARANCES]
    columns += [np.eye(grid.n_states)[state][:, None] * flat for state in range(grid.n_states)]
    names = (
        f"one per move ({n_actions}); moves outwards and inwards, distance from the middle line and its square, for "
        f"each third of the height ({4 * len(BANDS)}); rings around the obstacle ({len(CLEARANCES)}); one per cell "
        f"({grid.n_states})"
    )
    return np.stack(columns, axis=2), names


def n_kept(task: HumanTask, trajectories: Sequence[Trajectory]) -> int:
    """How many of these keep all rules."""
    return sum(map(task.rules.accepts, trajectories))
