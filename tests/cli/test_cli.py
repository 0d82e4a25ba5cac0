"""The command line as a whole: help, real processes, samples, and a no where rules clash."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import xmen as xm
import xmen.cli
from cli.commands import refused, report, run, start, told
from cli.problems import COMMANDS, RULES
from waiting import DEADLINE
from xmen.problem import read_problem

pytestmark = pytest.mark.usefixtures("problems")


@pytest.mark.system
def test_documented_commands_run():
    commands = re.findall(r"^    xmen (.*?)(?:   .*)?$", xmen.cli.__doc__, re.M)
    assert len(commands) == 8
    for command in commands:
        result = run(command)
        assert result.exit_code == 0, (command, result.output)
        assert [line for line in result.output.splitlines() if len(line) > 80] == []


def test_the_command_is_installed_under_its_name():
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert pyproject["project"]["scripts"]["xmen"] == "xmen.cli:main"


@pytest.mark.parametrize("command", ["--help", "-h", "--version", *(f"{name} --help" for name in COMMANDS)])
def test_help(command):
    said = told(command)
    assert "xmen" in said
    assert "--help" not in command or command == "--help" or "Example:" in said


@pytest.mark.system
def test_a_real_process():
    """As a user runs it: no traceback, errors on stderr, exit codes."""
    for command, code, n_lines, said in (
        ("sample problem.toml -n 3 --seed 0", 0, 3, ""),
        ("sample clash.toml", 1, 0, "error: no trajectory"),
        ("check nowhere.toml", 2, 0, f"error: nowhere.toml: No such file or directory in {Path.cwd()}\n"),
    ):
        process = start(command)
        out, err = process.communicate(timeout=DEADLINE)
        assert (process.returncode, len(out.splitlines())) == (code, n_lines)
        assert err.startswith(said) if said else err == ""


@pytest.mark.system
def test_help_loads_nothing_slow():
    code = "import sys; from typer.testing import CliRunner; from xmen.cli.app import app\n"
    code += "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
    code += "print([m for m in ('numba', 'matplotlib', 'networkx', 'xmen.problem') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_samples_are_valid_and_the_seed_decides():
    problem = read_problem("problem.toml")
    found = report("sample problem.toml -n 20 --seed 3")
    samples = [xm.Trajectory(tau["states"], tau["actions"]) for tau in found["trajectories"]]
    assert len(samples) == found["number"] == 20
    xm.check_demos(problem.world, samples, problem.constraint)
    assert report("sample problem.toml -n 20 --seed 3") == found
    assert report("sample problem.toml -n 20 --seed 4") != found


def test_samples_are_printed_in_the_words_of_the_world(problems):
    assert run("sample problem.toml -n 1").output.startswith("(0, 0) ")
    (problems / "walk.csv").write_text("state,action,next_state,probability\n0,0,1,1\n1,1,2,1\n")
    (problems / "walk.toml").write_text(
        'format = 1\n[world]\nkind = "table"\ntransitions = "walk.csv"\nn_states = 3\nn_actions = 2\nstart = 0\n'
        "terminal = [2]\n"
    )
    assert run("sample walk.toml -n 1").output == "0 -0-> 1 -1-> 2\n"


def test_also_adds_rules_in_the_words_of_the_problem():
    world = read_problem("problem.toml").world
    command = 'sample problem.toml -n 30 --seed 0 --also "never(door)" --also "length() <= 7"'
    samples = [xm.Trajectory(tau["states"], tau["actions"]) for tau in report(command)["trajectories"]]
    assert all(world.state((3, 3)) not in tau.states and len(tau) <= 6 for tau in samples)
    refused("sample problem.toml --also 'never(key)'", "'never(key)'", code=1)


@pytest.mark.parametrize("command", ["sample clash.toml", "engines clash.toml"])
def test_rules_that_cannot_hold_together_are_a_no(command):
    answer = report(command, code=1)
    assert (answer["kind"], answer["conflict"]) == ("InfeasibleError", [RULES[0], "no keys"])
    refused(command, " ".join(answer["error"].split()), "2 constraints", code=1)


@pytest.mark.system
def test_a_reader_that_leaves_is_no_error():
    process = start("sample problem.toml -n 20000")
    assert process.stdout.readline().startswith("(0, 0) ")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141  # as shells say of other programs that write to `head`
    process.stderr.close()
