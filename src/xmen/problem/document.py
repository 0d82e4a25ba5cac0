"""TOML files: read strictly, where nobody asked for a key it is refused; written so that comments and order stay."""

import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import tomlkit
from tomlkit.container import Container, OutOfOrderTableProxy
from tomlkit.items import AoT, Array, Comment, Item, Null, Table, Trivia, Whitespace

from xmen.errors import ConstraintSyntaxError, FileFormatError, MissingExtraError, MissingFileError, XmenError, in_words
from xmen.files import read_text

_SHOWN = 60  # characters of a wrong value in a message
_REQUIRED: Any = object()


def read_values(file: Path) -> dict[str, Any]:
    """What a TOML file says, as Python values; OSError when it cannot be opened."""
    text = read_text(file)
    try:
        values = tomllib.loads(text.replace("\r\n", "\n"))
        repr(values)  # a hexadecimal number may have more digits than Python writes: no message could show it
        return values
    except (ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, tomllib.TOMLDecodeError) else in_words(error)
        raise FileFormatError(f"{file}: not valid TOML: {words}") from None


class PlacedError(FileFormatError):
    """A mistake of which the key is known."""

    def __init__(self, message: str, place: str = "", key: str = "") -> None:
        super().__init__(message)
        self.place, self.key = place, key


class Kind(NamedTuple):
    """What a key takes, in words, and whether a value is that; of a list, whether each item is; and names there are."""

    expected: str
    fits: Callable[[Any], bool]
    is_list: bool = False
    known: Sequence[str] = ()


def one_of(expected: str, *types: type, is_list: bool = False) -> Kind:
    """Values, or lists of values, of exactly these types: true is no whole number."""
    return Kind(expected, lambda value: type(value) in types, is_list)


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """The closest of the known names, as the end of a message; nothing where none is close."""
    close = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


TEXT = one_of("a text in quotes", str)
FILE = one_of("the name of a file, relative to this one", str)
INTEGER = one_of("a whole number", int)
NUMBER = Kind("a number", lambda one: type(one) is float or (type(one) is int and abs(one) <= sys.float_info.max))
BOOLEAN = one_of("true or false", bool)
TEXTS = one_of('a list of texts, such as ["up", "right"]', str, is_list=True)
NUMBERS = one_of("a list of numbers", int, float, is_list=True)
CELLS = Kind("a list of cells [[x, y], ...]", lambda one: type(one) is list and [*map(type, one)] == [int, int], True)
CELL_OR_CELLS = Kind(
    "a cell [x, y], or a list of cells",
    lambda one: CELLS.fits(one) or (type(one) is list and all(map(CELLS.fits, one))),
)


class TomlTable:
    """One table of the file. Messages name the file, the table and the key."""

    def __init__(self, values: dict[str, Any], file: Path, name: str = "") -> None:
        self.values, self.file, self.name = values, file, name
        self._asked: list[str] = []

    def where(self, key: str = "") -> str:
        """The file, the table and the key, as messages begin."""
        return ", ".join(part for part in (str(self.file), self.name, key) if part)

    def fail(self, key: str, message: str) -> NoReturn:
        """Refuse the value of a key."""
        raise PlacedError(message, self.where(key), key) from None

    @contextmanager
    def explaining(self, key: str = "") -> Iterator[None]:
        """Inside, an error of the library about a value gets the place where the user wrote it."""
        try:
            yield
        except MissingFileError as error:
            raise MissingFileError(error.filename, f"{key} in {self.where()}") from None
        except (MissingExtraError, FileFormatError):
            raise
        except ConstraintSyntaxError as error:
            error.place = self.where(key)
            raise
        except XmenError as error:
            self.fail(key, str(error))

    def take(self, key: str, kind: Kind, default: Any = _REQUIRED) -> Any:
        """The value of a key, or the default; refused where it is of another kind."""
        self._asked.append(key)
        if key not in self.values and default is not _REQUIRED:
            return default
        if key not in self.values:
            close = [other for other in get_close_matches(key, self.values, n=1) if other not in self._asked]
            hint = f" (there is {close[0]!r}: is that it?)" if close else ""
            self.fail("", f"the key {key!r} is missing{hint}; it takes {kind.expected}")
        value = self.values[key]
        is_whole = kind.is_list and type(value) is list
        for part in value if is_whole else [value]:
            if not kind.fits(part) or is_whole != kind.is_list:
                shown = repr(part) if len(repr(part)) <= _SHOWN else f"{part!r:.{_SHOWN}}..."
                self.fail(key, f"expected {kind.expected}, got {shown}{did_you_mean(part, kind.known)}")
        return value

    def take_all(self, required: Mapping[str, Kind], optional: Mapping[str, Kind]) -> dict[str, Any]:
        """The values of these keys that are there; any that was never asked for is refused, with the closest one."""
        found = {key: self.take(key, kind) for key, kind in required.items()}
        found |= {key: self.take(key, kind, None) for key, kind in optional.items()}
        for key in self.values:
            if key not in self._asked:
                known = f"Known {'here' if self.name else 'at the top of the file'}: {', '.join(self._asked)}"
                self.fail("", f"unknown key {key!r}{did_you_mean(key, self._asked) or '.'} {known}")
        return {key: value for key, value in found.items() if value is not None}  # TOML has no null

    def path(self, key: str) -> Path:
        """An existing file, relative to the problem file."""
        name: str = self.take(key, FILE)
        with self.explaining(key):
            found = within_fence(self.file.parent / name)
        if not found.is_file():
            self.fail(key, f"there is no file {str(found)!r} (names are relative to the problem file)")
        return found

    def table(self, key: str, default: Any = _REQUIRED) -> "TomlTable":
        """A table below this one."""
        kind = one_of(f"a table: write [{key}] on a line of its own", dict)
        return TomlTable(self.take(key, kind, default), self.file, f"[{key}]")

    def tables(self, key: str) -> "list[TomlTable]":
        """An array of tables below this one, each numbered from 1; none when the key is missing."""
        kind = one_of(f"tables: write [[{key}]] with two brackets before each", dict, is_list=True)
        found = enumerate(self.take(key, kind, []), start=1)
        return [TomlTable(item, self.file, f"[[{key}]] number {k}") for k, item in found]


# ---- Writing TOML, over an earlier text where there is one


def toml_text(values: Mapping[str, Any], before: str = "", comments: Mapping[str, Sequence[str]] | None = None) -> str:
    """The values as TOML; given the text `before`, its comments and order stay, and all that has not changed.

    Tables one level deep get a header, deeper ones stay on one line. `comments` go above rules, by name.

    >>> print(toml_text({"format": 1, "world": {"start": (0, 1)}, "events": {"key": {"cells": [[2, 3]]}}}), end="")
    format = 1
    <BLANKLINE>
    [world]
    start = [0, 1]
    <BLANKLINE>
    [events]
    key = {cells = [[2, 3]]}
    >>> toml_text({"seed": 2}, "seed = 1  # a throw of dice")
    'seed = 2  # a throw of dice'
    """
    try:
        document = tomlkit.parse(before.replace("\r\n", "\n"))
    except ValueError:  # no TOML: there is nothing to keep
        document = tomlkit.document()
    body, notes = document.body, comments or {}
    end = next((k for k, (_, item) in enumerate(body) if isinstance(item, Table | AoT)), 0)
    for block in _blocks(document):  # a comment above a table goes where the table goes
        block.trivia.indent = _cut_lead(body, end) + block.trivia.indent
        body = block.value.body
        end = len(body)
    try:
        _fill(document, values, top=True)
        for table in document.get("constraints", ()) if notes else ():
            table.trivia.indent += "".join(f"# {line}\n" for line in notes.get(table["name"], ()))
        text = document.as_string()
        text.encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise FileFormatError(f"{half!r} is half a character pair, which no text file can hold") from None
    except ValueError as error:  # tomlkit's own
        raise FileFormatError(f"a problem file cannot hold this: {error}") from None
    if before and not _same(tomllib.loads(text), values):
        return toml_text(values, comments=comments)  # what is said counts more than how
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _blocks(container: Container) -> Iterator[Table]:
    """All tables with a header, in the order of the file."""
    for _, item in container.body:
        for table in item.body if isinstance(item, AoT) else [item]:
            if isinstance(table, Table):
                if not table.is_super_table():
                    yield table
                yield from _blocks(table.value)


def _cut_lead(body: list[Any], end: int) -> str:
    """The comment right above what comes at `end`, and the blank lines above it, which are cut out."""
    lead = ""
    for kind in (Comment, Whitespace):
        while end and isinstance(body[end - 1][1], kind):
            end -= 1
            lead = body[end][1].as_string() + lead
            body[end] = (None, Null())
    return lead


def _same(one: Any, other: Any) -> bool:
    """Equal as TOML: 1 is not 1.0, a tuple is a list, and nan is nan."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def _fill(table: Any, values: Mapping[str, Any], top: bool = False) -> None:
    """Make a table say these values, and touch only what says something else."""
    for key in [key for key in table if key not in values]:
        del table[key]
    for key, value in values.items():
        old = table.get(key)
        if key in table and _same(old.unwrap() if hasattr(old, "unwrap") else old, value):
            continue
        if isinstance(value, Mapping) and (top or isinstance(old, Table | OutOfOrderTableProxy)):
            if not isinstance(old, Table | OutOfOrderTableProxy):
                table[key] = tomlkit.table()
            _fill(table[key], value)
        elif top and isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            table[key] = _array_of_tables(old if isinstance(old, AoT) else (), value)
        else:
            table[key] = _item(value)


def _array_of_tables(old: Sequence[Any], values: list[Mapping[str, Any]]) -> AoT:
    """Tables that say these values; a table that was there is known by its name."""
    known, tables = {table.get("name"): table for table in old}, tomlkit.aot()
    for value in values:
        table = known.pop(value.get("name"), None)
        if table is None:
            table = tomlkit.table()
            table.trivia.indent = "\n"
        _fill(table, value)
        tables.append(table)
    return tables


def _item(value: Any) -> Item:
    """A value as it stands after a key: tables on one line, and arrays made at once (one by one takes time squared)."""
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update({key: _item(item) for key, item in value.items()})
        return table
    if isinstance(value, list | tuple):
        return Array([part for item in value for part in (Whitespace(", "), _item(item))][1:], Trivia())
    item: Item = tomlkit.item(value)
    return item


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
    if (folder := _folder.get()) is not None and not file.resolve().is_relative_to(folder):
        raise FileFormatError(f"{str(file)!r} lies outside the folder of the problem, where nothing is read here")
    return file
