"""`xmen plan`, causal fits, and what `xmen check` says of policies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import PROBLEM, refused, report, run, told
from xmen.answers import ARROWS
from xmen.cli.sample import walk_text
from xmen.problem import Problem, Settings, read_problem


@pytest.fixture
def slippery(here: Path) -> Path:
    """The problem with moves that go astray, and a rule that this may break."""
    text = PROBLEM.replace('"up-right"]\n\n[events]', '"up-right"]\nslip = 0.2\n\n[events]')
    text += '\n[[constraints]]\nname = "no corner"\nrule = "never(corner)"\n'
    assert "slip" in text
    file = here / "p.toml"
    file.write_text(text)
    xm.write_demos(read_problem(file).plan(validity=0.6, seed=0).rollout(80), "demos.csv")
    return file


def test_what_a_policy_promises_and_what_was_counted(slippery: Path) -> None:
    found = report("plan p.toml --validity 0.8 --rollouts 4000 --seed 1")
    assert found["asked"] == 0.8
    assert found["validity"] == pytest.approx(0.8, abs=1e-6)
    counted = found["rollouts"]
    assert counted["number"] == 4000
    assert abs(counted["share"] - found["validity"]) < 4 * counted["std"]
    assert set(found["breaks"]) == {"fetch a key", "no corner"}
    shown = told("plan p.toml --validity best --rollouts 10")
    assert "validity" in shown
    assert "no corner" in shown


def test_a_course_of_action(slippery: Path) -> None:
    found = report("plan p.toml --validity best --episodes 200 --seed 1")
    policy = read_problem(slippery).plan(validity="best")
    likeliest = xm.Trajectory(found["likeliest"]["states"], found["likeliest"]["actions"])
    assert likeliest == policy.mode()
    chance = policy.log_prob(likeliest) + policy.world.log_dynamics(likeliest)
    assert found["likeliest"]["probability"] == pytest.approx(np.exp(chance))
    played = found["episodes"]
    assert len(played) == 200
    rules = read_problem(slippery).rules
    for one in played:
        tau = xm.Trajectory(one["states"], one["actions"])
        assert one["arrives"] == (policy.world.problem(tau) is None)
        assert one["breaks"] == [name for name, rule in rules.items() if not rule.accepts(tau)]
    assert {bool(one["breaks"]) for one in played} == {True, False}
    shown = run("plan p.toml --validity best --episodes 2 --seed 1").stdout
    assert f"{walk_text(policy.world, likeliest)} (keeps all rules)" in shown
    assert "(breaks '" in run("plan p.toml --validity best --episodes 200 --seed 1").stdout
    lines = shown.splitlines()
    below = lines.index("   0 1 2 3")
    assert lines[below - 1][3] == ARROWS[policy.world.moves[likeliest.actions[0]]]
    assert lines[below - 4][-1] == "*"


def test_a_promise_that_cannot_be_kept(slippery: Path) -> None:
    found = report("plan p.toml", code=1)  # the problem asks for nothing: sure
    assert found["kind"] == "InfeasibleError"
    assert report("plan p.toml --validity best")["validity"] == pytest.approx(found["best"])
    refused("plan p.toml", "every action can fail", code=1)


def test_check_says_whether_a_sure_policy_exists(slippery: Path) -> None:
    found = report("check p.toml", code=1)["policy"]  # some demonstrations failed
    assert found["sure"] is False
    assert 0.6 < found["best"] < 1.0
    assert "no: from cell (0, 0)" in told("check p.toml", code=1)


@pytest.mark.usefixtures("slippery")
def test_a_causal_fit_is_sampled_and_planned() -> None:
    fitted = report("fit p.toml --learner causal --validity 0.6 --l2 0.01 --out model")
    assert fitted["learner"] == "causal"
    assert set(fitted["weights"]) == {"steps", "diagonal"}
    planned = report("plan model --out policy")
    assert planned["asked"] == 0.6
    assert xm.load("policy").validity == planned["validity"] >= 0.6 - 1e-9
    drawn = report("sample model -n 200 --seed 0")
    assert drawn["engine"] == "policy"
    assert 80 < drawn["valid"] <= 200
    assert report("plan model --validity 0.7 --also 'count(key) <= 1'")["validity"] >= 0.7 - 1e-9
    refused("sample model --engine exact", "--engine")
    shown = report("plot model --out model.png")  # also where demonstrations failed
    assert any("the model's policy" in title for title in shown["panels"])
    for command in ("sample policy", "plot policy", "plan policy"):
        refused(command, "policy is a policy")


def test_a_fit_without_an_optimum_is_not_told_to_go_on(slippery: Path) -> None:
    """Diagonals only, which never slipped: no policy has as few steps. Another, stopped early, is told how to go on."""
    xm.write_demos([xm.Trajectory([0, 5, 10, 15], [2, 2, 2])] * 10, "lucky.csv")
    said = told("fit p.toml lucky.csv --learner causal --validity 0.5 --out endless")
    assert "not converged" in said
    assert "run to infinity" in said
    assert "--resume" not in said
    assert not Path("endless/last_state.safetensors").exists()
    early = "fit p.toml --learner causal --validity 0.6 --l2 0.01 --max-iter 1 --out early"
    assert "--resume and a larger --max-iter" in told(early)
    assert Path("early/last_state.safetensors").exists()


def test_failed_episodes_belong_to_a_causal_fit(slippery: Path) -> None:
    """`--drop-invalid` leaves out what cannot happen, and no failure; what ran out of time is called so."""
    slippery.write_text(slippery.read_text().replace("slip = 0.2", "slip = 0.2\nhorizon = 5"))
    problem = read_problem(slippery)
    stayed = next(tau for tau in problem.plan(validity=0.0, seed=0).rollout(10_000) if problem.world.unfinished(tau))
    fine = [tau for tau in xm.read_demos("demos.csv") if problem.world.problem(tau) is None]
    xm.write_demos([stayed, xm.Trajectory([0, 15], [0]), *fine], "mixed.csv")
    refused("fit p.toml mixed.csv", "demonstration 0", "5 actions", "--learner causal", "--validity best", code=1)
    fitted = report("fit p.toml mixed.csv --drop-invalid --learner causal --validity 0.5 --l2 0.1 --out m")
    assert [one["demonstration"] for one in fitted["dropped"]] == [1]
    assert fitted["demonstrations"] == len(fine) + 1
    checked = report("check p.toml mixed.csv", code=1)
    assert {(one["constraint"], one.get("unfinished")) for one in checked["demonstrations"]["broken"]} >= {
        (None, True),
        (None, None),
    }
    assert any("--learner causal" in note and "--validity" in note for note in checked["notes"])
    assert "arriving in time" in told("check p.toml mixed.csv", code=1)


@pytest.mark.usefixtures("slippery")
def test_settings_are_spelled_as_options() -> None:
    said = refused("fit p.toml --learner causal --validity best", "--validity 0.9", code=1)
    assert "validity=" not in said
    assert "--validity 0.9" in told("fit p.toml --learner causal --validity 0.9 --l2 0.01 --out m")


@pytest.mark.usefixtures("slippery")
def test_lucky_outcomes_are_called_so() -> None:
    assert "lucky outcomes" in run("sample p.toml -n 2").stderr


def test_the_problem_may_say_it(slippery: Path) -> None:
    slippery.write_text(slippery.read_text().replace("seed = 1", 'seed = 1\nvalidity = "best"'))
    assert report("plan p.toml")["asked"] == "best"
    read_problem(slippery).write("again.toml")
    assert read_problem("again.toml").settings == Settings(seed=1, validity="best")
    slippery.write_text(slippery.read_text().replace('"best"', "1.5"))
    with pytest.raises(xm.FileFormatError, match=r"\[settings\], validity: .*'sure', 'best'.*1\.5"):
        read_problem(slippery)


def test_problems_plan_in_python() -> None:
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    problem = Problem(grid, rules={"middle": xm.visit(grid.at((1, 1)))})
    assert problem.plan().validity == 1.0
    assert problem.plan(also=xm.never(grid.at((0, 1)))).validity == 1.0
