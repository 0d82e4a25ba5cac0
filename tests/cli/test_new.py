"""`xmen new`: starters that work from the first command on, for every kind of world."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import report, run
from xmen.cli.new import STARTERS
from xmen.problem import read_problem

KINDS = list(STARTERS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.system
def test_the_first_five_minutes(kind, folder):
    written = report(f"new mine.toml --world {kind}")["files"]
    assert sorted(written) == sorted(path.name for path in folder.iterdir())
    checked = report("check mine.toml")
    demos = checked["demonstrations"]
    assert (checked["feasible"], checked["notes"]) == (True, [])
    assert demos["valid"] == demos["number"] == STARTERS[kind].n_demos
    assert report("engines mine.toml")["engine"] == "exact"
    fitted = report("fit mine.toml")
    assert (fitted["model"], fitted["converged"]) == ("mine_model", True)
    chance = not read_problem("mine.toml").world.deterministic  # then there is one thing to know
    assert ["--learner causal" in note for note in fitted["notes"]] == [True] * chance
    assert report("sample mine_model -n 5")["valid"] == 5
    assert run("plot mine_model").exit_code == 0
    assert (folder / "mine_model.png").stat().st_size > 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_that_made_the_demonstrations_are_found_again(kind, folder):
    """Within four standard errors by the inverse of the information, so the true weights could have made these."""
    run(f"new mine.toml --world {kind}")
    problem = read_problem("mine.toml")
    learned = np.array(list(report("fit mine.toml")["weights"].values()))
    features = problem.reward.features
    d = problem.distribution().with_reward(features @ learned)
    rows = np.array([features[list(tau.states[:-1]), list(tau.actions)].sum(axis=0) for tau in d.sample(4000, seed=0)])
    information = np.atleast_2d(np.cov(rows.T)) * STARTERS[kind].n_demos
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.all(np.abs(learned - STARTERS[kind].weights) < 4 * errors), (learned, errors)
    assert errors.max() < 0.5  # otherwise the comparison would say little


@pytest.mark.parametrize("kind", KINDS)
def test_rules_and_weights_matter(kind):
    """Without the rules most trajectories would break them; without the weights demonstrations would be less likely."""
    run(f"new mine.toml --world {kind}")
    problem = read_problem("mine.toml")
    free = xm.distribution(problem.world, None, problem.reward).sample(500, seed=0)
    assert np.mean([problem.constraint.accepts(tau) for tau in free]) < 0.6
    uniform = np.mean([problem.distribution().log_prob(tau) for tau in problem.demos()])
    assert report("fit mine.toml")["log_likelihood"] > uniform + 0.1


def test_the_same_files_every_time(folder):
    for name in ("one", "two"):
        (folder / name).mkdir()
        assert run(f"new {name}/grid.toml").exit_code == 0
    for file in (folder / "one").iterdir():
        assert file.read_bytes() == (folder / "two" / file.name).read_bytes()


def test_nothing_is_overwritten_without_force(folder):
    (folder / "grid_demos.csv").write_text("mine")
    refused = run("new grid.toml")
    assert refused.exit_code == 2
    assert "grid_demos.csv: already there" in refused.stderr
    assert [path.name for path in folder.iterdir()] == ["grid_demos.csv"]
    assert run("new grid.toml --force").exit_code == 0
    assert len(xm.read_demos("grid_demos.csv")) == STARTERS["grid"].n_demos


def test_the_weights_are_in_the_file_and_next_commands_are_printed(folder):
    said = run("new grid.toml").stdout
    for command in (
        "xmen check grid.toml",
        "xmen fit grid.toml",
        "xmen sample grid_model -n 5",
        "xmen plot grid_model",
    ):
        assert command in said
    text = (folder / "grid.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("# weights"))
    assert tuple(tomllib.loads(line.removeprefix("# "))["weights"]) == STARTERS["grid"].weights
    assert "{" + "stem}" not in text


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("new grid.txt", "a problem file ends in .toml"),
        ("new nowhere/grid.toml", "there is no folder 'nowhere'"),
        ("new grid.toml --world gird", "--world gird: there are starters for grid, table, graph"),
    ],
)
def test_mistakes(command, words):
    result = run(command)
    assert result.exit_code == 2
    assert words in result.stderr
