"""Independent jobs on any number of processes: the same seeds give the same results everywhere.

Tasks go through joblib, so a user's `joblib.parallel_config` moves them to loky, Dask or Ray; the job itself, with its
world or formula, travels to each worker once. Where nobody has asked for anything, jobs that only wait for a solver in
another process run in a thread per processor, up to eight. Each task has its own SeedSequence, whoever runs it.

A job that meets a time limit is *never dropped*: hard cells are not like other cells, and estimates without them, or
with another matrix in their place, would be biased. It is run again from the same seed, so on the same matrix, with a
fresh solver and twice the time; and so is one whose solver dies. A worker that dies takes only unfinished jobs with it;
they run once more on a fresh pool.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from typing import Generic, TypeAlias, TypeVar

import joblib
import numpy as np
from joblib.parallel import get_active_backend

from xmen.errors import OracleDiedError, OracleTimeoutError, XmenError
from xmen.processes import Held, n_workers
from xmen.progress import tell

T = TypeVar("T")
Job: TypeAlias = Callable[[np.random.Generator, int], T]
"""A picklable piece of work, whose result depends on the generator only; the number counts attempts that met a time
limit, or whose solver died: the limit is doubled as often."""

ATTEMPTS = 4  # of a job that times out: 1, 2, 4 and 8 times the limit
_spawning = threading.Lock()
_MOST_THREADS = 8  # each with a solver's process, of about 100 MB
_LARGEST_CHUNK = 32  # jobs per joblib call: the call costs about as much as one listed cell


class UnfinishedError(XmenError, Generic[T]):
    """Some jobs could not be finished; `finished` holds the results of those that could, by job number."""

    def __init__(self, message: str, finished: dict[int, T], n_asked: int) -> None:
        super().__init__(message)
        self.finished = finished
        self.n_asked = n_asked

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.finished, self.n_asked)


def run_jobs(job: Job[T], seeds: Sequence[np.random.SeedSequence], *, waiting: bool = False) -> list[T]:
    """One result per seed, in order, on as many processes as `joblib.parallel_config` says, else one.

    `waiting`: these jobs do little but wait for processes of their own, so that one process can run several.

    Raises UnfinishedError, with the results of all jobs that were finished, when a job keeps meeting its time limit, or
    when workers die twice. Any other error of a job is raised as it is.
    """
    held, finished, late = Held(job), dict[int, T](), dict[int, str]()
    backend, configured = get_active_backend()
    # Threads for jobs that wait, where no configuration says more.
    threads = waiting and configured is None and not backend.nesting_level
    n_jobs = min(joblib.cpu_count(), _MOST_THREADS) if threads else None
    for largest_chunk in (_LARGEST_CHUNK, 1):  # one by one after a death: a deadly job takes few others with it
        todo = [i for i in range(len(seeds)) if i not in finished and i not in late]
        # Small enough that every worker gets several chunks, and that progress shows.
        size = max(1, min(largest_chunk, len(todo) // (8 * max(1, n_workers(n_jobs)))))
        chunks = [[(i, seeds[i]) for i in todo[start : start + size]] for start in range(0, len(todo), size)]
        try:
            for _, (results, too_slow) in held.unordered(_run_chunk, chunks, n_jobs, threads):
                finished |= results
                late |= too_slow
                tell(f"{len(finished):,} of {len(seeds):,} hash cells, {len(late)} of them too slow so far")
            break
        except Exception as error:
            # loky's TerminatedWorkerError is a BrokenExecutor, Dask has KilledWorker.
            if not isinstance(error, BrokenExecutor) and type(error).__name__ != "KilledWorker":
                raise
    if len(finished) == len(seeds):
        return [finished[i] for i in range(len(seeds))]
    message = f"{len(finished)} of {len(seeds)} jobs are finished."
    if late:
        times = ", ".join(f"{2**attempt}" for attempt in range(ATTEMPTS))
        message += (
            f" {len(late)} met the oracle's time limit {ATTEMPTS} times (with {times} times the time_limit that was"
            f" given), or lost its process: {next(iter(late.values()))}. Give the oracle more time, or make its cells"
            " easier: more parities make smaller cells, fewer make a solver's work lighter."
        )
    if n_lost := len(seeds) - len(finished) - len(late):
        message += (
            f" {n_lost} were lost when a worker died, and then another: workers are often killed for lack of memory,"
            " which smaller cells need less of."
        )
    raise UnfinishedError(message, finished, len(seeds))


def spawn(rng: np.random.Generator, n: int) -> list[np.random.SeedSequence]:
    """n seeds for n jobs; the next call gives others, also one in another thread."""
    with _spawning:  # numpy locks what draws numbers, not this
        seeds: list[np.random.SeedSequence] = rng.bit_generator.seed_seq.spawn(n)  # type: ignore[attr-defined]
    return seeds


def _run_chunk(job: Job[T], chunk: list[tuple[int, np.random.SeedSequence]]) -> tuple[dict[int, T], dict[int, str]]:
    """The results of jobs by number; and of those that met their time limit on every attempt, the last error."""
    finished, late = dict[int, T](), dict[int, str]()
    for index, seed in chunk:
        for attempt in range(ATTEMPTS):
            try:
                finished[index] = job(np.random.default_rng(seed), attempt)
                break
            except (OracleTimeoutError, OracleDiedError) as error:
                late[index] = str(error)
    return finished, {index: reason for index, reason in late.items() if index not in finished}
