"""Commands as tests give them: in this process, or as a process of their own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

from typer.testing import CliRunner, Result

from xmen.cli.app import app


def run(command: str) -> Result:
    """The command in this process; the answer has exit_code, stdout and stderr."""
    return CliRunner().invoke(app, shlex.split(command), prog_name="xmen")


def report(command: str, code: int = 0) -> dict:
    """What the command says with --json."""
    result = run(f"{command} --json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def start(command: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """The command as a process of its own, as a user runs it."""
    arguments = [sys.executable, "-m", "xmen.cli", *shlex.split(command)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)
