"""The commands and their arguments. The work is imported when it is asked for: `xmen --help` stays quick."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from xmen.cli._output import MISTAKE, NO, fail
from xmen.errors import InfeasibleError, XmenError


class _Commands(TyperGroup):
    """All commands, with one place that turns the library's errors into messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InfeasibleError as error:
            fail(str(error), NO)
        except XmenError as error:
            fail(str(error), MISTAKE)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has left, as `head` does
                raise
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), MISTAKE)


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

ProblemFile = Annotated[Path, typer.Argument(metavar="PROBLEM", help="The problem file (TOML).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
Engine = Annotated[str | None, typer.Option(help="exact, reject, xor or auto, instead of the problem's own setting.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from xmen import __version__

        typer.echo(f"xmen {__version__}")
        raise typer.Exit


@app.callback()
def xmen(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Trajectories that never break the rules: questions about a problem file.

    Exit codes: 0 fine, 1 the answer is "no", 2 a mistake in what was asked.
    """


@app.command()
def engines(
    problem: Annotated[Path | None, typer.Argument(metavar="[PROBLEM]", help="The problem file (TOML).")] = None,
    engine: Annotated[str, typer.Option(help="exact, reject, xor, or auto: the first that fits.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Which engine answers a problem, why, and at what cost; without a problem, what is installed."""
    from xmen.cli.engines import show_engine, show_installed

    if problem is None:
        show_installed(as_json)
    else:
        show_engine(problem, engine, as_json)


@app.command()
def check(
    problem: ProblemFile,
    demos: Annotated[
        Path | None, typer.Argument(metavar="[DEMOS]", help="Demonstrations to check (.csv or .jsonl).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Can the rules hold together, how large is the product, and which rules do demonstrations break, and where."""
    from xmen.cli.check import run_check

    raise typer.Exit(run_check(problem, demos, as_json))


@app.command()
def sample(
    problem: ProblemFile,
    n: Annotated[int, typer.Option("--number", "-n", min=1, help="How many trajectories.")] = 10,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed, the same trajectories.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write them to a .csv or .jsonl file.")] = None,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Draw independent trajectories that keep every rule."""
    from xmen.cli.sample import run_sample

    run_sample(problem, n, seed, out, engine, as_json)
