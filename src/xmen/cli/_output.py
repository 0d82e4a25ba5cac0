"""What commands print: aligned facts, tables, JSON and errors; user's text is never read as markup."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

YES, NO, MISTAKE = 0, 1, 2  # exit codes


def print_json(report: Mapping[str, Any]) -> None:
    """The report as one JSON object."""
    typer.echo(json.dumps(report, indent=2, ensure_ascii=False))


def print_facts(facts: Mapping[str, str]) -> None:
    """One line per fact: what it is, and what it says."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts.items():
        table.add_row(Text(label, style="bold"), Text(value))
    Console(highlight=False).print(table)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table that fits the terminal; long cells are folded."""
    table = Table(title=Text(title), title_justify="left")
    for column in header:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(highlight=False).print(table)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while something takes its time, on a terminal only."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield


def fail(message: str, code: int = MISTAKE) -> NoReturn:
    """Print the error and leave."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
