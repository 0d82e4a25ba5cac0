import itertools
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmen as xm
from xmen import GridWorld, Trajectory, WorldError
from xmen.worlds import MOVES


def expected_table(grid: GridWorld) -> dict[tuple[int, int, int], float]:
    """The rules of a grid, cell by cell."""

    def landing(x: int, y: int, move: str) -> tuple[int, int] | None:
        cell = (x + MOVES[move][0], y + MOVES[move][1])
        open_cell = 0 <= cell[0] < grid.width and 0 <= cell[1] < grid.height and cell not in grid.walls
        return cell if open_cell else (x, y) if grid.bump else None

    table: dict[tuple[int, int, int], float] = {}
    for x, y in itertools.product(range(grid.width), range(grid.height)):
        if (x, y) in grid.walls or (x, y) == grid.goal_cell:
            continue
        possible = {move: cell for move in grid.moves if (cell := landing(x, y, move)) is not None}
        for move in possible:
            for happens, (to_x, to_y) in possible.items():
                if len(possible) == 1:
                    probability = 1.0
                else:
                    probability = 1 - grid.slip if happens == move else grid.slip / (len(possible) - 1)
                if probability:
                    key = (y * grid.width + x, grid.moves.index(move), to_y * grid.width + to_x)
                    table[key] = table.get(key, 0.0) + probability
    return table


@st.composite
def grids(draw: st.DrawFn) -> GridWorld:
    width, height = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    cells = list(itertools.product(range(width), range(height)))
    start, goal = draw(st.sampled_from(cells)), draw(st.sampled_from([None, *cells]))
    walls = draw(st.sets(st.sampled_from(cells), max_size=5)) - {start, goal}
    moves = draw(st.lists(st.sampled_from(list(MOVES)), unique=True, min_size=1))
    slip, bump = draw(st.sampled_from([0.0, 0.3])), draw(st.booleans())
    return GridWorld(width, height, start, goal, moves=moves, walls=walls, horizon=5, slip=slip, bump=bump)


@given(grids())
def test_transitions_follow_the_rules(grid: GridWorld) -> None:
    actual = {tuple(map(int, row[:3])): row[3] for row in grid.transitions}
    assert actual == pytest.approx(expected_table(grid), abs=1e-12)
    assert grid.n_states == grid.width * grid.height
    assert grid.n_actions == len(grid.moves)
    assert ("bump=True" in repr(grid)) == grid.bump


@given(grids())
def test_cells_and_states_are_each_others_inverse(grid: GridWorld) -> None:
    assert [grid.state(grid.cell(s)) for s in range(grid.n_states)] == list(range(grid.n_states))
    assert grid.start[grid.state(grid.start_cell)] == 1.0
    expected = [] if grid.goal_cell is None else [grid.state(grid.goal_cell)]
    assert np.flatnonzero(grid.terminal).tolist() == expected


def test_the_9_by_9_grid_has_265729_paths() -> None:
    grid = GridWorld(9, 9, (0, 0), (8, 8), moves=("up", "right", "up-right"))
    paths = [0] * grid.n_states
    paths[grid.state((8, 8))] = 1
    for s in reversed(range(grid.n_states - 1)):
        paths[s] = sum(paths[t] for t in grid.target[grid.row_start[s] : grid.row_start[s + 1]])
    assert paths[0] == 265_729
    assert grid.acyclic
    assert grid.deterministic
    assert grid.max_length == 16


def test_numbering_and_words() -> None:
    grid = GridWorld(4, 3, (0, 0), (3, 2), horizon=9, walls=[(1, 0)])
    assert grid.state((2, 1)) == 6
    assert grid.cell(np.int64(6)) == (2, 1)
    assert grid.describe_state(6) == "cell (2, 1)"
    assert grid.describe_action(3) == "move 'left'"
    assert not grid.available[grid.state((1, 0))].any()
    position, sentence = grid.problem(Trajectory([0, 1], [1])) or (None, "")
    assert position == 0
    assert all(words in sentence for words in ("move 'right'", "cell (0, 0)", "move 'up'"))
    assert "walls=1" in repr(grid)
    assert grid.walls == {(1, 0)}


def test_events_speak_in_cells_and_moves() -> None:
    grid = GridWorld(2, 2, (0, 0), (1, 1), moves=("up", "right"))
    over_the_top = Trajectory([0, 2, 3], [0, 1])
    below = Trajectory([0, 1, 3], [1, 0])
    assert xm.visit(grid.at((0, 1))).accepts(over_the_top)
    assert not xm.visit(grid.at((0, 1))).accepts(below)
    up_first = xm.before(grid.doing("up"), grid.doing("right"))
    assert up_first.accepts(over_the_top)
    assert not up_first.accepts(below)


def test_degenerate_grids_are_legal() -> None:
    assert GridWorld(1, 1, (0, 0), (0, 0)).max_length == 0
    assert GridWorld(2, 1, (0, 0), (1, 0), moves=("up",)).max_length == 0
    sealed = GridWorld(3, 1, (0, 0), (2, 0), walls=[(1, 0)])
    assert sealed.max_length == 0


def test_large_grids_are_built() -> None:
    moves = [move for move in MOVES if move != "stay"]
    grid = GridWorld(300, 300, (0, 0), (299, 299), moves=moves, horizon=600)
    assert len(grid.source) == 716_404 - 3  # 4 x 299 x 300 straight, 4 x 299 x 299 diagonal, less 3 from the goal


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width .*got 0"),
        ({"height": 2.0}, "height .*got 2.0"),
        ({"width": 10**5, "height": 10**5}, r"width \* height .* at most"),
        ({"start": (3, 0)}, r"start \(3, 0\) .*x .*0 to 2, y .*0 to 1"),
        ({"start": (0, -1)}, r"start \(0, -1\) is off"),
        ({"start": 0}, "start .*cell .*got 0"),
        ({"start": (0, 0, 0)}, "start must be a cell"),
        ({"start": (0.5, 0)}, "start must be a cell"),
        ({"start": (1, 0)}, r"start \(1, 0\) is in a wall"),
        ({"goal": (1, 0)}, r"goal \(1, 0\) is in a wall"),
        ({"goal": (9, 9)}, r"goal \(9, 9\) is off the grid"),
        ({"walls": [(5, 5)]}, r"wall \(5, 5\) is off the grid"),
        ({"walls": [3]}, "wall must be a cell"),
        ({"walls": 3}, "walls must be cells"),
        ({"walls": (1, 1)}, "wall must be a cell"),
        ({"moves": ()}, "at least one move.* up, down, left, right, up-right, .*, stay"),
        ({"moves": ("up", "jump")}, "'jump'.* up, down, left, right, up-right, .*, stay"),
        ({"moves": ("up", "left", "up")}, "move 'up' is given twice"),
        ({"moves": "up"}, r"got the string 'up': write \('up',\)"),
        ({"moves": (0, 1)}, "unknown move 0"),
        ({"moves": 4}, "moves .*got 4"),
        ({"slip": 1.0}, r"slip .*got 1\.0"),
        ({"slip": -0.1}, r"slip .*got -0\.1"),
        ({"slip": float("nan")}, "slip .*got nan"),
        ({"slip": "0.1"}, "slip .*got str '0.1'"),
        ({"horizon": -3}, "horizon .*got -3"),
        ({"goal": None, "horizon": None}, "without terminal states"),
        ({"horizon": None}, r"\(cell \(0, 0\) -> cell .* -> cell \(0, 0\)\).*horizon"),
        ({"moves": ("up", "right"), "bump": True, "horizon": None}, "horizon"),  # staying is a cycle
        ({"bump": "yes"}, "bump .*got 'yes'"),
        ({"start": [(0, 0), (0, 0)]}, r"start \(0, 0\) is given twice"),
        ({"goal": [(2, 1), (9, 9)]}, r"goal \(9, 9\) is off the grid"),
    ],
)
def test_refuses(change: dict[str, object], message: str) -> None:
    good = {"width": 3, "height": 2, "start": (0, 0), "goal": (2, 1), "walls": [(1, 0)], "horizon": 9}
    with pytest.raises(WorldError, match=message):
        GridWorld(**{**good, **change})  # type: ignore[arg-type]


def test_questions_about_cells_and_moves_that_do_not_exist() -> None:
    grid = GridWorld(3, 2, (0, 0), (2, 1), moves=("up", "right"))
    for ask, words in (
        (lambda: grid.state((3, 0)), r"cell \(3, 0\)"),
        (lambda: grid.cell(6), "state 6 .*0 to 5"),
        (lambda: grid.at((0, 0), (0, 7)), r"cell \(0, 7\)"),
        (lambda: grid.doing("left"), r"'left' .*\('up', 'right'\)"),
    ):
        with pytest.raises(WorldError, match=words):
            ask()


@pytest.mark.parametrize("goal", [(2, 1), None])
def test_svg_shows_walls_start_and_goal_where_they_are(goal: tuple[int, int] | None) -> None:
    grid = GridWorld(3, 2, (0, 0), goal, walls=[(1, 0), (1, 1)], horizon=5)
    svg = ElementTree.fromstring(grid._repr_svg_())
    marked = {name: [e for e in svg.iter() if e.get("class") == name] for name in ("wall", "start", "goal")}
    assert len(marked["wall"]) == 2
    assert len(marked["goal"]) == (goal is not None)
    # y points up: the start, in the bottom row, is below the upper wall.
    heights = sorted(float(wall.get("y", "")) for wall in marked["wall"])
    assert float(marked["start"][0].get("cy", "")) > heights[1] > heights[0]


def test_svg_of_a_large_grid_stays_small() -> None:
    grid = GridWorld(200, 100, (0, 0), (199, 99), moves=("up", "right"))
    svg = ElementTree.fromstring(grid._repr_svg_())
    assert float(svg.get("width", "")) < 520
    assert not list(svg.iter("{http://www.w3.org/2000/svg}text"))


def test_several_starts_and_goals():
    grid = GridWorld(3, 3, start=[(0, 0), (1, 0)], goal=[(2, 2), (0, 2)], moves=("up", "right"))
    assert grid.start[[0, 1]].tolist() == [0.5, 0.5]
    assert np.flatnonzero(grid.terminal).tolist() == [grid.state((0, 2)), grid.state((2, 2))]
    assert (grid.start_cell, grid.goal_cell) == ((0, 0), (2, 2))
    assert "start=((0, 0), (1, 0)), goal=((2, 2), (0, 2))" in repr(grid)
    again = GridWorld(3, 3, start=grid.given_start, goal=grid.given_goal, moves=grid.moves)
    assert np.array_equal(again.transitions, grid.transitions)
    assert grid._repr_svg_().count('class="goal"') == grid._repr_svg_().count('class="start"') == 2
    one = GridWorld(3, 3, start=[[1, 0]], goal=[1, 2], moves=("up", "right"))
    assert (one.given_start, one.given_goal) == ((1, 0), (1, 2))


def test_another_start_is_drawn_and_saved_as_such(tmp_path):
    grid = xm.GridWorld(3, 1, start=(0, 0), goal=(2, 0), moves=("right",))
    assert grid.with_start(1).start_cells == ((1, 0),)
    uneven = grid.with_start([0.75, 0.25, 0.0])
    assert uneven.start_cells == ((0, 0), (1, 0))
    demos = [xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([1, 2], [0])]
    xm.XMEN(uneven, features=[[[1.0]], [[0.0]], [[0.0]]], l2=1.0).fit(demos).save(tmp_path / "model")
    np.testing.assert_array_equal(xm.load(tmp_path / "model").world.start, uneven.start)
