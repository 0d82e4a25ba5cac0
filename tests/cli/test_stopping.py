"""Ctrl-C, kill and --resume, in real processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import xmen as xm
from cli.commands import refused, report, run, start, told
from waiting import DEADLINE, wait_for
from xmen.cli import NOTHING_KEPT
from xmen.experiments import EXPERIMENTS

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("folder")]

FIT = "fit p.toml --method paper --seed 5 --max-iter 50"


def stopped(kind: signal.Signals) -> tuple[int, str, str]:
    """The exit code of the fit after a signal, sent once it had learned something, and what it said."""
    process, checkpoint = start(f"{FIT} --out model --json"), Path("model", "checkpoint.safetensors")
    wait_for(lambda: checkpoint.exists() or process.poll() is not None)
    process.send_signal(kind)
    out, err = process.communicate(timeout=DEADLINE)
    return process.returncode, out, err


def resumed_as_a_whole() -> None:
    """--resume ends where an uninterrupted run does."""
    resumed, whole = report(f"{FIT} --out model --resume"), report(f"{FIT} --out whole")
    assert not Path("model", "checkpoint.safetensors").exists()
    assert resumed["weights"] == whole["weights"]
    assert resumed["iterations"] == whole["iterations"] == 50


def test_ctrl_c_saves_a_usable_model_and_resume_ends_where_an_uninterrupted_run_does():
    code, out, err = stopped(signal.SIGINT)
    assert code == 130, err
    found = json.loads(out)
    assert found["interrupted"] is True
    assert 0 < found["iterations"] < 50
    assert "Ctrl-C" in err
    assert "Traceback" not in err
    assert report("sample model -n 3")["valid"] == 3
    resumed_as_a_whole()


def test_a_killed_run_goes_on():
    assert stopped(signal.SIGKILL)[:2] == (-signal.SIGKILL, "")
    refused("sample model", "not finished")
    resumed_as_a_whole()


def test_an_older_model_beside_an_unfinished_fit_is_used_with_a_note():
    told("fit p.toml --l2 0.1 --out model")
    assert run("sample model -n 2").stderr == ""
    stopped(signal.SIGKILL)
    for command in ("sample model -n 2", "plot model --what reward"):
        result = run(command)
        assert result.exit_code == 0
        assert result.stderr.startswith("note: the last fit in model")
        assert "--resume" in result.stderr


def test_going_on_with_other_settings_is_refused_and_starting_over_is_said():
    stopped(signal.SIGKILL)
    refused(f"{FIT.replace('--seed 5', '--seed 6')} --out model --resume", "seed differ")
    assert "unfinished run in model" in told("fit p.toml --out model --l2 0.1")


def test_resume_without_a_checkpoint_starts_and_says_so():
    assert "no unfinished run in p_model" in told("fit p.toml --l2 0.1 --resume")


def test_what_a_killed_run_left_half_written_is_no_obstacle(folder):
    (folder / "p_model").mkdir()
    for name in (".xmen-0123456789abcdef", "problem-2.toml"):
        (folder / "p_model" / name).write_bytes(b"half")
    told("fit p.toml --l2 0.1")
    assert (folder / "p_model" / "problem-2.toml").read_bytes() == b"half"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_bar_on_a_terminal_and_ctrl_c():
    terminal, inside = os.openpty()
    process = start(f"{FIT} --json", stderr=inside)
    os.close(inside)
    shown = b""
    while b"learning" not in shown:
        shown += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal is an error on Linux
        while more := os.read(terminal, 4096):
            shown += more
    out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert json.loads(out)["interrupted"] is True
    for word in (b"/50", b"gradient", b"--resume"):
        assert word in b" ".join(shown.split())


def test_ctrl_c_before_anything_was_learned(monkeypatch, folder):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("xmen.methods.exact.Exact.run", interrupted)
    assert told("fit p.toml", code=130) == f"error: {NOTHING_KEPT}"
    assert not (folder / "p_model").exists()


@pytest.mark.parametrize("command", [[sys.executable, "-m", "xmen.cli"], [str(Path(sys.executable).with_name("xmen"))]])
def test_ctrl_c_while_the_program_is_still_loading(folder, command):
    """A library that takes forever to load: what is said does not depend on when Ctrl-C came."""
    (folder / "slow").mkdir()
    endless = "import signal\nprint('loading', flush=True)\nwhile True:\n    signal.pause()\n"
    (folder / "slow" / "numpy.py").write_text(endless)
    environment = {**os.environ, "PYTHONPATH": str(folder / "slow")}
    arguments = [*command, "check", "p.toml", "--json"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True, env=environment)
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert err == f"error: {NOTHING_KEPT}\n"
    assert json.loads(out) == {"error": err[7:-1], "kind": "KeyboardInterrupt"}


def test_ctrl_c_in_reproduce_leaves_no_record_of_what_was_not_finished(folder, monkeypatch):
    """The fit inside the experiment would keep what it has; the experiment must not take that for its result."""
    finished = []

    def experiment(name):
        def run_it(book):
            def ctrl_c(record):
                raise KeyboardInterrupt

            grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right", "up-right"))
            demos = xm.distribution(grid, None, None, seed=0).sample(20)
            callback = ctrl_c if name == "human" and len(finished) == 2 else None
            xm.MaxEntIRL(grid, l2=0.1, callback=callback).fit(demos)
            finished.append(name)
            book.title(name)

        return run_it

    for name in EXPERIMENTS:
        monkeypatch.setattr(f"xmen.experiments.{name}.run", experiment(name))
    stopped_run = run("reproduce all --out report --json")
    assert stopped_run.exit_code == 130, stopped_run.output
    assert json.loads(stopped_run.stdout)["kind"] == "KeyboardInterrupt"
    assert re.search("human .*--resume keeps figure1, grid", stopped_run.stderr)
    assert sorted(path.name for path in Path("report").iterdir()) == ["figure1.json", "grid.json"]
    assert finished == ["figure1", "grid"]
    finished.append("stopped")
    told("reproduce all --out report --resume")
    assert finished == ["figure1", "grid", "stopped", "human", "convergence", "rules", "pairs"]


def test_the_command_goes_on(folder):
    whole = report("fit p.toml --l2 0.1 --out whole")
    assert "--resume and a larger --max-iter" in told("fit p.toml --l2 0.1 --max-iter 2 --out m")
    assert run("sample m").stderr == ""  # this model is what that fit has learned
    refused("fit p.toml --l2 0.2 --max-iter 50 --out m --resume")  # another penalty, another run
    more = report("fit p.toml --l2 0.1 --max-iter 50 --out m --resume")
    assert (more["weights"], more["iterations"]) == (whole["weights"], whole["iterations"])
    assert more["converged"]
    assert {path.name for path in (folder / "m").iterdir()} == {path.name for path in (folder / "whole").iterdir()}
