"""The document on which all windows work: problem file and demonstrations, their size, their versions, their files."""

import itertools
import math
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, TrajectoryError, XmenError
from xmen.files import write_together
from xmen.learners.xmen import parse_method
from xmen.problem import Mistake, Problem, demo_weights, problem_or_mistakes, read_problem, read_values, toml_text
from xmen.problem.document import Kind, fenced, within_fence
from xmen.registry import LEARNERS
from xmen.worlds import MDP, GridWorld, Sighting, Trajectory
from xmen.worlds.demos import demos_csv
from xmen.worlds.from_networkx import GraphWorld
from xmen.worlds.names import Names, is_missing
from xmen.worlds.tables import RecordedDemos, demo_names

Record = dict[str, Any]

# ---- How much Studio takes on: what is larger is for the command line and for Python

BODY = 8 * 1024 * 1024  # bytes of one request
CELLS = 40_000
HORIZON = 10_000
EVENTS = 200
RULES = 200
TEXT = 20_000  # characters of one text
NAME = 100  # characters of a demonstration's name
DEMONSTRATIONS = 10_000
POSITIONS = 1_000_000  # of all demonstrations together
SAMPLES = 1_000
BEST = 100
LISTENERS = 32  # windows that listen to events
STATES = 50_000  # of a world from a file
CHECK = 3.0  # seconds of a live check
WAIT = 5.0  # seconds for which a request may wait for a job


# ---- Trajectories in the words of their world, as JSON has them: cells and moves, nodes, or numbers


def state_word(world: MDP, state: int) -> Any:
    """A cell [x, y], the text of a node, or a number."""
    if isinstance(world, GridWorld):
        return list(world.cell(state))
    return str(world.node(state)) if isinstance(world, GraphWorld) else int(state)


def action_word(world: MDP, action: int) -> Any:
    """The name of a move, or a number."""
    return world.moves[action] if isinstance(world, GridWorld) else int(action)


def in_words_of(world: MDP, one: Trajectory | Sighting) -> Record:
    """{"states": [...], "actions": [...]}; a state that the world does not have stays a number.

    Of a demonstration with gaps no action is known, and states that were not seen are None.
    """
    found, taken = (one.seen, ()) if isinstance(one, Sighting) else (one.states, one.actions)
    known = all(state is None or state < world.n_states for state in found)
    states = [state_word(world, state) if known and state is not None else state for state in found]
    return {"states": states, "actions": [action_word(world, a) if a < world.n_actions else a for a in taken]}


class Unreadable(TrajectoryError):
    """A trajectory in words that this world does not have, and the position of the first of them."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


Demo = Trajectory | Sighting | Unreadable


def read_all(world: MDP, records: Iterable[Record]) -> list[Demo]:
    """Every record as a trajectory or what was seen of one, or why not: the world has no such state or action."""
    names, found = Names(world), list[Demo]()  # each word is understood once
    for record in records:
        states, actions, position = list[Any](), list[int](), 0
        try:
            for position, state in enumerate(record["states"]):
                states.append(None if state is None else names.state(state, named=True))
                actions += map(names.action, record["actions"][position : position + 1])
            found.append(Sighting(states) if None in states else Trajectory(states, actions))
        except XmenError as error:
            found.append(Unreadable(str(error), position))
    return found


def read_one(world: MDP, record: Record) -> Any:
    """The trajectory of one record, or what was seen of it; or the error that says why there is none."""
    found = read_all(world, [record])[0]
    if isinstance(found, Unreadable):
        raise found
    return found


# ---- The document: the problem file as it is, and the demonstrations; measured before it is read

FILES = (("demonstrations",), ("validation",), ("world", "file"), ("world", "transitions"), ("reward", "table"))
"""The keys of a problem file that name other files: a browser has no say in them."""

TABS = {"rule": "Rules", "event": "World", "world": "World", "settings": "World", "reward": "Learn", "studio": "Learn"}
"""Where on the page a part of the problem can be corrected."""


@dataclass(frozen=True)
class Document:
    """The values of a problem file, and demonstrations in the words of its world."""

    problem: Record
    demonstrations: list[Record]

    def read(self, path: Path) -> tuple[Problem | None, list[Mistake]]:
        """The problem as far as it can be read, and everything that is wrong; no file outside the folder is opened."""
        with fenced(path.parent):
            return problem_or_mistakes(self.problem, path)

    def problem_at(self, path: Path, world_only: bool = False) -> Problem:
        """The problem, if there is no mistake in it, or with `world_only` none in its world."""
        problem, mistakes = self.read(path)
        if problem is not None and (world_only or not mistakes):
            return problem
        mistake, advice = mistakes[0], "Correct it first."
        name = mistake.name or mistake.key
        if mistake.index is not None:
            name, advice = self.problem["constraints"][mistake.index].get("name"), "Correct it, or switch it off."
        where = ", ".join(part for part in (TABS.get(mistake.part, mistake.part), name) if part)
        raise FileFormatError(f"{where}: {mistake.message}. {advice}")

    def demos(self, problem: Problem) -> list[Demo]:
        """The demonstrations as they count: under the noise of the problem, if it has any."""
        read = read_all(problem.world, self.demonstrations)
        return [one if isinstance(one, Unreadable) else problem.under_noise([one])[0] for one in read]

    @property
    def settings(self) -> Record:
        """The [studio] table, with what it leaves out; or a FileFormatError that names the key."""
        table: Record = self.problem.get("studio", {})
        for key, value in table.items():
            if key not in _SETTINGS:
                raise FileFormatError(f"[studio]: unknown key {key!r}; known: {', '.join(_SETTINGS)}")
            kind = _SETTINGS[key][1]
            if not kind.fits(value):
                raise FileFormatError(f"[studio], {key}: expected {kind.expected}, got {value!r:.60}")
        if "method" in table:
            parse_method(table["method"])
        return {key: default for key, (default, _) in _SETTINGS.items()} | table

    def asked(self, problem: Problem) -> Record:
        """What the page asks of a fit; a learner takes those settings that it has."""
        settings, own = self.settings, problem.settings
        named = {name: settings[name] for name in ("method", "l2", "max_iter")}
        return {**named, "seed": own.seed, "validity": own.validity}


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_colours(value: object) -> bool:
    return isinstance(value, Mapping) and all(re.fullmatch("#[0-9a-fA-F]{6}", str(one)) for one in value.values())


_SETTINGS: dict[str, tuple[Any, Kind]] = {
    "colours": ({}, Kind('colours by the name of an event, such as { key = "#E69F00" }', _are_colours)),
    "learner": ("xmen", Kind(f"one of {', '.join(LEARNERS)}", lambda value: value in tuple(LEARNERS))),
    "method": ("auto", Kind("the name of a method", lambda value: isinstance(value, str))),
    "l2": (0.0, Kind("a number, 0 or more", _is_weight)),
    "max_iter": (None, Kind("a whole number, 1 or more", lambda value: type(value) is int and value > 0)),
    "held_out": (0.0, Kind("a share from 0 up to 1", lambda value: _is_weight(value) and value < 1)),
}
"""The [studio] table: defaults, and what is expected. held_out: the share of demonstrations that judge a fit."""


def empty_document(width: int, height: int) -> Document:
    """A grid without walls, marks, rules and demonstrations, from its lower left to its upper right corner."""
    ends = {"start": [0, 0], "goal": [width - 1, height - 1], "horizon": 2 * (width + height)}
    world = {"kind": "grid", "width": width, "height": height, **ends, "moves": ["up", "right", "down", "left"]}
    values: Record = {"format": 1, "world": world, "events": {}, "constraints": []}
    check_size(values, [])
    return Document(values, [])


def open_document(path: Path) -> Document:
    """What a problem file and its demonstrations say; all files have to lie in its folder.

    Rules of which only the name or the text is wrong are no reason to refuse it: the page has a field to mend them.
    """
    values = read_values(path)
    check_size(values, [])
    kinds = {"name": str, "rule": str, "off": bool}
    with fenced(path.parent):
        problem, mistakes = problem_or_mistakes(values, path)
        for one in mistakes:
            rule = {} if one.part != "rule" or one.index is None else values["constraints"][one.index]
            if not {*rule} >= {"name", "rule"} or any(type(value) is not kinds.get(key) for key, value in rule.items()):
                problem = None
        problem = problem or read_problem(path)  # with its own words for what is wrong
        if problem.world.n_states > STATES:
            here = f"Studio draws worlds of up to {STATES:,} states, and this one has {problem.world.n_states:,}"
            raise FileFormatError(f"{here}: use the command line or Python")
        named = problem.demonstrations is not None and problem.demonstrations.exists()
        certain = replace(problem, settings=replace(problem.settings, noise=None))  # as the file says it
        return Document(values, described(certain.demos(), problem.world) if named else [])


def described(demos: Any, world: MDP) -> list[Record]:
    """Demonstrations that were read from a file, in the words of their world, with what the file says about them."""
    names = demo_names(demos)
    weights = demo_weights(demos) or [1.0] * len(demos)
    about = [{key: value for key, value in one.items() if key != "sample_weight"} for one in demos.metadata]
    return [
        {**in_words_of(world, demo), "name": name, "weight": weight, **({"about": more} if more else {})}
        for name, demo, weight, more in zip(names, demos, weights, about, strict=True)
    ]


def received(problem: Record, demonstrations: list[Any], before: Document) -> Document:
    """The document that a browser sent, if its size is right and it names no other files than before."""
    values: Record = _without_null(problem)
    check_size(values, demonstrations)
    for keys in (*FILES, ("world", "kind")):
        found: list[Any] = [values, before.problem]
        for key in keys:
            found = [one.get(key) if isinstance(one, Mapping) else None for one in found]
        now, then = found
        if keys[-1] == "kind" and now != then:
            raise FileFormatError("the kind of the world cannot be changed in Studio: open another problem")
        if now is not None and now != then:
            raise FileFormatError(f"{'.'.join(keys)}: names of files cannot be changed in Studio; got {now!r:.60}")
    return Document(values, [_record(record, index) for index, record in enumerate(demonstrations)])


def _without_null(value: Any) -> Any:
    """TOML has no null: a key without a value is a key that is not there."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def _record(record: object, index: int) -> Record:
    if not isinstance(record, dict):
        raise FileFormatError(f"demonstration {index}: expected an object with states and actions, got {record!r:.60}")
    where = f"demonstration {record.get('name', index)!s:.60}"
    states, actions, weight = record.get("states"), record.get("actions"), record.get("weight", 1.0)
    n_states, n_actions = (len(one) if isinstance(one, list) else -1 for one in (states, actions))
    if n_states < 0 or n_actions != (0 if None in (states or ()) else n_states - 1):
        raise FileFormatError(f"{where}: expected states and actions, one state more than actions; none with gaps")
    if not _is_weight(weight):
        raise FileFormatError(f"{where}: a weight is a number, 0 or more, got {weight!r:.60}")
    about = {"about": record["about"]} if isinstance(record.get("about"), dict) and record["about"] else {}
    name = {} if is_missing(record.get("name")) else {"name": str(record["name"]).strip()[:NAME]}
    return {"states": states, "actions": actions, **name, "weight": float(weight), **about}


def names_of(demonstrations: list[Record]) -> list[str]:
    """What demonstrations are called, no two the same: by their own names, or by the first numbers that are free."""
    own, found = {record.get("name") for record in demonstrations}, dict[str, None]()
    for record in demonstrations:
        name = record.get("name")
        if name is None or name in found:
            name = next(text for text in map(str, itertools.count(len(found))) if text not in found and text not in own)
        found[name] = None
    return [*found]


def check_size(values: Mapping[str, Any], demonstrations: list[Any]) -> None:
    """Refuse what is too large for a page that answers at once, by its numbers alone: nothing is built for that."""

    def limit(number: int, most: int, what: str) -> None:
        if number > most:
            here = f"Studio takes up to {most:,} {what.partition(' (')[0]}, and here are {number:,} {what}"
            raise FileFormatError(f"{here}: use the command line or Python for more")

    def limit_texts(value: object) -> None:
        if isinstance(value, str):
            limit(len(value), TEXT, "characters in one text")
        elif isinstance(value, Mapping | list):
            for item in [*value, *(value.values() if isinstance(value, Mapping) else ())]:
                limit_texts(item)

    world = values.get("world")
    if isinstance(world, Mapping):
        width, height, horizon = world.get("width"), world.get("height"), world.get("horizon")
        if world.get("kind") == "grid" and type(width) is type(height) is int:
            limit(abs(width * height), CELLS, f"cells ({width} x {height})")
        if type(horizon) is int:
            limit(horizon, HORIZON, "moves as a horizon")
    for key, most, what in (("events", EVENTS, "events"), ("constraints", RULES, "rules")):
        if isinstance(values.get(key), Mapping | list):
            limit(len(values[key]), most, what)
    limit(len(demonstrations), DEMONSTRATIONS, "demonstrations")
    found = [one.get("states") for one in demonstrations if isinstance(one, dict)]
    limit(sum(len(one) for one in found if isinstance(one, list)), POSITIONS, "positions of demonstrations")
    limit_texts(values)


# ---- The desk: one document for all windows, its versions, and its files


class Refusal(Exception):
    """What cannot be done now, as HTTP says it: a status, and the facts that a window may want to know."""

    def __init__(self, message: str, status: int = 409, **facts: Any) -> None:
        super().__init__(message)
        self.status, self.facts = status, facts


class Desk:
    """One document, counted up with every change, and where it is saved: that of a file, or one that has none yet."""

    def __init__(self, path: Path, document: Document | None = None) -> None:
        self.path, self._lock, self._version = path.resolve(), threading.Lock(), 1
        self._own = self.path  # the file that the document's name for demonstrations is of
        self._document, self._saved_version = document or open_document(path), 1 if document is None else None
        names = [self.path.name, self._document.problem.get("demonstrations")] if document is None else []
        self._seen = {name: self._read(name) for name in names if name is not None}

    def begin(self, name: str, document: Document) -> None:
        """Another document in place of this one, to be saved under a name that no file of the folder has."""
        with self._lock:
            path = self._beside(name)
            if path.exists():
                raise Refusal(f"{path.name} is there already: choose another name", kind="Conflict", on_disk=True)
            self.path = self._own = path
            self._document, self._version, self._saved_version = document, self._version + 1, None

    def _beside(self, name: str) -> Path:
        """The problem file of this name in the folder."""
        plain = name.strip().removesuffix(".toml")
        if not plain or plain.startswith(".") or {*plain} & {*'/\\:*?"<>|\0'}:
            raise FileFormatError(f"{name!r:.60} is no name for a file in {self.path.parent}: write plan, or plan.toml")
        return self.path.with_name(f"{plain}.toml")

    def _read(self, name: str) -> bytes | None:
        """What is on disk under this name; None if nothing is."""
        try:
            return (self.path.parent / name).read_bytes()
        except FileNotFoundError:
            return None

    @property
    def versions(self) -> dict[str, int | None]:
        """The version on the desk, and the one on disk."""
        with self._lock:
            return {"version": self._version, "saved_version": self._saved_version}

    def look(self) -> tuple[int, Document]:
        """The document and its version."""
        with self._lock:
            return self._version, self._document

    def put(self, base: int, document: Document) -> int:
        """Replace version `base`; refuses where that is no longer what lies here."""
        with self._lock:
            if base != self._version:
                message = "another window has changed the problem in the meantime"
                raise Refusal(message, kind="Conflict", version=self._version, on_disk=False)
            self._document, self._version = document, self._version + 1
            return self._version

    def save(self, force: bool = False, name: str | None = None) -> list[str]:
        """Write problem file and demonstrations, the old or the new at every moment; returns the names of the files.

        With a `name` they are other files of the same folder, and later saves go there, too.
        """
        with self._lock:
            path = self.path if name is None else self._beside(name)
            files_at = cache(self._files_at)
            files = {file.name: data for file, data in files_at(path).items()}
            changed = [name for name in files if self._read(name) != self._seen.get(name)]
            if changed and not force:
                why = "was written by another program since the problem was opened here"
                words = f"{changed[0]} {why if changed[0] in self._seen else 'is there already'}"
                raise Refusal(words, kind="Conflict", version=self._version, on_disk=True)
            write_together(path, files_at)
            self.path, self._saved_version = path, self._version
            self._seen |= files
            return [*files]

    def _files_at(self, path: Path) -> dict[Path, bytes]:
        """The files of the document, if nothing is wrong in it; demonstrations are called after a `path` elsewhere."""
        document = self._document
        world, _ = document.problem_at(path).world, document.settings
        values = {key: value for key, value in document.problem.items() if value not in (None, {}, [])}
        named, files = values.pop("demonstrations", ""), dict[Path, bytes]()
        if document.demonstrations:
            own = path == self._own and named.lower().endswith(".csv")
            values["demonstrations"] = name = named if own else f"{path.stem}_demos.csv"
            with fenced(path.parent):
                files[within_fence(path.parent / name)] = csv_text(document.demonstrations, world).encode()
        before = (self._read(self.path.name) or b"").decode("utf-8-sig", "replace")
        return {**files, path: toml_text(values, before).encode()}


def csv_text(demonstrations: list[Record], world: MDP) -> str:
    """Demonstrations as the text of a .csv file: numbers, or the world's words where there is more to say."""
    trajectories, about, names = list[Any](), [], names_of(demonstrations)
    for name, record, one in zip(names, demonstrations, read_all(world, demonstrations), strict=True):
        if isinstance(one, Unreadable):
            raise FileFormatError(f"demonstration {name} cannot be written: {one}")
        trajectories.append(one)
        weight = record.get("weight", 1.0)
        about.append({**record.get("about", {}), **({"sample_weight": weight} if weight != 1.0 else {})})
    return demos_csv(RecordedDemos(trajectories, about, names), world if any(about) else None)
