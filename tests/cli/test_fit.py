"""`xmen fit`: what is learned, saved and said, for every learner; and what is refused before any work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import PROBLEM, report, run, write_problem
from xmen.cli._output import fit_progress
from xmen.problem import read_problem
from xmen.progress import Record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    return tmp_path


def test_the_command_is_the_library(folder):
    found = report("fit p.toml --l2 0.1")
    problem = read_problem("p.toml")
    model = xm.XMEN(problem.world, problem.constraint, problem.reward.features, l2=0.1).fit(problem.demos())
    assert found["weights"] == dict(zip(["steps", "diagonal"], model.weights_.tolist(), strict=True))
    assert found["standard_errors"] == dict(zip(["steps", "diagonal"], model.standard_errors_.tolist(), strict=True))
    assert found["log_likelihood"] == pytest.approx(model.score(problem.demos()), rel=1e-12)
    assert (found["method"], found["converged"], found["interrupted"]) == ("exact", True, False)
    assert (found["iterations"], found["demonstrations"]) == (model.n_iter_, 60)


def test_the_folder_is_a_model_and_a_problem_with_the_learned_weights(folder):
    weights = report("fit p.toml --out model")["weights"]
    assert {path.name for path in (folder / "model").iterdir()} == {
        "model.safetensors",
        "problem.toml",
        "problem_demos.csv",
    }
    model, problem = xm.load("model"), read_problem("model/problem.toml")
    assert model.weights_.tolist() == problem.reward.weights.tolist() == list(weights.values())
    assert (model.checkpoint, model.resume, model.callback) == (None, False, None)
    assert problem.demos() == read_problem("p.toml").demos()
    assert model.sample(5, seed=2) == problem.distribution(seed=2).sample(5)
    assert run("check model/problem.toml").exit_code == 0


def test_rules_that_are_usually_kept_are_checked_learned_and_saved(folder):
    """Before they have weights, too: what can be kept does not depend on them."""
    asked = [("soft", "usually(longest_repeat() <= 1)"), ("given", "usually(count(diagonal) >= 2, share=0.6)")]
    text = "".join(f'\n[[constraints]]\nname = "{name}"\nrule = "{rule}"\n' for name, rule in asked)
    (folder / "s.toml").write_text((folder / "p.toml").read_text() + text)
    checked = report("check s.toml")
    assert checked["feasible"]
    assert not any("break" in note for note in checked["notes"])
    assert report("engines s.toml")["engine"] == "exact"
    found, problem = report("fit s.toml --l2 0.1 --out model"), read_problem("s.toml")
    model = xm.XMEN(problem.world, problem.constraint, problem.reward.features, l2=0.1).fit(problem.demos())
    assert found["rule_weights"] == model.rule_weights_
    assert list(found["rule_errors"].values()) == model.summary().standard_errors[-2:].tolist()
    assert "usually kept" in run("fit s.toml --l2 0.1 --out again").output
    saved = read_problem("model/problem.toml").distribution()
    for tau in problem.demos()[:5]:
        assert saved.log_prob(tau) == pytest.approx(model.distribution().log_prob(tau), abs=1e-6)


def test_demonstrations_can_be_given(folder):
    xm.write_demos(xm.read_demos("demos.csv")[:10], "ten.jsonl")
    assert report("fit p.toml ten.jsonl --l2 0.1")["demonstrations"] == 10
    assert len(read_problem("p_model/problem.toml").demos()) == 10


def test_what_is_printed(folder):
    result = run("fit p.toml --l2 0.1")
    assert result.exit_code == 0
    for word in (
        "xmen, method exact",
        "converged",
        "nats per demonstration",
        "nats per demonstration, 1 in ",
        "steps",
        "diagonal",
        "p_model",
    ):
        assert word in result.stdout
    assert result.stderr == ""
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_without_features_every_state_has_a_weight_and_the_largest_are_printed(folder):
    (folder / "p.toml").write_text(PROBLEM.replace('[reward]\nfeatures = ["steps", "diagonal"]', ""))
    result = run("fit p.toml --l2 0.1")
    assert "cell (" in result.stdout
    assert "4 more: see --json" in result.stdout
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
    result = run("fit p.toml")
    assert "'steps'" in result.stderr
    assert "feature 0" not in result.stderr
    assert report("fit p.toml")["notes"]
    assert "note: " not in run("fit p.toml --l2 0.1").stderr


# --- the baselines ---


def test_maxent_knows_no_rules_and_says_so(folder):
    found = report("fit p.toml --learner maxent --l2 0.001")
    assert "steps" in found["weights"]
    drawn = report("sample p_model -n 200 --seed 0 --allow-invalid")
    assert 0 < drawn["valid"] < 200
    assert "MaxEntIRL knows no rules" in run("sample p_model -n 50 --seed 0 --allow-invalid").stderr
    assert report('sample p_model -n 50 --also "visit(key)"')["valid"] == 50


def test_trajectories_that_break_the_rules_are_an_error_unless_asked_for(folder):
    run("fit p.toml --learner maxent --l2 0.001")
    refused = run("sample p_model -n 200 --seed 0 --out samples.csv")
    assert refused.exit_code == 1
    assert "MaxEntIRL knows no rules" in refused.stderr
    assert not (folder / "samples.csv").exists()
    assert "break a rule" in report("sample p_model -n 200 --seed 0", code=1)["error"]


def test_a_model_of_another_learner_is_replaced_only_by_force(folder):
    run("fit p.toml --l2 0.1")
    before = {path.name: path.read_bytes() for path in (folder / "p_model").iterdir()}
    refused = run("fit p.toml --learner maxent --l2 0.1")
    assert refused.exit_code == 2
    assert "XMEN" in refused.stderr
    assert "MaxEntIRL" in refused.stderr
    assert "--force" in refused.stderr
    assert {path.name: path.read_bytes() for path in (folder / "p_model").iterdir()} == before
    assert run("fit p.toml --learner maxent --l2 0.1 --force").exit_code == 0
    assert isinstance(xm.load("p_model"), xm.MaxEntIRL)


def test_relative_entropy(folder):
    found = report("fit p.toml --learner relative-entropy --seed 0")
    assert set(found["weights"]) == {"steps", "diagonal"}
    assert "method" not in found
    assert report("sample p_model -n 3 --allow-invalid")["number"] == 3


def test_constraint_inference_prints_rules(folder):
    grid = read_problem("p.toml").world
    shy = xm.distribution(grid, xm.never(grid.at((0, 3), (3, 0))) & xm.never(grid.at((1, 1))), seed=0).sample(100)
    xm.write_demos(shy, "shy.csv")
    found = report("fit p.toml shy.csv --learner constraint-inference")
    assert "never cell (1, 1)" in [one["name"] for one in found["constraints"]]
    assert "never cell (1, 1)" in run("fit p.toml shy.csv --learner constraint-inference").stdout
    drawn = report("sample p_model -n 50 --allow-invalid")["trajectories"]
    assert all(grid.state((1, 1)) not in tau["states"] for tau in drawn)


# --- where it is written ---


def test_an_older_model_is_replaced_and_the_users_own_files_stay(folder):
    run("fit p.toml --l2 5")
    (folder / "p_model" / "notes.txt").write_text("mine")
    before = xm.load("p_model").weights_
    assert run("fit p.toml --l2 0.1").exit_code == 0
    assert not np.array_equal(before, xm.load("p_model").weights_)
    assert (folder / "p_model" / "notes.txt").read_text() == "mine"


def test_the_model_of_another_problem_is_replaced_only_by_force(folder):
    run("fit p.toml --l2 0.1 --out model")
    before = {path.name: path.read_bytes() for path in (folder / "model").iterdir()}
    changes = {
        "rules": ("visit(key)", "visit(corner)"),
        "events": ("corner = { cells = [[0, 3]", "corner = { cells = [[0, 2]"),
        "features": ('"diagonal"]', '"corner"]'),
        "world": ("goal = [3, 3]", "goal = [3, 2]"),
    }
    for part, (old, new) in changes.items():
        assert old in PROBLEM
        (folder / "other.toml").write_text(PROBLEM.replace(old, new))
        for resume in ("", " --resume"):
            result = run(f"fit other.toml --out model{resume}")
            assert result.exit_code == 2
            words = " ".join(result.stderr.split())
            assert f"other.toml and model/problem.toml differ in the {part}" in words
            assert "--force" in words
    assert {path.name: path.read_bytes() for path in (folder / "model").iterdir()} == before
    # Demonstrations, settings and weights may differ: that is the same problem, asked again.
    (folder / "again.toml").write_text(PROBLEM.replace("seed = 1", "seed = 2").replace("[settings]", "[settings]"))
    assert run("fit again.toml --l2 0.2 --out model").exit_code == 0
    (folder / "other.toml").write_text(PROBLEM.replace('"diagonal"]', '"corner"]'))
    assert run("fit other.toml --l2 0.1 --out model --force").exit_code == 0
    assert list(report("fit other.toml --l2 0.1 --out model")["weights"]) == ["steps", "corner"]


@pytest.mark.parametrize("kind", ["table", "graph"])
def test_the_same_problem_is_known_again_in_other_worlds(kind):
    run(f"new q.toml --world {kind}")
    for _ in range(2):
        assert run("fit q.toml").exit_code == 0
    result = run("fit p.toml --out q_model")
    assert "differ in the world and the events and the rules and the features" in result.stderr


def test_a_model_that_python_saved_is_replaced_only_by_force(folder):
    problem = read_problem("p.toml")
    xm.XMEN(problem.world, problem.constraint, problem.reward.features, l2=0.1).fit(problem.demos()).save("mine")
    result = run("fit p.toml --out mine")
    assert result.exit_code == 2
    assert "not written by xmen fit" in result.stderr
    assert run("fit p.toml --l2 0.1 --out mine --force").exit_code == 0
    (folder / "mine" / "problem.toml").write_text("nonsense")
    assert "cannot be told" in run("fit p.toml --out mine").stderr


def test_a_foreign_folder_is_left_alone(folder):
    (folder / "other").mkdir()
    (folder / "other" / "thesis.txt").write_text("years of work")
    result = run("fit p.toml --out other")
    assert result.exit_code == 2
    assert "holds other things and no xmen model" in result.stderr
    assert [path.name for path in (folder / "other").iterdir()] == ["thesis.txt"]


def test_demonstrations_that_break_rules_are_a_no(folder):
    grid = read_problem("p.toml").world
    xm.write_demos([xm.Trajectory([grid.state((i, i)) for i in range(4)], [2] * 3)], "bad.csv")
    result = run("fit p.toml bad.csv")
    assert result.exit_code == 1
    assert "'fetch a key'" in result.stderr
    assert "xmen check p.toml" in result.stderr
    assert not (folder / "p_model").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit nowhere.toml", "nowhere.toml: No such file"),
        ("fit .", "is a folder, not a problem file"),
        ("fit p.toml nowhere.csv", "nowhere.csv: No such file"),
        ("fit bare.toml", "names no demonstrations"),
        ("fit p.toml --learner xman", "did you mean 'xmen'?"),
        ("fit p.toml --method exakt", "did you mean 'exact'?"),
        ("fit p.toml --method newton", "unknown method 'newton': choose one of 'auto'"),
        ("fit p.toml --learner maxent --method cells", "--method is no option of --learner maxent"),
        ("fit p.toml --learner relative-entropy --l2 1", "--l2 is no option of --learner relative-entropy"),
        ("fit p.toml --learner constraint-inference --resume", "--resume is no option"),
        ("fit p.toml --out p.toml", "this is a file; a model is a folder"),
        ("fit p.toml --out no/where", "there is no folder 'no'"),
        ("fit unknown.toml", "unknown feature 'stps'; did you mean 'steps'?"),
        ("sample empty", "model.safetensors cannot be read"),
        ("sample nowhere", "nowhere: No such file"),
    ],
)
def test_mistakes(folder, command, words):
    (folder / "bare.toml").write_text(PROBLEM.replace('demonstrations = "demos.csv"', ""))
    (folder / "unknown.toml").write_text(PROBLEM.replace('"steps"', '"stps"'))
    (folder / "empty").mkdir()
    result = run(command)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stdout == ""


@pytest.mark.parametrize("option", ["--l2 -1", "--max-iter 0", "--seed -1", "--l2 x"])
def test_usage_errors(option):
    assert run(f"fit p.toml {option}").exit_code == 2


def test_a_model_that_python_saved_can_be_sampled(folder):
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    xm.XMEN(grid, xm.visit(grid.at((1, 1))), l2=0.1).fit([xm.Trajectory([0, 1, 4, 7, 8], [1, 0, 0, 1])]).save("mine")
    found = report('sample mine -n 5 --also "never(at((0, 1)))"')
    assert (found["model"], found["valid"]) == ("mine", 5)
    assert all(3 not in tau["states"] for tau in found["trajectories"])


def test_plain_lines_where_there_is_no_terminal(capsys):
    with fit_progress(total=9, plain_every=0.0) as progress:
        progress(Record(1, loss=2.0, gradient_norm=0.5, seconds=3.0))
    assert capsys.readouterr().err == "iteration 1 of 9: loss 2.00000, gradient 0.5, 3 s\n"


def test_what_a_promise_forbids_is_not_said_to_break_rules(tmp_path, monkeypatch):
    """No check would show it, and --drop-invalid would leave nothing out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(
        'format = 1\ndemonstrations = "d.csv"\n[world]\nkind = "grid"\nwidth = 3\nheight = 3\nstart = [0, 0]\n'
        "goal = [2, 2]\nhorizon = 8\nslip = 0.2\n[events]\nlava = { cells = [[1, 1]] }\n[[constraints]]\n"
        'name = "no lava"\nrule = "never(lava)"\n'
    )
    xm.write_demos(read_problem("p.toml").distribution(seed=0).sample(20), "d.csv")
    refused = run("fit p.toml --learner causal --validity best --out m")
    said = " ".join(refused.output.split())
    assert refused.exit_code == 1
    assert "less than the best chance of keeping the rules" in said
    assert "demonstrations take such steps: " in said
    assert "--drop-invalid" not in said
