"""Tables as people have them, from files and frames: demonstrations, trips and costs by the names of their columns.

A CSV has commas, semicolons or tabs between fields. Columns are found by their names, whatever their order and case.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import FileFormatError, TrajectoryError, WorldError, XmenError
from xmen.files import read_text
from xmen.worlds.names import Names, decimal, is_missing, unknown, whole
from xmen.worlds.sightings import Sighting
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.transitions import Transitions


class Table:
    """Columns of equal length by their names in lower case, and the words for where each row is."""

    def __init__(
        self, name: str, header: Iterable[Any], columns: Iterable[Sequence[Any]], lines: Sequence[int] | None = None
    ) -> None:
        names = [str(column).strip().lower() for column in header]
        self.name, self._lines = name, lines
        self.columns = dict(zip(names, columns, strict=True))
        if len(self.columns) < len(names):
            raise FileFormatError(f"{self.header}: two columns have the same name: {','.join(names)!r:.120}")
        lengths = {len(values) for values in self.columns.values()}
        if len(lengths) > 1:
            raise FileFormatError(f"{name}: columns of different lengths, {sorted(lengths)}")
        self.n_rows = lengths.pop() if lengths else 0

    @property
    def header(self) -> str:
        """Where the names of the columns are."""
        return self.name if self._lines is None else f"{self.name}, line 1"

    @property
    def got(self) -> str:
        """The columns, as messages say what there is."""
        return f"got the columns {', '.join(self.columns) or '(none)'}"

    def where(self, row: int) -> str:
        """Where a row is: by its line in a file, else by its number from 0."""
        return f"{self.name}, row {row}" if self._lines is None else f"{self.name}, line {self._lines[row]}"

    def role(self, *names: str) -> str | None:
        """The first of these columns that is there."""
        return next((name for name in names if name in self.columns), None)

    def state_columns(self, *names: str) -> tuple[str, ...]:
        """The column of the state, or x and y; FileFormatError where there is none."""
        single = self.role(*names)
        if single is not None:
            return (single,)
        if {"x", "y"} <= set(self.columns):
            return ("x", "y")
        expected = f"expected a column {', '.join(names)}, or x and y"
        raise FileFormatError(f"{self.header}: there is no column for the state: {expected}, {self.got}")

    def state(self, columns: tuple[str, ...], row: int, names: Names) -> int:
        """The state in a row."""
        value = tuple([self.columns[column][row] for column in columns])
        return names.state(value if len(value) > 1 else value[0], named=columns[0] in NAMED)

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each row with where it is, without the fields that are empty."""
        for row, values in enumerate(zip(*self.columns.values(), strict=True)):
            yield self.where(row), {n: v for n, v in zip(self.columns, values, strict=True) if not is_missing(v)}


def read_table(file: Path, text: str | None = None, wrong: list[XmenError] | None = None) -> Table:
    """The table in a CSV file, whose first line names the columns; or in a text that is called so.

    Rows with too many or too few fields are left out and noted in `wrong`; without it they are refused.
    """
    bad: list[XmenError] = [] if wrong is None else wrong
    stream = io.StringIO(read_text(file) if text is None else text, newline="")
    delimiter = max(",;\t", key=stream.readline().count)  # the first of equals: a comma
    stream.seek(0)
    reader = csv.reader(stream, delimiter=delimiter)
    kept, lines = [], []
    try:
        header = next(reader, [])
        if header and all(decimal(name) == decimal(name) for name in header):
            advice = "the first line has to name the columns: put a line with their names above it"
            raise FileFormatError(f"{file}, line 1: these are numbers, {delimiter.join(header)!r:.60}, and {advice}")
        for fields in reader:
            if not "".join(fields).strip():
                continue
            if len(fields) != len(header):
                expected = f"expected {len(header)} fields ({delimiter.join(header)!r:.120})"
                got = f"got {len(fields)}: {delimiter.join(fields)!r:.120}"
                bad.append(FileFormatError(f"{file}, line {reader.line_num}: {expected}, {got}"))
                continue
            kept.append(fields)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise FileFormatError(f"{file}, line {reader.line_num}: not valid CSV: {error}") from None
    if wrong is None:
        refuse_rows(bad)
    return Table(str(file), header, zip(*kept, strict=True) if kept else [()] * len(header), lines)


MOST_ROWS = 10  # that a message lists


def refuse_rows(bad: Sequence[XmenError]) -> None:
    """Raise an error about all bad rows, if there are any: one as it is, of several the first ten."""
    if not bad:
        return
    if len(bad) > 1:
        more = [f"and {len(bad) - MOST_ROWS:,} more"] if len(bad) > MOST_ROWS else []
        bad[0].place = f"{len(bad):,} rows cannot be read"
        bad[0].details = "".join(f"\n  {line}" for line in [*bad[1:MOST_ROWS], *more])
    raise bad[0]


def as_table(source: Any) -> Table | None:
    """The table in a dict of columns, or in a frame of pandas, polars and their kin; None for anything else."""
    if isinstance(source, Mapping):
        return Table("columns", source, source.values())
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return Table("frame", source.columns, [list(source[name]) for name in source.columns])
    return None


def read_numbers(file: Path, header: Sequence[str]) -> list[tuple[int | float, ...]]:
    """The rows of a CSV file with these columns; all but the last hold whole numbers, the last one a finite number."""
    table = read_table(file)
    if set(table.columns) != set(header):
        got = ",".join(table.columns)
        raise FileFormatError(f"{table.header}: expected the header {','.join(header)}, got {got!r:.120}")
    rows: list[tuple[Any, ...]] = []
    for row, (*places, last) in enumerate(zip(*(table.columns[name] for name in header), strict=True)):
        numbers = [whole(text) for text in places]
        if None in numbers:
            name, got = list(zip(header, places, strict=False))[numbers.index(None)]
            raise FileFormatError(f"{table.where(row)}: {name} must be a whole number 0, 1, 2, ..., got {got!r:.60}")
        if not math.isfinite(number := decimal(last)):
            raise FileFormatError(f"{table.where(row)}: {header[-1]} must be a finite number, got {last!r:.60}")
        rows.append((*numbers, number))
    return rows


def read_json(file: Path) -> Iterator[tuple[str, Any]]:
    """Every object of a .jsonl file, or of the list (or the key `trajectories`) of a .json file, with where it is."""
    if file.suffix.lower() != ".json":
        for number, line in enumerate(read_text(file).split("\n"), start=1):
            if line.strip():
                yield f"{file}, line {number}", _parse(line, f"{file}, line {number}")
        return
    content = _parse(read_text(file), str(file))
    listed = content.get("trajectories") if isinstance(content, dict) else content
    if not isinstance(listed, list):
        raise FileFormatError(f'{file}: expected a list of demonstrations, or an object with "trajectories"')
    yield from ((f"{file}, demonstration {index}", record) for index, record in enumerate(listed))


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: expected JSON, got {text.strip()!r:.60} ({error})") from None


# ---- Demonstrations: tables with one row per position, and records of other libraries.
#
# Columns that have no other meaning are kept as metadata: one value where it stays the same throughout a demonstration
# (an id), else one per position (times).

DEMO = ("demo", "demonstration", "trajectory", "episode", "trip")
STEP = ("step", "t", "position")
STATE = ("state", "cell", "node", "link")
NAMED = ("node", "link")  # columns in which a number is first of all a name
ACTION = ("action", "move")


class RecordedDemos(list[Trajectory]):
    """Trajectories (sightings where states are missing) with `names[i]`, and what stood beside in `metadata[i]`."""

    def __init__(
        self, demos: Iterable[Trajectory] = (), metadata: Iterable[dict[str, Any]] = (), names: Iterable[str] = ()
    ) -> None:
        super().__init__(demos)
        self.metadata = list(metadata) or [{} for _ in self]
        self.names = demo_names(self, names)
        self.left_out: list[str] = []  # why, one sentence for each that was

    def add(self, demo: Trajectory, record: dict[str, Any], name: str | None = None) -> None:
        """One more, and what was written down beside it; without a name it is called by its number."""
        self.names.append(str(len(self)) if name is None else name)
        self.append(demo)
        self.metadata.append(record)


def demo_names(demos: Sequence[Trajectory], names: Iterable[str] | None = None) -> list[str]:
    """What demonstrations are called in their file, or by their numbers from 0."""
    own = list(getattr(demos, "names", ()) if names is None else names)
    return own if len(own) == len(demos) else [str(index) for index in range(len(demos))]


def from_table(table: Table, names: Names, broken: Iterable[XmenError] = ()) -> RecordedDemos:
    """Demonstrations from a table with one row per position; all rows that cannot be read are refused at once."""
    demo, step, action = table.role(*DEMO), table.role(*STEP), table.role(*ACTION)
    if demo is None:
        expected = f"expected the header demo,step,state,action, or other names of these; expected a column {DEMO[0]}"
        raise FileFormatError(f"{table.header}: {expected} or {' or '.join(DEMO[1:])}, {table.got}")
    state = table.state_columns(*STATE)
    others = [name for name in table.columns if name not in (demo, step, action, *state)]
    demos, seen, bad = RecordedDemos(), set[str](), list(broken)
    for label, group in groupby(range(table.n_rows), lambda row: str(table.columns[demo][row]).strip()):
        rows = list(group)
        if is_missing(table.columns[demo][rows[0]]):
            bad.append(FileFormatError(f"{table.where(rows[0])}: there is nothing in the column {demo}"))
            continue
        if label in seen:
            apart = f"the rows of demonstration {label!r:.60} do not stand together: sort"
            bad.append(FileFormatError(f"{table.where(rows[0])}: {apart}"))
        seen.add(label)
        taken = [None if action is None else table.columns[action][row] for row in rows]
        fields = [*state, *([] if action is None else [action])]
        hidden = [all(is_missing(table.columns[column][row]) for column in fields) for row in rows]
        noted = not all(map(is_missing, taken)) and not any(hidden)  # what was seen in part is seen by its states
        states, actions, wrong = list[Any](), list[int](), list[tuple[int, XmenError]]()
        steps = [None, *(None if step is None else whole(table.columns[step][row]) for row in rows)]
        for position, row in enumerate(rows):
            try:
                before, number = steps[position : position + 2]
                if step is not None and (number is None or before not in (None, number - 1)):
                    after = "nothing" if before is None else f"step {before}"
                    raise TrajectoryError(f"step {table.columns[step][row]} follows {after}: they go 0, 1, 2, ...")
                states.append(None if hidden[position] else table.state(state, row, names))
                last = position == len(rows) - 1
                if noted and last != is_missing(taken[position]):
                    early = f"position {position} has no action, and is not its last"
                    late = f"its last row has the action {taken[-1]!r:.60}; it holds the last state, without one"
                    raise TrajectoryError(late if last else early)
                if noted and not last:
                    actions.append(names.action(taken[position]))
            except XmenError as error:
                wrong.append((row, error))
        try:
            if not wrong:
                found = _recorded(names, states, actions if noted else None)
                demos.add(found, columns_beside(table, others, rows), label)
        except XmenError as error:
            wrong.append((rows[0], error))
        place = f"demonstration {label!r:.60}"
        bad += [FileFormatError(f"{table.where(row)}, {place}: {error}") for row, error in wrong]
    refuse_rows(bad)
    return demos


def columns_beside(table: Table, others: Iterable[str], rows: Sequence[int]) -> dict[str, Any]:
    """The values of the other columns for one demonstration."""
    found = {}
    for name in others:
        values = [table.columns[name][row] for row in rows]
        same = all(value == values[0] or (is_missing(value) and is_missing(values[0])) for value in values)
        found[name] = values[0] if same else values
    return found


def from_records(entries: Iterable[tuple[str, Any]], names: Names, refusal: type[XmenError]) -> RecordedDemos:
    """Demonstrations from objects, each with the words for where it is."""
    demos = RecordedDemos()
    for where, entry in entries:
        try:
            demos.add(*_from_record(entry, names))
        except XmenError as error:
            raise refusal(f"{where}: {error}") from None
    return demos


def _from_record(entry: Any, names: Names) -> tuple[Trajectory, dict[str, Any]]:
    """imitation has `obs` and `acts`, Minari `observations` and `actions`, JSON {"states": [...], "actions": [...]}."""
    if isinstance(entry, Trajectory):
        return entry, {}
    if isinstance(entry, Mapping):
        states, actions = entry.get("states"), entry.get("actions")
        beside = {key: value for key, value in entry.items() if key not in ("states", "actions")}
        if not isinstance(states, list | tuple) or not isinstance(actions, list | tuple | None):
            raise TrajectoryError(f'expected an object {{"states": [...], "actions": [...]}}, got {dict(entry)!r:.80}')
    else:
        states = getattr(entry, "obs", getattr(entry, "observations", None))
        actions = getattr(entry, "acts", getattr(entry, "actions", None))
        found = {"id": getattr(entry, "id", None), "rewards": getattr(entry, "rewards", None)}
        beside = {key: value for key, value in found.items() if value is not None}
        if states is None or actions is None or isinstance(states, Mapping):
            known = "obs and acts (imitation) or observations and actions (Minari) that are states and actions"
            expected = f"a Trajectory, an object with states and actions, or something with {known} of the world"
            raise TrajectoryError(f"got {type(entry).__name__} {entry!r:.60}: expected {expected}")
    taken = None if actions is None else [names.action(value) for value in actions]
    numbers = [None if value is None else names.state(value) for value in states]
    return _recorded(names, numbers, taken), beside


def _recorded(names: Names, states: list[Any], actions: list[int] | None) -> Any:
    """A demonstration from numbers: a trajectory, and a sighting where a state is missing (None) or under noise."""
    if None not in states and names.noise is None:
        return names.along(states, actions)
    most, world = max((state for state in states if state is not None), default=0), names.world
    if world is not None and most >= world.n_states:
        raise TrajectoryError(unknown("state", most, world.n_states))
    return Sighting(states, noise=names.noise)


def demo_columns(demos: Iterable[Trajectory], world: Transitions | None = None) -> dict[str, list[Any]]:
    """Columns that `from_table` reads back, in the words of the world, with the metadata if there is any."""
    world = Transitions() if world is None else world  # one without names
    listed = list(demos)
    labels: list[Any] = demo_names(listed, getattr(demos, "names", ()))
    if labels == demo_names(listed):
        labels = [*range(len(listed))]  # numbers, also in a frame
    metadata: Sequence[Mapping[str, Any]] = getattr(demos, "metadata", None) or [{}] * len(listed)
    others = list(dict.fromkeys(key for record in metadata for key in record))
    kept = [f"{key} recorded" if key in {*DEMO, *STEP, *STATE, *ACTION, "x", "y"} else key for key in others]
    names = ("demo", "step", *world.state_fields(0), *world.action_fields(0), *kept)
    nowhere, read = (None,) * len(world.state_fields(0)), Names(world).state
    state_of = cache(lambda state: nowhere if state is None else tuple(world.state_fields(read(state)).values()))
    rows: list[list[Any]] = []
    for label, tau, record in zip(labels, listed, metadata, strict=True):
        beside = [record.get(key) for key in others]
        states, taken = (tau.seen, ()) if isinstance(tau, Sighting) else (tau.states, tau.actions)
        actions = [value for action in taken for value in world.action_fields(action).values()]
        for step, (state, action) in enumerate(zip_longest(states, actions)):
            own = [v[step] if isinstance(v, list) and len(v) == len(states) else v for v in beside]
            rows.append([label, step, *state_of(state), action, *own])
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


# ---- Costs: whole numbers per state, per state and action, or per edge, by name or number.
#
# A table has a column for the state (`state`, `cell`, `node`, `from`, or `x` and `y`), perhaps one for the action or
# for the next state, and one for the cost, whatever it is called.

NEXT = ("next_state", "next state", "to")
COST = ("cost", "weight", "total")

Ints = NDArray[np.int64]


def read_costs(file: Path, world: Transitions | None = None) -> tuple[Ints, str | None]:
    """The costs in a file, and a remark where trajectories can be in states that the table does not name.

    Shape (n_states,) or (n_states, n_actions); what the table does not name costs 0. Without a world only numbers are
    understood, and each of them has to be there.
    """
    table = read_table(file)
    state, action, successor = table.state_columns(*STATE, "from"), table.role(*ACTION), table.role(*NEXT)
    others = [name for name in table.columns if name not in (*state, action, successor)]
    cost = table.role(*COST) or (others[0] if len(others) == 1 else None)
    if cost is None:
        there = f"beside the state there are {', '.join(others) or 'none'}"
        raise FileFormatError(f"{table.header}: which column has the costs? Call it `cost`; {there}")
    names = Names(world)
    sizes = (10**18, 10**18) if world is None else (world.n_states, world.n_actions)
    entries: dict[tuple[int, ...], int] = {}
    for row, text in enumerate(table.columns[cost]):
        try:
            place: tuple[int, ...] = (table.state(state, row, names),)
            if action is not None:
                place += (names.action(table.columns[action][row]),)
            elif successor is not None:
                after = names.state(table.columns[successor][row], named=state[0] in NAMED)
                place += (_only_action(place[0], after, world),)
            for what, number, size in zip(("state", "action"), place, sizes, strict=False):
                if number >= size:
                    raise WorldError(unknown(what, number, size))
            if place in entries:
                raise FileFormatError("there is already a cost for this place")
            entries[place] = _whole_cost(cost, text)
        except XmenError as error:
            raise FileFormatError(f"{table.where(row)}: {error}") from None
    costs = _array(file, entries, world)
    if world is None:
        return costs, None
    named = np.zeros(costs.shape, dtype=np.bool_)
    named[tuple(np.array(list(entries)).T)] = True
    return costs, cost_note("", named, world) and cost_note(file.name, costs, world)


def cost_note(name: str, costs: NDArray[Any], world: Transitions) -> str | None:
    """A remark on costs that are 0 in some of the states where trajectories can be, meant or not; None without."""
    counted = world.available.any(axis=1)
    if costs.ndim == 1:  # an end has no action that could cost
        counted = counted | world.terminal
    missing = np.count_nonzero(counted & ~np.any(costs.reshape(world.n_states, -1), axis=1))
    return f"the costs {name!r} are 0 in {missing:,} of {np.count_nonzero(counted):,} states" if missing else None


def _only_action(state: int, successor: int, world: Transitions | None) -> int:
    """The action of an edge, if it leads nowhere else."""
    if world is None:
        raise WorldError("costs of edges need the world too, which knows the actions: total(file, world)")
    action = world.action_between(state, successor, 0)
    outcomes = np.count_nonzero((world.source == state) & (world.action == action))
    if outcomes > 1:
        move = f"{world.describe_action(action)} in {world.describe_state(state)}"
        needed = "costs of edges need moves with one outcome"
        raise WorldError(f"{needed}, and {move} has {outcomes}: give the cost of the action")
    return action


def _whole_cost(column: str, text: str) -> int:
    number, shown = decimal(text), text.strip()
    if not math.isfinite(number):
        raise FileFormatError(f"{column} is {shown!r:.60}, and not a number")
    if abs(number) > 2**53:
        raise FileFormatError(f"{column} is {shown!r:.60}, too large for a cost")
    if number != int(number):
        advice = "multiply all costs and the bound by 10, 100, ..."
        raise FileFormatError(f"{column} is {shown}, and totals are of whole numbers: {advice}")
    return int(number)


def _array(file: Path, entries: dict[tuple[int, ...], int], world: Transitions | None) -> Ints:
    if not entries:
        raise FileFormatError(f"{file}: there are no costs in this file")
    places = np.array(list(entries), dtype=np.int64)
    shape = tuple(int(size) + 1 for size in places.max(axis=0))
    if world is not None:
        shape = (world.n_states, world.n_actions)[: places.shape[1]]
    elif len(entries) < math.prod(shape):
        advice = f"name the world too, as in total({file.name!r}, world), so that the others can be 0"
        raise FileFormatError(f"{file}: costs for {len(entries)} of {math.prod(shape)} places: {advice}")
    costs = np.zeros(shape, dtype=np.int64)
    costs[tuple(places.T)] = list(entries.values())
    return costs
