"""The problem file: what is read, what is written, and what is refused with which words."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmen as xm
import xmen.problem
from xmen.constraints.text import parse_event
from xmen.problem import Problem, Settings, read_problem, write_problem
from xmen.problem._rewards import goal_distance
from xmen.problem._toml import toml_text

GRID = """
format = 1

[world]
kind = "grid"
width = 4
height = 4
start = [0, 0]
goal = [3, 3]
moves = ["up", "right"]
walls = [[1, 1]]

[events]
key = { cells = [[0, 2], [2, 0]] }
east = { moves = ["right"] }
here = { cells = [[0, 2]], moves = ["up"] }
quiet = "~key & ~at(5)"

[[constraints]]
name = "fetch the key"
rule = "visit(key)"

[[constraints]]
name = "not too far east"
rule = "longest_run(east) <= 2"

[reward]
features = ["steps", "goal distance", "key"]
weights = [-1, 0.5, 2.0]

[settings]
discount = 0.9
engine = "exact"
seed = 7
max_nodes = 1000
"""

TABLE = """
format = 1

[world]
kind = "table"
transitions = "walk.csv"
n_states = 3
n_actions = 2
start = 0
terminal = [2]
horizon = 5

[[constraints]]
name = "short"
rule = "length() <= 4"

[reward]
table = "reward.csv"
"""
WALK = "state,action,next_state,probability\n0,0,1,1\n0,1,2,1.0\n1,0,2,0.75\n1,0,0,0.25\n"
REWARD = "state,action,reward\n0,1,-2.5\n1,0,1e-3\n"


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    return file


@pytest.fixture
def table_file(tmp_path: Path) -> Path:
    (tmp_path / "walk.csv").write_text(WALK)
    (tmp_path / "reward.csv").write_text(REWARD)
    file = tmp_path / "table.toml"
    file.write_text(TABLE)
    return file


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    networkx = pytest.importorskip("networkx")
    roads = networkx.DiGraph()
    roads.add_edge("home", "park", length=2.0, street="Elm")
    roads.add_edge("home", "shop", length=1.0, street="Oak")
    roads.add_edge("park", "work", length=1.0, street="Ash")
    roads.add_edge("shop", "work", length=4.0, street="Fir")
    networkx.write_graphml(roads, tmp_path / "roads.graphml")
    file = tmp_path / "roads.toml"
    file.write_text(
        'format = 1\n[world]\nkind = "graphml"\nfile = "roads.graphml"\nsource = "home"\ntarget = "work"\n'
        '[events]\nshop = { nodes = ["shop"] }\n[[constraints]]\nname = "buy milk"\nrule = "visit(shop)"\n'
        '[reward]\nfeatures = ["length"]\nweights = [-1.0]\n'
    )
    return file


def assert_same(one: Problem, other: Problem) -> None:
    """Equal in everything that engines read."""
    assert type(one.world) is type(other.world)
    assert np.allclose(one.world.transitions, other.world.transitions, atol=0, rtol=1e-15)
    assert np.array_equal(one.world.start, other.world.start)
    assert np.array_equal(one.world.terminal, other.world.terminal)
    assert one.world.horizon == other.world.horizon
    assert one.events == other.events
    assert list(one.rules.items()) == list(other.rules.items())
    assert one.settings == other.settings
    assert (one.reward is None) == (other.reward is None)
    if one.reward is not None:
        tables = [getattr(p.reward, "table", lambda p=p: p.reward)() for p in (one, other)]
        assert np.array_equal(*tables)


def test_a_grid_problem_is_the_same_as_its_python_spelling(grid_file):
    problem = Problem.read(grid_file)
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"), walls=[(1, 1)])
    key = grid.at((0, 2), (2, 0))
    assert repr(problem.world) == repr(grid)
    assert problem.events == {
        "key": key,
        "east": grid.doing("right"),
        "here": grid.at((0, 2)) & grid.doing("up"),
        "quiet": ~key & ~xm.at(5),
    }
    rules = xm.visit(key).named("fetch the key") & (xm.longest_run(grid.doing("right")) <= 2).named("not too far east")
    assert problem.constraint == rules
    assert problem.settings == Settings(discount=0.9, engine="exact", seed=7, max_nodes=1000)
    # Seen by hand: at (0, 2) one step costs 1, the goal is 4 away, and the key is here.
    assert isinstance(problem.reward, xm.LinearReward)
    assert problem.reward.table()[grid.state((0, 2)), 0] == -1 + 0.5 * 4 + 2
    expected = xm.distribution(grid, rules, problem.reward, discount=0.9)
    assert problem.distribution().log_partition() == expected.log_partition()
    assert problem.distribution().sample(5) == xm.distribution(grid, rules, problem.reward, 0.9, seed=7).sample(5)


def test_a_table_problem(table_file):
    problem = read_problem(str(table_file))
    assert problem.world.transitions.tolist() == [[0, 0, 1, 1], [0, 1, 2, 1], [1, 0, 0, 0.25], [1, 0, 2, 0.75]]
    assert np.array_equal(problem.reward, [[0, -2.5], [1e-3, 0], [0, 0]])
    assert problem.distribution().engine == "exact"


def test_a_graph_problem(graph_file):
    problem = read_problem(graph_file)
    assert [tau.states for tau in problem.distribution().sample(3)] == [(0, 2, 3)] * 3
    assert problem.reward.table()[0].tolist() == [-2.0, -1.0]


def test_a_problem_without_rules_has_no_constraint(tmp_path):
    file = tmp_path / "free.toml"
    file.write_text('format = 1\n[world]\nkind = "grid"\nwidth = 2\nheight = 2\nstart = [0, 0]\nhorizon = 3\n')
    problem = read_problem(file)
    assert (problem.constraint, problem.reward, problem.events, problem.settings) == (None, None, {}, Settings())


def test_the_documented_example_can_be_read(tmp_path):
    block = xmen.problem.__doc__.split("file that Python reads and writes.\n")[1].split("\nA table world")[0]
    (tmp_path / "doc.toml").write_text(textwrap.dedent(block))
    assert len(read_problem(tmp_path / "doc.toml").distribution().sample(10)) == 10


def test_the_demonstrations_key(grid_file, tmp_path):
    problem = read_problem(grid_file)
    assert problem.demonstrations is None
    with pytest.raises(xm.FileFormatError, match="names no demonstrations"):
        problem.demos()
    demos = problem.distribution().sample(3)
    grid_file.write_text(grid_file.read_text().replace("format = 1", 'format = 1\ndemonstrations = "mine.jsonl"'))
    problem = read_problem(grid_file)  # nobody has asked for them yet
    assert problem.demonstrations == grid_file.parent / "mine.jsonl"
    with pytest.raises(FileNotFoundError):
        problem.demos()
    xm.write_demos([], problem.demonstrations)
    with pytest.raises(xm.TrajectoryError, match="there are no demonstrations in this file"):
        problem.demos()
    xm.write_demos(demos, problem.demonstrations)
    assert problem.demos() == demos


def test_demonstrations_come_along_to_another_folder(grid_file, tmp_path):
    problem = dataclasses.replace(read_problem(grid_file), demonstrations=str(tmp_path / "mine.jsonl"))
    problem.write(tmp_path / "near.toml")
    assert 'demonstrations = "mine.jsonl"' in (tmp_path / "near.toml").read_text()
    (tmp_path / "other").mkdir()
    problem.write(tmp_path / "other" / "far.toml")  # there is no such file yet: the place is kept
    assert 'demonstrations = "../mine.jsonl"' in (tmp_path / "other" / "far.toml").read_text()
    xm.write_demos(problem.distribution().sample(3), tmp_path / "mine.jsonl")
    problem.write(tmp_path / "other" / "far.toml")
    again = read_problem(tmp_path / "other" / "far.toml")
    assert again.demonstrations == tmp_path / "other" / "far_demos.jsonl"
    assert again.demos() == problem.demos()


def test_extra_rules(grid_file):
    problem = read_problem(grid_file)
    d = problem.distribution(xm.never(problem.world.at((0, 2))), seed=1)
    assert all(8 not in tau.states and 2 in tau.states for tau in d.sample(20))


@pytest.mark.parametrize("kind", ["grid_file", "table_file", "graph_file"])
def test_round_trip_to_another_folder(kind, tmp_path, request):
    problem = read_problem(request.getfixturevalue(kind))
    (tmp_path / "other").mkdir()
    once, twice = tmp_path / "other" / "once.toml", tmp_path / "other" / "twice.toml"
    problem.write(once)
    again = read_problem(once)
    assert_same(problem, again)
    write_problem(again, twice)
    assert twice.read_text().replace("twice.", "once.") == once.read_text()


def test_writing_keeps_the_words_of_the_user_while_they_mean_the_same(grid_file):
    problem = read_problem(grid_file)
    problem.write(grid_file)
    text = grid_file.read_text()
    for line in ('rule = "visit(key)"', 'quiet = "~key & ~at(5)"', "key = { cells = [[0, 2], [2, 0]] }"):
        assert line in text
    moved = dataclasses.replace(problem, events={**problem.events, "key": xm.at(1)})
    moved.write(grid_file)
    assert_same(moved, read_problem(grid_file))  # the rule still means the old key
    assert 'rule = "visit(at(8, 2))"' in grid_file.read_text()


def test_learned_weights_are_written_under_the_names_of_the_features(grid_file):
    problem = read_problem(grid_file)
    learned = dataclasses.replace(problem, reward=xm.LinearReward(problem.reward.features, [0.1, 0.2, 1 / 3]))
    learned.write(grid_file)
    assert read_problem(grid_file).reward.weights.tolist() == [0.1, 0.2, 1 / 3]


def test_a_problem_built_in_python_can_be_written(tmp_path):
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=None, horizon=4, slip=0.125)
    rewards = np.random.default_rng(0).normal(size=(9, 4))
    event = grid.at((1, 1)) | grid.doing("up")
    problem = Problem(
        grid,
        events={"middle": grid.at((1, 1)), "up": grid.doing("up"), "both": event},
        rules={
            'a "quoted" name, ünïcode \\ and \x7f': xm.count(event) >= 1,
            "nested": xm.visit(event) & xm.no_revisit(),
        },
        reward=rewards,
        settings=Settings(delta=1.5),
    )
    problem.write(tmp_path / "p.toml")
    assert_same(problem, read_problem(tmp_path / "p.toml"))


def test_other_worlds_are_written_as_tables(tmp_path):
    world = xm.MDP(3, 1, [(0, 0, 1, 1 / 3), (0, 0, 2, 2 / 3), (1, 0, 2, 1)], start=[0.5, 0.5, 0], terminal=[2])
    Problem(world).write(tmp_path / "p.toml")
    assert_same(Problem(world), read_problem(tmp_path / "p.toml"))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"events": {"odd": xm.when(lambda s, a: s % 2, name="odd")}}, "the event 'odd' cannot be written"),
        ({"rules": {"r": xm.visit(xm.when(lambda s, a: s % 2, name="odd"))}}, "the rule 'r' cannot be written"),
    ],
)
def test_what_has_no_text_form_is_refused_before_anything_is_written(tmp_path, parts, message):
    world = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, terminal=[1])
    with pytest.raises(xm.ConstraintError, match=message):
        Problem(world, **parts).write(tmp_path / "p.toml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"events": {"at": xm.at(0)}}, xm.ConstraintError),
        ({"events": {"far": xm.at(9)}}, xm.ConstraintError),
        ({"events": {"e": 3}}, xm.ConstraintError),
        ({"rules": {"r": xm.at(0)}}, xm.ConstraintError),
        ({"rules": {"r": xm.visit(xm.at(9))}}, xm.ConstraintError),
        ({"reward": np.zeros((3, 3))}, xm.RewardError),
    ],
)
def test_a_problem_that_does_not_fit_together_is_refused(parts, error):
    world = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, terminal=[1])
    with pytest.raises(error):
        Problem(world, **parts)


# (what to replace in GRID, by what, what the message must say)
BAD_GRIDS = [
    ("format = 1", "", ["the key 'format' is missing"]),
    ("format = 1", "format = 2", ["reads format 1", "is format 2"]),
    ("format = 1", 'format = "1"', ["format", "expected a whole number, got '1'"]),
    ("format = 1", "format = 1\nwrold = 3", ["unknown key 'wrold'", "did you mean 'world'?"]),
    ("format = 1", "format = 1\ndemonstrations = 3", ["demonstrations", "the name of a .csv or .jsonl file", "got 3"]),
    ("[world]", "[wrold]", ["the key 'world' is missing", "is that it?"]),
    ('kind = "grid"', 'kind = "gird"', ["[world], kind", '"table"', "did you mean 'grid'?"]),
    ("width = 4", "widht = 4", ["[world]", "'width' is missing", "'widht'"]),
    ("walls =", "wals =", ["[world]", "unknown key 'wals'", "did you mean 'walls'?"]),
    ("width = 4", 'width = "4"', ["[world], width", "whole number"]),
    ("width = 4", "width = true", ["[world], width", "whole number"]),
    ("width = 4", "width = 0", ["[world]", "width must be at least 1"]),
    ("width = 4", "width = ", ["not valid TOML", "line 6"]),
    ("goal = [3, 3]", "goal = [3, 9]", ["[world]", "goal (3, 9) is off the grid"]),
    ("goal = [3, 3]", "goal = [3]", ["[world], goal", "a cell [x, y]"]),
    ("goal = [3, 3]", "", ["[world]", "horizon"]),
    ("[[1, 1]]", "[[1, 1.5]]", ["[world], walls", "[1, 1.5]"]),
    ('"right"]\nwalls', '"rigth"]\nwalls', ["[world], moves", "did you mean 'right'?"]),
    ("key = {", "at = {", ["[events], at: the name 'at' is taken by xmen's own at"]),
    ("key = {", '"my key" = {', ["[events], my key", "identifier"]),
    ("[[0, 2], [2, 0]]", "[[0, 7]]", ["[events], key", "off the grid"]),
    ("[[0, 2], [2, 0]]", "[]", ["[events], key", "at least one"]),
    ("key = { cells", "key = { cels", ["[events], key", "did you mean 'cells'?"]),
    ("east = { moves = [", 'east = { moves = ["down", ', ["[events], east", "'down' is not one of this grid's moves"]),
    ('"~key & ~at(5)"', "5", ["[events], quiet", "expected a text"]),
    ('"~key & ~at(5)"', '"~at(99)"', ["[events], quiet", "state 99"]),
    ('"~key & ~at(5)"', '"visit(key)"', ["[events], quiet", "not an event", "    visit(key)\n    ^"]),
    ('"~key & ~at(5)"', '"~kee & ~at(5)"', ["[events], quiet", "did you mean `key`?", "\n     ^"]),
    ('[[constraints]]\nname = "fetch', '[constraints]\nname = "fetch', ["TOML"]),
    ('name = "fetch the key"', 'nam = "fetch the key"', ["[[constraints]] number 1", "'name' is missing"]),
    ('"not too far east"', '"fetch the key"', ["[[constraints]] number 2, name", "already"]),
    ('"not too far east"', '""', ["[[constraints]] number 2, name", "needs a name"]),
    ('rule = "visit(key)"', "rule = 3", ["[[constraints]] number 1, rule", "text"]),
    (
        'rule = "visit(key)"',
        'rule = "visit(kee)"',
        ["number 1 ('fetch the key'), rule", "did you mean `key`?", "\n          ^"],
    ),
    ('rule = "visit(key)"', 'rule = "key"', ["number 1 ('fetch the key'), rule", "not a constraint", "    key\n    ^"]),
    ('rule = "visit(key)"', 'rule = "visit(at(99))"', ["number 1 ('fetch the key'), rule", "state 99"]),
    ('"steps"', '"stps"', ["[reward], features", "did you mean 'steps'?"]),
    ('"steps"', '"key"', ["[reward], features", "each feature once"]),
    ("[-1, 0.5, 2.0]", "[-1]", ["[reward], weights", "3 features", "1 weights"]),
    ("[-1, 0.5, 2.0]", "[-1, 0.5, nan]", ["[reward], weights", "finite"]),
    ("[reward]", '[reward]\ntable = "x.csv"', ["[reward]", "not both"]),
    ('features = ["steps", "goal distance", "key"]', 'table = "x.csv"', ["[reward], table", "there is no file"]),
    ("discount = 0.9", "discount = 1.5", ["[settings], discount", "1.5"]),
    ("discount = 0.9", "discont = 0.9", ["[settings]", "did you mean 'discount'?"]),
    ('"exact"', '"exakt"', ["[settings], engine", "did you mean 'exact'?"]),
    ("seed = 7", "seed = -7", ["[settings], seed", "-7"]),
    ("max_nodes = 1000", "max_nodes = 0", ["[settings], max_nodes", "got 0"]),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD_GRIDS, ids=[f"{new[:30]!r}" for _, new, _ in BAD_GRIDS])
def test_a_bad_file_is_refused_with_file_table_and_key(grid_file, old, new, words):
    assert old in GRID
    grid_file.write_text(GRID.replace(old, new, 1))
    with pytest.raises(xm.XmenError) as caught:
        read_problem(grid_file)
    for word in [str(grid_file), *words]:
        assert word in str(caught.value)


BAD_TABLES = [
    ("walk.csv", "0,0,1,1\n", "0,0,1\n", ["walk.csv, line 2", "4 fields"]),
    ("walk.csv", "0,0,1,1\n", "0,0,x,1\n", ["walk.csv, line 2", "next_state", "'x'"]),
    ("walk.csv", "0,0,1,1\n", "0,0,-1,1\n", ["walk.csv, line 2", "next_state", "'-1'"]),
    ("walk.csv", "0,0,1,1\n", "0,0,1,nan\n", ["walk.csv, line 2", "probability", "'nan'"]),
    ("walk.csv", "0,0,1,1\n", "0,0,1,0.5\n", ["[world]", "sum to 0.5"]),
    ("walk.csv", "0,0,1,1\n", "0,0,7,1\n", ["[world]", "next_state is 7"]),
    ("walk.csv", "next_state", "target", ["walk.csv, line 1", "header state,action,next_state,probability"]),
    ("reward.csv", "0,1,-2.5", "0,5,-2.5", ["[reward], table", "action 5"]),
    ("reward.csv", "1,0,1e-3", "0,1,1e-3", ["[reward], table", "two rows for state 0 and action 1"]),
    ("reward.csv", "-2.5", "inf", ["reward.csv, line 2", "finite"]),
    ("table.toml", "walk.csv", "wlk.csv", ["[world], transitions", "there is no file", "wlk.csv"]),
    ("table.toml", "start = 0", "start = [1.0]", ["[world]", "start must be"]),
    ("table.toml", "start = 0", "start = true", ["[world], start", "whole number"]),
    ("table.toml", "horizon = 5", "", ["[world]", "give a horizon"]),
    ("table.toml", "[reward]", "[events]\nhere = { cells = [[0, 0]] }\n[reward]", ["[events], here", "no cells"]),
    ("table.toml", 'table = "reward.csv"', 'table = "reward.csv"\nweights = [1]', ["[reward], weights"]),
]


@pytest.mark.parametrize(("name", "old", "new", "words"), BAD_TABLES)
def test_a_bad_table_is_refused(table_file, name, old, new, words):
    file = table_file.with_name(name)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(xm.XmenError) as caught:
        read_problem(table_file)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('source = "home"', 'source = "hom"', ["[world]", "'hom' is not a node"]),
        ('source = "home"', "source = 3", ["[world], source", "in quotes"]),
        ('["shop"]', '["shp"]', ["[events], shop", "'shp' is not a node"]),
        ('file = "roads.graphml"', 'file = "roads.toml"', ["[world], file", "not a GraphML file"]),
        ('["length"]', '["lenght"]', ["[reward], features", "did you mean 'length'?"]),
    ],
)
def test_a_bad_graph_is_refused(graph_file, old, new, words):
    graph_file.write_text(graph_file.read_text().replace(old, new, 1))
    with pytest.raises(xm.XmenError) as caught:
        read_problem(graph_file)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_feature_with_two_meanings_is_refused(graph_file):
    text = graph_file.read_text().replace("shop = {", "steps = {").replace("visit(shop)", "visit(steps)")
    graph_file.write_text(text.replace('["length"]', '["steps"]'))
    with pytest.raises(xm.XmenError, match="two meanings here"):
        read_problem(graph_file)


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path):
    (tmp_path / "p.toml").write_bytes(b"format = 1\xff")
    with pytest.raises(xm.FileFormatError, match="UTF-8"):
        read_problem(tmp_path / "p.toml")
    with pytest.raises(FileNotFoundError):
        read_problem(tmp_path / "nowhere.toml")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(grid_file):
    before = read_problem(grid_file)
    grid_file.write_bytes(b"\xef\xbb\xbf" + GRID.replace("\n", "\r\n").encode())
    assert_same(before, read_problem(grid_file))


def test_goal_distance_counts_actions_and_is_zero_where_there_is_no_way():
    world = xm.MDP(4, 1, [(0, 0, 1, 1.0), (1, 0, 2, 0.5), (1, 0, 0, 0.5)], start=0, terminal=[2], horizon=9)
    assert goal_distance(world)[:, 0].tolist() == [2, 1, 0, 0]
    with pytest.raises(xm.RewardError, match="terminal"):
        goal_distance(xm.MDP(1, 1, [(0, 0, 0, 1.0)], start=0, horizon=1))


scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(st.characters(codec="utf-8"))
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
tables = st.dictionaries(
    st.text(st.characters(codec="utf-8")), st.one_of(values, st.dictionaries(st.text("ab", min_size=1), values))
)


@given(
    document=st.dictionaries(st.text("abc .-é", min_size=1), st.one_of(values, tables, st.lists(tables, min_size=1)))
)
def test_written_toml_is_read_back_as_it_was(document):
    import tomllib

    assert tomllib.loads(toml_text(document)) == document


def test_what_toml_cannot_hold_is_refused():
    with pytest.raises(xm.FileFormatError, match="half a character"):
        toml_text({"a": "\ud800"})
    with pytest.raises(xm.FileFormatError, match="NoneType"):
        toml_text({"a": None})


@pytest.mark.parametrize("event", [xm.at(3), ~xm.at(1, 2) & xm.doing(0), (xm.at(0) | xm.anytime) & ~xm.doing(1)])
def test_an_event_is_read_from_its_text(event):
    assert parse_event(str(event)) == event


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; write an event"),
        ("visit(at(3))", "not an event"),
        ("count(at(3))", "not an event"),
        ("3", "not an event"),
        ("at(3) and at(4)", "write & for `and`"),
        ("at(3) & visit(at(4))", "cannot apply &"),
        ("~" * 500 + "at(3)", "nested too deeply"),
        (3, "reads text"),
    ],
)
def test_what_is_no_event_is_refused(text, message):
    with pytest.raises(xm.ConstraintSyntaxError, match=message):
        parse_event(text)
