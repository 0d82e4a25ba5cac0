"""The problem file: what is read, what is written, and all mistakes of a file at once."""

from __future__ import annotations

import dataclasses
import textwrap
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xmen as xm
import xmen.problem
from problem.files import GRID, assert_same
from strategies import cases
from xmen.answers import make_learner
from xmen.constraints.text import parse_event
from xmen.engines.settings import EngineSettings
from xmen.problem import (
    Problem,
    Settings,
    demo_weights,
    known_features,
    problem_or_mistakes,
    read_problem,
    read_values,
    write_problem,
)
from xmen.problem.document import toml_text
from xmen.problem.parts import goal_distance
from xmen.problem.problem import append_rules
from xmen.worlds.tables import RecordedDemos


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
    with pytest.raises(xm.FileFormatError, match="no demonstrations"):
        problem.demos()
    demos = problem.distribution().sample(3)
    grid_file.write_text(grid_file.read_text().replace("format = 1", 'format = 1\ndemonstrations = "mine.jsonl"'))
    problem = read_problem(grid_file)  # nobody has asked for them yet
    assert problem.demonstrations == grid_file.parent / "mine.jsonl"
    with pytest.raises(FileNotFoundError):
        problem.demos()
    xm.write_demos([], problem.demonstrations)
    with pytest.raises(xm.TrajectoryError, match="no demonstrations"):
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
    for line in ('rule = "visit(key)"', 'quiet = "~key & ~at((1, 1))"', "key = {cells = [[0, 2], [2, 0]]}"):
        assert line in text
    moved = dataclasses.replace(problem, events={**problem.events, "key": xm.at(1)})
    moved.write(grid_file)
    assert_same(moved, read_problem(grid_file))  # the rule still means the old key
    assert 'rule = "visit(at((0, 2), (2, 0)))"' in grid_file.read_text()


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
        rules={'"quoted", ünïcode \\ and \x7f': xm.count(event) >= 1, "nested": xm.visit(event) & xm.no_revisit()},
        reward=rewards,
        settings=Settings(delta=1.5),
    )
    problem.write(tmp_path / "p.toml")
    assert_same(problem, read_problem(tmp_path / "p.toml"))


def test_other_worlds_are_written_as_tables(tmp_path):
    world = xm.MDP(3, 1, [(0, 0, 1, 1 / 3), (0, 0, 2, 2 / 3), (1, 0, 2, 1)], start=[0.5, 0.5, 0], terminal=[2])
    Problem(world).write(tmp_path / "p.toml")
    assert_same(Problem(world), read_problem(tmp_path / "p.toml"))


ODD = xm.when(lambda s, a: s % 2, name="odd")


@pytest.mark.parametrize(
    ("parts", "message"),
    [({"events": {"odd": ODD}}, "event 'odd'"), ({"rules": {"r": xm.visit(ODD)}}, "rule 'r'")],
)
def test_what_has_no_text_form_is_refused_before_anything_is_written(tmp_path, parts, message):
    world = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, terminal=[1])
    with pytest.raises(xm.ConstraintError, match=message):
        Problem(world, **parts).write(tmp_path / "p.toml")
    assert list(tmp_path.iterdir()) == []


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


documents = st.dictionaries(st.text("abc .-é", min_size=1), st.one_of(values, tables, st.lists(tables, min_size=1)))
edits = st.dictionaries(st.sampled_from("abc"), st.one_of(scalars, tables, st.lists(tables, min_size=1)))


@settings(max_examples=cases(40))
@given(texts=st.one_of(documents.map(lambda one: [one]), st.lists(edits, max_size=4)))
def test_written_toml_is_read_back_as_it_was_also_over_another_text(texts):
    text = ""
    for document in texts:
        text = toml_text(document, text)
        assert tomllib.loads(text) == document


COMMENTED = """# by hand
format = 1  # the first

# rules, old ones first
[[constraints]]
name = "a"
# in words: the key
rule = "visit(key)"

# forget the mud?
[[constraints]]
name = "b"
rule = "never(mud)"
# off = true

# how to answer
[settings]
seed = 1
# the end
"""


def test_comments_stay_with_what_they_are_about():
    values = tomllib.loads(COMMENTED)
    assert toml_text(values, COMMENTED) == COMMENTED
    windows = COMMENTED.replace("\n", "\r\n")
    assert toml_text(values, windows) == windows
    values["constraints"] = [values["constraints"][1], {"name": "c", "rule": "visit(door)"}]
    values |= {"validation": "v.csv", "settings": {"seed": 2}}
    text = toml_text(values, COMMENTED, {"c": ["found"]})
    assert tomllib.loads(text) == values
    lines = ("# forget", '"b"', "# off", "# found", '"c"', "# how", "seed = 2", "# the end")
    assert sorted(lines, key=text.index) == [*lines]
    assert text.index("validation") < text.index("[[constraints]]")
    assert "in words" not in text


def test_rules_are_added_however_those_of_the_file_are_spelled(grid_file):
    spelled = 'constraints = [{ name = "mine", rule = "visit(key)" }]  # one line\n'
    for text in (GRID, GRID.replace("[[constraints]]", "[[constraints]]  # mine"), spelled + GRID[: GRID.index("[[c")]):
        grid_file.write_text(text)
        problem = read_problem(grid_file)
        assert append_rules(grid_file, problem, {"never(east)": ["why"]}) == ["never(east)"]
        assert list(read_problem(grid_file).rules) == [*problem.rules, "never(east)"]
        assert "# why" in grid_file.read_text()


def test_what_toml_cannot_hold_is_refused():
    for value, words in (("\ud800", "half a character"), (None, "NoneType")):
        with pytest.raises(xm.FileFormatError, match=words):
            toml_text({"a": value})


@pytest.mark.parametrize("event", [xm.at(3), ~xm.at(1, 2) & xm.doing(0), (xm.at(0) | xm.anytime) & ~xm.doing(1)])
def test_an_event_is_read_from_its_text(event):
    assert parse_event(str(event)) == event


def test_every_engine_setting_reaches_the_file_and_the_engine(tmp_path):
    """Nothing is lost on the way: a problem, its file, the distribution, and a learner made for it."""
    chosen = {"engine": "xor", "max_nodes": 5000, "oracle": "listed", "cell_size": 16.0, "delta": 1.5}
    chosen |= {"failure": 0.01, "time_limit": 7.5}
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    problem = Problem(grid, rules={"key": xm.visit(grid.at((1, 2)))}, settings=Settings(**chosen))
    problem.write(tmp_path / "p.toml")
    read = Problem.read(tmp_path / "p.toml")
    assert read.settings == problem.settings
    assert {name: read.settings.chosen()[name] for name in chosen} == chosen
    d = read.distribution()
    assert (d.engine, d.oracle, d.guarantee) == ("xor", "listed", (1.5, 0.01))
    assert d.settings == EngineSettings(**chosen)
    learner = make_learner("xmen", read)
    assert learner.engine == EngineSettings(**chosen)
    Problem(grid, settings=Settings(time_limit=None)).write(tmp_path / "p.toml")
    assert Problem.read(tmp_path / "p.toml").settings.time_limit is None


def test_grids_with_bumps_and_several_starts_and_goals_are_written_and_read(tmp_path):
    grid = xm.GridWorld(3, 3, start=[(0, 0), (2, 0)], goal=[(2, 2), (0, 2)], horizon=5, bump=True)
    Problem(grid).write(tmp_path / "p.toml")
    assert "bump = true" in (tmp_path / "p.toml").read_text()
    again = read_problem(tmp_path / "p.toml")
    assert_same(Problem(grid), again)
    assert again.world.goal_cells == ((2, 2), (0, 2))
    model = xm.MaxEntIRL(grid, l2=0.1).fit(xm.distribution(grid, None, seed=0).sample(20))
    model.save(tmp_path / "model")
    loaded = xm.load(tmp_path / "model")
    assert (loaded.world.bump, loaded.world.start_cells) == (True, ((0, 0), (2, 0)))
    assert loaded.sample(5, seed=1) == model.sample(5, seed=1)


@pytest.mark.parametrize("rule", ["visit(key)", "visit(ke"], ids=["a rule", "any text"])
def test_a_rule_that_is_switched_off_stays_in_the_file_and_out_of_the_problem(grid_file, rule):
    grid_file.write_text(GRID.replace('rule = "visit(key)"', f'rule = "{rule}"\noff = true'))
    problem = read_problem(grid_file)
    assert list(problem.rules) == ["not too far east"]
    write_problem(problem, grid_file)
    assert read_values(grid_file)["constraints"] == [
        {"name": "fetch the key", "rule": rule, "off": True},
        {"name": "not too far east", "rule": "longest_run(east) <= 2"},
    ]


def test_what_only_studio_shows_is_kept(grid_file):
    grid_file.write_text(GRID + '\n[studio]\ncolours = { key = "#E69F00" }\n')
    write_problem(read_problem(grid_file), grid_file)
    assert read_values(grid_file)["studio"] == {"colours": {"key": "#E69F00"}}


def test_all_mistakes_are_found_at_once_and_the_rest_is_read(tmp_path, grid_file):
    values = read_values(grid_file)
    values["events"]["quiet"] = "~key & & at(5)"
    values["constraints"] = [
        {"name": "a", "rule": "visit(key"},
        {"name": "b", "rule": "visit(key)"},
        {"name": "b", "rule": "never(key)"},
        {"name": "c", "rule": "never(quiet)"},
    ]
    values["reward"] = {"features": ["steps"], "weights": [1.0, 2.0]}
    values["settings"] = {"discount": 2.0}
    problem, mistakes = problem_or_mistakes(values, tmp_path / "p.toml")
    assert problem is not None
    assert list(problem.rules) == ["b"]
    assert [(one.part, one.name, one.index, one.key) for one in mistakes] == [
        ("settings", None, None, "discount"),
        ("event", "quiet", None, None),
        ("rule", None, 0, None),
        ("rule", None, 2, "name"),
        ("rule", None, 3, None),
        ("reward", None, None, "weights"),
    ]
    assert mistakes[1].offset == 7
    assert "\n" not in mistakes[1].message
    assert "quiet" in mistakes[4].message
    assert "p.toml" not in " ".join(one.message for one in mistakes)


def test_without_a_world_there_is_no_problem_but_the_reason(tmp_path, grid_file):
    values = read_values(grid_file)
    values["world"]["goal"] = [9, 9]
    problem, mistakes = problem_or_mistakes(values, tmp_path / "p.toml")
    assert problem is None
    assert [one.part for one in mistakes] == ["world"]


@pytest.mark.parametrize("values", [{}, {"format": 1}, {"format": 1, "world": 3}, {"format": 1, "constraints": 3}])
def test_what_is_no_problem_at_all_is_a_mistake_too(tmp_path, values):
    problem, mistakes = problem_or_mistakes(values, tmp_path / "p.toml")
    assert problem is None
    assert mistakes


def test_features_of_single_moves(tmp_path, grid_file):
    grid_file.write_text(GRID.replace('["steps", "goal distance", "key"]', '["steps", "move right", "key"]'))
    problem = read_problem(grid_file)
    assert np.array_equal(problem.reward.features[:, :, 1], np.tile([0.0, 1.0], (16, 1)))
    assert {"steps", "goal distance", "move up", "move right", "key"} <= set(
        known_features(problem.world, problem.events)
    )
    for name in known_features(problem.world, problem.events):
        values = read_values(grid_file) | {"reward": {"features": [name]}}
        assert problem_or_mistakes(values, grid_file)[1] == []


def test_weights_of_demonstrations_are_a_column_of_their_file(tmp_path, grid_file):
    grid_file.write_text('demonstrations = "d.csv"\n' + GRID)
    problem = read_problem(grid_file)
    demos = problem.distribution().sample(3, seed=0)
    xm.write_demos(demos, tmp_path / "d.csv")
    assert demo_weights(problem.demos()) is None
    recorded = RecordedDemos(demos, [{"sample_weight": 2.5}, {}, {"sample_weight": 0}])
    xm.write_demos(recorded, tmp_path / "d.csv", problem.world)
    assert list(problem.demos()) == demos
    assert demo_weights(problem.demos()) == [2.5, 1.0, 0.0]
    wrong = RecordedDemos(demos, [{"sample_weight": "heavy"}, {}, {}])
    xm.write_demos(wrong, tmp_path / "d.csv", problem.world)
    with pytest.raises(xm.XmenError, match=r"sample_weight .*'heavy'"):
        demo_weights(problem.demos())
