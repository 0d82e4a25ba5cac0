"""CSV as spreadsheets write it: commas, semicolons or tabs between fields, and decimal commas where semicolons are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, TrajectoryError, XmenError
from xmen.files import read_text
from xmen.worlds.names import Names, is_missing
from xmen.worlds.trajectory import Trajectory


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


# ---- Demonstrations as JSON: one object per line, or the list that `xmen sample --json` prints


def read_records(file: Path, names: Names) -> RecordedDemos:
    """The demonstrations of a .jsonl file, or of a .json file with a list or with the key `trajectories`."""
    demos = RecordedDemos()
    for where, record in _records(file):
        if not isinstance(record, dict):
            expected = 'an object {"states": [...], "actions": [...]}'
            raise FileFormatError(f"{where}: expected {expected}, got {record!r:.60}")
        try:
            demos.add(*from_record(record, names))
        except XmenError as error:
            raise FileFormatError(f"{where}: {error}") from None
    return demos


def _records(file: Path) -> Iterator[tuple[str, Any]]:
    if file.suffix.lower() != ".json":
        yield from json_lines(file)
        return
    whole = _parse(read_text(file), str(file))
    listed = whole.get("trajectories") if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise FileFormatError(f'{file}: expected a list of demonstrations, or an object with "trajectories"')
    yield from ((f"{file}, demonstration {index}", record) for index, record in enumerate(listed))


def json_lines(file: Path) -> Iterator[tuple[str, Any]]:
    """Every line that is not blank, and the words for where it is."""
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if line.strip():
            yield f"{file}, line {number}", _parse(line, f"{file}, line {number}")


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: expected JSON, got {text.strip()!r:.60} ({error})") from None


# ---- Demonstrations as people have them: tables with columns of their own, and records of other libraries.
#
# A table has one row per position. Its columns are found by their names, whatever their order; all others are kept as
# metadata: one value where it stays the same throughout a demonstration (an id), else one per position (times).


DEMO = ("demo", "demonstration", "trajectory", "episode", "trip")
STEP = ("step", "t", "position")
STATE = ("state", "cell", "node")
ACTION = ("action", "move")


class RecordedDemos(list[Trajectory]):
    """Trajectories, and what was written down beside them: `metadata[i]` is a dict for demonstration i."""

    def __init__(self, demos: Iterable[Trajectory] = (), metadata: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(demos)
        self.metadata = list(metadata) or [{} for _ in self]

    def add(self, demo: Trajectory, record: dict[str, Any]) -> None:
        """One more, and what was written down beside it."""
        self.append(demo)
        self.metadata.append(record)


COLUMNS = "columns"  # what a table without a file is called


def from_columns(columns: Mapping[str, Sequence[Any]], names: Names, where: str = COLUMNS) -> RecordedDemos:
    """Demonstrations from columns of equal length; `where` is the name of the table in messages."""
    table = _Table(columns, names, where)
    demos = RecordedDemos()
    seen: set[Any] = set()
    first = 0
    for row in range(1, table.n_rows + 1):
        if row == table.n_rows or table.demo[row] != table.demo[first]:
            label = table.demo[first]
            if label in seen:
                raise FileFormatError(f"{where}: the rows of demonstration {label!r:.60} do not stand together: sort")
            seen.add(label)
            try:
                demos.add(table.trajectory(range(first, row)), table.rest(range(first, row)))
            except XmenError as error:
                raise FileFormatError(f"{where}, demonstration {label!r:.60}: {error}") from None
            first = row
    return demos


class _Table:
    """The columns of a table by what they mean."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], names: Names, where: str) -> None:
        self.names = names
        self.columns = {str(name).strip().lower(): values for name, values in columns.items()}
        if len(self.columns) < len(columns):
            raise FileFormatError(f"{where}: two columns have the same name: {', '.join(map(str, columns))}")
        lengths = {len(values) for values in self.columns.values()}
        if len(lengths) > 1:
            raise FileFormatError(f"{where}: columns of different lengths, {sorted(lengths)}")
        demo = self._role(DEMO)
        states = self._role(STATE)
        if states is None and {"x", "y"} <= set(self.columns):
            states = "x"
        if demo is None or states is None:
            missing = f"a column {' or '.join(DEMO)}" if demo is None else f"a column {', '.join(STATE)}, or x and y"
            line = "" if where == COLUMNS else ", line 1"
            raise FileFormatError(
                f"{where}{line}: expected the header demo,step,state,action, or other names of these; "
                f"expected {missing}, got the columns {', '.join(self.columns) or '(none)'}"
            )
        self.n_rows = lengths.pop()
        self.demo = [_label(value, where, demo, row) for row, value in enumerate(self.columns[demo])]
        self.state_column, self.action_column, self.step_column = states, self._role(ACTION), self._role(STEP)
        used = {demo, states, self.action_column, self.step_column} | ({"x", "y"} if states == "x" else set())
        self.others = [name for name in self.columns if name not in used]

    def _role(self, words: Sequence[str]) -> str | None:
        return next((word for word in words if word in self.columns), None)

    def trajectory(self, rows: range) -> Trajectory:
        """The trajectory in consecutive rows."""
        if self.step_column is not None:
            steps = [self.columns[self.step_column][row] for row in rows]
            self._check_steps([self.names.action(step) for step in steps])
        states = [self._state(row) for row in rows]
        taken = [None if self.action_column is None else self.columns[self.action_column][row] for row in rows]
        if not is_missing(taken[-1]):
            raise TrajectoryError(
                f"its last row has the action {taken[-1]!r:.60}; the last row holds the last state, with no action"
            )
        if all(map(is_missing, taken)):
            pairs = enumerate(pairwise(states))
            return Trajectory(states, [self.names.between(*pair, position) for position, pair in pairs])
        for position, value in enumerate(taken[:-1]):
            if is_missing(value):
                raise TrajectoryError(f"position {position} has no action, and is not its last")
        return Trajectory(states, [self.names.action(value) for value in taken[:-1]])

    def rest(self, rows: range) -> dict[str, Any]:
        """What the other columns say about consecutive rows."""
        found = {}
        for name in self.others:
            values = [self.columns[name][row] for row in rows]
            same = all(value == values[0] or (is_missing(value) and is_missing(values[0])) for value in values)
            found[name] = values[0] if same else values
        return found

    def _state(self, row: int) -> int:
        if self.state_column == "x":
            return self.names.state((self.columns["x"][row], self.columns["y"][row]))
        return self.names.state(self.columns[self.state_column][row], named=self.state_column == "node")

    def _check_steps(self, steps: list[int]) -> None:
        for before, after in pairwise(steps):
            if after != before + 1:
                raise TrajectoryError(f"step {after} follows step {before}: rows have to stand in order, without gaps")


def from_record(record: Mapping[str, Any], names: Names) -> tuple[Trajectory, dict[str, Any]]:
    """One demonstration as {"states": [...], "actions": [...], ...}; without actions, those that lead along."""
    found, actions = record.get("states"), record.get("actions")
    if not isinstance(found, list | tuple) or not isinstance(actions, list | tuple | None):
        raise TrajectoryError(f'expected {{"states": [...], "actions": [...]}}, got {dict(record)!r:.80}')
    states = [names.state(value) for value in found]
    if actions is None:
        taken = [names.between(*pair, position) for position, pair in enumerate(pairwise(states))]
    else:
        taken = [names.action(value) for value in actions]
    return Trajectory(states, taken), {key: value for key, value in record.items() if key not in ("states", "actions")}


def from_episodes(episodes: Iterable[Any], names: Names) -> RecordedDemos:
    """Trajectories of other libraries: imitation has `obs` and `acts`, Minari `observations` and `actions`."""
    demos = RecordedDemos()
    for index, episode in enumerate(episodes):
        try:
            demos.add(*_from_episode(episode, names))
        except XmenError as error:
            raise TrajectoryError(f"demonstration {index}: {error}") from None
    return demos


def _from_episode(episode: Any, names: Names) -> tuple[Trajectory, dict[str, Any]]:
    if isinstance(episode, Trajectory):
        return episode, {}
    if isinstance(episode, Mapping) and "states" in episode:
        return from_record(episode, names)
    states = getattr(episode, "obs", getattr(episode, "observations", None))
    actions = getattr(episode, "acts", getattr(episode, "actions", None))
    if states is None or actions is None or isinstance(states, Mapping):
        raise TrajectoryError(
            f"got {type(episode).__name__}: expected a Trajectory, a dict with states and actions, or something with "
            "obs and acts (imitation) or observations and actions (Minari) that are states and actions of the world"
        )
    found = {"id": getattr(episode, "id", None), "rewards": getattr(episode, "rewards", None)}
    trajectory = Trajectory(map(names.state, states), map(names.action, actions))
    return trajectory, {key: value for key, value in found.items() if value is not None}


def demo_columns(demos: Iterable[Trajectory], names: Names) -> dict[str, list[Any]]:
    """Columns that `from_columns` reads back, in the words of the world, with the metadata if there is any."""
    words, state_of = names.state_columns()
    move, action_of = names.action_column()
    listed = list(demos)
    metadata: Sequence[Mapping[str, Any]] = getattr(demos, "metadata", None) or [{}] * len(listed)
    others = list(dict.fromkeys(key for record in metadata for key in record))
    fixed = ("demo", "step", *words, move)
    kept = [f"{key} recorded" if key in {*DEMO, *STEP, *STATE, *ACTION, "x", "y"} else key for key in others]
    columns: dict[str, list[Any]] = {name: [] for name in (*fixed, *kept)}
    for index, (trajectory, record) in enumerate(zip(listed, metadata, strict=True)):
        for step, state in enumerate(trajectory.states):
            last = step == len(trajectory)
            row = [index, step, *state_of(state), None if last else action_of(trajectory.actions[step])]
            row += [_at(record.get(key), step, len(trajectory) + 1) for key in others]
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return columns


def _at(value: Any, step: int, n_positions: int) -> Any:
    return value[step] if isinstance(value, list) and len(value) == n_positions else value


def _label(value: Any, where: str, column: str, row: int) -> str:
    if is_missing(value):
        raise FileFormatError(f"{where}: row {row + 1} has nothing in the column {column}")
    return str(value).strip()
