"""`xmen fit`: what is learned, saved and said, for every learner; and what is refused before any work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import PROBLEM, refused, report, run, told
from xmen.answers import make_learner
from xmen.cli._output import fit_progress
from xmen.problem import read_problem
from xmen.progress import Record

pytestmark = pytest.mark.usefixtures("folder")

NAMES = ["steps", "diagonal"]


def learned(problem, **settings):
    """What Python learns of a problem."""
    settings = {"l2": 0.1, **settings}
    return xm.XMEN(problem.world, problem.constraint, problem.reward.features, **settings).fit(problem.demos())


def content(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_the_command_is_the_library():
    found = report("fit p.toml --l2 0.1")
    problem = read_problem("p.toml")
    model = learned(problem)
    assert found["weights"] == dict(zip(NAMES, model.weights_.tolist(), strict=True))
    assert found["standard_errors"] == dict(zip(NAMES, model.standard_errors_.tolist(), strict=True))
    assert found["log_likelihood"] == pytest.approx(model.score(problem.demos()), rel=1e-12)
    assert (found["method"], found["converged"], found["interrupted"]) == ("exact", True, False)
    assert (found["iterations"], found["demonstrations"]) == (model.n_iter_, 60)


def test_the_folder_is_a_model_and_a_problem_with_the_learned_weights():
    weights = report("fit p.toml --out model")["weights"]
    assert set(content("model")) == {"model.safetensors", "problem.toml", "problem_demos.csv"}
    model, problem = xm.load("model"), read_problem("model/problem.toml")
    assert model.weights_.tolist() == problem.reward.weights.tolist() == list(weights.values())
    assert (model.checkpoint, model.resume, model.callback) == (None, False, None)
    assert problem.demos() == read_problem("p.toml").demos()
    assert model.sample(5, seed=2) == problem.distribution(seed=2).sample(5)
    told("check model/problem.toml")


def test_rules_that_are_usually_kept_are_checked_learned_and_saved(folder):
    """Before they have weights, too: what can be kept does not depend on them."""
    asked = [("soft", "usually(longest_repeat() <= 1)"), ("given", "usually(count(diagonal) >= 2, share=0.6)")]
    text = "".join(f'\n[[constraints]]\nname = "{name}"\nrule = "{rule}"\n' for name, rule in asked)
    (folder / "s.toml").write_text(PROBLEM + text)
    checked = report("check s.toml")
    assert checked["feasible"]
    assert not any("break" in note for note in checked["notes"])
    assert report("engines s.toml")["engine"] == "exact"
    found, problem = report("fit s.toml --l2 0.1 --out model"), read_problem("s.toml")
    model = learned(problem)
    assert found["rule_weights"] == model.rule_weights_
    assert list(found["rule_errors"].values()) == model.summary().standard_errors[-2:].tolist()
    assert "usually kept" in told("fit s.toml --l2 0.1 --out again")
    saved = read_problem("model/problem.toml").distribution()
    for tau in problem.demos()[:5]:
        assert saved.log_prob(tau) == pytest.approx(model.distribution().log_prob(tau), abs=1e-6)


def test_demonstrations_can_be_given():
    xm.write_demos(xm.read_demos("demos.csv")[:10], "ten.jsonl")
    assert report("fit p.toml ten.jsonl --l2 0.1")["demonstrations"] == 10
    assert len(read_problem("p_model/problem.toml").demos()) == 10


def test_what_is_printed():
    result = run("fit p.toml --l2 0.1")
    assert (result.exit_code, result.stderr) == (0, "")
    for word in ("xmen, method exact", "converged", "nats per demonstration, 1 in ", *NAMES, "p_model"):
        assert word in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_without_features_every_state_has_a_weight_and_the_largest_are_printed(folder):
    (folder / "p.toml").write_text(PROBLEM.replace('[reward]\nfeatures = ["steps", "diagonal"]', ""))
    said = told("fit p.toml --l2 0.1")
    assert "cell (" in said
    assert "4 more" in said
    assert len(report("fit p.toml --l2 0.1")["weights"]) == 16
    assert np.array_equal(xm.load("p_model").reward_.table(), read_problem("p_model/problem.toml").reward)


@pytest.mark.parametrize("method", ["exact", "cells", "paper"])
def test_methods(method):
    found = report(f"fit p.toml --method {method} --max-iter 8 --l2 0.1")
    assert found["method"] == method
    assert found["iterations"] == 8 or found["converged"]
    assert report("sample p_model -n 4")["valid"] == 4


def test_notes_speak_of_features_by_name(folder):
    (folder / "p.toml").write_text(PROBLEM.replace('"steps", "diagonal"', '"steps", "diagonal", "corner"'))
    said = run("fit p.toml").stderr
    assert "'steps'" in said
    assert "feature 0" not in said
    assert report("fit p.toml")["notes"]
    assert "note: " not in run("fit p.toml --l2 0.1").stderr


def test_patience_in_the_problem_file():
    assert make_learner("xmen", read_problem("p.toml")).patience == 10  # the learner's own
    Path("p.toml").write_text(PROBLEM.replace("seed = 1", "seed = 1\npatience = 3"))
    problem = read_problem("p.toml")
    assert make_learner("xmen", problem).patience == 3
    assert make_learner("xmen", problem, patience=7).patience == 7
    problem.write("again.toml")
    assert read_problem("again.toml").settings == problem.settings
    assert problem.distribution().log_partition() > 0.0
    Path("p.toml").write_text(PROBLEM.replace("seed = 1", "patience = 0"))
    with pytest.raises(xm.FileFormatError, match=r"\[settings\], patience: patience"):
        read_problem("p.toml")


def test_any_other_setting_is_set_by_its_name():
    found = report("fit p.toml --set tol=1.0 --set oracle=cadical --l2 0.1")
    assert found["iterations"] < report("fit p.toml --out near --l2 0.1")["iterations"]
    model = xm.load("p_model")
    assert (model.tol, model.oracle, model.engine.oracle) == (1.0, "cadical", "cadical")


# --- the baselines ---


def test_trajectories_of_maxent_that_break_the_rules_are_an_error_unless_asked_for(folder):
    assert "steps" in report("fit p.toml --learner maxent --l2 0.001")["weights"]
    drawn = report("sample p_model -n 200 --seed 0 --allow-invalid")
    assert 0 < drawn["valid"] < 200
    assert "MaxEntIRL" in run("sample p_model -n 50 --seed 0 --allow-invalid").stderr
    assert report('sample p_model -n 50 --also "visit(key)"')["valid"] == 50
    refused("sample p_model -n 200 --seed 0 --out samples.csv", "MaxEntIRL", "--allow-invalid", code=1)
    assert not (folder / "samples.csv").exists()
    assert "MaxEntIRL" in report("sample p_model -n 200 --seed 0", code=1)["error"]


def test_a_model_of_another_learner_is_replaced_only_by_force():
    told("fit p.toml --l2 0.1")
    before = content("p_model")
    refused("fit p.toml --learner maxent --l2 0.1", "XMEN", "MaxEntIRL", "--force")
    assert content("p_model") == before
    told("fit p.toml --learner maxent --l2 0.1 --force")
    assert isinstance(xm.load("p_model"), xm.MaxEntIRL)


def test_relative_entropy():
    found = report("fit p.toml --learner relative-entropy --seed 0")
    assert set(found["weights"]) == set(NAMES)
    assert "method" not in found
    assert report("sample p_model -n 3 --allow-invalid")["number"] == 3


def test_constraint_inference_prints_rules():
    grid = read_problem("p.toml").world
    shy = xm.distribution(grid, xm.never(grid.at((0, 3), (3, 0))) & xm.never(grid.at((1, 1))), seed=0).sample(100)
    xm.write_demos(shy, "shy.csv")
    found = report("fit p.toml shy.csv --learner constraint-inference")
    assert "never cell (1, 1)" in [one["name"] for one in found["constraints"]]
    assert "never cell (1, 1)" in told("fit p.toml shy.csv --learner constraint-inference")
    drawn = report("sample p_model -n 50 --allow-invalid")["trajectories"]
    assert all(grid.state((1, 1)) not in tau["states"] for tau in drawn)


# --- where it is written ---


def test_an_older_model_is_replaced_and_the_users_own_files_stay(folder):
    told("fit p.toml --l2 5")
    (folder / "p_model" / "notes.txt").write_text("mine")
    before = xm.load("p_model").weights_
    told("fit p.toml --l2 0.1")
    assert not np.array_equal(before, xm.load("p_model").weights_)
    assert (folder / "p_model" / "notes.txt").read_text() == "mine"


def test_the_model_of_another_problem_is_replaced_only_by_force(folder):
    told("fit p.toml --l2 0.1 --out model")
    before = content("model")
    changes = {
        "rules": ("visit(key)", "visit(corner)"),
        "events": ("corner = { cells = [[0, 3]", "corner = { cells = [[0, 2]"),
        "world": ("goal = [3, 3]", "goal = [3, 2]"),
        "features": ('"diagonal"]', '"corner"]'),
    }
    for part, (old, new) in changes.items():
        assert old in PROBLEM
        (folder / "other.toml").write_text(PROBLEM.replace(old, new))
        for resume in ("", " --resume"):
            files = "other.toml and model/problem.toml"
            refused(f"fit other.toml --out model{resume}", f"{files} differ in the {part}", "--force")
    assert content("model") == before
    # Demonstrations, settings and weights may differ: that is the same problem, asked again.
    (folder / "again.toml").write_text(PROBLEM.replace("seed = 1", "seed = 2"))
    told("fit again.toml --l2 0.2 --out model")
    told("fit other.toml --l2 0.1 --out model --force")
    assert list(report("fit other.toml --l2 0.1 --out model")["weights"]) == ["steps", "corner"]


@pytest.mark.parametrize("kind", ["table", "graph"])
def test_the_same_problem_is_known_again_in_other_worlds(kind):
    told(f"new q.toml --world {kind}")
    for _ in range(2):
        told("fit q.toml")
    refused("fit p.toml --out q_model", "the world and the events and the rules and the features")


def test_a_model_that_python_saved_is_replaced_only_by_force(folder):
    learned(read_problem("p.toml")).save("mine")
    refused("fit p.toml --out mine", "not written by xmen fit")
    told("fit p.toml --l2 0.1 --out mine --force")
    (folder / "mine" / "problem.toml").write_text("nonsense")
    refused("fit p.toml --out mine", "cannot be told")


def test_a_foreign_folder_is_left_alone(folder):
    (folder / "other").mkdir()
    (folder / "other" / "thesis.txt").write_text("years of work")
    refused("fit p.toml --out other", "other", "no xmen model")
    assert list(content("other")) == ["thesis.txt"]


def test_demonstrations_that_break_rules_are_a_no(folder):
    grid = read_problem("p.toml").world
    xm.write_demos([xm.Trajectory([grid.state((i, i)) for i in range(4)], [2] * 3)], "bad.csv")
    refused("fit p.toml bad.csv", "'fetch a key'", "xmen check p.toml", code=1)
    assert not (folder / "p_model").exists()


def test_a_model_that_python_saved_can_be_sampled():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    xm.XMEN(grid, xm.visit(grid.at((1, 1))), l2=0.1).fit([xm.Trajectory([0, 1, 4, 7, 8], [1, 0, 0, 1])]).save("mine")
    found = report('sample mine -n 5 --also "never(at((0, 1)))"')
    assert (found["model"], found["valid"]) == ("mine", 5)
    assert all(3 not in tau["states"] for tau in found["trajectories"])


def test_plain_lines_where_there_is_no_terminal(capsys):
    with fit_progress(total=9, plain_every=0.0) as progress:
        progress(Record(1, loss=2.0, gradient_norm=0.5, seconds=3.0))
    assert capsys.readouterr().err == "iteration 1 of 9: loss 2.00000, gradient 0.5, 3 s\n"


def test_what_a_promise_forbids_is_not_said_to_break_rules(folder):
    """No check would show it, and --drop-invalid would leave nothing out."""
    (folder / "p.toml").write_text(
        'format = 1\ndemonstrations = "d.csv"\n[world]\nkind = "grid"\nwidth = 3\nheight = 3\nstart = [0, 0]\n'
        "goal = [2, 2]\nhorizon = 8\nslip = 0.2\n[events]\nlava = { cells = [[1, 1]] }\n[[constraints]]\n"
        'name = "no lava"\nrule = "never(lava)"\n'
    )
    xm.write_demos(read_problem("p.toml").distribution(seed=0).sample(20), "d.csv")
    said = refused("fit p.toml --learner causal --validity best --out m", "best chance", "take such steps", code=1)
    assert "--drop-invalid" not in said


# --- demonstrations to validate with ---


@pytest.fixture
def held_out(folder):
    told("sample p.toml -n 30 --seed 9 --out held_out.csv")
    return xm.read_demos("held_out.csv")


def test_the_model_is_the_one_that_is_best_on_them(held_out):
    fit = "fit p.toml --validation held_out.csv --patience 2 --out m"
    found = report(fit)
    curve = found["validation_loss"]
    assert len(curve) == found["iterations"]
    assert found["best_iteration"] == curve.index(min(curve)) + 1
    assert -xm.load("m").score(held_out) == pytest.approx(min(curve))
    said = told(fit)
    assert f"best at iteration {found['best_iteration']}" in said
    assert f"{min(curve):.4f} nats" in said
    assert ("a larger --patience" in said) == (found["best_iteration"] < found["iterations"])
    told("plot m --what history --out history.png")


def test_a_problem_file_names_them_and_a_model_takes_them_along(held_out):
    text = Path("p.toml").read_text()
    Path("p.toml").write_text(text.replace('"demos.csv"', '"demos.csv"\nvalidation = "held_out.csv"'))
    assert "best_iteration" in report("fit p.toml --out m --patience 3")
    inside = read_problem("m/problem.toml")
    assert inside.validation == Path("m", "problem_validation.csv")
    assert inside.validation_demos() == held_out


def test_what_is_wrong_with_them_is_said():
    Path("bad.csv").write_text("trajectory,step,state,action\n0,0,0,0\n0,1,15,\n")
    said = refused(
        "fit p.toml --validation bad.csv --out m", "validation: demonstration 0", "xmen check p.toml bad.csv", code=1
    )
    assert "--drop-invalid" not in said
    assert not Path("m").exists()
