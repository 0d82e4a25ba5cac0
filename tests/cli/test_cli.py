"""The command line: what each command prints, its exit codes, and that mistakes never end in a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import xmen as xm
import xmen.cli
from cli.commands import report, run
from reference import enumerate_trajectories
from xmen.problem import read_problem

PROBLEM = """
format = 1

[world]
kind = "grid"
width = 5
height = 5
start = [0, 0]
goal = [4, 4]
moves = ["up", "right", "up-right"]

[events]
key = { cells = [[1, 2], [2, 1]] }
door = { cells = [[3, 3]] }

[[constraints]]
name = "the key [bold]before[/bold] the door"
rule = "first(key, among=door)"

[[constraints]]
name = "not straight"
rule = "longest_repeat() <= 2"
"""
CLASH = PROBLEM + '\n[[constraints]]\nname = "no keys"\nrule = "never(key)"\n'
COMMANDS = ["new", "check", "engines", "fit", "sample", "plot", "reproduce"]
RULES = ["the key [bold]before[/bold] the door", "not straight"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.toml").write_text(PROBLEM)
    (tmp_path / "clash.toml").write_text(CLASH)
    xm.write_demos(read_problem("problem.toml").distribution().sample(4, seed=1), "demos.csv")
    return tmp_path


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
    assert missing.stderr == "error: nowhere.toml: No such file or directory\n"


def test_help_loads_nothing_slow():
    code = "import sys; from typer.testing import CliRunner; from xmen.cli.app import app\n"
    code += "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
    code += "print([m for m in ('numba', 'matplotlib', 'networkx', 'xmen.problem') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# --- engines ---


def test_engines_lists_engines_and_oracles():
    result = run("engines")
    assert all(word in result.output for word in ("exact", "reject", "xor", "cryptominisat"))
    found = report("engines")
    assert set(found["engines"]) == {"exact", "reject", "xor", "auto"}
    assert found["oracles"]["cryptominisat"]["installed"] is True
    assert re.match(r"\d+\.\d+", found["oracles"]["cryptominisat"]["version"])


def test_engines_says_what_auto_chooses_and_what_it_costs():
    found = report("engines problem.toml")
    d = read_problem("problem.toml").distribution()
    assert (found["engine"], found["reason"]) == ("exact", d.reason)
    assert found["sizes"] == {"product nodes": d.product.n_nodes, "product edges": d.product.n_edges}
    assert found["rules"] == RULES
    assert all(0 < seconds < 60 for seconds in found["seconds"].values())
    assert set(found["seconds"]) == {"build", "gradient", "100 samples"}
    assert found["limit"] == 20


def test_engines_says_what_is_known_when_a_timing_takes_too_long():
    """The starter under hashing: a gradient takes minutes."""
    run("new grid.toml")
    read_problem("grid.toml").distribution(engine="xor")  # compiles, which would take its time in a fresh folder
    began = time.monotonic()
    found = report("engines grid.toml --engine xor --limit 5")
    assert time.monotonic() - began < 60
    assert found["seconds"]["build"] > 0
    assert found["seconds"]["gradient"] is found["seconds"]["100 samples"] is None
    assert found["sizes"]["variables"] > 1000
    assert found["guarantee"]["delta"] > 1
    hasty = run("engines grid.toml --engine xor --limit 0.001")
    assert hasty.exit_code == 0
    assert "build more than 0.001 s" in hasty.output
    assert "64 states" in hasty.output


def test_a_stage_that_takes_too_long_does_not_hide_the_next(monkeypatch):
    from xmen.cli import _timing

    def child(path, engine, limit, stages):
        yield "build", 1.0
        yield "facts", {"engine": "xor"}
        yield from [(stage, 3.0) for stage in stages if stages[0] != "gradient"]

    monkeypatch.setattr(_timing, "_child", child)
    facts, seconds = _timing.measure(Path("p.toml"), "xor", 5.0)
    assert facts == {"engine": "xor"}
    assert seconds == {"build": 1.0, "gradient": None, "100 samples": 3.0}


def test_engines_of_a_product_over_the_budget(folder):
    (folder / "tight.toml").write_text(PROBLEM + "\n[settings]\nmax_nodes = 30\n")
    found = report("engines tight.toml")
    assert found["engine"] == "reject"
    assert 0 < found["sizes"]["acceptance"] <= 1
    assert set(found["sizes"]["multiplied"] + found["sizes"]["rejecting"]) == set(RULES)
    assert "acceptance" in run("engines tight.toml").output


def test_engines_xor_names_the_oracle():
    found = report("engines problem.toml --engine xor")
    assert found["engine"] == "xor"
    assert found["sizes"]["oracle"]
    assert found["sizes"]["hash variables"] > 0
    assert found["guarantee"]["delta"] > 1


def test_engines_mentions_what_the_file_asks_for(folder):
    (folder / "asks.toml").write_text(PROBLEM + '\n[settings]\nengine = "reject"\n')
    assert 'the problem file asks for "reject"' in run("engines asks.toml").output


# --- check ---


def test_check_of_a_good_problem():
    result = run("check problem.toml demos.csv")
    assert result.exit_code == 0
    assert "feasible        yes" in result.output
    assert "4 of 4 in demos.csv keep all rules" in result.output
    assert RULES[0] in result.output  # a user's brackets are not markup
    found = report("check problem.toml demos.csv")
    assert found["feasible"] is True
    assert found["sizes"]["product nodes"] > 0
    expected = {"file": "demos.csv", "number": 4, "valid": 4, "share": 1.0, "broken": [], "violations": []}
    assert found["demonstrations"] == expected


def test_check_names_the_conflict():
    found = report("check clash.toml", code=1)
    assert found["feasible"] is False
    assert found["conflict"] == [RULES[0], "no keys"]
    result = run("check clash.toml")
    assert result.exit_code == 1
    assert "no keys" in result.output


def test_check_names_demonstration_constraint_and_position(folder):
    grid = read_problem("problem.toml").world
    straight = xm.Trajectory([grid.state((i, i)) for i in range(5)], [2] * 4)
    jump = xm.Trajectory([0, 24], [0])
    good = xm.read_demos("demos.csv")[0]
    xm.write_demos([good, straight, jump], "bad.jsonl")
    found = report("check problem.toml bad.jsonl", code=1)
    demos = found["demonstrations"]
    assert (found["feasible"], demos["number"], demos["valid"]) == (True, 3, 1)
    places = [(v["demonstration"], v["constraint"], v["position"]) for v in demos["violations"]]
    # The door at (3, 3) comes before any key, at position 3; the third equal move is made at position 2.
    assert places == [(1, RULES[0], 3), (1, RULES[1], 2), (2, None, 0)]
    result = run("check problem.toml bad.jsonl")
    assert result.exit_code == 1
    assert "1 of 3 in bad.jsonl keep all rules" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_check_counts_by_rule_and_prints_the_first_of_many(folder):
    grid = read_problem("problem.toml").world
    straight = xm.Trajectory([grid.state((i, i)) for i in range(5)], [2] * 4)
    jump = xm.Trajectory([0, 24], [0])
    xm.write_demos([jump, *[straight] * 30], "many.csv")
    printed = run("check problem.toml many.csv").output
    assert "30 of 31" in printed
    assert printed.index("broken by") < printed.index("the first 5, 56 more")
    demos = report("check problem.toml many.csv", code=1)["demonstrations"]
    assert len(demos["violations"]) == 61
    assert demos["broken"] == [
        {"constraint": RULES[0], "demonstrations": 30, "first": 1, "position": 3},
        {"constraint": RULES[1], "demonstrations": 30, "first": 1, "position": 2},
        {"constraint": None, "demonstrations": 1, "first": 0, "position": 0},
    ]
    xm.write_demos([straight], "one.csv")
    assert "one by one" not in run("check problem.toml one.csv").output  # it would say the same again


def test_check_counts_trajectories_as_enumeration_does():
    problem = read_problem("problem.toml")
    every = [xm.Trajectory(states, actions) for states, actions, _ in enumerate_trajectories(problem.world)]
    found = report("check problem.toml")["trajectories"]
    assert found == {"valid": sum(map(problem.constraint.accepts, every)), "possible": len(every)}
    text = run("check problem.toml").output
    assert f"{found['valid']:,} are valid" in text


def test_check_counts_outcomes_of_chance_too(folder):
    (folder / "walk.csv").write_text("state,action,next_state,probability\n0,0,1,0.25\n0,0,2,0.75\n1,0,2,1\n")
    (folder / "walk.toml").write_text(
        'format = 1\n[world]\nkind = "table"\ntransitions = "walk.csv"\nn_states = 3\nn_actions = 1\nstart = 0\n'
        'terminal = [2]\n[[constraints]]\nname = "past 1"\nrule = "visit(at(1))"\n'
    )
    assert report("check walk.toml")["trajectories"] == {"valid": 1, "possible": 2}


def test_check_uses_the_demonstrations_that_the_problem_names(folder):
    (folder / "named.toml").write_text(PROBLEM.replace("format = 1", 'format = 1\ndemonstrations = "demos.csv"'))
    assert report("check named.toml")["demonstrations"]["valid"] == 4
    xm.write_demos(xm.read_demos("demos.csv")[:1], "one.csv")
    assert report("check named.toml one.csv")["demonstrations"]["number"] == 1
    (folder / "demos.csv").unlink()
    assert run("sample named.toml -n 1").exit_code == 0  # needs none


def test_check_of_rules_needs_no_demonstrations(folder):
    named = 'format = 1\ndemonstrations = "later.csv"'
    (folder / "named.toml").write_text(PROBLEM.replace("format = 1", named))
    result = run("check named.toml")
    assert result.exit_code == 2
    assert "feasible        yes" in result.output
    assert "not checked: later.csv is missing" in result.stdout
    assert result.stderr == "note: the demonstrations that named.toml names are missing: later.csv\n"
    found = report("check named.toml", code=2)
    assert (found["feasible"], found["demonstrations"]) == (True, {"file": "later.csv", "missing": True})
    (folder / "named_clash.toml").write_text(CLASH.replace("format = 1", named))
    assert report("check named_clash.toml", code=1)["feasible"] is False


def test_check_names_weights_that_cannot_be_learned(folder):
    text = PROBLEM.replace(
        "[[constraints]]", 'up = { moves = ["up"] }\nright = { moves = ["right"] }\n[[constraints]]', 1
    )
    (folder / "features.toml").write_text(text + '\n[reward]\nfeatures = ["steps", "up", "right", "key"]\n')
    straight = xm.distribution(read_problem("problem.toml").world, read_problem("problem.toml").constraint)
    shortest = [tau for tau in straight.sample(300, seed=0) if len(tau) == 5][:3]
    xm.write_demos(shortest, "short.csv")
    notes = report("check features.toml short.csv")["notes"]
    assert len(notes) == 2
    # As many moves up as to the right: the corner is reached on the diagonal.
    assert "1 * 'up' -1 * 'right'" in notes[0]
    assert "feature " not in "".join(notes)
    assert "'steps'" in notes[1]
    assert "note: no demonstrations could tell" in run("check features.toml").stderr


# --- sample ---


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


# --- mistakes ---


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
        ("sample problem.toml --also 'never(at(99))'", "--also never(at(99)): "),
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


def test_a_reader_that_leaves_is_no_error(folder):
    arguments = [sys.executable, "-m", "xmen.cli", "sample", "problem.toml", "-n", "20000"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("(0, 0) ")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141  # as shells say of other programs that write to `head`
    process.stderr.close()
