"""Work on other processes and machines, through joblib: what all tasks share travels to each worker once.

joblib sends everything a task needs with the task. What many tasks share, a world say, would then travel once per task,
and again for every gradient. Here a task carries a key; a worker that does not know the key says so, and gets the value
with its next task. This asks nothing of the backend, so that it is the same on loky, Dask and Ray.
"""

from __future__ import annotations

import pickle
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import cloudpickle
import joblib
from joblib.parallel import get_active_backend

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")

MOST_HELD = 4  # values that a worker keeps, the newest
_known: OrderedDict[str, Any] = OrderedDict()  # of this process, if it is a worker


class _Missing:
    """What a worker answers that does not hold the value."""


def n_workers(n_jobs: int | None = None) -> int:
    """How many share a piece of work: what `joblib.parallel_config` says, else one."""
    return int(joblib.effective_n_jobs(n_jobs))


def _share_memory() -> bool:
    """Whether workers are threads, to which nothing has to be sent."""
    backend, _ = get_active_backend()
    return bool(getattr(backend, "supports_sharedmem", False) or getattr(backend, "uses_threads", False))


class Held(Generic[T]):
    """A value that workers hold; `n_sent` and `n_bytes` say how often it has travelled, and its size."""

    def __init__(self, value: T) -> None:
        self.value, self.n_sent = value, 0
        self._key, self._data, self._placed = uuid.uuid4().hex, b"", False

    @property
    def n_bytes(self) -> int:
        """The size of what travels; 0 before it does."""
        return len(self._data)

    def map(self, call: Callable[[T, A], R], tasks: Sequence[A]) -> Iterator[R]:
        """call(value, task) of every task, in their order."""
        found = dict(self.unordered(call, tasks))
        for index in range(len(tasks)):
            yield found.pop(index)

    def unordered(
        self, call: Callable[[T, A], R], tasks: Sequence[A], n_jobs: int | None = None, threads: bool = False
    ) -> Iterator[tuple[int, R]]:
        """The number and the result of every task, each as soon as it is there; `threads`: whatever is configured."""
        workers = n_workers(n_jobs)
        if workers == 1:
            yield from enumerate(call(self.value, task) for task in tasks)
            return
        if threads or _share_memory():
            yield from _streaming(n_jobs, "threading")(
                joblib.delayed(_numbered)(call, self.value, index, task) for index, task in enumerate(tasks)
            )
            return
        self._data = self._data or cloudpickle.dumps(self.value)
        todo, n_with = list(range(len(tasks))), 0 if self._placed else workers
        while todo:
            # First as many tasks as there are workers bring the value, and nothing else runs: each gets one.
            now, todo = (todo[:n_with], todo[n_with:]) if n_with else (todo, [])
            self.n_sent += len(now) if n_with else 0
            data, n_with = self._data if n_with else None, 0
            self._placed = True
            missing = []
            for index, result in _run(self._key, data, call, [(index, tasks[index]) for index in now], n_jobs):
                if isinstance(result, _Missing):
                    missing.append(index)
                else:
                    yield index, result
            if missing:  # a worker that is new, or that has held too much else since
                todo, n_with = sorted(missing) + todo, workers


def _run(
    key: str, data: bytes | None, call: Callable[[T, A], R], numbered: list[tuple[int, A]], n_jobs: int | None
) -> Iterator[tuple[int, R | _Missing]]:
    yield from _streaming(n_jobs)(joblib.delayed(_call)(key, data, call, index, task) for index, task in numbered)


def _streaming(n_jobs: int | None, backend_name: str | None = None) -> joblib.Parallel:
    """Results as they come; from a backend that cannot, such as plain multiprocessing, all at the end."""
    backend, _ = get_active_backend()
    kept: dict[int | None, joblib.Parallel] = backend.__dict__.setdefault("_xmen_kept_open", {})
    if n_jobs in kept:
        return kept[n_jobs]
    try:
        parallel = joblib.Parallel(n_jobs, backend_name, return_as="generator_unordered", batch_size=1)
    except ValueError:
        parallel = joblib.Parallel(n_jobs, backend_name, batch_size=1)
    if type(backend).__module__.startswith("ray."):
        # Ray would start its workers anew for every call: they stay as long as the user's parallel_config does.
        kept[n_jobs] = parallel.__enter__()
    return parallel


def _numbered(call: Callable[[T, A], R], value: T, index: int, task: A) -> tuple[int, R]:
    return index, call(value, task)


def _call(key: str, data: bytes | None, call: Callable[[Any, A], R], index: int, task: A) -> tuple[int, R | _Missing]:
    """On a worker: the result, or that the value is not there."""
    if key not in _known:
        if data is None:
            return index, _Missing()
        _known[key] = pickle.loads(data)
        while len(_known) > MOST_HELD:
            _known.popitem(last=False)
    _known.move_to_end(key)
    return index, call(_known[key], task)
