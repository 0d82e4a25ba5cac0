"""How a fit comes along: a bar with the live loss on a terminal, now and then a plain line elsewhere."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from xmen.cli._output import PLAIN_EVERY
from xmen.methods.validation import VALIDATION_LOSS
from xmen.progress.monitor import Record


class FitProgress:
    """A learner's callback, and a context around the fit; everything goes to stderr."""

    def __init__(self, total: int | None, plain_every: float = PLAIN_EVERY) -> None:
        self._total, self._plain_every = total, plain_every
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._spoke = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn() if self._total is not None else TextColumn("{task.completed} iterations"),
                TextColumn("{task.fields[numbers]}"),
                TimeElapsedColumn() if self._total is None else TimeRemainingColumn(elapsed_when_finished=True),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("preparing", total=self._total, numbers="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, record: Record) -> None:
        """One iteration more."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=record.iteration, description="learning", numbers=numbers(record))
        elif time.monotonic() - self._spoke >= self._plain_every:
            self._spoke = time.monotonic()
            of = "" if self._total is None else f" of {self._total}"
            self._console.print(f"iteration {record.iteration}{of}: {numbers(record)}, {record.seconds:.0f} s")


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
    parts.append(
        f"gradient {record.gradient_norm:.3g}" + (f" ± {record.gradient_std:.1g}" if record.gradient_std else "")
    )
    if VALIDATION_LOSS in record.details:
        parts.append(f"validation {record.details[VALIDATION_LOSS]:.5f}")
    return ", ".join(parts)
