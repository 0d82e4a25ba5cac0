"""The [costs] table: arrays by name for `total(name)`, from a file, from numbers, or from events with weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xmen.constraints.arithmetic import total
from xmen.constraints.names import check_names
from xmen.errors import FileFormatError
from xmen.events import Event
from xmen.problem._columns import columns_text
from xmen.problem._document import TomlTable
from xmen.problem.fence import within_fence
from xmen.worlds import MDP
from xmen.worlds.costs import Ints, read_costs

Costs = Ints | Mapping[Event, int]

MOST_INLINE = 200  # numbers in the problem file itself
FORMS = '"file.csv", numbers in a list, or events with their weights, { mud = 3 }'


def read_cost(table: TomlTable, name: str, world: MDP, events: Mapping[str, Event]) -> Costs:
    """One entry, checked against the world."""
    value = table.values[name]
    with table.explaining(name):
        if name in events:
            table.fail(name, "there is already an event of this name: choose another")
        if isinstance(value, str):
            costs: Costs = cost_file(table.file.parent, value, world)
        elif isinstance(value, dict):
            costs = {_event(table, name, key, events): weight for key, weight in value.items()}
        elif isinstance(value, list):
            costs = np.array(value if _is_regular(value) else [])
        else:
            table.fail(name, f"expected {FORMS}; got {value!r:.60}")
        check_names({name: costs}, "")
        (total(costs) <= 0).check_world(world)
    return costs


def cost_file(folder: Path, name: str, world: MDP) -> Ints:
    """The costs in a file that is named relative to a problem file."""
    if Path(name).suffix.lower() != ".csv":
        raise FileFormatError(f"{name!r:.60}: a table of costs is a .csv file")
    return read_costs(within_fence(folder / name), world)


def write_costs(
    costs: Mapping[str, Costs], events: Mapping[str, Event], target: Path
) -> tuple[dict[str, Any], dict[Path, bytes]]:
    """The [costs] table, and the files that go with it: content by path."""
    names = {event: name for name, event in events.items()}
    written: dict[str, Any] = {}
    files: dict[Path, bytes] = {}
    for name, value in costs.items():
        if isinstance(value, Mapping):
            written[name] = {names[event]: int(weight) for event, weight in value.items()}
        elif value.size <= MOST_INLINE:
            written[name] = value.tolist()
        else:
            file = target.with_name(f"{target.stem}.{name}.csv")
            header = ("state", "action")[: value.ndim]
            rows = ((*map(int, place), int(value[tuple(place)])) for place in np.argwhere(np.ones(value.shape)))
            written[name] = file.name
            files[file] = columns_text((*header, "cost"), rows).encode()
    return written, files


def _event(table: TomlTable, name: str, key: str, events: Mapping[str, Event]) -> Event:
    if key not in events:
        table.fail(name, f"{key!r} is no event of this problem; there are {', '.join(events) or 'none'}")
    return events[key]


def _is_regular(value: list[Any]) -> bool:
    """Whether a list holds numbers, or rows of the same number of them."""
    rows = value if value and all(isinstance(row, list) for row in value) else [value]
    return len({len(row) for row in rows}) == 1 and all(type(part) in (int, float) for row in rows for part in row)
