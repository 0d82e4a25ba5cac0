"""Time limits of oracles, in seconds of wall-clock time."""

from __future__ import annotations

import time
from types import TracebackType

from xmen.errors import OracleTimeoutError


class Stopwatch:
    """Adds up the time spent inside `with` blocks: time the caller takes between two solutions is not the oracle's."""

    def __init__(self, name: str, limit: float | None) -> None:
        self.name, self.limit = name, limit
        self._used = 0.0
        self._began: float | None = None

    def __enter__(self) -> Stopwatch:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._used, self._began = self.used, None

    @property
    def used(self) -> float:
        """Seconds so far."""
        return self._used + (0.0 if self._began is None else time.perf_counter() - self._began)

    @property
    def left(self) -> float | None:
        """Seconds to go, None without a limit; raises OracleTimeoutError when there are none."""
        if self.limit is None:
            return None
        left = self.limit - self.used
        if left <= 0:
            raise self.expired()
        return left

    def expired(self) -> OracleTimeoutError:
        """The error that says that the time is up."""
        return OracleTimeoutError(
            f"{self.name} was stopped at its time limit of {self.limit:g} s: give it more time (time_limit), or an "
            "easier question (fewer parities, another oracle)"
        )
