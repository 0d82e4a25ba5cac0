"""Python processes that this one starts to do part of its work, asks questions, and ends when it wants to.

Solvers and kernels may think for minutes inside one call, where no exception reaches them: only the end of the process
does. Plain subprocesses, because multiprocessing would need a guard in the user's script, or a fork under threads.
"""

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Generic, TypeVar

import cloudpickle
import joblib
from joblib.parallel import get_active_backend

ROOM = 4096  # bytes that every system's pipe takes from a writer whom nobody reads


class Child:
    """One child process, which runs `serve()` of a module and in it `listening()`; it ends with this object.

    Messages are pickles, each after its length. The child's path is safe (-P): a numpy.py that lies in the current
    folder is data, and is not run. The folder of this xmen comes last: nothing there hides a library.
    """

    def __init__(self, module: str) -> None:
        self.owner = os.getpid()
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        code = f"import sys; sys.path.append({home!r}); from {module} import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0 if os.name == "posix" else None,  # the terminal's Ctrl-C is for the parent alone
        )
        self.pid = self._process.pid
        self.kill = weakref.finalize(self, _end, self._process, self.owner)
        # A thread that reads, because waiting for a pipe with a time limit works on some systems only.
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_pump, args=(self._process.stdout, self._answers), daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether it can still be asked; never in a fork of its owner, which must not take the owner's answers."""
        return self.owner == os.getpid() and self._process.poll() is None

    def send(self, question: Any) -> None:
        """Ask without waiting; OSError when the child is gone."""
        _write(self._process.stdin, _packed(question))

    def receive(self, seconds: float | None = None) -> Any:
        """The next message; raises queue.Empty when the time is up, EOFError when the child is gone."""
        answer = self._answers.get(timeout=seconds)
        if isinstance(answer, EOFError):
            self._answers.put(answer)  # whoever asks next is told, too
            raise answer
        return answer

    def ask(self, question: Any, seconds: float | None = None) -> Any:
        """The child's answer; raises as `send` and `receive`, and queue.Empty where it does not read the question."""
        data = _packed(question)
        if seconds is None or len(data) <= ROOM:
            _write(self._process.stdin, data)
            return self.receive(seconds)
        began = time.monotonic()
        # A child that was stopped reads nothing, and the write would wait for ever.
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            _write(self._process.stdin, data)
        except OSError:
            if late.finished.is_set():
                raise queue.Empty from None
            raise
        finally:
            late.cancel()
        return self.receive(max(seconds - (time.monotonic() - began), 0.0))


def _pump(pipe: BinaryIO, answers: queue.SimpleQueue[Any]) -> None:
    with pipe:
        try:
            while True:
                answers.put(_read(pipe))
        except (EOFError, OSError, pickle.UnpicklingError):
            answers.put(EOFError())


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    # A fork of the owner has the object too, but the child is not its own.
    if os.getpid() == owner:
        process.kill()
        process.wait()
    if process.stdin is not None:
        # What was not sent can no longer be flushed.
        with contextlib.suppress(OSError):
            process.stdin.close()


@contextlib.contextmanager
def listening() -> Iterator[tuple[Iterator[Any], Callable[[Any], None]]]:
    """Inside the child: what the parent asks, one question after the other, and how to answer, until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who will end this process
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # solvers that print must not print into the answers
    threading.Thread(target=_outlive_no_parent, args=(os.getppid(),), daemon=True).start()

    def asked() -> Iterator[Any]:
        with contextlib.suppress(EOFError):
            while True:
                yield _read(questions)

    with contextlib.suppress(BrokenPipeError):
        yield asked(), lambda message: _write(answers, _packed(message))


def _outlive_no_parent(parent: int) -> None:
    """End the child in the middle of its thinking when the parent has been killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _packed(message: Any) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return struct.pack("<Q", len(data)) + data


def _write(pipe: Any, data: bytes) -> None:
    pipe.write(data)
    pipe.flush()


def _read(pipe: BinaryIO) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(pipe.read(struct.unpack("<Q", head)[0]))


# ---- Work on other processes and machines, through joblib: what all tasks share travels to each worker once.
#
# joblib would send what many tasks share, a world say, with every task: 2 ms per call for half a MB on loky, 16 ms for
# 24 MB, more than 5 % of a short gradient. Here a task carries a key; a worker that does not know the key says so, and
# gets the value with its next task. This asks nothing of the backend: it is the same on loky, Dask and Ray.

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


class Held(Generic[T]):
    """A value that workers hold; `n_sent` and `n_bytes` say how often it has travelled, and its size."""

    def __init__(self, value: T) -> None:
        self.value, self.n_sent, self.n_bytes = value, 0, 0
        self._key, self._data, self._placed = uuid.uuid4().hex, b"", False

    def map(self, call: Callable[[T, A], R], tasks: Sequence[A]) -> list[R]:
        """call(value, task) of every task, in their order."""
        found = dict(self.unordered(call, tasks))
        return [found[index] for index in range(len(tasks))]

    def unordered(
        self, call: Callable[[T, A], R], tasks: Sequence[A], n_jobs: int | None = None, threads: bool = False
    ) -> Iterator[tuple[int, R]]:
        """The number and the result of every task, each as soon as it is there; `threads`: whatever is configured."""
        workers, (backend, _) = n_workers(n_jobs), get_active_backend()
        if workers == 1:
            yield from enumerate(call(self.value, task) for task in tasks)
            return
        if threads or getattr(backend, "supports_sharedmem", False) or getattr(backend, "uses_threads", False):
            parallel = _streaming(n_jobs, "threading")
            yield from parallel(joblib.delayed(_number)(i, call, self.value, task) for i, task in enumerate(tasks))
            return
        self._data = self._data or cloudpickle.dumps(self.value)
        self.n_bytes = len(self._data)
        todo, n_with = list(range(len(tasks))), 0 if self._placed else workers
        while todo:
            # First as many tasks as there are workers bring the value, and nothing else runs: each gets one.
            now, todo = (todo[:n_with], todo[n_with:]) if n_with else (todo, [])
            self.n_sent += len(now) if n_with else 0
            given, self._placed = (self._key, self._data if n_with else None, call), True
            missing = []
            for index, result in _streaming(n_jobs)(joblib.delayed(_number)(i, _call, given, tasks[i]) for i in now):
                if isinstance(result, _Missing):
                    missing.append(index)
                else:
                    yield index, result
            # A worker that is new, or that has held too much else since.
            todo, n_with = sorted(missing) + todo, workers if missing else 0


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


def _number(index: int, call: Callable[[T, A], R], value: T, task: A) -> tuple[int, R]:
    return index, call(value, task)


def _call(given: tuple[str, bytes | None, Callable[[Any, A], R]], task: A) -> R | _Missing:
    """On a worker: the result, or that the value is not there."""
    key, data, call = given
    if key not in _known:
        if data is None:
            return _Missing()
        _known[key] = pickle.loads(data)
        while len(_known) > MOST_HELD:
            _known.popitem(last=False)
    _known.move_to_end(key)
    return call(_known[key], task)
