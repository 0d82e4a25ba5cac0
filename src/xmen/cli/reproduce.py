"""`xmen reproduce`: the paper's experiments, their figures and tables, and one report of all of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from xmen.cli._output import YES, print_json, print_table
from xmen.experiments import EXPERIMENTS, reproduce
from xmen.experiments.notebook import Findings, Table, Tell, html
from xmen.files import write_whole

FILE_WIDTH = 110  # columns, where the output is no terminal


def run_reproduce(
    name: str, out: Path, as_json: bool, resume: bool = False, own_map: Path | None = None, **asked: Any
) -> int:
    """Run one experiment or all of them; the figures go directly into `out`."""
    matplotlib.use("Agg")
    names = EXPERIMENTS if name == "all" else (name,)
    records: list[Findings] = []
    for one in names:
        settings = asked | ({"data": own_map} if one == "grid" else {})
        record = _finished(one, out, **settings) if resume else None
        if record is None:
            try:
                with _progress(one) as tell:
                    record = reproduce(one, out, **settings, tell=tell, resume=resume)
            except KeyboardInterrupt:
                kept = f"; --resume keeps {', '.join(done.name for done in records)}" if records else ""
                raise KeyboardInterrupt(f"stopped by Ctrl-C: {one} is not finished, and has no record{kept}") from None
        records.append(record)
        if not as_json:
            _print(record, out)
    report = out / "report.html" if name == "all" else None
    if report:
        write_whole(report, html(records, out).encode())
    if as_json:
        print_json({"report": str(report) if report else None, "experiments": [asdict(one) for one in records]})
    elif report:
        typer.echo(f"report: {report}")
    return YES


def _finished(name: str, out: Path, quick: bool, seed: int, data: Path | None) -> Findings | None:
    """What an earlier run with the same settings has left, when all of it is there."""
    record = Findings.read(out / f"{name}.json")
    asked = (quick, seed, None if data is None else str(data))
    if record is None or (record.quick, record.seed, record.data) != asked:
        return None
    files = [out / picture.file for picture in record.pictures]
    return record if all(file.is_file() and not file.is_symlink() for file in files) else None


@contextmanager
def _progress(name: str) -> Iterator[Tell]:
    """A line with the stage and how far it is, on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)

        def tell(stage: str, share: float | None) -> None:
            bar.update(task, description=f"{name}: {stage}", total=1.0 if share is not None else None, completed=share)

        yield tell


def _print(record: Findings, out: Path) -> None:
    """The findings of an experiment on the console: paragraphs, the pictures that were made, and tables."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(Text(record.title, style="bold"))
    for paragraph in record.paragraphs:
        console.print(Text(f"\n{paragraph}"))
    console.print()
    for picture in record.pictures:
        console.print(Text(f"  {out / picture.file}"))
    for table in record.tables:
        style: dict[str, Any] = {"console": console, "box": box.SIMPLE_HEAD, "pad_edge": False}
        numbers, headers = [header for header, spec in table.columns.items() if spec], list(table.columns)
        for n, part in enumerate(columns_side_by_side(table, console.width)):
            rows = [[row[i] for i in part] for row in table.cells()]
            title = f"\n{table.title}{', continued' * (n > 0)}"
            print_table(title, [headers[i] for i in part], rows, numbers=numbers, **style)
        if table.note:
            console.print(Text(table.note, style="dim"))


def columns_side_by_side(table: Table, width: int) -> list[list[int]]:
    """The places of columns that fit beside each other, so that no word is broken; each part has the first texts."""
    whole = zip(*[list(table.columns), *table.cells()], strict=True)
    widths = [min(max(map(len, column)) + 3, width // 2) for column in whole]
    first = next((i for i, spec in enumerate(table.columns.values()) if spec), 1)
    parts = [list(range(first))]
    for i in range(first, len(widths)):
        if len(parts[-1]) > first and sum(widths[j] for j in parts[-1]) + widths[i] > width:
            parts.append(list(range(first)))
        parts[-1].append(i)
    return parts
