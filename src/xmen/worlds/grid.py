"""Grid worlds: cells, walls and nine moves, as an MDP that speaks in cells."""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import MEMORY, WorldError
from xmen.events import Event, at, doing
from xmen.worlds.mdp import MDP
from xmen.worlds.names import read_cell
from xmen.worlds.transitions import Columns, require_index

# ---- The picture of a grid in notebooks: SVG as plain text, which needs no drawing library

_LONGEST_SIDE, _LARGEST_CELL = 480.0, 40.0  # pixels
_MARGIN = 18.0  # room for the coordinates
_LABELLED_CELL = 9.0  # coordinates are left out when cells are smaller than this

# Okabe and Ito's colours stay apart for colour-blind readers.
START_COLOUR, GOAL_COLOUR, WALL_COLOUR = "#0072B2", "#D55E00", "#4d4d4d"


def grid_svg(grid: "GridWorld") -> str:
    """The grid with its walls, the start as a disc and the goal as a star; y points up."""
    size = min(_LARGEST_CELL, _LONGEST_SIDE / max(grid.width, grid.height))
    wide, high = grid.width * size, grid.height * size

    def corner(x: float, y: float) -> tuple[float, float]:
        return _MARGIN + x * size, high - y * size + 2

    left, top = corner(0, grid.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide + _MARGIN + 4:g}" '
        f'height="{high + _MARGIN + 4:g}" font-family="sans-serif" font-size="{min(11.0, size * 0.7):.3g}">',
        f"<title>{grid.width} x {grid.height} grid world</title>",
        f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{high:g}" fill="white"/>',
    ]
    for x, y in sorted(grid.walls):
        wall_x, wall_y = corner(x, y + 1)
        place = f'x="{wall_x:g}" y="{wall_y:g}" width="{size:g}" height="{size:g}"'
        parts.append(f'<rect class="wall" {place} fill="{WALL_COLOUR}"/>')
    lines = [f"M{left + x * size:g} {top:g}v{high:g}" for x in range(grid.width + 1)]
    lines += [f"M{left:g} {top + y * size:g}h{wide:g}" for y in range(grid.height + 1)]
    parts.append(f'<path d="{"".join(lines)}" stroke="#b0b0b0" stroke-width="1" fill="none"/>')

    for cell in grid.start_cells:
        across, down = corner(cell[0] + 0.5, cell[1] + 0.5)
        disc = f'<circle class="start" cx="{across:g}" cy="{down:g}" r="{size * 0.3:g}" fill="{START_COLOUR}">'
        parts.append(f"{disc}<title>start {cell}</title></circle>")
    for cell in grid.goal_cells:
        across, down = corner(cell[0] + 0.5, cell[1] + 0.5)
        tips = [(size * (0.168 if tip % 2 else 0.4), math.pi * tip / 5) for tip in range(10)]
        points = [f"{across + r * math.sin(turn):.2f} {down - r * math.cos(turn):.2f}" for r, turn in tips]
        star = f'<path class="goal" d="M{"L".join(points)}Z" fill="{GOAL_COLOUR}">'
        parts.append(f"{star}<title>goal {cell}</title></path>")
    if size >= _LABELLED_CELL:
        step, style = 1 if size >= 16 else 5, 'fill="#606060" text-anchor'
        places = [(left + (x + 0.5) * size, top + high + 13, "middle", x) for x in range(0, grid.width, step)]
        places += [(left - 4, top + high - (y + 0.5) * size + 4, "end", y) for y in range(0, grid.height, step)]
        parts += [f'<text x="{x:g}" y="{y:g}" {style}="{anchor}">{text}</text>' for x, y, anchor, text in places]
    return "".join([*parts, "</svg>"])


Cell: TypeAlias = tuple[int, int]

MOVES: dict[str, Cell] = {
    "up": (0, 1),
    "down": (0, -1),
    "left": (-1, 0),
    "right": (1, 0),
    "up-right": (1, 1),
    "up-left": (-1, 1),
    "down-right": (1, -1),
    "down-left": (-1, -1),
    "stay": (0, 0),
}
"""The nine moves and their steps (dx, dy)."""

OUTCOME_BYTES = 95  # of memory for each outcome of each move while a grid is made


class GridWorld(MDP):
    """A grid of cells with walls, as an MDP that speaks in cells.

    Cells are (x, y), x to the right and y up. State y * width + x is the cell (x, y); walls keep their number, as
    states without actions. A move off the grid or into a wall is not available.

    Parameters
    ----------
    width, height
        The size of the grid in cells.
    start
        The cell in which trajectories start, or several, each equally likely.
    goal
        The cell that ends a trajectory, or several. None: there is no terminal state, and all trajectories have exactly
        `horizon` actions.
    moves
        Names of moves; action i is `moves[i]`. They are up, down, left, right, up-right, up-left, down-right, down-left
        and stay.
    walls
        Cells that cannot be entered.
    horizon
        The largest number of moves. Required when the moves can go round in circles.
    slip
        The probability that another of the moves available in the cell happens instead of the chosen one, each equally
        likely. A cell without another available move never slips.
    bump
        Whether a move off the grid or into a wall stays in place, as Gymnasium has it. Otherwise it is not available.

    Raises
    ------
    WorldError
        When a cell is off the grid or in a wall, a move is unknown, or a horizon is missing.

    Examples
    --------
    >>> grid = GridWorld(3, 2, start=(0, 0), goal=(2, 1), moves=("up", "right"))
    >>> grid.state((2, 1)), grid.cell(5)
    (5, (2, 1))
    >>> grid.max_length
    3
    >>> from xmen.worlds.trajectory import Trajectory
    >>> grid.problem(Trajectory([0, 3, 5], [0, 1]))
    (1, "move 'right' in cell (0, 1) never leads to cell (2, 1) (it leads to cell (1, 1))")
    """

    step_word = "move"

    def __init__(
        self,
        width: int,
        height: int,
        start: Cell | Sequence[Cell],
        goal: Cell | Sequence[Cell] | None,
        moves: Iterable[str] = ("up", "right", "down", "left"),
        walls: Iterable[Cell] = (),
        horizon: int | None = None,
        slip: float = 0.0,
        bump: bool = False,
    ) -> None:
        self.width: int = require_index("width", width, least=1)
        self.height: int = require_index("height", height, least=1)
        self.moves: tuple[str, ...] = _read_moves(moves)
        if isinstance(slip, bool | np.bool_) or not isinstance(slip, int | float | np.number):
            raise WorldError(f"slip must be a probability, got {type(slip).__name__} {slip!r:.60}")
        if not 0.0 <= slip < 1.0:
            raise WorldError(f"slip must be at least 0 and below 1, got {slip}")
        self.slip = float(slip)
        cells: Any = walls
        if isinstance(cells, str | bytes) or not isinstance(cells, Iterable):
            raise WorldError(f"walls must be cells (x, y), got {cells!r:.60}")
        self.walls: frozenset[Cell] = frozenset(self._read_cell(cell, "wall") for cell in cells)
        if not isinstance(bump, bool | np.bool_):
            raise WorldError(f"bump must be True or False, got {bump!r:.60}")
        self.bump = bool(bump)
        self.start_cells: tuple[Cell, ...] = self._read_open_cells(start, "start")
        self.goal_cells: tuple[Cell, ...] = () if goal is None else self._read_open_cells(goal, "goal")

        n_states = require_index("width * height", self.width * self.height, least=1)
        outcomes = len(self.moves) * (len(self.moves) if self.slip else 1)  # a slip makes every move lead to all others
        what = f"a grid of {self.width:,} x {self.height:,} cells with {len(self.moves)} moves"
        MEMORY.require(OUTCOME_BYTES * n_states * outcomes, what, WorldError)
        start_vector = np.zeros(n_states)
        start_vector[[self.state(cell) for cell in self.start_cells]] = 1.0 / len(self.start_cells)
        terminal = np.zeros(n_states, dtype=np.bool_)
        terminal[[self.state(cell) for cell in self.goal_cells]] = True
        self._build(n_states, len(self.moves), self._columns(), start_vector, terminal, horizon)

    def __repr__(self) -> str:
        extras = f", walls={len(self.walls)}" if self.walls else ""
        extras += f", slip={self.slip:g}" if self.slip else ""
        extras += ", bump=True" if self.bump else ""
        ends = f"start={self.given_start}, goal={self.given_goal}"
        return f"GridWorld({self.width}, {self.height}, {ends}, moves={self.moves}, horizon={self.horizon}{extras})"

    def with_start(self, start: int | ArrayLike) -> Self:
        """This grid with another start: a state, or a probability vector of shape (n_states,)."""
        other = super().with_start(start)
        other.start_cells = tuple(self.cell(state) for state in np.flatnonzero(other.start).tolist())
        return other

    @property
    def start_cell(self) -> Cell:
        """The start, or the first of several."""
        return self.start_cells[0]

    @property
    def goal_cell(self) -> Cell | None:
        """The goal, or the first of several; None without one."""
        return self.goal_cells[0] if self.goal_cells else None

    @property
    def given_start(self) -> Cell | tuple[Cell, ...]:
        """The argument `start` that makes this grid again."""
        return self.start_cells if len(self.start_cells) > 1 else self.start_cells[0]

    @property
    def given_goal(self) -> Cell | tuple[Cell, ...] | None:
        """The argument `goal` that makes this grid again."""
        return self.goal_cells if len(self.goal_cells) > 1 else self.goal_cell

    def state(self, cell: Cell) -> int:
        """The number of the state of a cell (x, y), which is y * width + x; WorldError when it is off the grid."""
        x, y = self._read_cell(cell, "cell")
        return y * self.width + x

    def cell(self, state: int) -> Cell:
        """The cell (x, y) of a state, by its number; WorldError when there is no such state."""
        y, x = divmod(self.require_state(state), self.width)
        return x, y

    def at(self, *cells: Cell) -> Event:
        """The event of being in one of these cells.

        Parameters
        ----------
        *cells
            Cells (x, y).

        Returns
        -------
        Event
            True at every position whose state is one of the cells.
        """
        return at(*(self.state(cell) for cell in cells))

    def doing(self, *moves: str) -> Event:
        """The event of making one of these moves.

        Parameters
        ----------
        *moves
            Names of moves that this grid has.

        Returns
        -------
        Event
            True at every position at which one of the moves is chosen; false at the last position, where there is no
            move.
        """
        for move in moves:
            if move not in self.moves:
                raise WorldError(f"move {move!r} is not one of this grid's moves {self.moves}")
        return doing(*map(self.moves.index, moves))

    def describe_state(self, state: int) -> str:
        return f"cell ({state % self.width}, {state // self.width})"

    def describe_action(self, action: int) -> str:
        return f"move {self.moves[action]!r}"

    numbers_are_states = False

    def state_name(self, state: int) -> str:
        return str(self.cell(state))

    def read_state(self, name: Any) -> int:
        cell = read_cell(name)
        return self._number(name, "state", "a number or a cell such as (0, 0)") if cell is None else self.state(cell)

    def state_fields(self, state: int) -> dict[str, Any]:
        x, y = self.cell(state)
        return {"x": x, "y": y}

    def action_name(self, action: int) -> str:
        return self.moves[action]

    def read_action(self, name: Any) -> int:
        word = str(name).strip().lower().replace("_", "-")
        if word in self.moves:
            return self.moves.index(word)
        return self._number(name, "action", f"a number or one of {', '.join(self.moves)}")

    def action_fields(self, action: int) -> dict[str, Any]:
        return {"move": self.moves[action]}

    def step_text(self, state: int, action: int) -> str:
        return self.moves[action]

    def squared_distances(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far each cell lies from a point (x, y), squared: shape (n_states,)."""
        y, x = np.divmod(np.arange(self.n_states), self.width)
        return np.asarray(np.square(x - point[0]) + np.square(y - point[1]))

    def _repr_svg_(self) -> str:
        return grid_svg(self)

    def _read_cell(self, cell: Any, what: str) -> Cell:
        try:
            x, y = (operator.index(value) for value in cell)
        except (TypeError, ValueError):
            raise WorldError(f"{what} must be a cell (x, y) of two integers, got {cell!r:.60}") from None
        if not (0 <= x < self.width and 0 <= y < self.height):
            known = f"x runs from 0 to {self.width - 1}, y from 0 to {self.height - 1}"
            raise WorldError(f"{what} ({x}, {y}) is off the grid: {known}")
        return x, y

    def _read_open_cells(self, cells: Any, what: str) -> tuple[Cell, ...]:
        """One cell, or several different ones."""
        several = isinstance(cells, list | tuple | set | frozenset) and any(isinstance(c, list | tuple) for c in cells)
        checked = tuple(self._read_cell(cell, what) for cell in (cells if several else [cells]))
        for index, cell in enumerate(checked):
            if cell in self.walls:
                raise WorldError(f"{what} {cell} is in a wall: move it, or remove that wall")
            if cell in checked[:index]:
                raise WorldError(f"{what} {cell} is given twice: give each cell once")
        return checked

    def _columns(self) -> Columns:
        """All transitions, sorted by source and action when nothing slips."""
        n_states = self.width * self.height
        blocked = np.zeros((self.height, self.width), dtype=np.bool_)
        for wall_x, wall_y in self.walls:
            blocked[wall_y, wall_x] = True
        steps = np.array([MOVES[move] for move in self.moves])
        y, x = np.divmod(np.arange(n_states), self.width)
        to_x, to_y = x[:, None] + steps[:, 0], y[:, None] + steps[:, 1]  # (S, A)
        inside = (to_x >= 0) & (to_x < self.width) & (to_y >= 0) & (to_y < self.height)
        to_x, to_y = np.where(inside, to_x, 0), np.where(inside, to_y, 0)
        possible = inside & ~blocked.ravel()[:, None] & ~blocked[to_y, to_x]
        landing = to_y * self.width + to_x
        if self.bump:  # what would lead off the grid or into a wall stays where it is
            landing = np.where(possible, landing, np.arange(n_states)[:, None])
            possible = np.broadcast_to(~blocked.ravel()[:, None], possible.shape)
        source, action = np.nonzero(possible)
        target, probability = landing[possible], np.ones(len(source))
        if self.slip:
            # happens[s, a, b]: move a was chosen in cell s, move b happens.
            others = possible.sum(axis=1)[source] - 1
            slips = np.where(others > 0, self.slip / np.maximum(others, 1), 0.0)
            happens = np.where(possible[source], slips[:, None], 0.0)
            happens[np.arange(len(source)), action] = np.where(others > 0, 1.0 - self.slip, 1.0)
            choice, outcome = np.nonzero(happens)
            source, action = source[choice], action[choice]
            target, probability = landing[source, outcome], happens[choice, outcome]
        return Columns(source.astype(np.int32), action.astype(np.int32), target.astype(np.int32), probability)


def _read_moves(moves: Any) -> tuple[str, ...]:
    known = f"the moves are {', '.join(MOVES)}"
    if isinstance(moves, str) or not isinstance(moves, Iterable):
        got = f"the string {moves!r}: write ({moves!r},)" if isinstance(moves, str) else f"{moves!r:.60}; {known}"
        raise WorldError(f"moves must be a sequence of names, got {got}")
    names = tuple(moves)
    if not names:
        raise WorldError(f"a grid needs at least one move; {known}")
    for index, name in enumerate(names):
        if not isinstance(name, str) or name not in MOVES:
            raise WorldError(f"unknown move {name!r:.60}; {known}")
        if name in names[:index]:
            raise WorldError(f"move {name!r} is given twice in {names}; {known}")
    return tuple(str(name) for name in names)
