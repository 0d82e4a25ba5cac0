"""The commands and their arguments. What `cli` has of their work is loaded when it is asked for."""

import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from xmen import __version__, cli
from xmen.cli._output import MISTAKE, NO, STOPPED, UNREAD, fail, print_json
from xmen.errors import InfeasibleError, InvalidDemonstrationError, Words, XmenError, error_record, in_words, speaking

PLEASE_REPORT = "Please report it, with the command and its files; XMEN_TRACEBACK=1 shows where it happened."
UsageError: Any = typer.BadParameter.__base__  # of the click that typer brings along


class _Commands(TyperGroup):
    """All commands, with one place that turns the library's errors into messages and exit codes."""

    _as_json = False

    def main(self, args: Any = None, *positional: Any, **named: Any) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        self._as_json = "--json" in given[: given.index("--")] if "--" in given else "--json" in given
        with speaking(Words(options=True)):
            return super().main(args, *positional, **named)

    def invoke(self, ctx: Any) -> Any:
        as_json = self._as_json
        try:
            cli.end_loading()
            return super().invoke(ctx)
        except XmenError as error:
            fail(error, NO if isinstance(error, InfeasibleError | InvalidDemonstrationError) else MISTAKE, as_json)
        except KeyboardInterrupt as error:
            fail(error, STOPPED, as_json, str(error) or cli.NOTHING_KEPT)
        except OSError as error:
            if error.errno == errno.EPIPE:  # nobody reads on, as after `head`: leave without a word
                with open(os.devnull, "w") as nowhere:  # what is still buffered goes there when Python ends
                    os.dup2(nowhere.fileno(), sys.stdout.fileno())
                raise typer.Exit(UNREAD) from None
            fail(error, MISTAKE, as_json, f"{error.filename}: {error.strerror}" if error.filename else "")
        except UnicodeEncodeError as error:  # a name as the terminal gave it, byte for byte
            piece = ascii(error.object[error.start : error.end])
            fail(error, MISTAKE, as_json, f"{piece} in a name is no character and cannot be written: rename it.")
        except UsageError as error:
            if as_json:
                print_json(error_record(error, error.format_message()))
            raise  # printed with the usage of the command, exit code 2
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if os.environ.get("XMEN_TRACEBACK"):
                raise
            advice = "" if isinstance(error, MemoryError) else f" ({type(error).__name__}). {PLEASE_REPORT}"
            fail(error, MISTAKE, as_json, f"xmen did not expect this: {in_words(error)}{advice}")


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# ---- Arguments and options that several commands take

ProblemFile = Annotated[Path, Argument(metavar="PROBLEM", help="The problem file (TOML).")]
ModelToo = Annotated[Path, Argument(metavar="PROBLEM_OR_MODEL", help="A problem file (TOML), or a model's folder.")]
DEMOS = Argument(None, metavar="DEMOS", help="Demonstrations (.csv, .jsonl, .json) instead of the problem's own.")
JSON = Option(False, "--json", help="Print one JSON object, for scripts.")
ENGINE = Option(None, help="exact, reject, xor or auto, instead of the problem's own setting.")
DEVICE = Option(None, help="cuda, cpu or auto: where exact answers are computed; the problem's own if not given.")
ALSO = Option([], help='An extra rule, such as "never(lava)", with the events of the problem; may be repeated.')
VALIDITY = Option(None, help="What a policy promises: sure, best, or a probability; the problem's own if not given.")


def command(declared: Callable[..., None]) -> None:
    """The command of this name and these options, whose work `cli.run_NAME` does: its answer is the exit code."""

    @functools.wraps(declared)
    def run(**options: Any) -> None:
        raise typer.Exit(getattr(cli, f"run_{declared.__name__}")(**options) or 0)

    app.command()(run)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"xmen {__version__}")
        raise typer.Exit


@app.callback()
def xmen(
    version: bool = Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Learn what a demonstrator values, under rules that must never be broken.

    Begin with:  xmen new grid.toml

    Exit codes: 0 fine, 1 the answer is "no", 2 a mistake in what was asked, 130 stopped by Ctrl-C.
    """


@command
def new(
    path: Path = Argument(metavar="PATH", help="The problem file to write, such as grid.toml."),
    world: str = Option("grid", help="grid, table (a CSV of transitions) or graph (GraphML)."),
    force: bool = Option(False, "--force", help="Replace files that are there."),
    as_json: bool = JSON,
) -> None:
    """Write a commented problem file to start from, and demonstrations next to it.

    Example:  xmen new grid.toml
    """


@command
def check(
    path: ProblemFile,
    demos: Path | None = DEMOS,
    repair: Path | None = Option(None, metavar="FILE", help="Write the demonstrations there, the broken ones mended."),
    as_json: bool = JSON,
) -> None:
    """Can the rules hold together, how large is the product, and which rules do demonstrations break, and where.

    Exit code 1 when rules contradict each other or a demonstration breaks one, 2 when the demonstrations that the
    problem names are missing (the rules are checked all the same).

    Example:  xmen check grid.toml other_demos.csv
    """


@command
def engines(
    path: Path | None = Argument(None, metavar="PROBLEM", help="The problem file (TOML)."),
    engine: str = Option("auto", help="exact, reject, xor, or auto: the first that fits."),
    limit: float = Option(20.0, metavar="SECONDS", help="The most that each timing may take."),
    as_json: bool = JSON,
) -> None:
    """Which engine answers a problem, why, and at what cost; without a problem, what is installed.

    Example:  xmen engines grid.toml --engine xor
    """


@command
def fit(
    path: ProblemFile,
    demos: Path | None = DEMOS,
    out: Path | None = Option(None, metavar="FOLDER", help="Where the model goes; PROBLEM_model if not given."),
    learner: str = Option("xmen", help="xmen; causal, for chance; a baseline, as maxent (`xmen engines` lists all)."),
    method: str | None = Option(None, help="How xmen finds its gradient: auto, exact, cells, 'paper(n_samples=32)'."),
    seed: int | None = Option(None, min=0, help="The same seed, the same model."),
    max_iter: int | None = Option(None, min=1, help="The largest number of iterations."),
    l2: float | None = Option(None, min=0.0, help="A penalty on large weights: l2/2 |weights|^2."),
    resume: bool = Option(False, "--resume", help="Go on where a stopped or killed run was."),
    validity: str | None = VALIDITY,
    outcomes: str | None = Option(None, help="Of causal: demonstrated, or expected, which learns from choices alone."),
    validation: Path | None = Option(None, metavar="FILE", help="Demonstrations to watch: the model is best on these."),
    patience: int | None = Option(None, min=1, help="Iterations without a better validation before the end (10)."),
    device: str | None = DEVICE,
    others: list[str] = Option([], "--set", metavar="NAME=VALUE", help="Any setting of the learner, as tol=1e-9."),
    drop_invalid: bool = Option(False, "--drop-invalid", help="Learn from valid demonstrations, list the others."),
    force: bool = Option(False, "--force", help="Replace the model of another problem or of another learner."),
    as_json: bool = JSON,
) -> None:
    """Learn a reward from demonstrations, under the rules of the problem.

    Ctrl-C saves what has been learned (exit code 130). A run that was stopped or killed goes on with --resume and
    ends where it would have ended.

    Example:  xmen fit grid.toml --out model --l2 0.01
    """


@command
def sample(
    path: ModelToo,
    n: int = Option(10, "--number", "-n", min=1, help="How many trajectories."),
    best: int | None = Option(None, metavar="K", min=1, help="Instead, the K most likely trajectories, exactly."),
    seed: int | None = Option(None, min=0, help="The same seed, the same trajectories."),
    out: Path | None = Option(None, metavar="FILE", help="Write them to a .csv or .jsonl file; - prints CSV."),
    names: bool = Option(False, "--names", help="In a .csv file: cells, moves and nodes instead of numbers."),
    also: list[str] = ALSO,
    allow_invalid: bool = Option(False, "--allow-invalid", help="Of a model without rules: also what breaks them."),
    engine: str | None = ENGINE,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Draw independent trajectories that keep every rule, from a problem or from what was learned.

    With --best they are no draws but a ranking: the K most likely valid trajectories, the most likely first. A
    baseline that knows no rules may break them, which is an error unless it is asked for.

    Example:  xmen sample grid_model -n 100 --also "never(mud)" --out samples.csv
    """


@command
def fill(
    path: ModelToo,
    seen: Path = Argument(metavar="SEEN", help="Demonstrations as .csv; the state is empty where nothing was seen."),
    best: int = Option(1, metavar="K", min=1, help="The K likeliest completions of each."),
    out: Path | None = Option(None, metavar="FILE", help="Write them to a .csv file, with their probabilities."),
    also: list[str] = ALSO,
    as_json: bool = JSON,
) -> None:
    """The likeliest valid trajectories given what was seen of each demonstration, with their probabilities.

    Example:  xmen fill grid_model seen.csv --best 3
    """


@command
def plan(
    path: ModelToo,
    validity: str | None = VALIDITY,
    rollouts: int = Option(0, metavar="N", min=0, max=10**9, help="Play N episodes: how many keep the rules?"),
    episodes: int = Option(0, metavar="N", min=0, max=10**5, help="Also show N episodes, as they may happen."),
    seed: int | None = Option(None, min=0, help="Of the episodes."),
    out: Path | None = Option(None, metavar="FOLDER", help="Save the policy there, for xm.load."),
    also: list[str] = ALSO,
    device: str | None = DEVICE,
    as_json: bool = JSON,
) -> None:
    """The policy that keeps the rules surely, as likely as can be, or with a probability, whatever chance does.

    Prints what it promises and what it does: the likeliest episode, and on a grid the move it makes most often in
    each cell. Exit code 1 when no policy can promise that: the message says what chance can do, and the best there is.

    Example:  xmen plan grid.toml --validity 0.95 --episodes 3 --rollouts 10000
    """


@command
def plot(
    path: ModelToo,
    demos: Path | None = DEMOS,
    out: Path | None = Option(None, metavar="FILE", help="The picture (.png, .pdf or .svg); NAME.png if not given."),
    what: str = Option("overview", help="overview, world, demos, samples, visits, reward, or (of a model) history."),
    also: list[str] = ALSO,
    n: int = Option(30, "--number", "-n", min=1, help="How many samples to draw."),
    seed: int = Option(0, min=0, help="Of the samples."),
    as_json: bool = JSON,
) -> None:
    """Draw a problem or a model: its world, demonstrations, expected visits, reward, and how learning went.

    When the rules contradict each other, the rest is drawn, the reason is said, and the exit code is 1.

    Example:  xmen plot grid_model --what samples --also "never(mud)" --out samples.png
    """


@command
def rules(
    path: ProblemFile,
    demos: Path | None = DEMOS,
    write: bool = Option(False, "--write", help="Add the rules to the problem file, with their evidence as comments."),
    max_rules: int = Option(8, min=0, help="The largest number of rules."),
    min_gain: float = Option(0.02, min=0.0, help="The least gain of a rule, in nats per demonstration."),
    tolerance: float = Option(0.0, min=0.0, help="The share of demonstrations that may break a rule."),
    level: float = Option(0.01, help="The probability of finding any rule where there is none."),
    bootstrap: int = Option(0, min=0, max=10**5, metavar="N", help="Bootstrap samples on which rules are found again."),
    held_out: Path | None = Option(None, metavar="DEMOS", help="Further demonstrations: how many keep the rules?"),
    out: Path | None = Option(None, metavar="FILE", help="A picture of the gains (.png, .pdf or .svg)."),
    as_json: bool = JSON,
) -> None:
    """Which rules do the demonstrations keep, over the events of the problem, and how sure is that?

    Rules that the problem has already are taken as given. What a reward of the problem's features can explain is not
    called a rule.

    Example:  xmen rules --write grid.toml
    """


@command
def studio(
    path: Path | None = Argument(None, metavar="PROBLEM", help="A problem (TOML) or graph (GraphML); else grid.toml."),
    browser: bool = Option(True, "--browser/--no-browser", help="Open the default browser."),
    port: int = Option(0, min=0, max=65535, help="Of the address; 0 is any that is free."),
    demo: bool = Option(False, "--demo", help="Open the paper's rules on a map of ours, with demonstrations."),
    new: bool = Option(False, "--new", help="Begin with an empty grid, saved under the name given."),
) -> None:
    """Draw worlds, rules and demonstrations on a page in the browser, learn from them, and generate.

    The page answers on this machine only, under an address that is printed first. What it saves is the problem file and
    the demonstrations that the other commands read.

    Example:  xmen studio grid.toml
    """


@command
def reproduce(
    name: str = Argument(metavar="NAME", help="figure1, grid, human; convergence, rules, pairs; roads; all but roads."),
    quick: bool = Option(False, "--quick", help="The same code on less of everything."),
    out: Path = Option(Path("reproduction"), metavar="FOLDER", help="Where figures and tables go."),
    seed: int = Option(0, min=0, help="The same seed, the same figures and tables."),
    data: Path | None = Option(None, metavar="FOLDER", help="Of human and rules: paths of x,y lines; of roads: trips."),
    resume: bool = Option(False, "--resume", help="Keep what an earlier run has finished."),
    own_map: Path | None = Option(None, "--map", metavar="FILE", help="Of grid: a problem file, in place of our maps."),
    as_json: bool = JSON,
) -> None:
    """Make the paper's figures and tables again, and ours beside them; `all` also writes report.html.

    Example:  xmen reproduce grid --quick --out report
    """
