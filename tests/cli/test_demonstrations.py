"""The command line reads what it writes, learns from the valid ones if asked to, and ranks the most likely."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xmen as xm
from cli.commands import refused, report, run, told
from xmen.problem import read_problem
from xmen.worlds.tables import RecordedDemos

pytestmark = pytest.mark.usefixtures("folder")

AROUND = xm.Trajectory([0, 4, 8, 12, 13, 14, 15], [0, 0, 0, 1, 1, 1])  # without a key


def test_samples_are_demonstrations_in_every_form(folder):
    world = read_problem("p.toml").world
    expected = read_problem("p.toml").distribution(seed=4).sample(6)
    for command, file in (
        ("--out a.csv", "a.csv"),
        ("--out b.csv --names", "b.csv"),
        ("--out c.jsonl", "c.jsonl"),
        ("--out -", "d.csv"),
        ("--out - --names", "e.csv"),
        ("--json", "f.json"),
    ):
        answer = run(f"sample p.toml -n 6 --seed 4 {command}")
        assert (answer.exit_code, answer.stderr) == (0, "")
        if not (folder / file).exists():
            (folder / file).write_text(answer.stdout)
        assert xm.read_demos(file, world) == expected
        assert report(f"check p.toml {file}")["demonstrations"]["valid"] == 6
    assert (folder / "a.csv").read_text() == (folder / "d.csv").read_text()
    assert (folder / "b.csv").read_text() == (folder / "e.csv").read_text()
    assert (folder / "b.csv").read_text().startswith("demo,step,x,y,move\n0,0,0,0,")
    assert report("sample p.toml --out a.csv")["file"] == "a.csv"
    assert not (folder / "-").exists()


def test_invalid_demonstrations_can_be_left_out():
    good = xm.read_demos("demos.csv")
    xm.write_demos([AROUND, *good[:20], xm.Trajectory([0, 15], [0]), *good[20:]], "mixed.csv")
    fit = "fit p.toml mixed.csv --l2 0.1 --out m"
    refused(fit, code=1)
    found = report(f"{fit} --drop-invalid")
    assert [(one["demonstration"], one["constraint"]) for one in found["dropped"]] == [(0, "fetch a key"), (21, None)]
    assert found["demonstrations"] == len(good)
    assert found["weights"] == report("fit p.toml --l2 0.1 --out all")["weights"]
    said = told(f"{fit} --drop-invalid")
    for fact in ("2 demonstrations", "0: break 'fetch a key'", "21: not possible"):
        assert fact in said
    xm.write_demos([AROUND], "none.csv")
    refused("fit p.toml none.csv --drop-invalid", "none of the 1", code=1)


def test_demonstrations_have_one_name_everywhere():
    good = xm.read_demos("demos.csv")
    mixed = RecordedDemos([good[0], AROUND, good[1]], [{}] * 3, ["ann", "ben", "cy"])
    xm.write_demos(mixed, "mixed.csv")
    fit = "fit p.toml mixed.csv --l2 0.1 --out m"
    refused(fit, "demonstration ben", code=1)
    assert re.search(r"\bben\b", told("check p.toml mixed.csv", code=1))
    assert " ben: break 'fetch a key'" in told(f"{fit} --drop-invalid")
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration ben") as caught:
        xm.check_demos(read_problem("p.toml").world, mixed, xm.never(xm.at(4)))
    assert caught.value.index == 1


def test_tables_of_spreadsheets_are_read(folder):
    (folder / "t.toml").write_text(
        'format = 1\n[world]\nkind = "table"\nn_states = 2\nn_actions = 1\nstart = 0\nterminal = [1]\nhorizon = 3\n'
        'transitions = "t.csv"\n'
    )
    (folder / "t.csv").write_text("state;action;next_state;probability\n0;0;0;0,25\n0;0;1;0,75\n")
    assert read_problem("t.toml").world.probability.tolist() == [0.25, 0.75]


def test_fit_weighs_demonstrations_by_the_column_sample_weight():
    """A weight of 2 is the demonstration twice, and a weight of 0 is as good as none."""
    problem = read_problem("p.toml")
    demos = list(problem.demos())[:30]
    weights = [(0.0, 1.0, 2.0)[k % 3] for k in range(30)]
    repeated = [demo for demo, weight in zip(demos, weights, strict=True) for _ in range(int(weight))]
    xm.write_demos(RecordedDemos(demos, [{"sample_weight": w} for w in weights]), "weighted.csv", problem.world)
    xm.write_demos(repeated, "repeated.csv")
    one, other = (report(f"fit p.toml {name}.csv --l2 0.1 --out {name}") for name in ("weighted", "repeated"))
    assert one["weights"] == pytest.approx(other["weights"], abs=1e-6)


# --- a ranking instead of draws ---


@pytest.fixture
def weights(folder):
    features = 'features = ["steps", "diagonal"]'
    text = (folder / "p.toml").read_text().replace(features, f"{features}\nweights = [-0.5, 0.7]")
    (folder / "p.toml").write_text(text)


@pytest.mark.usefixtures("weights")
def test_the_most_likely_come_first():
    found = report("sample p.toml --best 4")
    d = read_problem("p.toml").distribution(engine="exact")
    taus = [xm.Trajectory(one["states"], one["actions"]) for one in found["trajectories"]]
    assert found["number"] == found["valid"] == 4
    assert found["log_prob"] == pytest.approx([d.log_prob(tau) for tau in taus])
    every = [d.log_prob(tau) for tau in {*d.sample(2000, seed=0)}]  # all of the few that there are
    assert np.exp(every).sum() == pytest.approx(1.0)
    assert found["log_prob"] == pytest.approx(sorted(every, reverse=True)[:4])


@pytest.mark.usefixtures("weights")
def test_it_goes_to_a_file_and_knows_extra_rules():
    told('sample p.toml --best 3 --also "never(diagonal)" --out best.csv')
    taus = xm.read_demos("best.csv")
    assert len(taus) == 3
    assert all(2 not in tau.actions for tau in taus)
