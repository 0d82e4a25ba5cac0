"""The document: the problem file as it is, and the demonstrations; measured before it is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError, TrajectoryError, XmenError
from xmen.problem import Mistake, Problem, demo_weights, problem_or_mistakes, read_problem, read_values
from xmen.problem.document import fenced
from xmen.worlds import MDP, GridWorld, Trajectory
from xmen.worlds.from_networkx import GraphWorld
from xmen.worlds.names import Names

# ---- How much Studio takes on: what is larger is for the command line and for Python


BODY = 8 * 1024 * 1024  # bytes of one request
CELLS = 40_000
HORIZON = 10_000
EVENTS = 200
RULES = 200
TEXT = 20_000  # characters of one text
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


def in_words_of(world: MDP, trajectory: Trajectory) -> dict[str, Any]:
    """{"states": [...], "actions": [...]}; a state that the world does not have stays a number."""
    known = max(trajectory.states) < world.n_states
    return {
        "states": [state_word(world, state) if known else int(state) for state in trajectory.states],
        "actions": [action_word(world, a) if a < world.n_actions else int(a) for a in trajectory.actions],
    }


class Unreadable(TrajectoryError):
    """A trajectory in words that this world does not have, and the position of the first of them."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class Reader:
    """Reads trajectories in the words of one world; each word is understood once."""

    def __init__(self, world: MDP) -> None:
        self._names = Names(world)

    def read(self, record: dict[str, Any]) -> Trajectory:
        """The trajectory that a record spells; Unreadable where the world has no such state or action."""
        states, actions = [], []
        for position, state in enumerate(record["states"]):
            try:
                states.append(self._names.state(state, named=True))
                if position < len(record["actions"]):
                    actions.append(self._names.action(record["actions"][position]))
            except XmenError as error:
                raise Unreadable(str(error), position) from None
        try:
            return Trajectory(states, actions)
        except XmenError as error:
            raise Unreadable(str(error)) from None


def read_all(world: MDP, records: Iterable[dict[str, Any]]) -> list[Trajectory | Unreadable]:
    """Every record as a trajectory, or why it is none."""
    reader, found = Reader(world), list[Trajectory | Unreadable]()
    for record in records:
        try:
            found.append(reader.read(record))
        except Unreadable as error:
            found.append(error)
    return found


# ---- The document: the problem file as it is, and the demonstrations; measured before it is read


Record = dict[str, Any]

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

    def problem_at(self, path: Path) -> Problem:
        """The problem, if there is no mistake in it."""
        problem, mistakes = self.read(path)
        if problem is None or mistakes:
            raise self._refusal(mistakes[0])
        return problem

    def world_at(self, path: Path) -> MDP:
        """The world, whatever is wrong elsewhere."""
        problem, mistakes = self.read(path)
        if problem is None:
            raise self._refusal(mistakes[0])
        return problem.world

    def _refusal(self, mistake: Mistake) -> FileFormatError:
        tab, name, advice = TABS.get(mistake.part), mistake.name or mistake.key, "Correct it first."
        if mistake.index is not None:
            name, advice = self.problem["constraints"][mistake.index].get("name"), "Correct it, or switch it off."
        where = ", ".join(part for part in (tab or mistake.part, name) if part)
        return FileFormatError(f"{where}: {mistake.message}. {advice}")


def open_document(path: Path) -> Document:
    """What a problem file and its demonstrations say; all files have to lie in its folder.

    Rules that cannot be read are no reason to refuse it: the page shows what is wrong in them, and they can be mended
    there.
    """
    values = read_values(path)
    check_size(values, [])
    with fenced(path.parent):
        problem, mistakes = problem_or_mistakes(values, path)
        if problem is None or not all(_can_be_mended(one, values) for one in mistakes):
            problem = read_problem(path)  # with its own words for what is wrong
        if problem.world.n_states > STATES:
            raise FileFormatError(
                f"Studio draws worlds of up to {STATES:,} states, and this one has {problem.world.n_states:,}: use the "
                "command line or Python"
            )
        named = problem.demonstrations is not None and problem.demonstrations.exists()
        return Document(values, described(problem.demos(), problem.world) if named else [])


def _can_be_mended(mistake: Mistake, values: Mapping[str, Any]) -> bool:
    """Whether the page has a field for it: a rule of which only the name or the text is wrong."""
    if mistake.part != "rule" or mistake.index is None:
        return False
    rule = values["constraints"][mistake.index]
    kinds = {"name": str, "rule": str, "off": bool}
    return {*rule} >= {"name", "rule"} and all(type(value) is kinds.get(key) for key, value in rule.items())


def described(demos: list[Trajectory], world: MDP) -> list[Record]:
    """Demonstrations that were read from a file, in the words of their world, with what the file says about them."""
    weights = demo_weights(demos) or [1.0] * len(demos)
    records: list[Record] = getattr(demos, "metadata", None) or [{}] * len(demos)
    about = [{key: value for key, value in record.items() if key != "sample_weight"} for record in records]
    return [
        {**in_words_of(world, demo), "weight": weight, **({"about": more} if more else {})}
        for demo, weight, more in zip(demos, weights, about, strict=True)
    ]


def received(problem: object, demonstrations: object, before: Document) -> Document:
    """The document that a browser sent, if its size is right and it names no other files than before."""
    if not isinstance(problem, Mapping) or not isinstance(demonstrations, list):
        raise FileFormatError("a document has a problem (an object) and demonstrations (a list)")
    values: Record = _without_null(dict(problem))
    check_size(values, demonstrations)
    for keys in FILES:
        name = _at(values, keys)
        if name is not None and name != _at(before.problem, keys):
            raise FileFormatError(f"{'.'.join(keys)}: names of files cannot be changed in Studio; got {name!r:.60}")
    if _at(values, ("world", "kind")) != _at(before.problem, ("world", "kind")):
        raise FileFormatError("the kind of the world cannot be changed in Studio: open another problem")
    records = [_record(record, index) for index, record in enumerate(demonstrations)]
    return Document(values, records)


def _at(values: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _without_null(value: Any) -> Any:
    """TOML has no null: a key without a value is a key that is not there."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def _record(record: object, index: int) -> Record:
    where = f"demonstration {index}"
    if not isinstance(record, dict):
        raise FileFormatError(f"{where}: expected an object with states and actions, got {record!r:.60}")
    states, actions, weight = record.get("states"), record.get("actions"), record.get("weight", 1.0)
    if not isinstance(states, list) or not isinstance(actions, list) or len(states) != len(actions) + 1:
        raise FileFormatError(f"{where}: expected states and actions, one state more than actions")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        raise FileFormatError(f"{where}: a weight is a number, 0 or more, got {weight!r:.60}")
    about = {"about": record["about"]} if isinstance(record.get("about"), dict) and record["about"] else {}
    return {"states": states, "actions": actions, "weight": float(weight), **about}


def check_size(values: Mapping[str, Any], demonstrations: list[Any]) -> None:
    """Refuse what is too large for a page that answers at once, by its numbers alone: nothing is built for that."""
    world = values.get("world")
    if isinstance(world, Mapping):
        width, height, horizon = world.get("width"), world.get("height"), world.get("horizon")
        if world.get("kind") == "grid" and type(width) is type(height) is int:
            _limit(abs(width * height), CELLS, f"cells ({width} x {height})")
        if type(horizon) is int:
            _limit(horizon, HORIZON, "moves as a horizon")
    for key, most, what in (("events", EVENTS, "events"), ("constraints", RULES, "rules")):
        if isinstance(values.get(key), Mapping | list):
            _limit(len(values[key]), most, what)
    _limit(len(demonstrations), DEMONSTRATIONS, "demonstrations")
    found = [one.get("states") for one in demonstrations if isinstance(one, dict)]
    n_positions = sum(len(states) for states in found if isinstance(states, list))
    _limit(n_positions, POSITIONS, "positions of demonstrations")
    _limit_texts(values)


def _limit_texts(value: object) -> None:
    if isinstance(value, str):
        _limit(len(value), TEXT, "characters in one text")
    elif isinstance(value, Mapping | list):
        for item in [*value, *(value.values() if isinstance(value, Mapping) else ())]:
            _limit_texts(item)


def _limit(number: int, most: int, what: str) -> None:
    if number > most:
        raise FileFormatError(
            f"Studio takes up to {most:,} {what.partition(' (')[0]}, and here are {number:,} {what}: use the command "
            "line or Python for more"
        )
