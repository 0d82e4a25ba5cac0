"""What an experiment shows: sentences, figures, tables, settings and times, collected as it runs; and the report.

Everything but the times depends on the seed alone; what shows times says so with `timed=True`.
"""

import base64
import io
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import xmen as xm
from xmen.files import read_text, write_whole

Floats = NDArray[np.float64]
Done = Callable[[float], None]  # called with the share of a stage that is done
Tell = Callable[[str, float | None], None]  # with the stage as well; None: the share is not known
FORMAT = 1  # of the record on disk
UNREADABLE = (OSError, xm.XmenError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; } caption { text-align: left; font-weight: 600; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
.number { text-align: right; } .note, figcaption { color: #555; font-size: .93rem; } img { max-width: 100%; }"""


@dataclass(frozen=True)
class Picture:
    """A figure that was saved: its file in the folder, and what it shows."""

    file: str
    caption: str
    timed: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of values under columns; `columns` maps each header to the format of its numbers ("" for text)."""

    title: str
    columns: dict[str, str]
    rows: list[list[Any]]
    note: str = ""
    timed: bool = False

    def cells(self) -> list[list[str]]:
        """The rows as text; None is missing, and [mean, error] has a ± where the error is not 0 in the digits shown."""

        def text(value: Any, spec: str) -> str:
            if isinstance(value, list | tuple):
                mean, *errors = (text(one, spec) for one in value)
                return " ± ".join([mean, *(error for error in errors if error != text(0.0, spec))])
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return "n/a" if value is None else format(value, spec) if number else str(value)

        return [[text(*pair) for pair in zip(row, self.columns.values(), strict=True)] for row in self.rows]


@dataclass
class Findings:
    """All that an experiment has shown; the report is made of these."""

    name: str
    quick: bool
    seed: int
    data: str | None = None
    title: str = ""
    paragraphs: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        write_whole(path, json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record in a file; None when there is none that this version wrote whole."""
        try:
            found = json.loads(read_text(path))
            whole = found.pop("format") == FORMAT
            found["pictures"] = [Picture(**one) for one in found["pictures"]]
            found["tables"] = [Table(**one) for one in found["tables"]]
            _ = [table.cells() for table in found["tables"]]
            # A picture lies beside its record, under a plain name: nothing else is ever read, or shown.
            whole &= all(Path(one.file).name == one.file and one.file.endswith(".png") for one in found["pictures"])
            return cls(**found) if whole else None
        except UNREADABLE:
            return None


@dataclass
class Notebook:
    """Where an experiment writes what it shows; `folder` gets the figures.

    `quick` asks for the same code on less of everything; `data` is a folder of the user's; `resume` takes up what a
    run that was stopped has kept.
    """

    name: str
    folder: Path
    _: KW_ONLY
    quick: bool = False
    seed: int = 0
    data: Path | None = None
    tell: Tell = lambda stage, share: None
    resume: bool = False

    def __post_init__(self) -> None:
        self.record = Findings(self.name, self.quick, self.seed, None if self.data is None else str(self.data))
        self._began, self._asked = time.perf_counter(), [self.quick, self.seed, self.record.data]
        self._stages, self._kept = self.folder / f"{self.name}.stages.json", dict[str, Any]()
        with suppress(*UNREADABLE):
            document = json.loads(read_text(self._stages)) if self.resume else {}
            self._kept = dict(document["found"]) if document["asked"] == self._asked else {}

    def title(self, text: str) -> None:
        self.record.title = text

    def say(self, text: str) -> None:
        self.record.paragraphs.append(_joined(text))

    def set(self, **settings: Any) -> None:
        self.record.settings |= {name: _plain(value) for name, value in settings.items()}

    def pick(self, quick: Any, full: Any) -> Any:
        return quick if self.quick else full

    @contextmanager
    def stage(self, label: str) -> Iterator[Done]:
        """A piece of work with a name; its time goes into the report."""
        self.tell(label, None)
        began = time.perf_counter()
        yield lambda share: self.tell(label, min(1.0, share))
        self.record.times[label] = self.record.times.get(label, 0.0) + time.perf_counter() - began
        self.tell(label, 1.0)

    def kept(self, label: str, work: Callable[[Done], Any]) -> Any:
        """A long stage that finds plain numbers, texts and lists; a run that resumes does not do it again."""
        if label not in self._kept:
            with self.stage(label) as done:
                found = _plain(work(done))
            self._kept[label] = [found, self.record.times[label]]
            write_whole(self._stages, json.dumps({"asked": self._asked, "found": self._kept}).encode())
        found, self.record.times[label] = self._kept[label]
        return found

    def figure(self, figure: Figure, name: str, caption: str, *, timed: bool = False) -> None:
        """Save a figure as `name`.png and close it; without the software's version, equal figures are equal files."""
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=120, bbox_inches="tight", metadata={"Software": None})
        write_whole(self.folder / f"{name}.png", picture.getvalue())
        plt.close(figure)
        self.record.pictures.append(Picture(f"{name}.png", _joined(caption), timed))

    def table(
        self, title: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]], note: str = "", timed: bool = False
    ) -> None:
        """A table; the last one ends the run on the terminal."""
        self.record.tables.append(Table(title, dict(columns), _plain(list(rows)), _joined(note), timed))

    def finish(self) -> Findings:
        """Write the record beside the figures, and return it."""
        self.record.times["all"] = time.perf_counter() - self._began
        self.record.write(self.folder / f"{self.record.name}.json")
        self._stages.unlink(missing_ok=True)
        return self.record


def mean_and_error(values: Any) -> tuple[float | None, ...]:
    """The mean and its standard error; the mean alone of one value, None where some value is infinite."""
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        return None, None
    error = (float(values.std(ddof=1) / np.sqrt(len(values))),) if len(values) > 1 else ()
    return float(values.mean()), *error


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, so that records are JSON."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _joined(text: str) -> str:
    return " ".join(text.split())


def html(records: Sequence[Findings], folder: Path) -> str:
    """One page with everything in it; what depends on the machine's speed stands between `times` marks."""
    versions = [["Python", platform.python_version()], ["xmen", xm.__version__]]
    versions += [[one, version(one)] for one in ("numpy", "scipy", "numba", "pycryptosat", "matplotlib")]
    parts = [
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>X-MEN, reproduced</title>',
        f"<style>{STYLE}</style></head>\n<body>\n<h1>X-MEN, reproduced</h1>",
        "<p>The experiments of X-MEN: Guaranteed XOR-Maximum Entropy Constrained Inverse Reinforcement Learning (Ding "
        "and Xue, UAI 2022), made again by xmen. The maps are ours: figures of the paper show its own, its text has no "
        "coordinates.</p>",
    ]
    for record in records:
        option = "--map" if record.name == "grid" else "--data"
        quick, data = " --quick" * record.quick, f" {option} {record.data}" if record.data else ""
        again = f"xmen reproduce {record.name}{quick} --seed {record.seed}{data}"
        listed = {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in record.settings.items()}
        seconds = Table("times", {"stage": "", "seconds": ".1f"}, [list(row) for row in record.times.items()])
        parts += [f"<h2>{escape(record.title)}</h2>", *(f"<p>{escape(text)}</p>" for text in record.paragraphs)]
        parts += [_table(one) for one in record.tables if not one.timed]
        parts += [_figure(one, folder) for one in record.pictures if not one.timed]
        parts += [_table(Table("settings", {"setting": "", "value": ""}, [list(row) for row in listed.items()]))]
        parts += [f"<p class=note>Again: <code>{escape(again)}</code></p>", "<!-- times -->"]
        parts += [_table(one) for one in (*record.tables, seconds) if one.timed or one is seconds]
        parts += [_figure(one, folder) for one in record.pictures if one.timed] + ["<!-- /times -->"]
    parts += [_table(Table("Made with", {"package": "", "version": ""}, versions)), "</body>\n</html>\n"]
    return "\n".join(parts)


def _table(table: Table) -> str:
    kinds = [' class="number"' if spec else "" for spec in table.columns.values()]
    rows = [f"<caption>{escape(table.title)}</caption>"]
    for tag, row in (("th", list(table.columns)), *(("td", row) for row in table.cells())):
        cells = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(row, kinds, strict=True))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{chr(10).join(rows)}</table>\n" + f'<p class="note">{escape(table.note)}</p>' * bool(table.note)


def _figure(picture: Picture, folder: Path) -> str:
    data, said = base64.b64encode((folder / picture.file).read_bytes()).decode("ascii"), escape(picture.caption)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{said}"><figcaption>{said}</figcaption></figure>'
