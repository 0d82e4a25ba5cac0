"""The command line as a whole: help, real processes, samples, exit codes, and no traceback after a mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import xmen as xm
import xmen.cli
from cli.commands import report, run
from cli.problems import COMMANDS, PROBLEM, RULES
from xmen.problem import read_problem

pytestmark = pytest.mark.usefixtures("folder")


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
    result = run(command)
    assert result.exit_code == 0
    assert "xmen" in result.output
    assert "--help" not in command or command == "--help" or "Example:" in result.output


@pytest.mark.system
def test_a_real_process(folder):
    """As a user runs it: no traceback, errors on stderr, exit codes."""

    def process(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "xmen.cli", *arguments], capture_output=True, text=True, check=False
        )

    good = process("sample", "problem.toml", "-n", "3", "--seed", "0")
    assert (good.returncode, good.stderr) == (0, "")
    assert len(good.stdout.splitlines()) == 3
    clash = process("sample", "clash.toml")
    assert (clash.returncode, clash.stdout) == (1, "")
    assert clash.stderr.startswith("error: no trajectory")
    missing = process("check", "nowhere.toml")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == f"error: nowhere.toml: No such file or directory in {Path.cwd()}\n"


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


def test_samples_go_to_a_file_that_check_accepts():
    for name in ("out.csv", "out.jsonl"):
        assert run(f"sample problem.toml -n 7 --seed 0 --out {name}").exit_code == 0
        assert len(xm.read_demos(name)) == 7
        assert run(f"check problem.toml {name}").exit_code == 0
    assert xm.read_demos("out.csv") == xm.read_demos("out.jsonl")
    assert report("sample problem.toml --out out.csv")["file"] == "out.csv"


def test_samples_are_printed_as_csv(folder):
    result = run("sample problem.toml -n 7 --seed 0 --out -")
    assert (result.exit_code, result.stderr) == (0, "")
    run("sample problem.toml -n 7 --seed 0 --out out.csv")
    assert result.stdout == (folder / "out.csv").read_text()
    assert not (folder / "-").exists()


def test_samples_are_printed_in_the_words_of_the_world(folder):
    assert run("sample problem.toml -n 1").output.startswith("(0, 0) ")
    (folder / "walk.csv").write_text("state,action,next_state,probability\n0,0,1,1\n1,1,2,1\n")
    (folder / "walk.toml").write_text(
        'format = 1\n[world]\nkind = "table"\ntransitions = "walk.csv"\nn_states = 3\nn_actions = 2\nstart = 0\n'
        "terminal = [2]\n"
    )
    assert run("sample walk.toml -n 1").output == "0 -0-> 1 -1-> 2\n"


def test_also_adds_rules_in_the_words_of_the_problem():
    world = read_problem("problem.toml").world
    command = 'sample problem.toml -n 30 --seed 0 --also "never(door)" --also "length() <= 7"'
    samples = [xm.Trajectory(tau["states"], tau["actions"]) for tau in report(command)["trajectories"]]
    assert all(world.state((3, 3)) not in tau.states and len(tau) <= 6 for tau in samples)
    clash = run("sample problem.toml --also 'never(key)'")
    assert clash.exit_code == 1
    assert "'never(key)'" in clash.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("check nowhere.toml", "nowhere.toml: No such file"),
        ("check problem.toml nowhere.csv", "nowhere.csv: No such file"),
        ("check problem.toml problem.toml", "demonstrations are .csv or .jsonl files"),
        ("check problem.toml empty.csv", "there are no demonstrations"),
        ("check broken.toml", "did you mean `key`?\n    visit(kee)\n          ^"),
        ("check old.toml", "this version of xmen reads format 1"),
        ("engines .", "error: "),
        ("engines broken.toml", "broken.toml, [[constraints]] number 1 ('r'), rule"),
        ("engines problem.toml --engine exakt", "unknown engine 'exakt'"),
        ("engines problem.toml --limit 0", "--limit 0: give seconds above 0"),
        ("sample problem.toml --out - --json", "leave one of them out"),
        ("sample problem.toml --engine exakt", "unknown engine 'exakt'"),
        ("sample problem.toml --out samples.txt", ".csv or .jsonl"),
        ("sample problem.toml --out nowhere/samples.csv", "there is no folder 'nowhere'"),
        ("sample tiny.toml", "max_nodes"),
        ("sample problem.toml --out .", "trajectories are written to .csv or .jsonl files"),
        ("sample problem.toml --also 'nver(key)'", "--also: unknown name `nver`; did you mean `never`?"),
        ("sample problem.toml --also 'never(at(state(99)))'", "--also never(at(state(99))): "),
        ("sample problem.toml --also ''", "--also: "),
        ("check problem.toml .", "error: "),
        ("check picture.png", "expected UTF-8 text"),
        ("check problem.toml wrong.csv", "wrong.csv, line 1: expected the header demo,step,state,action"),
    ],
)
def test_a_mistake_is_an_error_message_and_exit_code_2(folder, command, words):
    (folder / "broken.toml").write_text(
        PROBLEM.split("[[constraints]]")[0] + '[[constraints]]\nname = "r"\nrule = "visit(kee)"\n'.replace("\\n", "\n")
    )
    (folder / "old.toml").write_text("format = 0\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    (folder / "wrong.csv").write_text("a,b\n1,2\n")
    (folder / "empty.csv").write_text("demo,step,state,action\n")
    (folder / "tiny.toml").write_text(PROBLEM + '\n[settings]\nengine = "exact"\nmax_nodes = 3\n')
    result = run(command)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    message = re.sub(r" \(in names: .*\)", "", result.stderr)
    assert words in message
    if "--json" not in command:
        assert result.stdout == ""
        command += " --json"
    answer = json.loads(run(command).stdout)
    assert f"error: {answer['error']}\n" == result.stderr
    assert answer["kind"].endswith("Error")


@pytest.mark.parametrize(
    "command", ["sample", "sample problem.toml -n 0", "sample problem.toml --sed 1", "chekc", "check"]
)
def test_usage_errors_exit_with_2(command):
    result = run(command)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert set(report(command, code=2)) == {"error", "kind"}


@pytest.mark.parametrize("command", ["sample clash.toml", "engines clash.toml"])
def test_rules_that_cannot_hold_together_are_a_no(command):
    result = run(command)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no trajectory satisfies these 2 constraints together")
    answer = report(command, code=1)
    assert f"error: {answer['error']}\n" == result.stderr
    assert (answer["kind"], answer["conflict"]) == ("InfeasibleError", [RULES[0], "no keys"])


@pytest.mark.system
def test_a_reader_that_leaves_is_no_error(folder):
    arguments = [sys.executable, "-m", "xmen.cli", "sample", "problem.toml", "-n", "20000"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("(0, 0) ")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141  # as shells say of other programs that write to `head`
    process.stderr.close()
