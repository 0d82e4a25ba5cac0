"""Switched-off rules, features of moves, weights of demonstrations, and all mistakes of a file at once."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from problem.files import GRID
from xmen.problem import demo_weights, known_features, problem_or_mistakes, read_problem, read_values, write_problem
from xmen.worlds.tables import RecordedDemos

OFF = 'rule = "visit(key)"\noff = true'


def test_a_rule_that_is_switched_off_stays_in_the_file_and_out_of_the_problem(grid_file):
    grid_file.write_text(GRID.replace('rule = "visit(key)"', OFF))
    problem = read_problem(grid_file)
    assert list(problem.rules) == ["not too far east"]
    write_problem(problem, grid_file)
    assert read_values(grid_file)["constraints"] == [
        {"name": "fetch the key", "rule": "visit(key)", "off": True},
        {"name": "not too far east", "rule": "longest_run(east) <= 2"},
    ]


def test_a_rule_that_is_switched_off_may_hold_any_text(grid_file):
    grid_file.write_text(GRID.replace('rule = "visit(key)"', 'rule = "visit(ke"\noff = true'))
    assert list(read_problem(grid_file).rules) == ["not too far east"]


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
    with pytest.raises(xm.XmenError, match=r"sample_weight holds a number per demonstration.*'heavy'"):
        demo_weights(problem.demos())
