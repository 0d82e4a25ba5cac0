"""What commands print: aligned facts, tables, JSON, notes and errors; user's text is never read as markup."""

import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from xmen import cli
from xmen.errors import FileFormatError, error_record, plain
from xmen.progress import VALIDATION_LOSS, Callback, Record, listening

YES, NO, MISTAKE, STOPPED, UNREAD = 0, 1, 2, cli.STOPPED, 141  # exit codes; the last two as shells give them
PLAIN_EVERY = 10.0  # seconds between lines of progress where there is no terminal


def print_json(report: Mapping[str, Any]) -> None:
    """The report as one JSON object; numbers that JSON does not know (nan, inf) become null."""
    typer.echo(json.dumps(plain(report), indent=2, ensure_ascii=False, allow_nan=False))


def print_facts(facts: Mapping[str, str]) -> None:
    """One line per fact: what it is, and what it says."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts.items():
        table.add_row(Text(label, style="bold"), Text(value))
    Console(highlight=False).print(table)


def print_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    most: int | None = None,
    console: Console | None = None,
    **style: Any,
) -> None:
    """A table that fits the terminal, under a title of any length; of more rows than `most` the first, as it says."""
    rows = list(rows)
    if most is not None and len(rows) > most:
        title += f" (the first {most}, {len(rows) - most} more: see --json)"
    table = Table(**style)
    for column in header:
        table.add_column(column, overflow="fold", justify="right" if column in numbers else "left")
    for row in rows[:most]:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = console or Console(highlight=False)
    console.print(Text(title, style="bold"))
    console.print(table)


def print_lines(title: str, lines: Iterable[str]) -> None:
    """Lines as they are, under a title."""
    Console(highlight=False).print(Text(title, style="bold"))
    for line in lines:
        typer.echo(line)


def print_notes(notes: Iterable[str]) -> None:
    """Things worth knowing, on stderr, so that they are seen wherever the answer goes."""
    for note in notes:
        Console(stderr=True, highlight=False).print(Text(f"note: {note}"))


@contextmanager
def working(what: str) -> Iterator[None]:
    """What is done and how far it is, on stderr: a spinner on a terminal, now and then a plain line elsewhere."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status(Text(what)) as status, listening(lambda line: status.update(Text(f"{what}: {line}"))):
            yield
        return
    say = _now_and_then(console, PLAIN_EVERY)
    with listening(lambda line: say(f"{what}: {line}")):
        yield


def check_target(out: Path, suffixes: Sequence[str], what: str) -> None:
    """Refuse a file that could not be written, or of a kind that is not written, before any work is done."""
    if out.suffix.lower() not in suffixes:
        raise FileFormatError(f"--out {out}: {what} are written to {' or '.join(suffixes)} files")
    if not out.parent.is_dir():
        raise FileFormatError(f"--out {out}: there is no folder {str(out.parent)!r}; make it first")
    if out.is_dir():
        raise FileFormatError(f"--out {out}: this is a folder; give the name of a file")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise FileFormatError(f"--out {out}: this place cannot be written to")


def fail(error: BaseException, code: int, as_json: bool, message: str = "") -> NoReturn:
    """Print the error (its own message, if none is given) and leave; with `as_json` also on stdout, like any answer."""
    message = message or str(error)
    if as_json:
        print_json(error_record(error, message))
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def fit_progress(total: int | None, plain_every: float = PLAIN_EVERY) -> Iterator[Callback]:
    """A learner's callback around its fit, for stderr: a bar on a terminal, now and then a plain line elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        say, of = _now_and_then(console, plain_every), "" if total is None else f" of {total}"
        yield lambda one: say(f"iteration {one.iteration}{of}: {numbers(one)}, {one.seconds:.0f} s")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn() if total is not None else TextColumn("{task.completed} iterations"),
        TextColumn("{task.fields[numbers]}"),
        TimeElapsedColumn() if total is None else TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("preparing", total=total, numbers="")
        yield lambda one: bar.update(task, completed=one.iteration, description="learning", numbers=numbers(one))


def _now_and_then(console: Console, every: float) -> Callable[[str], None]:
    """A function that prints a line, unless it has printed one in the last so many seconds."""
    spoke = time.monotonic()

    def say(line: str) -> None:
        nonlocal spoke
        if time.monotonic() - spoke >= every:
            spoke = time.monotonic()
            console.print(Text(line))

    return say


def numbers(record: Record) -> str:
    """The loss (where a method knows it) and the norm of the gradient, with their errors.

    >>> numbers(Record(3, loss=4.25, gradient_norm=0.0123, seconds=1.0))
    'loss 4.25000, gradient 0.0123'
    >>> numbers(Record(3, loss=4.25, gradient_norm=0.5, seconds=1.0, loss_std=0.01, gradient_std=0.02))
    'loss 4.25000 ± 0.01, gradient 0.5 ± 0.02'
    >>> numbers(Record(3, loss=4.25, gradient_norm=0.5, seconds=1.0, details={"validation_loss": 4.5}))
    'loss 4.25000, gradient 0.5, validation 4.50000'
    """
    parts = []
    if math.isfinite(record.loss):
        parts.append(f"loss {record.loss:.5f}" + (f" ± {record.loss_std:.1g}" if record.loss_std else ""))
    noise = f" ± {record.gradient_std:.1g}" if record.gradient_std else ""
    parts.append(f"gradient {record.gradient_norm:.3g}{noise}")
    if VALIDATION_LOSS in record.details:
        parts.append(f"validation {record.details[VALIDATION_LOSS]:.5f}")
    return ", ".join(parts)
