"""Tasks that behave badly in known ways; in a module of their own, so that other processes can import them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sampling.exact_hash import ListedRows
from waiting import DEADLINE
from xmen.errors import OracleTimeoutError
from xmen.oracles.formula import Bits, Parities


@dataclass(frozen=True)
class Draw:
    """Three numbers, and nothing else."""

    def __call__(self, rng: np.random.Generator, attempt: int) -> list[float]:
        return rng.random(3).tolist()


@dataclass(frozen=True)
class Process:
    """Where the job ran."""

    def __call__(self, rng: np.random.Generator, attempt: int) -> int:
        return os.getpid()


class Thread:
    """The thread the job ran in; each waits until there have been `n_threads`."""

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads, self.seen, self.met = n_threads, set[int](), threading.Event()

    def __call__(self, rng: np.random.Generator, attempt: int) -> int:
        self.seen.add(threading.get_ident())
        if len(self.seen) >= self.n_threads:
            self.met.set()
        self.met.wait(DEADLINE)
        return threading.get_ident()


@dataclass(frozen=True)
class Die:
    """The job that draws the deadly number kills its process: every time, or once where a marker says so; all log."""

    folder: Path
    deadly: float
    once: bool = False

    def __call__(self, rng: np.random.Generator, attempt: int) -> float:
        value = float(rng.random())
        if value == self.deadly and not (self.once and self.marker.exists()):
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with (self.folder / f"ran-{value}").open("a") as log:
            log.write("x")
        return value

    @property
    def marker(self) -> Path:
        return self.folder / "died"


@dataclass(frozen=True)
class SlowAtFirst:
    """Needs `needed` attempts where the first number is below 0.3; returns what it drew and the attempt."""

    needed: int

    def __call__(self, rng: np.random.Generator, attempt: int) -> tuple[float, int]:
        value = float(rng.random())
        if value < 0.3 and attempt < self.needed:
            raise OracleTimeoutError(f"attempt {attempt} took too long")
        return value, attempt


class ImpatientRows(ListedRows):
    """Runs into its time limit where a cell has many rows, until the limit is long enough."""

    def __init__(self, bits: Bits, time_limit: float, rows_per_second: float) -> None:
        super().__init__(bits)
        self.time_limit = time_limit
        self.rows_per_second = rows_per_second

    def solutions(self, parities: Parities | None = None) -> Iterator[Bits]:
        rows = list(super().solutions(parities))
        assert self.time_limit is not None
        if len(rows) > self.time_limit * self.rows_per_second:
            raise OracleTimeoutError(f"{len(rows)} rows in {self.time_limit} s")
        return iter(rows)
