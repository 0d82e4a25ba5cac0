"""Trips as files: CSV with the columns start, goal, path, JSON lines with the same names, or a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from xmen.errors import FileFormatError, InvalidDemonstrationError, PathError, WorldError, XmenError
from xmen.files import as_path
from xmen.worlds.names import is_missing, whole, words
from xmen.worlds.network import Network
from xmen.worlds.roads import RoadNetwork
from xmen.worlds.tables import json_lines, read_table
from xmen.worlds.trajectory import Trajectory

COLUMNS = ("start", "goal", "path")


def read_trips(source: str | PathLike[str] | Any, network: Network) -> list[Trajectory]:
    """Trips through a network from a file or a table, every one checked.

    Parameters
    ----------
    source
        A .csv file with the columns start, goal and path (states joined by "_" or spaces, links as "(u, v)" or
        "(u, v, key)"), a .jsonl file of objects with these names (path a list), a pandas or polars frame with these
        columns, or a list of paths. Other columns are ignored; start and goal may be left out, and where they are there
        they have to be the ends of the path.
    network
        States are its numbers or, for a network made from a graph, the names of links or nodes. Names come first, in
        every kind of source; where some name is an integer, all integers are names.

    Returns
    -------
    list of Trajectory
        In the order of the rows.

    Raises
    ------
    FileFormatError
        Where the file or a row cannot be read.
    InvalidDemonstrationError
        Where a trip is not possible, with its row.
    """
    trips = []
    for row, (where, entry) in enumerate(_rows(source)):
        trips.append(_trip(entry, network, row, where))
    if not trips:
        raise FileFormatError(f"{source!r:.60} has no trips")
    return trips


def _trip(entry: dict[str, Any], network: Network, row: int, where: str) -> Trajectory:
    path = entry.get("path")
    if path is None:
        raise FileFormatError(f"{where}: expected a column or field 'path', got {', '.join(map(str, entry))}")
    names = path if isinstance(path, Iterable) and not isinstance(path, str) else words(str(path))
    try:
        states = [_state(name, network) for name in names]
        if not states:
            raise FileFormatError(f"{where}: the path is empty")
        for column, state in (("start", states[0]), ("goal", states[-1])):
            given = entry.get(column)
            if given is not None and _state(given, network) != state:
                shown = network.describe_state(state)
                raise FileFormatError(f"{where}: {column} is {given!r}, but the path has {shown} there")
        trajectory = network.along(states)
    except FileFormatError:
        raise
    except XmenError as error:
        raise InvalidDemonstrationError(f"{where}: {error}", index=row) from None
    problem = network.problem(trajectory)
    if problem is not None:
        position, sentence = problem
        raise InvalidDemonstrationError(f"{where}: {sentence} (position {position})", index=row, position=position)
    return trajectory


def _state(name: Any, network: Network) -> int:
    """A state by its number, or by the name of a link or node."""
    if isinstance(network, RoadNetwork):
        return network.state(name)
    number = whole(name)
    if number is None or number >= network.n_states:
        raise WorldError(f"{name!r:.40} is not a state: they are numbered 0 to {network.n_states - 1}")
    return number


def _rows(source: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with the words for where it is."""
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):  # a frame of pandas, polars and their kin
        yield from _records({str(name): list(source[name]) for name in source.columns}, "row")
        return
    if isinstance(source, list | tuple):
        for index, path in enumerate(source):
            if not isinstance(path, Iterable) or (isinstance(path, str) and len(words(path)) < 2):
                raise PathError(
                    f"read_trips(source, ...): a list holds paths, each a list of states, got {source!r:.60}; row "
                    f"{index} is the single {path!r:.60}; write one trip as [[...]]"
                )
            yield f"row {index}", dict(path) if isinstance(path, Mapping) else {"path": path}
        return
    file = as_path(source, "read_trips(source, ...)")
    suffix = file.suffix.lower()
    if suffix not in (".csv", ".jsonl"):
        raise FileFormatError(f"{file}: trips are .csv or .jsonl files or a DataFrame, got the suffix {file.suffix!r}")
    if suffix == ".csv":
        yield from _records({name.lower(): values for name, values in read_table(file).items()}, f"{file}, row")
        return
    for where, entry in json_lines(file):
        if not isinstance(entry, dict):
            raise FileFormatError(f"{where}: expected an object with {', '.join(COLUMNS)}")
        yield where, entry


def _records(columns: Mapping[str, Sequence[Any]], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, values in enumerate(zip(*columns.values(), strict=True)):
        yield f"{where} {index}", {n: v for n, v in zip(columns, values, strict=True) if not is_missing(v)}
