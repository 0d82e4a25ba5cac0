"""`xmen sample --best`: a ranking instead of draws."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from cli.commands import report, run, write_problem
from xmen.problem import read_problem


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    features = 'features = ["steps", "diagonal"]'
    text = (tmp_path / "p.toml").read_text().replace(features, f"{features}\nweights = [-0.5, 0.7]")
    (tmp_path / "p.toml").write_text(text)
    return tmp_path


def test_the_most_likely_come_first(folder):
    found = report("sample p.toml --best 4")
    d = read_problem("p.toml").distribution(engine="exact")
    taus = [xm.Trajectory(one["states"], one["actions"]) for one in found["trajectories"]]
    assert found["number"] == found["valid"] == 4
    assert found["log_prob"] == pytest.approx([d.log_prob(tau) for tau in taus])
    every = [d.log_prob(tau) for tau in {*d.sample(2000, seed=0)}]  # all of the few that there are
    assert np.exp(every).sum() == pytest.approx(1.0)
    assert found["log_prob"] == pytest.approx(sorted(every, reverse=True)[:4])


def test_it_goes_to_a_file_and_knows_extra_rules(folder):
    assert run('sample p.toml --best 3 --also "never(diagonal)" --out best.csv').exit_code == 0
    taus = xm.read_demos("best.csv")
    assert len(taus) == 3
    assert all(2 not in tau.actions for tau in taus)
    result = run("sample p.toml --best 2 --engine xor")
    assert result.exit_code == 2
    assert "engine='exact'" in result.stderr
