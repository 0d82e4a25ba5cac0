"""The places that rules name in text: cells of a grid, nodes of a graph, and states by their numbers."""

from __future__ import annotations

import pytest

import xmen as xm
from problem.files import grid_problem
from xmen.problem import Problem, read_problem, write_problem

GRID = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))


@pytest.fixture
def grid_file(tmp_path):
    """A problem file with one event and one rule, in the texts that are given."""

    def write(event: str, rule: str):
        text = grid_problem(9, "up", "right", demonstrations=None)
        path = tmp_path / "p.toml"
        path.write_text(f'{text}\n[events]\nplace = "{event}"\n[[constraints]]\nname = "r"\nrule = "{rule}"\n')
        return path

    return write


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("at((5, 6))", (59,)),
        ("at((5,6), (1,2))", (59, 19)),
        ("at(state(59))", (59,)),
        ("at((5, 6), state(6))", (59, 6)),
    ],
)
def test_in_text_for_a_grid_a_place_is_a_cell(grid_file, text, states):
    problem = read_problem(grid_file(text, f"never({text})"))
    assert problem.events["place"] == xm.at(*states)
    assert problem.rules["r"] == xm.never(xm.at(*states)).named("r")
    assert problem.parse(f"visit({text})") == xm.visit(xm.at(*states))


@pytest.mark.parametrize(
    ("text", "cell", "number"),
    [("at(5, 6)", "at((5, 6))", "at(state(5), state(6))"), ("at(59)", "at((5, 6))", "at(state(59))")],
)
def test_bare_numbers_are_refused_with_both_ways_to_say_it(grid_file, text, cell, number):
    problem = read_problem(grid_file("at((5, 6))", "visit(place)"))
    with pytest.raises(xm.ConstraintSyntaxError) as refused:
        problem.further(f"never({text})")
    assert cell in str(refused.value)
    assert number in str(refused.value)
    for event, rule in ((text, "visit(place)"), ("at((5, 6))", f"visit({text})")):
        with pytest.raises(xm.ConstraintSyntaxError, match=r"at\(\(5, 6\)\)"):
            read_problem(grid_file(event, rule))


def test_without_a_world_numbers_are_states_and_there_is_nothing_else():
    assert xm.parse_constraint("never(at(5, 6))") == xm.never(xm.at(5, 6))
    for text in ("never(at((5, 6)))", "never(at(state(59)))"):
        with pytest.raises(xm.ConstraintSyntaxError):
            xm.parse_constraint(text)


@pytest.mark.parametrize(
    "text", ["at((9, 0))", "at((1, 2, 3))", "at('home')", "at((x, 1))", "at(state(81))", "at([1])"]
)
def test_what_is_no_place_is_refused(grid_file, text):
    with pytest.raises(xm.ConstraintError):
        read_problem(grid_file("at((5, 6))", "visit(place)")).further(f"visit({text})")


def test_what_is_written_for_a_grid_has_cells_and_means_the_same(tmp_path):
    many = xm.at(*range(20, 40))
    rules = {
        "both": xm.visit(xm.at(59, 19)) & xm.never(xm.doing(2)),
        "quoted": xm.visit(xm.at(3)).named("at(3), it's") | xm.never(many & ~xm.at(30)),
    }
    problem = Problem(GRID, events={"e": xm.at(4) | xm.doing(0)}, rules=rules)
    write_problem(problem, tmp_path / "p.toml")
    written = (tmp_path / "p.toml").read_text()
    for text in ("visit(at((5, 6), (1, 2)))", "never(doing(up-right))", "at((4, 0)) | doing(up)", "(3, 4))"):
        assert text in written
    read = read_problem(tmp_path / "p.toml")
    assert (dict(read.rules), dict(read.events)) == (dict(problem.rules), dict(problem.events))


@pytest.mark.parametrize(
    ("nodes", "number_is_state"), [(["home", "main st", "shop"], True), (["7", "2", "0"], False), ([7, 2, 0], False)]
)
def test_on_a_graph_a_place_is_a_node(nodes, number_is_state):
    nx = pytest.importorskip("networkx")
    world = xm.MDP.from_networkx(nx.path_graph(nodes, nx.DiGraph), nodes[0], nodes[2])
    problem = Problem(world)
    assert problem.parse(f"visit(at('{nodes[1]}'))") == xm.visit(xm.at(1)) == problem.parse("visit(at(state(1)))")
    if number_is_state:
        assert problem.parse("visit(at(1))") == xm.visit(xm.at(1))
    else:
        with pytest.raises(xm.ConstraintSyntaxError, match=f"at.'{nodes[2]}'.*state.2"):
            problem.parse("visit(at(2))")


def test_start_and_goal_are_events_without_being_declared():
    grid = xm.GridWorld(4, 3, start=[(0, 0), (0, 1)], goal=(3, 2), moves=("up", "right"))
    found = xm.parse_constraint("(count(start) == 2) & visit(goal)", world=grid)
    assert found == (xm.count(grid.at((0, 0), (0, 1))) == 2) & xm.visit(grid.at((3, 2)))
    own = xm.parse_constraint("visit(goal)", {"goal": grid.at((1, 1))}, world=grid)
    assert own == xm.visit(grid.at((1, 1)))  # a name that was declared wins
    with pytest.raises(xm.ConstraintSyntaxError, match="goal"):
        xm.parse_constraint("visit(goal)")
