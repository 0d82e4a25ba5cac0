"""The document: the problem file as it is, and the demonstrations; measured before it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmen.errors import FileFormatError
from xmen.problem import Mistake, Problem, demo_weights, problem_or_mistakes, read_problem, read_values
from xmen.problem.fence import fenced
from xmen.studio import limits
from xmen.studio.words import in_words_of
from xmen.worlds import MDP, Trajectory

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
        _check_states(problem.world)
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


def _check_states(world: MDP) -> None:
    if world.n_states > limits.STATES:
        raise FileFormatError(
            f"Studio draws worlds of up to {limits.STATES:,} states, and this one has {world.n_states:,}: use the "
            "command line or Python"
        )


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
    about = record.get("about")
    return {
        "states": states,
        "actions": actions,
        "weight": float(weight),
        **({"about": about} if isinstance(about, dict) and about else {}),
    }


def check_size(values: Mapping[str, Any], demonstrations: list[Any]) -> None:
    """Refuse what is too large for a page that answers at once, by its numbers alone: nothing is built for that."""
    world = values.get("world")
    if isinstance(world, Mapping) and world.get("kind") == "grid":
        sides = [world.get("width"), world.get("height")]
        if all(type(side) is int for side in sides):
            cells = abs(sides[0]) * abs(sides[1])  # type: ignore[arg-type]
            _limit(cells, limits.CELLS, f"cells ({sides[0]} x {sides[1]})")
    if isinstance(world, Mapping) and type(world.get("horizon")) is int:
        _limit(world["horizon"], limits.HORIZON, "moves as a horizon")
    for key, most, what in (("events", limits.EVENTS, "events"), ("constraints", limits.RULES, "rules")):
        part = values.get(key)
        if isinstance(part, Mapping | list):
            _limit(len(part), most, what)
    _limit(len(demonstrations), limits.DEMONSTRATIONS, "demonstrations")
    found = [one.get("states") for one in demonstrations if isinstance(one, dict)]
    n_positions = sum(len(states) for states in found if isinstance(states, list))
    _limit(n_positions, limits.POSITIONS, "positions of demonstrations")
    _limit_texts(values)


def _limit_texts(value: object) -> None:
    match value:
        case str():
            _limit(len(value), limits.TEXT, "characters in one text")
        case Mapping():
            for key, item in value.items():
                _limit_texts(key)
                _limit_texts(item)
        case list():
            for item in value:
                _limit_texts(item)


def _limit(number: int, most: int, what: str) -> None:
    if number > most:
        raise FileFormatError(
            f"Studio takes up to {most:,} {what.partition(' (')[0]}, and here are {number:,} {what}: use the command "
            "line or Python for more"
        )
