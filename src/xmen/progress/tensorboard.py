"""Watching a fit in TensorBoard (the extra `xmen-irl[tensorboard]`)."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from xmen.errors import StorageError, extra_module
from xmen.files import as_path
from xmen.progress.monitor import Record


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
        When TensorBoard is not installed.

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
        """Write one record."""
        if self._writer is None or record.iteration <= self._last:
            self.close()
            self._open(record.iteration)
        values = {"loss": record.loss, "gradient_norm": record.gradient_norm, "seconds": record.seconds}
        values |= {name: value for name in ("loss_std", "gradient_std") if (value := getattr(record, name))}
        known = {name: value for name, value in (values | dict(record.details)).items() if not math.isnan(value)}
        self._write(record.iteration, summary={"value": [{"tag": k, "simple_value": v} for k, v in known.items()]})
        self._last = record.iteration

    def _open(self, iteration: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        try:
            self._writer = EventFileWriter(str(self.folder))
        except OSError as error:
            raise StorageError(f"TensorBoard cannot write to {self.folder}: {error}") from error
        # What an earlier run wrote from here on is not shown: this one begins here.
        self._write(iteration, session_log={"status": SessionLog.START})

    def _write(self, iteration: int, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=iteration, **content))
        self._writer.flush()

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
