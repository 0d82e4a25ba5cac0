"""Demonstrations: files and records of other libraries, trips, and the check that a world and rules allow them.

A `.csv` file has one row per position, of which the last has no action; a `.jsonl` file one object per line,
{"states": [...], "actions": [...]}. Both hold demonstrations of any lengths and round-trip exactly.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice, pairwise, starmap
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from xmen import errors
from xmen.errors import FileFormatError, Message, TrajectoryError, WorldError, XmenError, joined
from xmen.files import as_path, write_whole
from xmen.options import require_choice
from xmen.worlds import tables
from xmen.worlds.mdp import MDP
from xmen.worlds.names import Given, Names, is_missing, some, whole, words
from xmen.worlds.network import Network
from xmen.worlds.sightings import Sighting
from xmen.worlds.tables import RecordedDemos, Table, as_table, from_records, from_table, read_json, read_table
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from xmen.worlds.from_networkx import RoadNetwork


def read_demos(
    source: Any, world: Any = None, *, states: Given = None, actions: Given = None, noise: Any = None
) -> RecordedDemos:
    """Read demonstrations from a file, a data frame, or the records of another library.

    Parameters
    ----------
    source
        A .csv file with the columns demo, step, state and action (further columns, such as ids, become `metadata`;
        semicolons and decimal commas are understood), or a .jsonl file with one object per line; or a pandas or polars
        frame or a dict of columns; or trajectories of imitation, or a Minari dataset.
    world
        The world in which they happened. With it, files may say cells ("(2, 3)", or columns x and y), moves, nodes, and
        leave out actions where only one leads from state to state.
    states, actions
        Names of your own: a list (the name of number i at place i) or a dict from names to numbers.
    noise
        How states come to be wrong ones, as for `Sighting`: all are sightings then, whatever the world makes of them.

    Returns
    -------
    list of Trajectory
        The demonstrations in their order, a Sighting where a state is missing (None); with `metadata`, one dict for
        each, and `names`, which `write_demos` keeps.

    Raises
    ------
    FileFormatError
        When the file is not one of these, with its name, the line and what was expected.
    TrajectoryError
        When records do not hold states and actions.
    FileNotFoundError
        When there is no such file.
    """
    names = Names(world, states, actions, noise)
    if isinstance(source, str | PathLike):
        file = Path(source)
        if _suffix(file, "demonstrations are .csv or .jsonl files", ".json") == ".csv":
            broken: list[XmenError] = []
            return from_table(read_table(file, wrong=broken), names, broken)
        return from_records(read_json(file), names, FileFormatError)
    table = as_table(source)
    if table is not None:
        return from_table(table, names)
    episodes = source.iterate_episodes() if hasattr(source, "iterate_episodes") else source
    if isinstance(episodes, bytes) or not isinstance(episodes, Iterable):
        got = f"{type(source).__name__} {source!r:.60}"
        raise TrajectoryError(f"expected a file, a frame, or a list of trajectories, got {got}")
    entries = ((f"demonstration {index}", episode) for index, episode in enumerate(episodes))
    return from_records(entries, names, TrajectoryError)


def demos_csv(demos: Iterable[Trajectory], world: Any = None) -> str:
    """The text of a .csv file; with a world, in its words, and with the metadata."""
    stream = io.StringIO(newline="")
    metadata, names = () if world is None else getattr(demos, "metadata", ()), getattr(demos, "names", ())
    columns = tables.demo_columns(RecordedDemos(as_trajectories(demos, gaps=True), metadata, names), world)
    csv.writer(stream, lineterminator="\n").writerows([columns, *zip(*columns.values(), strict=True)])
    return stream.getvalue()


def write_demos(demos: Iterable[Trajectory], path: str | PathLike[str], world: Any = None) -> None:
    """Write demonstrations to a file, replacing what was there.

    Parameters
    ----------
    demos
        Trajectories of any lengths; in a .csv file also sightings of states for certain, with gaps.
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
    if _suffix(file, "demonstrations are .csv or .jsonl files") == ".csv":
        text = demos_csv(demos, world)
    else:
        records = ({"states": tau.states, "actions": tau.actions} for tau in as_trajectories(demos))
        text = "".join(json.dumps(record) + "\n" for record in records)
    write_whole(file, text.encode())


def as_trajectories(demos: Any, least: int = 0, gaps: bool = False) -> list[Trajectory]:
    """A list of `least` trajectories or more, with `gaps` as tables can have them; or an error that says what it is."""
    if isinstance(demos, Trajectory):
        raise TrajectoryError("expected a list of trajectories, got one Trajectory: write [trajectory]")
    if isinstance(demos, str | bytes) or not isinstance(demos, Iterable):
        raise TrajectoryError(f"expected a list of trajectories, got {type(demos).__name__} {demos!r:.60}")
    checked = copy(demos) if isinstance(demos, RecordedDemos) else list(demos)
    if len(checked) < least:
        raise TrajectoryError("no demonstrations: give at least one trajectory")
    for index, entry in enumerate(checked):
        if isinstance(entry, Sighting):
            if gaps and entry.certain and entry.each is None and not entry.more:
                continue
            learners = "XMEN and MaxEntIRL learn from sightings and score them, with method='exact'"
            complete = "only complete trajectories can be used here"
            raise TrajectoryError(f"demonstration {index} is a Sighting, and {complete}: {learners}")
        if not isinstance(entry, Trajectory):
            got = f"got {type(entry).__name__} {entry!r:.60}"
            advice = "write xm.Trajectory(states, actions), or read_demos(...) for records, frames and files"
            raise TrajectoryError(f"demonstration {index} must be a Trajectory, {got}: {advice}")
    return checked


def _suffix(file: Path, kinds: str, *others: str) -> str:
    suffix = file.suffix.lower()
    if suffix not in (".csv", ".jsonl", *others):
        raise FileFormatError(f"{file}: {kinds}, got the suffix {file.suffix!r}")
    return suffix


# ---- Trips through a network: a row with a path for each, or a row for each link or node

WIDE = ("path", "nodes", "links")
ORDER = (*tables.STEP, "order", "sequence", "seq")


def read_trips(
    source: str | PathLike[str] | Any,
    network: Network,
    *,
    parallel: str | None = "length",
    errors: Literal["raise", "skip"] = "raise",
) -> RecordedDemos:
    """Trips through a network from a file or a table, every one checked.

    Parameters
    ----------
    source
        A .csv file, a pandas or polars frame or a dict of columns, a .jsonl file of objects, or a list of paths. Either
        a row is a trip, with its `path` (states joined by "_" or spaces, links as "(u, v)" or "(u, v, key)"; or a
        list), and perhaps its start and goal, which then have to be the ends of it. Or a row is a position: columns
        `trip`, `order` (which goes up by one; without it rows count as they stand), and `link`, `node`, `state`, or `u`
        and `v` and perhaps `key`. Other columns become `metadata`.
    network
        States are its numbers or, for a network made from a graph, the names of links or nodes. Names come first, in
        every kind of source; where some name is an integer, all integers are names. Where links are the states, a path
        may also go by nodes: it does where one of them is called so, and in a column `nodes` or `node`; numbers of
        links that nodes are called as well need a column `links` or `link`. Beside `node`, `key` is that of the link to
        the next one.
    parallel
        The feature whose least value chooses among links that join the same nodes, where no key does. None: refuse.
    errors
        "raise": one error lists the bad rows with their lines. "skip": trips with a bad row are left out, and counted.

    Returns
    -------
    list of Trajectory
        In the order of the rows, with `metadata`, one dict for each, `names`, as a table of positions calls them, and
        `left_out`, one sentence for each trip or row that was left out.

    Raises
    ------
    FileFormatError
        Where the file or a row cannot be read, or nothing is left.
    InvalidDemonstrationError
        Where a trip is not possible, with its row.

    Examples
    --------
    >>> import networkx as nx
    >>> roads = nx.MultiDiGraph([("a", "b", {"length": 5.0}), ("a", "b", {"length": 2.0}), ("b", "c", {"length": 1.0})])
    >>> network = Network.from_networkx(roads)
    >>> rows = {"trip": [7, 7, 7, 8, 8], "order": [1, 2, 3, 1, 2], "node": ["a", "b", "c", "a", "z"]}
    >>> trips = read_trips(rows, network, errors="skip")
    >>> [network.names[state] for state in trips[0].states], trips.metadata
    ([('a', 'b', 1), ('b', 'c', 0)], [{'trip': 7}])
    >>> trips.left_out
    ["columns, row 4: 'z' is no node of the network"]
    """
    require_choice("errors", errors, ("raise", "skip"))
    if not isinstance(network, Network):
        raise WorldError(f"read_trips(source, network) takes a Network; got {network!r:.60}.")
    reader, trips, bad = _TripReader(network, parallel), RecordedDemos(), list[list[XmenError]]()  # of a trip or a row
    for index, trip in enumerate(_recorded_trips(source, bad, errors == "skip", reader.links)):
        wrong = list(trip.wrong)
        found = None if wrong else reader.read(trip, index, wrong)
        if found is None:
            bad.append(wrong)
        else:
            trips.add(found, trip.beside, trip.name)
    if errors == "raise":
        tables.refuse_rows([error for one in bad for error in one])
    trips.left_out = ["; ".join(map(str, one)) for one in bad]
    if not trips:
        why = f" that can be read: {some(trips.left_out, 2)}" if bad else ""
        shown = source if isinstance(source, str | PathLike) else f"this {type(source).__name__}"
        raise FileFormatError(f"{shown} has no trips{why}")
    return trips


class _RecordedTrip(NamedTuple):
    """A trip as it was written down: its names, where each of them is (or all), and what else is known of it."""

    names: Sequence[Any]
    where: Sequence[str] | str
    kind: str
    beside: dict[str, Any]
    wrong: Sequence[XmenError]
    ends: Mapping[str, Any] = MappingProxyType({})
    keys: Sequence[Any] | None = None  # of links between nodes, or actions between states
    name: str | None = None

    def at(self, position: int = 0) -> str:
        """Where a name is."""
        return self.where if isinstance(self.where, str) else self.where[position]


def _recorded_trips(source: Any, bad: list[list[XmenError]], skip: bool, links: bool) -> Iterator[_RecordedTrip]:
    """Each trip as it was written down; rows that belong to none of them are noted as bad."""
    if isinstance(source, list | tuple):
        for index, path in enumerate(source):
            if not isinstance(path, Iterable) or (isinstance(path, str) and len(words(path)) < 2):
                got = f"got {source!r:.60}; row {index} is the single {path!r:.60}; write one trip as [[...]]"
                raise errors.PathError(f"read_trips(source, ...): a list holds paths, each a list of states, {got}")
            yield _wide(f"row {index}", path if isinstance(path, Mapping) else {"path": path})
        return
    table, broken = as_table(source), list[XmenError]()
    if table is None:
        file = as_path(source, "read_trips(source, ...)")
        if _suffix(file, "trips are .csv or .jsonl files or a DataFrame") == ".jsonl":
            yield from starmap(_wide, read_json(file))
            return
        table = read_table(file, wrong=broken)
    bad += [[error] for error in broken]
    wide = table.role(*WIDE)
    if wide is not None:
        yield from (_wide(where, {wide: None, **entry}) for where, entry in table.rows())
        return
    if skip and table.role(*ORDER) is None:
        tables.refuse_rows(broken)  # one left out could not be missed in its trip
    yield from _long(table, bad, links)


def _wide(where: str, entry: Any) -> _RecordedTrip:
    """A trip that is one row or object."""
    kind = next((name for name in WIDE if isinstance(entry, Mapping) and name in entry), None)
    if kind is None:
        states = " (read_demos reads states and actions)" if "states" in entry else ""
        missing = FileFormatError(f"{where}: expected a column or field 'path', got {entry!r:.60}{states}")
        return _RecordedTrip((), where, "path", {}, [missing])
    path = entry[kind]
    listed = isinstance(path, Iterable) and not isinstance(path, str)
    names = list(path) if listed else [] if is_missing(path) else words(str(path))
    wrong = [] if names else [FileFormatError(f"{where}: the {kind} of this trip is empty")]
    ends = {end: entry[end] for end in ("start", "goal") if not is_missing(entry.get(end))}
    beside = {name: value for name, value in entry.items() if name not in (kind, *ends)}
    return _RecordedTrip(names, where, kind, beside, wrong, ends)


def _long(table: Table, bad: list[list[XmenError]], links: bool) -> Iterator[_RecordedTrip]:
    """Trips from a table with a row for each position."""
    trip, order, columns = table.role(*tables.DEMO), table.role(*ORDER), table.columns
    single = table.role("link", "node", *tables.STATE)
    pair = ("u", "v", "key") if "key" in columns else ("u", "v")
    used = (single,) if single is not None else pair if {"u", "v"} <= set(columns) else ()
    if trip is None or not used:
        expected = "expected a column path; or trip, order and one of link, node, state, or u and v"
        raise FileFormatError(f"{table.header}: {expected}; {table.got}")
    key = table.role("key") if links and single == "node" else table.role(*tables.ACTION)
    rows_of: dict[str, list[int]] = {}
    for row, label in enumerate(columns[trip]):
        if is_missing(label):
            bad.append([FileFormatError(f"{table.where(row)}: there is nothing in the column {trip}")])
        else:
            rows_of.setdefault(str(label).strip(), []).append(row)
    others = [name for name in columns if name not in (trip, order, key, *used)]
    for label, rows in rows_of.items():
        said: list[tuple[int, str]] = []
        if order is None:
            if rows[-1] - rows[0] >= len(rows):
                said.append((rows[0], "its rows do not stand together, and there is no column order"))
        else:
            number = {row: whole(columns[order][row]) for row in rows}
            said += [(row, f"{order} is no number 0, 1, 2, ...") for row in rows if number[row] is None]
            if not said:
                rows = sorted(rows, key=lambda row: number[row] or 0)
                pairs = ((after, number[after], number[row]) for row, after in pairwise(rows))
                said += [(row, f"{order} {n} follows {m}") for row, n, m in pairs if n != (m or 0) + 1]
        for row in rows:
            empty = [name for name in used[:2] if is_missing(columns[name][row])]
            said += [(row, f"there is nothing in the column {name}") for name in empty]
        named = [tuple(columns[name][row] for name in used if not is_missing(columns[name][row])) for row in rows]
        yield _RecordedTrip(
            named if single is None else [columns[single][row] for row in rows],
            [table.where(row) for row in rows],
            "nodes" if single == "node" else "links",
            {trip: columns[trip][rows[0]], **tables.columns_beside(table, others, rows)},
            [FileFormatError(f"{table.where(row)}, trip {label!r:.60}: {what}") for row, what in said],
            keys=None if key is None else [columns[key][row] for row in rows],
            name=label,
        )


class _TripReader:
    """Reads trips through one network; every name is understood once."""

    def __init__(self, network: Network, parallel: str | None) -> None:
        self.network, self.roads, self.parallel = network, cast("RoadNetwork", network), parallel
        self.links = getattr(network, "joins_nodes", False)
        if self.links and parallel not in (None, "length"):
            self.roads.select(parallel)  # refuses what is not there
        self.understood: dict[tuple[str, str], Any] = {}

    def read(self, trip: _RecordedTrip, index: int, wrong: list[XmenError]) -> Trajectory | None:
        """The trajectory; None where something is wrong with it, which is noted."""

        def each(understand: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
            found = []
            for position, value in enumerate(values):
                try:
                    found.append(self._once(understand, value))
                except XmenError as error:
                    wrong.append(errors.InvalidDemonstrationError(f"{trip.at(position)}: {error}", index=index))
            return found

        # Names come first: what nodes are called are nodes, also where they could be numbers of links.
        by_nodes = self.links and trip.kind != "links"
        if by_nodes and trip.kind == "path":
            by_nodes = any(self._once(self.roads.node, name) is not None for name in trip.names)
        understand = self._node if by_nodes else self._state
        places = each(understand, trip.names)
        for end, given in {} if wrong else trip.ends.items():
            place = places[0 if end == "start" else -1]
            if each(understand, [given]) not in ([place], []):
                shown = repr(place) if by_nodes else self.network.describe_state(place)
                wrong.append(FileFormatError(f"{trip.at()}: {end} is {given!r}, but the path has {shown} there"))
        if by_nodes and len(places) < 2 and not wrong:
            wrong.append(FileFormatError(f"{trip.at()}: a trip along links has two nodes or more, got {places}"))
        noted = [None if is_missing(key) else key for key in trip.keys or [None] * len(places)][:-1]
        actions = None
        if by_nodes and not wrong:
            steps = zip(pairwise(places), noted, strict=True)
            places = each(self._state, (ends if key is None else (*ends, key) for ends, key in steps))
        elif any(key is not None for key in noted):
            actions = each(self.network.read_action, noted)
        if wrong:
            return None
        try:
            tau = self.network.along(places) if actions is None else Trajectory(places, actions)
            problem: tuple[int | None, str] | None = self.network.problem(tau)
        except XmenError as error:
            problem = None, str(error)
        if problem is None:
            return tau
        position, why = problem
        where = "" if position is None else f" (position {position})"
        wrong.append(errors.InvalidDemonstrationError(f"{trip.at()}: {why}{where}", index=index, position=position))
        return None

    def _once(self, understand: Callable[[Any], Any], name: Any) -> Any:
        """What a name means, as it was understood the first time."""
        name = name.tolist() if isinstance(name, np.ndarray | np.generic) else name
        key = understand.__name__, repr(name)
        if key not in self.understood:
            self.understood[key] = understand(name)
        return self.understood[key]

    def _node(self, name: Any) -> Any:
        if (found := self.roads.node(name)) is None:
            raise WorldError(f"{name!r:.60} is no node of the network")
        return found

    def _state(self, name: Any) -> int:
        return self.roads.link(name, self.parallel) if self.links else self.network.read_state(name)


# ---- The check that a world and rules allow demonstrations, with all that is wrong in one error

MOST_EXPLAINED = 200  # demonstrations for which words are looked for, one by one
MOST_GROUPS, MOST_NUMBERS = 8, 12  # shown


class _Mistake(NamedTuple):
    """The fault of one demonstration: a sentence about it alone, and the reason that others may share."""

    number: int
    name: str
    position: int
    constraint: str | None
    sentence: str
    reason: str
    unfinished: bool = False


def check_demos(world: MDP, demos: Iterable[Trajectory], constraint: Any = None) -> None:
    """Check that every demonstration is possible in the world and keeps the rules.

    Parameters
    ----------
    world
        The world in which the demonstrations happened.
    demos
        The demonstrations.
    constraint
        A constraint, a list of them (all of which have to hold), or None.

    Raises
    ------
    InvalidDemonstrationError
        When any cannot happen or is forbidden. It names the first of them, the position and, of several constraints,
        the one that is lost first; and lists the others, by reasons.

    Examples
    --------
    >>> from xmen.worlds import GridWorld, Trajectory
    >>> grid = GridWorld(2, 1, start=(0, 0), goal=(1, 0), moves=("right",))
    >>> check_demos(grid, [Trajectory([0, 1], [0]), Trajectory([0], [])])
    Traceback (most recent call last):
    ...
    xmen.errors.InvalidDemonstrationError: demonstration 1 is not possible in this world: \
ends in cell (0, 0), which is not terminal (terminal: cell (1, 0)) (position 0)
    """
    checked = as_trajectories(demos, least=1)
    refuse(world, checked, constraint, range(len(checked)))


def refuse(world: MDP, demos: Sequence[Trajectory], constraint: Any, suspects: Iterable[int]) -> None:
    """Raise an error about those of these demonstrations, by number, that are not valid."""
    rules, names = _rules(constraint), tables.demo_names(demos)
    mistakes = (_mistake(world, index, names[index], demos[index], rules) for index in suspects)
    found = list(islice(filter(None, mistakes), MOST_EXPLAINED))
    if found:
        number, _, position, constraint, sentence, *_ = found[0]
        told = joined([sentence, *_others(found, len(demos)), _advice(world, found)])
        raise errors.InvalidDemonstrationError(told, index=number, constraint=constraint, position=position)


def _mistake(world: MDP, index: int, name: str, demo: Trajectory, rules: Sequence[Any]) -> _Mistake | None:
    problem = world.problem(demo)
    if problem is not None:
        position, sentence = problem
        if world.unfinished(demo):
            whole = f"demonstration {name} does not arrive: it {sentence} (position {position})"
            return _Mistake(index, name, position, None, whole, "do not arrive", unfinished=True)
        whole = f"demonstration {name} is not possible in this world: {sentence} (position {position})"
        return _Mistake(index, name, position, None, whole, f"not possible in this world: {sentence}")
    violations = [found for rule in rules if (found := rule.explain(demo)) is not None]
    if not violations:
        return None
    violation = min(violations, key=lambda found: found.position)
    sentence = Message("demonstration {} breaks a constraint: {}", name, violation, world=world)
    reason = Message("break {!r}", violation.name, world=world)
    return _Mistake(index, name, violation.position, violation.name, sentence, reason)


def _others(found: Sequence[_Mistake], n_demos: int) -> list[str]:
    """A line for each reason, where more than one demonstration is not valid."""
    if len(found) == 1:
        return []
    groups: dict[str, list[_Mistake]] = {}
    for mistake in found:
        groups.setdefault(mistake.reason, []).append(mistake)
    most = "or more " if len(found) == MOST_EXPLAINED < n_demos else ""
    lines = [f"\n{len(found)} {most}of {n_demos} demonstrations are not valid:"]
    for reason, group in list(groups.items())[:MOST_GROUPS]:
        numbers = some([mistake.name for mistake in group], MOST_NUMBERS)
        positions = sorted({mistake.position for mistake in group})
        where = f"at position{'s' if len(positions) > 1 else ''} {some(positions, MOST_NUMBERS)}"
        lines.append(Message("\n  {}: {}, {}", numbers, reason, where))
    if len(groups) > MOST_GROUPS:
        lines.append(f"\n  and {len(groups) - MOST_GROUPS} reasons more")
    return lines


def _advice(world: MDP, found: Sequence[_Mistake]) -> str:
    """Advice on episodes that failed: with chance, leaving them out would teach luck."""
    if not world.deterministic and any(mistake.unfinished or mistake.constraint for mistake in found):
        belong = "\nWith chance, episodes that failed belong to the demonstrations"
        why = "without them outcomes look luckier than they are. CausalXMEN (xmen fit --learner causal) learns from all"
        return Message(f"{belong}: {why} of them, with {{}} or a probability.", errors.Setting("validity", "best"))
    cut_off = any(mistake.unfinished for mistake in found)
    return "\nRaise the horizon if it was cut off, or leave it out." if cut_off else ""


def also_wrong(numbers: list[int], what: str) -> str:
    """A line that lists several demonstrations with the same fault; '' for one."""
    return f"\n{len(numbers)} demonstrations {what}: {some(numbers, MOST_NUMBERS)}" if len(numbers) > 1 else ""


def _rules(constraint: Any) -> list[Any]:
    if constraint is None:
        return []
    if isinstance(constraint, Mapping):
        constraint = [rule.named(name) if hasattr(rule, "named") else rule for name, rule in constraint.items()]
    several = isinstance(constraint, Iterable) and not isinstance(constraint, str)
    rules = list(constraint) if several else [constraint]
    for rule in rules:
        if not hasattr(rule, "explain"):
            got = f"{rule} ({type(rule).__name__})"
            raise errors.ConstraintError(f"check_demos takes a constraint or a list of them; got {got}.")
    return rules


# ---- Demonstrations for other libraries: columns for data frames, trajectories of imitation, episodes of Minari


def convert_demos(demos: Iterable[Trajectory], to: str, world: Any = None) -> Any:
    """Demonstrations or samples in the form of another library; `read_demos` takes all of them back.

    Parameters
    ----------
    demos
        Trajectories of any lengths.
    to
        "columns": a dict of lists, which `pandas.DataFrame` and `polars.DataFrame` take. "imitation": a list of
        `imitation.data.types.Trajectory`. "minari": a list of Minari's `EpisodeBuffer`, for
        `minari.create_dataset_from_buffers`.
    world
        If given, columns hold cells, moves or nodes instead of numbers.

    Returns
    -------
    dict or list
        As `to` says.

    Raises
    ------
    MissingExtraError
        When that library is not installed.
    TrajectoryError
        When `to` is something else.

    Examples
    --------
    >>> from xmen.worlds import GridWorld, Trajectory
    >>> grid = GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    >>> convert_demos([Trajectory([0, 2, 3], [0, 1])], "columns", grid)
    {'demo': [0, 0, 0], 'step': [0, 1, 2], 'x': [0, 0, 1], 'y': [0, 1, 1], 'move': ['up', 'right', None]}
    """
    if to == "columns":
        return tables.demo_columns(demos, world)
    if to == "imitation":
        kind = errors.extra_module("imitation.data.types", 'convert_demos(..., "imitation")').Trajectory
        return [
            kind(obs=np.array(tau.states), acts=np.array(tau.actions, dtype=int), infos=None, terminal=True)
            for tau in demos
            if len(tau)  # imitation knows no trajectory without an action
        ]
    if to == "minari":
        kind = errors.extra_module("minari.data_collector", 'convert_demos(..., "minari")').EpisodeBuffer
        return [
            kind(
                id=index,
                observations=list(tau.states),
                actions=list(tau.actions),
                rewards=[0.0] * len(tau),
                terminations=[t == len(tau) - 1 for t in range(len(tau))],
                truncations=[False] * len(tau),
            )
            for index, tau in enumerate(demos)
        ]
    raise TrajectoryError(f'demonstrations can be converted to "columns", "imitation" or "minari", got {to!r:.60}')
