"""`xmen fit --validation FILE`, and `validation = ` in a problem file."""

from __future__ import annotations

from pathlib import Path

import pytest

import xmen as xm
from cli.commands import report, run, write_problem
from xmen.problem import read_problem


@pytest.fixture(autouse=True)
def problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    assert run("sample p.toml -n 30 --seed 9 --out held_out.csv").exit_code == 0


def test_the_model_is_the_one_that_is_best_on_them(tmp_path: Path) -> None:
    found = report("fit p.toml --validation held_out.csv --patience 2 --out m")
    curve = found["validation_loss"]
    assert len(curve) == found["iterations"]
    assert found["best_iteration"] == curve.index(min(curve)) + 1
    model = xm.load(tmp_path / "m")
    assert -model.score(xm.read_demos("held_out.csv")) == pytest.approx(min(curve))
    said = " ".join(run("fit p.toml --validation held_out.csv --patience 2 --out m").output.split())
    assert f"best at iteration {found['best_iteration']}, whose weights these are: {min(curve):.4f} nats" in said
    assert ("--resume and a larger --patience goes on" in said) == (found["best_iteration"] < found["iterations"])
    assert run("plot m --what history --out history.png").exit_code == 0


def test_a_problem_file_names_them_and_a_model_takes_them_along(tmp_path: Path) -> None:
    text = Path("p.toml").read_text()
    Path("p.toml").write_text(text.replace('"demos.csv"', '"demos.csv"\nvalidation = "held_out.csv"'))
    found = report("fit p.toml --out m --patience 3")
    assert "best_iteration" in found
    inside = read_problem(tmp_path / "m" / "problem.toml")
    assert inside.validation == tmp_path / "m" / "problem_validation.csv"
    assert inside.validation_demos() == xm.read_demos("held_out.csv")


def test_what_is_wrong_with_them_is_said(tmp_path: Path) -> None:
    Path("bad.csv").write_text("trajectory,step,state,action\n0,0,0,0\n0,1,15,\n")
    refused = run("fit p.toml --validation bad.csv --out m")
    assert refused.exit_code == 1
    said = " ".join(refused.output.split())
    assert "validation: demonstration 0" in said
    assert "xmen check p.toml bad.csv shows everything" in said
    assert "--drop-invalid" not in said
    assert not (tmp_path / "m").exists()
    assert "--patience is for validation" in run("fit p.toml --patience 3 --out m").output
    text = " ".join(run("fit p.toml --learner relative-entropy --validation held_out.csv").output.split())
    assert "--validation is no option of --learner relative-entropy" in text
