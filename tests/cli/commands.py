"""Commands as tests give them: in this process, or as a process of their own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

import xmen as xm
from problem.files import grid_problem
from xmen.cli.app import app
from xmen.problem import read_problem

PROBLEM = (
    grid_problem(4, "up", "right", "up-right")
    + """
[events]
key = { cells = [[1, 2], [2, 1]] }
corner = { cells = [[0, 3], [3, 0]] }
diagonal = { moves = ["up-right"] }

[[constraints]]
name = "fetch a key"
rule = "visit(key)"

[reward]
features = ["steps", "diagonal"]

[settings]
seed = 1
"""
)


def run(command: str) -> Result:
    """The command in this process; the answer has exit_code, stdout and stderr."""
    return CliRunner().invoke(app, shlex.split(command), prog_name="xmen")


def report(command: str, code: int = 0) -> dict:
    """What the command says with --json."""
    result = run(f"{command} --json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def told(command: str, code: int = 0) -> str:
    """All that the command prints, on one line."""
    result = run(command)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def refused(command: str, *facts: str, code: int = 2) -> str:
    """What stderr says about a mistake (2) or a no (1), on one line, which has these facts; stdout says nothing."""
    result = run(command)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert isinstance(result.exception, SystemExit)
    assert re.search("^error: ", result.stderr, re.MULTILINE)
    assert "did not expect" not in result.stderr
    said = " ".join(result.stderr.split())
    assert [fact for fact in facts if fact not in said] == [], said
    return said


def start(command: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """The command as a process of its own, as a user runs it."""
    arguments = [sys.executable, "-m", "xmen.cli", *shlex.split(command)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)


def write_problem(folder: Path) -> None:
    """p.toml with the problem above, and demonstrations of a known taste."""
    (folder / "p.toml").write_text(PROBLEM)
    problem = read_problem(folder / "p.toml")
    d = problem.distribution().with_reward(problem.reward.features @ [-0.5, 0.7])
    xm.write_demos(d.sample(60, seed=0), folder / "demos.csv")
