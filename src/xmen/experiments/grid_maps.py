"""The 9x9 world of the paper on maps of our own: whose rules need memory, hardly do, or share one triangle.

The moves are up, right and up-right, from the lower left to the upper right corner. A path is valid when the triangle
is the first symbol it meets, it meets no cross, and it meets exactly one square and exactly one circle. The crosses on
the diagonal part an upper from a lower arm, each behind its own triangle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import xmen as xm
from xmen.experiments.looks import Cell
from xmen.experiments.notebook import Floats

DIAGONAL = tuple((i, i) for i in range(2, 7))


@dataclass(frozen=True)
class GridMap:
    """Symbols of the upper arm; the lower arm is its mirror image."""

    name: str
    triangle: Cell
    squares: tuple[Cell, ...]
    circles: tuple[Cell, ...]
    crosses: tuple[Cell, ...] = ()

    @cached_property
    def world(self) -> xm.GridWorld:
        return xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))

    @cached_property
    def symbols(self) -> dict[str, list[Cell]]:
        """The cells of each symbol, on both arms."""
        return {
            "triangle": _both(self.triangle),
            "cross": [*DIAGONAL, *_both(*self.crosses)],
            "square": _both(*self.squares),
            "circle": _both(*self.circles),
        }

    @cached_property
    def rules(self) -> list[xm.Constraint]:
        triangle, cross, square, circle = (self.world.at(*cells) for cells in self.symbols.values())
        return [
            xm.first(triangle, among=triangle | cross | square | circle).named("triangle first"),
            xm.never(cross).named("no crosses"),
            (xm.count(square) == 1).named("exactly one square"),
            (xm.count(circle) == 1).named("exactly one circle"),
        ]

    def valid(self, taus: Sequence[xm.Trajectory]) -> list[bool]:
        """Which of these keep all rules."""
        return [all(rule.accepts(tau) for rule in self.rules) for tau in taus]

    @property
    def upper(self) -> xm.Constraint:
        """The path takes the upper arm."""
        # A triangle that both arms share tells nothing; the one square that a valid path meets does.
        cells = self.squares if self.triangle == _mirrored(self.triangle) else (self.triangle,)
        return xm.visit(self.world.at(*cells)).named("upper arm")

    def path_types(self) -> list[tuple[str, Cell, Cell]]:
        """All types of valid paths: the arm, and the one square and the one circle on it that are met."""
        pairs = [(square, circle) for square in self.squares for circle in self.circles]
        lower = [("lower", _mirrored(square), _mirrored(circle)) for square, circle in pairs]
        return [*(("upper", *pair) for pair in pairs), *lower]

    def of_type(self, paths: Sequence[xm.Trajectory]) -> Floats:
        """1 where a valid path is of a type, (types, paths)."""
        visited = np.zeros((len(paths), self.world.n_states))
        for row, tau in zip(visited, paths, strict=True):
            row[list(tau.states)] = 1.0
        met = [visited[:, [self.world.state(cell) for cell in cells]] for _, *cells in self.path_types()]
        return np.array([cells.all(axis=1) for cells in met], dtype=np.float64)

    def demonstrations(self, n: int, seed: int, upper_share: float = 0.7) -> list[xm.Trajectory]:
        """n valid paths, this share of them on the upper arm, each arm's paths all equally likely.

        The true reward is 0 everywhere and 1 at the goal: all complete paths are worth the same.
        """
        demos, n_upper = list[xm.Trajectory](), round(upper_share * n)
        for arm, size, arm_seed in ((self.upper, n_upper, 2 * seed), (~self.upper, n - n_upper, 2 * seed + 1)):
            if size:
                valid = xm.distribution(self.world, [*self.rules, arm], None, engine="exact")
                demos += valid.sample(size, seed=arm_seed)
        return demos


def _mirrored(cell: Cell) -> Cell:
    return cell[1], cell[0]


def _both(*cells: Cell) -> list[Cell]:
    return list(dict.fromkeys([*cells, *map(_mirrored, cells)]))


SQUARES, CIRCLES = ((1, 4), (3, 6), (5, 8)), ((2, 4), (4, 6), (6, 8))
MEMORY = GridMap("memory", (1, 2), SQUARES, CIRCLES, crosses=((0, 5),))
"""Three squares and three circles on each arm, one after the other: whether a square may be entered depends on
whether one was met before, which no reward of states or moves can know."""

MARKOV = GridMap("near-Markov", (1, 2), ((2, 5),), ((5, 7),))
"""One square and one circle on each arm: "exactly one" is nearly "a large reward there"."""

ONE_TRIANGLE = GridMap("one-triangle", (1, 1), SQUARES, CIRCLES, crosses=((0, 5),))
"""One triangle before the arms part, as on the paper's map: every valid path passes it."""
