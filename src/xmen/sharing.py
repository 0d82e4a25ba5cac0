"""What lets threads share an object: locks that travel with it, and values that are worked out once."""

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Lock:
    """A lock that one thread may take several times; a copy, or what pickle makes of it, is a new one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> "tuple[type[Lock], tuple[()]]":
        return Lock, ()


def lock_of(owner: object) -> Lock:
    """The lock of an object, made when it is first asked for."""
    lock: Lock = owner.__dict__.setdefault("_lock", Lock())  # setdefault is atomic: all threads get the same one
    return lock


class once(Generic[T]):
    """A property that is worked out when it is first asked for, by one thread while the others wait, and then kept.

    functools.cached_property lets every thread that comes early work it out again, each with memory of its own.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        kept = instance.__dict__  # without a __set__, Python itself looks here first from then on
        with lock_of(instance):
            if self._name not in kept:
                kept[self._name] = self._function(instance)
            value: T = kept[self._name]
        return value
