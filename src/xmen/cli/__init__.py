"""The command line: questions about a problem file.

    xmen engines                                    engines, and the oracles that are installed
    xmen engines problem.toml                       which engine answers, why, how large it gets and what it costs
    xmen check problem.toml demos.csv               can the rules hold together, and do demonstrations keep them
    xmen sample problem.toml -n 10 --seed 0 --out samples.csv

Every command takes `--json` for scripts. Exit codes: 0 fine, 1 the answer is "no" (rules that cannot hold together,
demonstrations that break them), 2 a mistake in what was asked (a bad file, an unknown name).
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line on the arguments of this process."""
    from xmen.cli.app import app

    app(prog_name="xmen")
