"""CSV as spreadsheets write it: commas, semicolons or tabs between fields, and decimal commas where semicolons are."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError
from xmen.files import read_text


@contextmanager
def open_table(file: Path) -> Iterator[tuple[Any, str]]:
    """A csv reader over a file and what stands between its fields; errors of encoding and quoting name the file."""
    stream = io.StringIO(read_text(file), newline="")
    header = stream.readline()
    delimiter = max(",;\t", key=header.count)  # the first of equals: a comma
    stream.seek(0)
    try:
        yield csv.reader(stream, delimiter=delimiter), delimiter
    except csv.Error as error:
        raise FileFormatError(f"{file}: not valid CSV: {error}") from None


def point(text: str, delimiter: str) -> str:
    """A number with a decimal point; in files without commas between fields a comma is a decimal comma.

    >>> point("0,25", ";"), point("0.25", ";"), point("1,2", ",")
    ('0.25', '0.25', '1,2')
    """
    return text.replace(",", ".") if delimiter != "," and text.count(",") == 1 and "." not in text else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_table(file: Path) -> dict[str, list[str]]:
    """The columns of a file by the names in its first line."""
    with open_table(file) as (reader, delimiter):
        header = [name.strip() for name in next(reader, [])]
        if header and all(map(_is_number, header)):
            raise FileFormatError(
                f"{file}, line 1: these are numbers, {delimiter.join(header)!r:.60}, and the first line has to "
                "name the columns: put a line with their names above it"
            )
        if len({name.lower() for name in header}) < len(header):
            raise FileFormatError(f"{file}, line 1: two columns have the same name: {delimiter.join(header)!r:.120}")
        columns: dict[str, list[str]] = {name: [] for name in header}
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if len(fields) != len(header):
                raise FileFormatError(
                    f"{file}, line {reader.line_num}: expected {len(header)} fields ({delimiter.join(header)!r:.120}), "
                    f"got {len(fields)}: {delimiter.join(fields)!r:.120}"
                )
            for values, field in zip(columns.values(), fields, strict=True):
                values.append(field)
    return columns
