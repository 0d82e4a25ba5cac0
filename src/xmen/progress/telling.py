"""What long work says of itself on the way: a line that engines tell and whoever waits may show.

Work that may last says now and then how far it is. Nobody listens by default; the command line does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], object] | None] = ContextVar("_listener", default=None)


def tell(line: str) -> None:
    """Say how far the work is; this costs nothing where nobody listens.

    >>> with listening(print):
    ...     tell("3 of 10 cells")
    3 of 10 cells
    >>> tell("nobody hears this")
    """
    listener = _listener.get()
    if listener is not None:
        listener(line)


@contextmanager
def listening(listener: Callable[[str], object]) -> Iterator[None]:
    """Inside, the listener hears what work in this thread tells."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
