"""What happens while long work runs: records, callbacks, Ctrl-C, TensorBoard, lines that say how far it is."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from traceback import walk_stack
from types import FrameType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import EngineError, InterruptedWarning, StorageError, extra_module, notify
from xmen.files import as_path

VALIDATION_LOSS = "validation_loss"  # among the details of a record


@dataclass(frozen=True)
class Record:
    """One iteration: the loss and the norm of its gradient before the step, and the seconds since the start.

    `loss_std` and `gradient_std` are standard errors, 0 where the numbers are exact; `details` has what else a
    method reports, by name, such as "validation_loss". What a method does not know is nan.

    A callback also sees what the model would be if the fit ended here: `weights` (d,) of a linear reward, or the
    `reward` of a network, which is trained on after the callback returns. The history keeps neither.
    """

    iteration: int
    loss: float
    gradient_norm: float
    seconds: float
    loss_std: float = 0.0
    gradient_std: float = 0.0
    details: Mapping[str, float] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    reward: Any = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers by name."""
        return {name: value for name, value in vars(self).items() if name not in ("weights", "reward")}


Callback: TypeAlias = Callable[[Record], object]
"""Called once per iteration; returning True (exactly) stops the fit."""


class Callbacks:
    """Several callbacks as one: each is called with every record, and any of them can stop the fit.

    Parameters
    ----------
    *callbacks
        Functions of a Record; one that returns True stops the fit.

    Examples
    --------
    >>> seen = []
    >>> callback = Callbacks(seen.append, lambda record: record.iteration == 2)
    >>> with Monitor(callback) as monitor:
    ...     while not monitor.record(loss=1.0, gradient_norm=0.5):
    ...         pass
    >>> len(seen)
    2
    """

    def __init__(self, *callbacks: Callback) -> None:
        for callback in callbacks:
            if not callable(callback):
                raise EngineError(f"Callbacks takes functions of a record; got {callback!r:.60}.")
        self.callbacks = callbacks

    def __call__(self, record: Record) -> bool:
        """Call them all; True when one of them says stop."""
        return True in [callback(record) is True for callback in self.callbacks]


class Monitor:
    """Collects records, calls the callback, and turns Ctrl-C into an early end, with the last complete weights.

    >>> with Monitor(lambda record: record.iteration == 2) as monitor:
    ...     while not monitor.record(loss=1.0, gradient_norm=0.5):
    ...         pass
    >>> [record.iteration for record in monitor.history], monitor.stopped
    ([1, 2], True)
    """

    def __init__(self, callback: Callback | None = None) -> None:
        if callback is not None and not callable(callback):
            raise EngineError(f"callback is a function of a record, or None; got {callback!r:.60}.")
        self.history: list[Record] = []
        self.stopped = False  # by the callback, or by validation
        self.interrupted = False  # by Ctrl-C
        self._heard = False  # a Ctrl-C that may have been lost on its way
        self._listening = False
        self._callback = callback
        self._started = time.perf_counter()

    def resume(self, history: list[Record]) -> None:
        """Go on after these records of an earlier run."""
        self.history = list(history)
        self._started = time.perf_counter() - (history[-1].seconds if history else 0.0)

    def record(self, *numbers: float, answer: Callable[[], Any] = lambda: None, **named: float) -> bool:
        """Note one iteration more and call the callback; True when it or Ctrl-C asks to stop.

        `answer` gives the present weights or reward, for a callback to look at.
        """
        entry = self.note(*numbers, **named)
        if self._callback is not None:
            now = answer()
            shown = {"weights": now.copy()} if isinstance(now, np.ndarray) else {"reward": now}
            self.stopped = self._callback(replace(entry, **shown)) is True or self.stopped
        return self.stopped or self._heard

    def note(
        self, loss: float, gradient_norm: float, loss_std: float = 0.0, gradient_std: float = 0.0, **details: float
    ) -> Record:
        """Note one iteration more."""
        seconds, known = time.perf_counter() - self._started, {name: float(value) for name, value in details.items()}
        errors = float(loss_std), float(gradient_std)
        entry = Record(len(self.history) + 1, float(loss), float(gradient_norm), seconds, *errors, known)
        self.history.append(entry)
        return entry

    def __enter__(self) -> Self:
        # An exception that is raised while Python runs a finaliser is dropped, and Ctrl-C with it: it is noted as well.
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._on_ctrl_c)
            self._listening = True
        return self

    def _on_ctrl_c(self, number: int, frame: FrameType | None) -> None:
        self._heard = True
        # While numba is at work, it calls Python from machine code, where an exception would end the process.
        modules = (inner.f_globals.get("__name__", "") for inner, _ in walk_stack(frame))
        if not any(name.partition(".")[0] in ("numba", "llvmlite") for name in modules):
            signal.default_int_handler(number, frame)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> bool:
        if self._listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._listening = False
        if not (self._heard if kind is None else issubclass(kind, KeyboardInterrupt)):
            return False
        self.interrupted = True
        done = f"stopped by Ctrl-C after {len(self.history)} iterations"
        notify(f"{done}; the model keeps what it had learned by then.", InterruptedWarning)
        return True


_listener: ContextVar[Callable[[str], object] | None] = ContextVar("_listener", default=None)


def tell(line: str) -> None:
    """Say how far the work is; this costs nothing where nobody listens.

    >>> with listening(print):
    ...     tell("3 of 10 cells")
    3 of 10 cells
    >>> tell("nobody hears this")
    """
    if (listener := _listener.get()) is not None:
        listener(line)


@contextmanager
def listening(listener: Callable[[str], object]) -> Iterator[None]:
    """Inside, the listener hears what work in this thread tells."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class TensorBoard:
    """A callback for any learner that writes its records where TensorBoard finds them: `tensorboard --logdir FOLDER`.

    One curve each for the loss, the norm of its gradient, the seconds since the start, the standard errors where there
    are any, and all details, by iteration. Every record is on disk when the next iteration begins.

    Parameters
    ----------
    folder
        Where to write. A folder is one run: a fit that is resumed goes on with its curves, and another fit into the
        same folder replaces them on the screen.

    Raises
    ------
    MissingExtraError
        When TensorBoard is not installed: it comes with the extra `tensorboard`.

    Examples
    --------
        xm.XMEN(world, rule, callback=xm.TensorBoard("runs/first")).fit(demos)
        xm.XMEN(world, rule, callback=xm.Callbacks(xm.TensorBoard("runs/second"), print)).fit(demos)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = as_path(folder, "TensorBoard(folder)")
        if self.folder.exists() and not self.folder.is_dir():
            raise StorageError(f"{self.folder} is a file: TensorBoard(folder) takes a folder, which may be a new one.")
        extra_module("tensorboard.summary", "TensorBoard")
        self._writer: Any = None
        self._last = 0

    def __call__(self, record: Record) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        def write(**content: Any) -> None:
            self._writer.add_event(Event(wall_time=time.time(), step=record.iteration, **content))
            self._writer.flush()

        if self._writer is None or record.iteration <= self._last:
            self.close()
            try:
                self._writer = EventFileWriter(str(self.folder))
            except OSError as error:
                raise StorageError(f"TensorBoard cannot write to {self.folder}: {error}") from error
            # What an earlier run wrote from here on is not shown: this one begins here.
            write(session_log={"status": SessionLog.START})
        values = {"loss": record.loss, "gradient_norm": record.gradient_norm, "seconds": record.seconds}
        values |= {name: value for name in ("loss_std", "gradient_std") if (value := getattr(record, name))}
        known = {name: value for name, value in (values | dict(record.details)).items() if not math.isnan(value)}
        write(summary={"value": [{"tag": k, "simple_value": v} for k, v in known.items()]})
        self._last = record.iteration

    def close(self) -> None:
        """Close the file; a further record opens another one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __getstate__(self) -> dict[str, Any]:
        # Copies, as scikit-learn makes them, write files of their own.
        return {"folder": self.folder, "_writer": None, "_last": 0}

    def __repr__(self) -> str:
        return f"TensorBoard({str(self.folder)!r})"
