"""CSV files of numbers under a fixed header; errors name the file, the line and the column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from xmen.errors import FileFormatError
from xmen.worlds.spreadsheets import open_table, point

_MOST_DIGITS = 18  # more than any state has

Row = tuple[int | float, ...]


def read_columns(file: Path, header: Sequence[str]) -> list[Row]:
    """The rows under `header`; all columns but the last hold whole numbers, the last one a number."""
    rows: list[Row] = []
    with open_table(file) as (reader, delimiter):
        first: list[str] = next(reader, [])
        if [name.strip().lower() for name in first] != list(header):
            raise FileFormatError(f"{file}, line 1: expected the header {','.join(header)}, got {','.join(first)!r}")
        for fields in reader:
            if not fields:
                continue
            where = f"{file}, line {reader.line_num}"
            if len(fields) != len(header):
                raise FileFormatError(f"{where}: expected {len(header)} fields ({','.join(header)}), got {len(fields)}")
            indices = [_natural(where, name, text) for name, text in zip(header[:-1], fields, strict=False)]
            rows.append((*indices, _number(where, header[-1], point(fields[-1], delimiter))))
    return rows


def columns_text(header: Sequence[str], rows: Iterable[Iterable[int | float]]) -> str:
    """The CSV text of rows; floats are written so that they are read back exactly."""
    lines = [",".join(header), *(",".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def _natural(where: str, column: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise FileFormatError(f"{where}: {column} must be a whole number 0, 1, 2, ..., got {text!r:.60}")
    return int(digits)


def _number(where: str, column: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise FileFormatError(f"{where}: {column} must be a finite number, got {text!r:.60}")
    return number
