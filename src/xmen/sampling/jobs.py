"""Independent jobs on any number of processes: the same seeds give the same results everywhere.

Tasks go through joblib, so a user's `joblib.parallel_config` moves them to loky, Dask or Ray; the job itself, with its
world or formula, travels to each worker once (`workers`). Where nobody has asked for anything, jobs that only wait for
a solver in another process run in a thread per processor, up to eight. Each task has its own SeedSequence, whoever runs
it.

A job that meets a time limit is *never dropped*: hard cells are not like other cells, and estimates without them, or
with another matrix in their place, would be biased. It is run again from the same seed, so on the same matrix, with a
fresh solver and twice the time; and so is one whose solver dies. A worker that dies takes only unfinished jobs with it;
they run again on a fresh pool.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from functools import partial
from typing import Generic, Protocol, TypeVar

import joblib
import numpy as np
from joblib.parallel import get_active_backend

from xmen.errors import OracleDiedError, OracleTimeoutError, XmenError
from xmen.processes import Held, n_workers
from xmen.progress import tell

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ATTEMPTS = 4  # of a job that times out: 1, 2, 4 and 8 times the limit
DEATHS = 3  # of workers that a job was alone on, before it is given up
_spawning = threading.Lock()
_MOST_THREADS = 8  # each with a solver's process, of about 100 MB
_LARGEST_CHUNK = 32  # jobs per joblib call: the call costs about as much as one listed cell


class Job(Protocol[T_co]):
    """A picklable piece of work. `attempt` counts those that met a time limit, or whose solver died: the limit is
    doubled as often."""

    def __call__(self, rng: np.random.Generator, attempt: int) -> T_co:
        """The result; it may depend on the generator only."""


class UnfinishedError(XmenError, Generic[T]):
    """Some jobs could not be finished; `finished` holds the results of those that could, by job number."""

    def __init__(self, message: str, finished: dict[int, T], n_asked: int) -> None:
        super().__init__(message)
        self.finished = finished
        self.n_asked = n_asked

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.finished, self.n_asked)


def run_jobs(
    job: Job[T],
    seeds: Sequence[np.random.SeedSequence],
    *,
    attempts: int = ATTEMPTS,
    waiting: bool = False,
) -> list[T]:
    """One result per seed, in order, on as many processes as `joblib.parallel_config` says, else one.

    `waiting`: these jobs do little but wait for processes of their own, so that one process can run several.

    Raises UnfinishedError, with the results of all jobs that were finished, when a job keeps meeting its time limit
    or keeps killing its worker. Any other error of a job is raised as it is.
    """
    held = Held(job)
    finished: dict[int, T] = {}
    late: dict[int, str] = {}
    deaths: Counter[int] = Counter()  # of workers that had no other job at the time
    n_lost_pools = 0
    asked, threads = _workers(waiting)

    def run(todo: list[int], largest_chunk: int) -> bool:
        """Runs jobs and keeps what they give; false when a worker died on the way."""
        try:
            for index, outcome in _run(held, seeds, todo, asked, threads, attempts, largest_chunk):
                if isinstance(outcome, _Late):
                    late[index] = outcome.reason
                else:
                    finished[index] = outcome
                tell(f"{len(finished):,} of {len(seeds):,} hash cells, {len(late)} of them too slow so far")
        except Exception as error:
            if not _is_lost_worker(error):
                raise
            return False
        return True

    def run_alone(index: int) -> None:
        if not run([index], 1):
            deaths[index] += 1

    while todo := [i for i in range(len(seeds)) if i not in finished and i not in late and i not in deaths]:
        # After a death jobs travel one by one, so that a deadly one takes no other with it.
        if run(todo, _LARGEST_CHUNK if n_lost_pools == 0 else 1):
            continue
        n_lost_pools += 1
        if n_lost_pools > 1:
            # joblib hands out two jobs per worker ahead: one of the first that are not back is to blame.
            n_suspects = 2 * n_workers(asked) + 1
            for index in [i for i in todo if i not in finished and i not in late][:n_suspects]:
                run_alone(index)
    for index in list(deaths):
        while index not in finished and index not in late and deaths[index] < DEATHS:
            run_alone(index)
    if len(finished) < len(seeds):
        raise UnfinishedError(_what_is_missing(finished, late, len(seeds), attempts), finished, len(seeds))
    return [finished[i] for i in range(len(seeds))]


def spawn(rng: np.random.Generator, n: int) -> list[np.random.SeedSequence]:
    """n seeds for n jobs; the next call gives others, also one in another thread."""
    with _spawning:  # numpy locks what draws numbers, not this
        seeds: list[np.random.SeedSequence] = rng.bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]
    return seeds


class _Late:
    """A job that met its time limit on every attempt."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _run(
    held: Held[Job[T]],
    seeds: Sequence[np.random.SeedSequence],
    todo: list[int],
    n_jobs: int | None,
    threads: bool,
    attempts: int,
    largest: int,
) -> Iterator[tuple[int, T | _Late]]:
    """The outcomes of the jobs in `todo`, each as soon as it is there."""
    # Small enough that every worker gets several chunks, and that progress shows.
    chunk = max(1, min(largest, len(todo) // (8 * max(1, n_workers(n_jobs)))))
    chunks = [[(i, seeds[i]) for i in todo[start : start + chunk]] for start in range(0, len(todo), chunk)]
    for _, outcomes in held.unordered(partial(_run_chunk, attempts=attempts), chunks, n_jobs, threads):
        yield from outcomes


def _workers(waiting: bool) -> tuple[int | None, bool]:
    """How many to ask joblib for, and whether threads: for jobs that wait, where no configuration says more."""
    backend, configured = get_active_backend()
    if waiting and configured is None and not backend.nesting_level:
        return min(joblib.cpu_count(), _MOST_THREADS), True
    return None, False


def _what_is_missing(finished: dict[int, T], late: dict[int, str], n_asked: int, attempts: int) -> str:
    message = f"{len(finished)} of {n_asked} jobs are finished."
    if late:
        times = ", ".join(f"{2**attempt}" for attempt in range(attempts))
        message += (
            f" {len(late)} met the oracle's time limit {attempts} times (with {times} times the time_limit that was"
            f" given), or lost its process: {next(iter(late.values()))}. Give the oracle more time, or make its cells"
            " easier: more parities make smaller cells, fewer make a solver's work lighter."
        )
    if n_deadly := n_asked - len(finished) - len(late):
        message += (
            f" {n_deadly} killed {DEATHS} workers each, with no other job at work: workers are often killed for lack"
            " of memory, which smaller cells need less of."
        )
    return message


def _run_chunk(
    job: Job[T], numbered: list[tuple[int, np.random.SeedSequence]], *, attempts: int
) -> list[tuple[int, T | _Late]]:
    return [(index, _run_one(job, seed, attempts)) for index, seed in numbered]


def _run_one(job: Job[T], seed: np.random.SeedSequence, attempts: int) -> T | _Late:
    reason = ""
    for attempt in range(attempts):
        try:
            return job(np.random.default_rng(seed), attempt)
        except (OracleTimeoutError, OracleDiedError) as error:
            reason = str(error)
    return _Late(reason)


def _is_lost_worker(error: Exception) -> bool:
    """Whether a worker died: loky's TerminatedWorkerError is a BrokenExecutor, Dask has KilledWorker."""
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"
