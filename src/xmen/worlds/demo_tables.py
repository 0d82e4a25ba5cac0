"""Demonstrations as people have them: tables with columns of their own, and records of other libraries.

A table has one row per position. Its columns are found by their names, whatever their order; all others are kept as
metadata: one value where it stays the same throughout a demonstration (an id), else one per position (times).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from xmen.errors import FileFormatError, TrajectoryError, XmenError
from xmen.worlds.names import Names, is_missing
from xmen.worlds.trajectory import Trajectory

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
