"""What an experiment shows: sentences, figures, tables, settings and times, collected as it runs.

An experiment is a function of a Notebook, read from top to bottom:

    def run(book: Notebook) -> None:
        book.title("The 9x9 grid")
        book.say("What is asked, and what cannot be compared.")
        with book.stage("fit MaxEnt"):
            ...
        scores = book.kept("a long fit", lambda stage: [...])      # --resume goes on after it
        book.figure(fig, "grid_marginals", "How often each cell is passed.")
        book.table("methods", {"method": "", "valid": ".1%"}, [("MaxEnt", 0.31)])

Everything but the times depends on the seed alone; figures that show times say so with `timed=True`.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from xmen.errors import XmenError
from xmen.experiments.stages import Stages
from xmen.files import read_whole, write_whole
from xmen.progress import Callback
from xmen.storage.sealing import check_seal, sealed_json

FORMAT = 1  # of the record on disk
MISSING = "n/a"


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
        """The rows as text."""
        formats = list(self.columns.values())
        return [[_text(value, spec) for value, spec in zip(row, formats, strict=True)] for row in self.rows]


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
        """As JSON."""
        write_whole(path, sealed_json({"format": FORMAT, **asdict(self)}))

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The record in a file; None when there is none that this version wrote whole."""
        try:
            data = read_whole(path)
            check_seal(data, path)
            found = json.loads(data)
            if found.pop("format") != FORMAT:
                return None
            del found["sha256"]
            found["pictures"] = [Picture(**one) for one in found["pictures"]]
            found["tables"] = [Table(**one) for one in found["tables"]]
            record = cls(**found)
            for table in record.tables:
                table.cells()
            # A picture lies beside its record, under a plain name: nothing else is ever read, or shown.
            beside = all(Path(one.file).name == one.file and one.file.endswith(".png") for one in record.pictures)
            return record if beside else None
        except (OSError, XmenError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


class Tell(Protocol):
    """Called as work goes on: the stage, and the share of it that is done (None: not known)."""

    def __call__(self, stage: str, share: float | None) -> None: ...


class Stage:
    """A piece of work under way; says how far it is."""

    def __init__(self, label: str, tell: Tell) -> None:
        self._label, self._tell = label, tell

    def done(self, share: float) -> None:
        """This share of the stage is done."""
        self._tell(self._label, min(1.0, share))

    def callback(self, max_iter: int) -> Callback:
        """For a learner that runs at most so many iterations."""
        return lambda record: self.done(record.iteration / max_iter)


class Notebook:
    """Where an experiment writes what it shows; `folder` gets the figures.

    `quick` asks for the same code on less of everything; `data` is a folder of the user's, for experiments that
    take one. `resume` takes up what a run that was stopped has kept.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        quick: bool = False,
        seed: int = 0,
        data: Path | None = None,
        tell: Tell | None = None,
        resume: bool = False,
    ) -> None:
        self.folder, self.quick, self.seed, self.data = folder, quick, seed, data
        self.record = Findings(name, quick, seed, None if data is None else str(data))
        self._tell: Tell = tell or (lambda stage, share: None)
        self._began = time.perf_counter()
        asked = [quick, seed, self.record.data]
        self._stages = Stages(folder / f"{name}.stages.json", asked, resume)

    def title(self, text: str) -> None:
        """The headline."""
        self.record.title = text

    def say(self, text: str) -> None:
        """A paragraph of the report."""
        self.record.paragraphs.append(" ".join(text.split()))

    def set(self, **settings: Any) -> None:
        """Settings that the report lists."""
        self.record.settings |= {name: _plain(value) for name, value in settings.items()}

    def pick(self, quick: Any, full: Any) -> Any:
        """The first in quick mode, the second otherwise."""
        return quick if self.quick else full

    @contextmanager
    def stage(self, label: str) -> Iterator[Stage]:
        """A piece of work with a name; its time goes into the report."""
        self._tell(label, None)
        began = time.perf_counter()
        yield Stage(label, self._tell)
        self.record.times[label] = self.record.times.get(label, 0.0) + time.perf_counter() - began
        self._tell(label, 1.0)

    def kept(self, label: str, work: Callable[[Stage], Any]) -> Any:
        """A long stage that finds plain numbers, texts and lists; a run that resumes does not do it again."""
        done = self._stages.get(label)
        if done is None:
            with self.stage(label) as stage:
                found = _plain(work(stage))
            self._stages.keep(label, [found, self.record.times[label]])
            return found
        found, self.record.times[label] = done
        return found

    def figure(self, figure: Figure, name: str, caption: str, *, timed: bool = False) -> None:
        """Save a figure as `name`.png and close it."""

        # Without the software's version in it, equal figures are equal files.
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=120, bbox_inches="tight", metadata={"Software": None})
        write_whole(self.folder / f"{name}.png", picture.getvalue())
        plt.close(figure)
        self.record.pictures.append(Picture(f"{name}.png", " ".join(caption.split()), timed))

    def table(
        self, title: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]], note: str = "", timed: bool = False
    ) -> None:
        """A table; the last one ends the run on the terminal."""
        plain = [[_plain(value) for value in row] for row in rows]
        self.record.tables.append(Table(title, dict(columns), plain, " ".join(note.split()), timed))

    def finish(self) -> Findings:
        """Write the record beside the figures, and return it."""
        self.record.times["all"] = time.perf_counter() - self._began
        self.record.write(self.folder / f"{self.record.name}.json")
        self._stages.forget()
        return self.record


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, so that records are JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _text(value: Any, spec: str) -> str:
    if value is None:
        return MISSING
    return format(value, spec) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
