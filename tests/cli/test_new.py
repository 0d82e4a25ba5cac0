"""`xmen new`: starters that work from the first command on, for every kind of world."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

import xmen as xm
from cli.commands import refused, report, told
from xmen.cli.new import STARTERS
from xmen.problem import read_problem

each_kind = pytest.mark.parametrize("kind", STARTERS)


@each_kind
@pytest.mark.system
def test_the_first_five_minutes(kind, here):
    written = report(f"new mine.toml --world {kind}")["files"]
    assert sorted(written) == sorted(path.name for path in here.iterdir())
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
    told("plot mine_model")
    assert (here / "mine_model.png").stat().st_size > 10_000


@each_kind
def test_the_weights_that_made_the_demonstrations_are_found_again(kind):
    """Within four standard errors by the inverse of the information, so the true weights could have made these.

    Rules and weights matter: without the rules most trajectories would break them, and without the weights
    demonstrations would be less likely.
    """
    told(f"new mine.toml --world {kind}")
    problem, found = read_problem("mine.toml"), report("fit mine.toml")
    learned = np.array(list(found["weights"].values()))
    features = problem.reward.features
    d = problem.distribution().with_reward(features @ learned)
    rows = np.array([features[list(tau.states[:-1]), list(tau.actions)].sum(axis=0) for tau in d.sample(4000, seed=0)])
    information = np.atleast_2d(np.cov(rows.T)) * STARTERS[kind].n_demos
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.all(np.abs(learned - STARTERS[kind].weights) < 4 * errors), (learned, errors)
    assert errors.max() < 0.5  # otherwise the comparison would say little

    free = xm.distribution(problem.world, None, problem.reward).sample(500, seed=0)
    assert np.mean([problem.constraint.accepts(tau) for tau in free]) < 0.6
    uniform = np.mean([problem.distribution().log_prob(tau) for tau in problem.demos()])
    assert found["log_likelihood"] > uniform + 0.1


def test_the_same_files_every_time(here):
    for name in ("one", "two"):
        (here / name).mkdir()
        told(f"new {name}/grid.toml")
    for file in (here / "one").iterdir():
        assert file.read_bytes() == (here / "two" / file.name).read_bytes()


def test_nothing_is_overwritten_without_force(here):
    (here / "grid_demos.csv").write_text("mine")
    refused("new grid.toml", "grid_demos.csv: already there")
    assert [path.name for path in here.iterdir()] == ["grid_demos.csv"]
    told("new grid.toml --force")
    assert len(xm.read_demos("grid_demos.csv")) == STARTERS["grid"].n_demos


def test_the_weights_are_in_the_file_and_next_commands_are_printed(here):
    said = told("new grid.toml")
    for command in ("check grid.toml", "fit grid.toml", "sample grid_model -n 5", "plot grid_model"):
        assert f"xmen {command}" in said
    text = (here / "grid.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("# weights"))
    assert tuple(tomllib.loads(line.removeprefix("# "))["weights"]) == STARTERS["grid"].weights
    assert "{" + "stem}" not in text
