"""Demonstrations: files and records of other libraries, trips, and the check that a world and rules allow them.

A `.csv` file has one row per position, of which the last has no action; a `.jsonl` file one object per line,
{"states": [...], "actions": [...]}. Both hold demonstrations of any lengths and round-trip exactly.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xmen import errors
from xmen.errors import FileFormatError, Message, TrajectoryError, XmenError, joined
from xmen.files import as_path, write_whole
from xmen.worlds.mdp import MDP
from xmen.worlds.names import Given, Names, some, words
from xmen.worlds.network import Network
from xmen.worlds.tables import RecordedDemos, as_table, demo_columns, from_records, from_table, read_json, read_table
from xmen.worlds.trajectory import Trajectory


def read_demos(source: Any, world: Any = None, *, states: Given = None, actions: Given = None) -> RecordedDemos:
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
    if isinstance(source, str | PathLike):
        file = Path(source)
        if _suffix(file, (".json",)) == ".csv":
            return from_table(read_table(file), names)
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
    metadata = () if world is None else getattr(demos, "metadata", ())
    columns = demo_columns(RecordedDemos(as_trajectories(demos), metadata), world)
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
    if _suffix(file) == ".csv":
        text = demos_csv(demos, world)
    else:
        records = ({"states": tau.states, "actions": tau.actions} for tau in as_trajectories(demos))
        text = "".join(json.dumps(record) + "\n" for record in records)
    write_whole(file, text.encode())


def as_trajectories(demos: Any, least: int = 0) -> list[Trajectory]:
    """A list of trajectories, with `least` 1 or more of them, or an error that says what was given instead."""
    if isinstance(demos, Trajectory):
        raise TrajectoryError("expected a list of trajectories, got one Trajectory: write [trajectory]")
    if isinstance(demos, str | bytes) or not isinstance(demos, Iterable):
        raise TrajectoryError(f"expected a list of trajectories, got {type(demos).__name__} {demos!r:.60}")
    checked = list(demos)
    if len(checked) < least:
        raise TrajectoryError("no demonstrations: give at least one trajectory")
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


# ---- Trips through a network: the columns start, goal and path


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
    trips = [_trip(entry, network, row, where) for row, (where, entry) in enumerate(_trip_records(source))]
    if not trips:
        raise FileFormatError(f"{source!r:.60} has no trips")
    return trips


def _trip_records(source: Any) -> Iterator[tuple[str, Any]]:
    """Each trip as a dict, with the words for where it is."""
    if isinstance(source, list | tuple):
        for index, path in enumerate(source):
            if not isinstance(path, Iterable) or (isinstance(path, str) and len(words(path)) < 2):
                raise errors.PathError(
                    f"read_trips(source, ...): a list holds paths, each a list of states, got {source!r:.60}; row "
                    f"{index} is the single {path!r:.60}; write one trip as [[...]]"
                )
            yield f"row {index}", path if isinstance(path, Mapping) else {"path": path}
        return
    table = as_table(source)
    if table is None:
        file = as_path(source, "read_trips(source, ...)")
        if file.suffix.lower() == ".jsonl":
            yield from read_json(file)
            return
        if file.suffix.lower() != ".csv":
            kinds = "trips are .csv or .jsonl files or a DataFrame"
            raise FileFormatError(f"{file}: {kinds}, got the suffix {file.suffix!r}")
        table = read_table(file)
    yield from table.rows()


def _trip(entry: Any, network: Network, row: int, where: str) -> Trajectory:
    path = entry.get("path") if isinstance(entry, Mapping) else None
    if path is None:
        raise FileFormatError(f"{where}: expected a column or field 'path', got {entry!r:.60}")
    names = path if isinstance(path, Iterable) and not isinstance(path, str) else words(str(path))
    try:
        states = [network.read_state(name) for name in names]
        if not states:
            raise FileFormatError(f"{where}: the path is empty")
        for column, state in (("start", states[0]), ("goal", states[-1])):
            given = entry.get(column)
            if given is not None and network.read_state(given) != state:
                shown = network.describe_state(state)
                raise FileFormatError(f"{where}: {column} is {given!r}, but the path has {shown} there")
        trajectory = network.along(states)
    except FileFormatError:
        raise
    except XmenError as error:
        raise errors.InvalidDemonstrationError(f"{where}: {error}", index=row) from None
    problem = network.problem(trajectory)
    if problem is not None:
        position, why = problem
        raise errors.InvalidDemonstrationError(f"{where}: {why} (position {position})", index=row, position=position)
    return trajectory


# ---- The check that a world and rules allow demonstrations, with all that is wrong in one error


MOST_EXPLAINED = 200  # demonstrations for which words are looked for, one by one
MOST_GROUPS, MOST_NUMBERS = 8, 12  # shown


class _Mistake(NamedTuple):
    """The fault of one demonstration: a sentence about it alone, and the reason that others may share."""

    number: int
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
    rules = _rules(constraint)
    mistakes = (_mistake(world, index, demos[index], rules) for index in suspects)
    found = list(islice(filter(None, mistakes), MOST_EXPLAINED))
    if found:
        first = found[0]
        raise errors.InvalidDemonstrationError(
            joined([first.sentence, *_others(found, len(demos)), _advice(world, found)]),
            index=first.number,
            constraint=first.constraint,
            position=first.position,
        )


def _mistake(world: MDP, index: int, demo: Trajectory, rules: Sequence[Any]) -> _Mistake | None:
    problem = world.problem(demo)
    if problem is not None:
        position, sentence = problem
        if world.unfinished(demo):
            whole = f"demonstration {index} does not arrive: it {sentence} (position {position})"
            return _Mistake(index, position, None, whole, "do not arrive", unfinished=True)
        whole = f"demonstration {index} is not possible in this world: {sentence} (position {position})"
        return _Mistake(index, position, None, whole, f"not possible in this world: {sentence}")
    violations = [found for rule in rules if (found := rule.explain(demo)) is not None]
    if not violations:
        return None
    violation = min(violations, key=lambda found: found.position)
    sentence = Message("demonstration {} breaks a constraint: {}", index, violation, world=world)
    reason = Message("break {!r}", violation.name, world=world)
    return _Mistake(index, violation.position, violation.name, sentence, reason)


def _others(found: Sequence[_Mistake], n_demos: int) -> list[str]:
    """A line for each reason, where more than one demonstration is not valid."""
    if len(found) == 1:
        return []
    groups: dict[str, list[_Mistake]] = {}
    for mistake in found:
        groups.setdefault(mistake.reason, []).append(mistake)
    most = "or more " if len(found) == MOST_EXPLAINED else ""
    lines = [f"\n{len(found)} {most}of {n_demos} demonstrations are not valid:"]
    for reason, group in list(groups.items())[:MOST_GROUPS]:
        numbers = some([mistake.number for mistake in group], MOST_NUMBERS)
        positions = sorted({mistake.position for mistake in group})
        where = f"at position{'s' if len(positions) > 1 else ''} {some(positions, MOST_NUMBERS)}"
        lines.append(Message("\n  {}: {}, {}", numbers, reason, where))
    if len(groups) > MOST_GROUPS:
        lines.append(f"\n  and {len(groups) - MOST_GROUPS} reasons more")
    return lines


def _advice(world: MDP, found: Sequence[_Mistake]) -> str:
    """Advice on episodes that failed: with chance, leaving them out would teach luck."""
    if not world.deterministic and any(mistake.unfinished or mistake.constraint for mistake in found):
        return Message(
            "\nWith chance, episodes that failed belong to the demonstrations: without them outcomes look luckier than "
            "they are. CausalXMEN (xmen fit --learner causal) learns from all of them, with {} or a probability.",
            errors.Setting("validity", "best"),
        )
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
        return demo_columns(demos, world)
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
