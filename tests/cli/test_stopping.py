"""Ctrl-C, kill and --resume, in real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import xmen as xm
from cli.commands import report, run, start, write_problem
from waiting import DEADLINE, wait_for
from xmen.experiments import EXPERIMENTS

pytestmark = pytest.mark.system

FIT = "fit p.toml --method paper --seed 5 --max-iter 50 --json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    return tmp_path


def stopped(command: str, checkpoint: Path, kind: signal.Signals) -> tuple[subprocess.Popen[str], str, str]:
    """The process, after a signal once it has learned something."""
    process = start(command)
    wait_for(lambda: checkpoint.exists() or process.poll() is not None)
    process.send_signal(kind)
    out, err = process.communicate(timeout=DEADLINE)
    return process, out, err


def test_ctrl_c_saves_a_usable_model_and_resume_ends_where_an_uninterrupted_run_does(folder):
    process, out, err = stopped(f"{FIT} --out model", folder / "model" / "checkpoint.safetensors", signal.SIGINT)
    assert process.returncode == 130, err
    found = json.loads(out)
    assert found["interrupted"] is True
    assert 0 < found["iterations"] < 50
    assert "stopped by Ctrl-C" in err
    assert "Traceback" not in err
    assert report("sample model -n 3")["valid"] == 3
    resumed = report(f"{FIT} --out model --resume".replace(" --json", ""))
    assert not (folder / "model" / "checkpoint.safetensors").exists()
    whole = report(f"{FIT} --out whole".replace(" --json", ""))
    assert resumed["weights"] == whole["weights"]
    assert resumed["iterations"] == whole["iterations"] == 50


def test_a_killed_run_goes_on(folder):
    process, out, _ = stopped(f"{FIT} --out model", folder / "model" / "checkpoint.safetensors", signal.SIGKILL)
    assert (process.returncode, out) == (-signal.SIGKILL, "")
    unfinished = run("sample model")
    assert unfinished.exit_code == 2
    assert "the fit in this folder is not finished" in unfinished.stderr
    resumed = report(f"{FIT} --out model --resume".replace(" --json", ""))
    whole = report(f"{FIT} --out whole".replace(" --json", ""))
    assert resumed["weights"] == whole["weights"]


def test_an_older_model_beside_an_unfinished_fit_is_used_with_a_note(folder):
    assert run("fit p.toml --l2 0.1 --out model").exit_code == 0
    assert run("sample model -n 2").stderr == ""
    stopped(f"{FIT} --out model", folder / "model" / "checkpoint.safetensors", signal.SIGKILL)
    for command in ("sample model -n 2", "plot model --what reward"):
        result = run(command)
        assert result.exit_code == 0
        assert result.stderr.startswith("note: the last fit in model is not finished")
        assert "--resume goes on" in " ".join(result.stderr.split())


def test_going_on_with_other_settings_is_refused_and_starting_over_is_said(folder):
    stopped(f"{FIT} --out model", folder / "model" / "checkpoint.safetensors", signal.SIGKILL)
    other = run("fit p.toml --out model --method paper --seed 6 --max-iter 50 --resume")
    assert other.exit_code == 2
    assert "is a checkpoint of another run: seed differ" in other.stderr
    again = run("fit p.toml --out model --l2 0.1")
    assert again.exit_code == 0
    assert "an unfinished run in model is replaced" in again.stderr


def test_resume_without_a_checkpoint_starts_and_says_so(folder):
    result = run("fit p.toml --l2 0.1 --resume")
    assert result.exit_code == 0
    assert "there is no unfinished run in p_model: starting from the beginning" in result.stderr


def test_what_a_killed_run_left_half_written_is_no_obstacle(folder):
    (folder / "p_model").mkdir()
    for name in (".xmen-0123456789abcdef", "problem-2.toml"):
        (folder / "p_model" / name).write_bytes(b"half")
    assert run("fit p.toml --l2 0.1").exit_code == 0
    assert (folder / "p_model" / "problem-2.toml").read_bytes() == b"half"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_bar_on_a_terminal_and_ctrl_c(folder):
    terminal, inside = os.openpty()
    process = start(FIT, stderr=inside)
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
    for word in (b"/50", b"gradient", b"the same command with --resume goes on"):
        assert word in b" ".join(shown.split())


def test_ctrl_c_before_anything_was_learned(monkeypatch, folder):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("xmen.methods.exact.Exact.run", interrupted)
    result = run("fit p.toml")
    assert result.exit_code == 130
    assert result.stderr == "error: stopped by Ctrl-C before there was anything to keep\n"
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
    assert err == "error: stopped by Ctrl-C before there was anything to keep\n"
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
    assert "human is not finished, and has no record; --resume keeps figure1, grid" in stopped_run.stderr
    assert sorted(path.name for path in Path("report").iterdir()) == ["figure1.json", "grid.json"]
    assert finished == ["figure1", "grid"]
    finished.append("stopped")
    assert run("reproduce all --out report --resume").exit_code == 0
    assert finished == ["figure1", "grid", "stopped", "human", "convergence", "rules", "pairs"]


def test_the_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    whole = report("fit p.toml --l2 0.1 --out whole")
    said = run("fit p.toml --l2 0.1 --max-iter 2 --out m")
    assert "--resume and a larger --max-iter goes on" in " ".join(said.output.split())
    assert run("sample m").stderr == ""  # this model is what that fit has learned
    assert run("fit p.toml --l2 0.2 --max-iter 50 --out m --resume").exit_code == 2  # another penalty, another run
    more = report("fit p.toml --l2 0.1 --max-iter 50 --out m --resume")
    assert (more["weights"], more["iterations"]) == (whole["weights"], whole["iterations"])
    assert more["converged"]
    assert {path.name for path in (tmp_path / "m").iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}
