"""Demonstrations as files.

Two formats, chosen by the suffix. `.csv` has the columns demo, step, state, action, in the order that
its header says; the last row of each demonstration has an empty action. `.jsonl` has one object per line,
{"states": [...], "actions": [...]}. Both hold demonstrations of any lengths and round-trip exactly.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any, NoReturn

from xmen.errors import FileFormatError, TrajectoryError
from xmen.files import as_path, read_text, write_whole
from xmen.worlds.demo_records import read_records
from xmen.worlds.demo_tables import RecordedDemos, demo_columns, from_columns, from_episodes
from xmen.worlds.names import Given, Names
from xmen.worlds.spreadsheets import read_table
from xmen.worlds.trajectory import Trajectory

_MOST_DIGITS = 18  # more than any state has
_MOST_SHOWN = 120  # characters of the wrong text in a message
_HEADER = ["demo", "step", "state", "action"]


def read_demos(source: Any, world: Any = None, *, states: Given = None, actions: Given = None) -> RecordedDemos:
    """Read demonstrations from a file, a data frame, or the records of another library.

    Parameters
    ----------
    source
        A .csv file with the columns demo, step, state and action, or a .jsonl file with one object per line; or a
        pandas or polars frame or a dict of columns; or trajectories of imitation, or a Minari dataset.
    world
        The world in which they happened. With it, files may say cells ("(2, 3)", or columns x and y), moves, nodes, and
        leave out actions where only one leads from state to state; further columns (ids, times) become `metadata` of
        the list that is returned, one dict per demonstration; semicolons and decimal commas are understood.
    states, actions
        Names of your own: a list (the name of number i at place i) or a dict from names to numbers.

    Returns
    -------
    list of Trajectory
        The demonstrations in their order, with `metadata`, one dict for each.

    Raises
    ------
    FileFormatError
        When the file is not one of these, with its name, the line and what was expected.
    TrajectoryError
        When records do not hold states and actions.
    FileNotFoundError
        When there is no such file.
    """
    names = Names(world, states, actions)
    if not isinstance(source, str | PathLike):
        return _read_object(source, names)
    file = Path(source)
    suffix = _suffix(file, (".json",))
    if suffix != ".json" and world is None and states is None and actions is None:
        read = {".csv": _read_csv, ".jsonl": _read_jsonl}[suffix]
        return RecordedDemos(read(file, io.StringIO(read_text(file), newline="")))
    return from_columns(read_table(file), names, str(file)) if suffix == ".csv" else read_records(file, names)


def _read_object(source: Any, names: Names) -> RecordedDemos:
    if isinstance(source, Mapping):
        return from_columns(source, names)
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):  # a frame of pandas, polars and their kin
        return from_columns({str(name): list(source[name]) for name in source.columns}, names, "frame")
    episodes = source.iterate_episodes() if hasattr(source, "iterate_episodes") else source
    if isinstance(episodes, bytes) or not isinstance(episodes, Iterable):
        raise TrajectoryError(
            f"expected a file, a frame, or a list of trajectories, got {type(source).__name__} {source!r:.60}"
        )
    return from_episodes(episodes, names)


def demos_csv(demos: Iterable[Trajectory], world: Any = None) -> str:
    """The text of a .csv file; with a world, in its words."""
    stream = io.StringIO(newline="")
    checked = as_trajectories(demos)
    if world is None:
        _write_csv(checked, stream)
    else:
        columns = demo_columns(RecordedDemos(checked, getattr(demos, "metadata", ())), Names(world))
        csv.writer(stream, lineterminator="\n").writerows([columns, *zip(*columns.values(), strict=True)])
    return stream.getvalue()


def write_demos(demos: Iterable[Trajectory], path: str | PathLike[str], world: Any = None) -> None:
    """Write demonstrations to a file, replacing what was there.

    Parameters
    ----------
    demos
        Trajectories of any lengths.
    path
        Where to write; the name ends in .csv or .jsonl, which decides the format.
    world
        If given, a .csv file gets cells, moves or nodes instead of numbers, and the metadata of `read_demos`.

    Raises
    ------
    FileFormatError
        When the name ends in something else.
    TrajectoryError
        When something in `demos` is not a Trajectory.
    """
    file = as_path(path, "write_demos(demos, path)")
    text = demos_csv(demos, world) if _suffix(file) == ".csv" else _jsonl(as_trajectories(demos))
    write_whole(file, text.encode())


def as_trajectories(demos: Any) -> list[Trajectory]:
    """A list of trajectories, or an error that says what was given instead."""
    if isinstance(demos, Trajectory):
        raise TrajectoryError("expected a list of trajectories, got one Trajectory: write [trajectory]")
    if isinstance(demos, str | bytes) or not isinstance(demos, Iterable):
        raise TrajectoryError(f"expected a list of trajectories, got {type(demos).__name__} {demos!r:.60}")
    checked = list(demos)
    for index, entry in enumerate(checked):
        if not isinstance(entry, Trajectory):
            raise TrajectoryError(
                f"demonstration {index} must be a Trajectory, got {type(entry).__name__} {entry!r:.60}: write "
                "xm.Trajectory(states, actions), or read_demos(...) for records, frames and files"
            )
    return checked


def _suffix(file: Path, others: tuple[str, ...] = ()) -> str:
    suffix = file.suffix.lower()
    if suffix not in (".csv", ".jsonl", *others):
        raise FileFormatError(f"{file}: demonstrations are .csv or .jsonl files, got the suffix {file.suffix!r}")
    return suffix


def _wrong(file: Path, line: int, expected: str, got: str) -> NoReturn:
    shown = got if len(got) <= _MOST_SHOWN else f"{got[:_MOST_SHOWN]}..."
    raise FileFormatError(f"{file}, line {line}: expected {expected}, got {shown}")


# --- CSV ---


def _write_csv(demos: Sequence[Trajectory], stream: IO[str]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_HEADER)
    for index, trajectory in enumerate(demos):
        for step, (state, action) in enumerate(zip(trajectory.states, (*trajectory.actions, ""), strict=True)):
            writer.writerow((index, step, state, action))


def _read_csv(file: Path, stream: IO[str]) -> Iterator[Trajectory]:
    reader = csv.reader(stream)
    header = next(reader, [])
    names = [name.strip().lower() for name in header]
    if sorted(names) != sorted(_HEADER):
        got = repr(",".join(header))
        _wrong(file, 1, f"the header {','.join(_HEADER)}", f"{got:.80} (with world= other columns are read as well)")
    order = [names.index(name) for name in _HEADER]
    index, states, actions = 0, list[int](), list[int]()
    open_demo = False  # whether rows of demonstration `index` have been read and its last has not
    for row in _csv_rows(file, reader):
        line = reader.line_num
        if not row:
            continue
        if len(row) != len(_HEADER):
            _wrong(file, line, f"{len(_HEADER)} fields ({','.join(names)})", f"{len(row)}: {','.join(row)!r}")
        *numbers, taken = (row[column] for column in order)
        demo, step, state = (_natural(file, line, name, text) for name, text in zip(_HEADER, numbers, strict=False))
        if demo != index or step != len(states):
            after = "" if open_demo or not index else f" (demonstration {index - 1} ended with an empty action)"
            _wrong(file, line, f"demo {index}, step {len(states)}{after}", f"demo {demo}, step {step}")
        states.append(state)
        open_demo = bool(taken.strip())
        if open_demo:
            actions.append(_natural(file, line, "action", taken))
        else:
            yield Trajectory(states, actions)
            index, states, actions = index + 1, [], []
    if open_demo:
        _wrong(
            file,
            reader.line_num + 1,
            f"a last row of demo {index} with an empty action",
            "the end of the file",
        )


def _csv_rows(file: Path, reader: Any) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise FileFormatError(f"{file}, line {reader.line_num}: {error}") from None


def _natural(file: Path, line: int, name: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        _wrong(file, line, f"a whole number in column {name}", repr(text))
    return int(digits)


# --- JSON lines ---


def _jsonl(demos: Sequence[Trajectory]) -> str:
    return "".join(json.dumps({"states": tau.states, "actions": tau.actions}) + "\n" for tau in demos)


def _read_jsonl(file: Path, stream: IO[str]) -> Iterator[Trajectory]:
    expected = 'an object {"states": [...], "actions": [...]}'
    for line, text in enumerate(stream, start=1):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError) as error:
            _wrong(file, line, expected, f"{text.strip()!r:.60} ({error})")
        if not isinstance(entry, dict) or set(entry) != {"states", "actions"}:
            _wrong(file, line, expected, f"{text.strip()!r:.60}")
        for name, values in entry.items():
            if not isinstance(values, list) or any(type(value) is not int or value < 0 for value in values):
                _wrong(file, line, f"a list of whole numbers under {name!r}", f"{values!r:.60}")
        try:
            yield Trajectory(entry["states"], entry["actions"])
        except TrajectoryError as error:
            raise FileFormatError(f"{file}, line {line}: {error}") from None
