"""Strict reading of TOML: every key is asked for by name, and what nobody asked for is refused."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from xmen.errors import ConstraintSyntaxError, FileFormatError, MissingExtraError, MissingFileError, XmenError, in_words
from xmen.files import read_text

_SHOWN = 60  # characters of a wrong value in a message
_REQUIRED: Any = object()


def read_toml(file: Path) -> TomlTable:
    """The whole file as a table; OSError when it cannot be opened."""
    return TomlTable(read_values(file), file, "")


def read_values(file: Path) -> dict[str, Any]:
    """What a TOML file says, as Python values; OSError when it cannot be opened."""
    try:
        values = tomllib.loads(read_text(file).replace("\r\n", "\n"))
        repr(values)  # a hexadecimal number may have more digits than Python writes: no message could show it
        return values
    except FileFormatError:
        raise
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{file}: not valid TOML: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{file}: not valid TOML: {in_words(error)}") from None


class PlacedError(FileFormatError):
    """A mistake of which the key is known; `reason` is the message without the place."""

    def __init__(self, message: str, key: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.key, self.reason = key, reason


class PlacedSyntaxError(ConstraintSyntaxError):
    """The same for text that cannot be read; `reason` is the message without the place."""

    reason: str = ""


class TomlTable:
    """One table of the file. Messages name the file, the table and the key."""

    def __init__(self, values: dict[str, Any], file: Path, name: str) -> None:
        self.values, self.file, self.name = values, file, name
        self._asked: list[str] = []

    def where(self, key: str = "") -> str:
        """The file, the table and the key, as messages begin."""
        return ", ".join(part for part in (str(self.file), self.name, key) if part)

    def fail(self, key: str, message: str) -> NoReturn:
        """Refuse the value of a key."""
        raise PlacedError(f"{self.where(key)}: {message}", key, message) from None

    @contextmanager
    def explaining(self, key: str = "") -> Iterator[None]:
        """What the library says about a value gets the place where the user wrote it."""
        try:
            yield
        except MissingFileError as error:
            raise MissingFileError(error.filename, f"{key} in {self.where()}") from None
        except (MissingExtraError, FileFormatError):
            raise
        except ConstraintSyntaxError as error:
            placed = PlacedSyntaxError(f"{self.where(key)}: {error}", error.text, error.offset)
            placed.reason = str(error)
            raise placed from None
        except XmenError as error:
            self.fail(key, str(error))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def allow(self, *keys: str) -> None:
        """Declare keys before they are read."""
        self._asked += keys

    def _take(self, key: str, default: Any, expected: str) -> Any:
        self._asked.append(key)
        if key in self.values:
            return self.values[key]
        if default is not _REQUIRED:
            return default
        close = [other for other in get_close_matches(key, self.values, n=1) if other not in self._asked]
        hint = f" (there is {close[0]!r}: is that it?)" if close else ""
        self.fail("", f"the key {key!r} is missing{hint}; it takes {expected}")

    def _wrong(self, key: str, expected: str, value: object) -> NoReturn:
        shown = repr(value) if len(repr(value)) <= _SHOWN else repr(value)[:_SHOWN] + "..."
        self.fail(key, f"expected {expected}, got {shown}")

    def _typed(self, key: str, default: Any, expected: str, fits: Callable[[Any], bool]) -> Any:
        """The value of a key, or the default; refused where it is not what was expected."""
        value = self._take(key, default, expected)
        if value is not default and not fits(value):
            self._wrong(key, expected, value)
        return value

    def text(self, key: str, default: Any = _REQUIRED, expected: str = "a text in quotes") -> Any:
        """A string."""
        return self._typed(key, default, expected, lambda value: isinstance(value, str))

    def integer(self, key: str, default: Any = _REQUIRED) -> Any:
        """A whole number."""
        return self._typed(key, default, "a whole number", lambda value: type(value) is int)

    def number(self, key: str, default: Any = _REQUIRED) -> Any:
        """A whole number or a float."""

        def fits(value: Any) -> bool:
            return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)

        return self._typed(key, default, "a number", fits)

    def boolean(self, key: str, default: Any = _REQUIRED) -> Any:
        """true or false."""
        return self._typed(key, default, "true or false", lambda value: type(value) is bool)

    def text_or_number(self, key: str, default: Any = _REQUIRED, expected: str = "a text in quotes or a number") -> Any:
        """A string, a whole number or a float."""
        return self._typed(key, default, expected, lambda value: type(value) in (str, int, float))

    def listed(self, key: str, kinds: tuple[type, ...], expected: str, default: Any = _REQUIRED) -> Any:
        """A list whose items are of these types."""

        def fits(value: Any) -> bool:
            return isinstance(value, list) and all(type(item) in kinds for item in value)

        return self._typed(key, default, expected, fits)

    def texts(self, key: str, default: Any = _REQUIRED) -> Any:
        """A list of strings."""
        return self.listed(key, (str,), 'a list of texts, such as ["up", "right"]', default)

    def cell(self, key: str, default: Any = _REQUIRED) -> Any:
        """A cell [x, y] as a tuple."""
        value = self.listed(key, (int,), "a cell [x, y]", default)
        if value is default:
            return value
        if len(value) != 2:
            self._wrong(key, "a cell [x, y]", value)
        return tuple(value)

    def cell_or_cells(self, key: str, default: Any = _REQUIRED) -> Any:
        """One cell [x, y], or a list of them."""
        value = self.values.get(key)
        several = isinstance(value, list) and bool(value) and all(isinstance(item, list) for item in value)
        return self.cells(key, default) if several else self.cell(key, default)

    def cells(self, key: str, default: Any = _REQUIRED) -> Any:
        """A list of cells as tuples."""
        expected = "a list of cells [[x, y], ...]"
        value = self.listed(key, (list,), expected, default)
        if value is default:
            return value
        for item in value:
            if len(item) != 2 or any(type(part) is not int for part in item):
                self._wrong(key, expected, item)
        return [tuple(item) for item in value]

    def path(self, key: str) -> Path:
        """An existing file, relative to the problem file."""
        name: str = self.text(key, expected="the name of a file, relative to this one")
        with self.explaining(key):
            found = within_fence(self.file.parent / name)
        if not found.is_file():
            self.fail(key, f"there is no file {str(found)!r} (names are relative to the problem file)")
        return found

    def table(self, key: str, default: Any = _REQUIRED) -> TomlTable:
        """A table below this one."""
        value = self._take(key, default, f"a table: write [{key}] on a line of its own")
        if not isinstance(value, dict):
            self._wrong(key, f"a table: write [{key}] on a line of its own", value)
        return TomlTable(value, self.file, f"[{key}]")

    def tables(self, key: str) -> list[TomlTable]:
        """An array of tables below this one, each numbered from 1; none when the key is missing."""
        value = self._take(key, [], "")
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self._wrong(key, f"tables: write [[{key}]] with two brackets before each", value)
        return [TomlTable(item, self.file, f"[[{key}]] number {k}") for k, item in enumerate(value, start=1)]

    def finish(self) -> None:
        """Refuse keys that were never asked for, with the closest one that exists."""
        for key in self.values:
            if key not in self._asked:
                close = get_close_matches(key, self._asked, n=1)
                hint = f"did you mean {close[0]!r}? " if close else ""
                what = "here" if self.name else "at the top of the file"
                self.fail("", f"unknown key {key!r}; {hint}Known {what}: {', '.join(dict.fromkeys(self._asked))}")


# ---- Writing TOML: just what a problem file consists of. Python's standard library only reads it


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, Any]) -> str:
    """The document as TOML; tables one level deep get a header, deeper ones stay on one line.

    >>> print(toml_text({"format": 1, "world": {"start": (0, 1)}, "events": {"key": {"cells": [[2, 3]]}}}), end="")
    format = 1
    <BLANKLINE>
    [world]
    start = [0, 1]
    <BLANKLINE>
    [events]
    key = { cells = [[2, 3]] }
    """
    lines = [f"{_key(key)} = {_value(value)}" for key, value in document.items() if not _is_table(value)]
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_value(item)}" for name, item in value.items())]
        elif _is_table(value):
            for entry in value:
                lines += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {_value(item)}" for name, item in entry.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FileFormatError(f"{text!r} holds half a character pair, which no text file can hold") from None
    # JSON's escapes are TOML's, except that JSON leaves DEL alone.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)  # inf and nan are spelled as Python does
        case str():
            return _string(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{ {', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())} }}"
    raise FileFormatError(f"{value!r:.60} ({type(value).__name__}) has no place in a problem file")


# ---- A fence around the folder of a problem: where others may edit it, it opens no file outside


_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)


@contextmanager
def fenced(folder: Path) -> Iterator[None]:
    """Inside, a problem that names a file outside of this folder, or one that a link leads to, is refused."""
    token = _folder.set(folder.resolve())
    try:
        yield
    finally:
        _folder.reset(token)


def within_fence(file: Path) -> Path:
    """The file, if there is no fence or it lies within."""
    folder = _folder.get()
    if folder is not None and not file.resolve().is_relative_to(folder):
        raise FileFormatError(f"{str(file)!r} lies outside the folder of the problem, where nothing is read here")
    return file
