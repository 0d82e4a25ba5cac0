"""A problem: everything that one run needs, as one object and as one file."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction, require_constraint
from xmen.constraints.text import Name, check_names, parse_constraint
from xmen.engines.choose import answering, require_engine
from xmen.engines.distribution import Distribution, Law, as_constraint, check_discount
from xmen.engines.settings import EngineSettings
from xmen.errors import ConstraintError, FileFormatError, MissingFileError, TrajectoryError, Words, XmenError
from xmen.events import Event, anytime, require_event
from xmen.files import as_path, read_text, write_together, write_whole
from xmen.options import require_number, require_whole
from xmen.policies.behaviour import read_validity
from xmen.policies.policy import Policy, plan
from xmen.problem import document as toml
from xmen.problem import parts
from xmen.problem.document import TomlTable, read_values, toml_text, within_fence
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.worlds import MDP, Sighting, Trajectory, read_demos
from xmen.worlds.names import is_missing, rule_text
from xmen.worlds.sightings import confusion
from xmen.worlds.tables import RecordedDemos

WEIGHT = "sample_weight"  # the column; `weight` may be a traveller's, or a van's
SHORT = {"demonstrations": "demos", "validation": "validation"}  # in names of files


def demo_weights(demos: Iterable[Trajectory]) -> list[float] | None:
    """The column `sample_weight` of the file from which demonstrations were read, for `fit`; None without one.

    >>> from xmen.worlds import read_demos
    >>> demo_weights(read_demos({"demo": [0, 1], "state": [3, 3], "sample_weight": [2.0, None]}))
    [2.0, 1.0]
    """
    records = [record.get(WEIGHT) for record in getattr(demos, "metadata", ())]
    if all(map(is_missing, records)):
        return None
    try:
        return [1.0 if is_missing(value) else float(value) for value in records]
    except (TypeError, ValueError) as error:
        raise TrajectoryError(f"the column {WEIGHT} holds a number per demonstration: {error}") from None


# ---- From the tables of a problem file to a problem, at the first mistake or through all of them

FORMAT = 1
Value = TypeVar("Value")


@dataclass(frozen=True, repr=False)
class Settings(EngineSettings):
    """How a problem is to be answered; arguments of `xmen.distribution`, `xmen.plan` and learners of the same names."""

    discount: float = 1.0
    seed: int | None = None
    validity: str | float = "sure"
    patience: int | None = None  # the learner's own
    noise: float | None = None  # the probability that a state in the demonstrations is a wrong one

    def __post_init__(self) -> None:
        super().__post_init__()
        require_engine(self.engine)
        check_discount(self.discount)
        require_whole("seed", self.seed, least=0, optional=True)
        read_validity(self.validity)
        require_whole("patience", self.patience, least=1, optional=True)
        require_number("noise", self.noise, least=0.0, below=1.0, optional=True)


@dataclass(frozen=True)
class Spelling:
    """How a file said it, so that writing keeps the user's words where they still mean the same."""

    events: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # also those that are switched off
    features: tuple[str, ...] = ()
    graph: parts.GraphFile | None = None
    studio: Mapping[str, Any] = field(default_factory=dict)  # what only Studio shows, such as colours
    folder: Path | None = None  # of the file: where those that its rules name are


@dataclass(frozen=True)
class Mistake:
    """Something wrong in a part of a problem: which event (`name`), rule (`index`, from 0) or key, and where in it."""

    part: str
    message: str
    name: str | None = None
    index: int | None = None
    key: str | None = None
    offset: int | None = None


class _Reader:
    """Reads the parts of a problem: raises the first mistake, or keeps all of them and goes on without those parts."""

    def __init__(self, found: list[Mistake] | None) -> None:
        self.found = found

    def part(
        self, part: str, read: Callable[..., Value], *arguments: Any, name: str | None = None, index: int | None = None
    ) -> Value | None:
        """What `read` makes of the arguments; None after a mistake."""
        try:
            return read(*arguments)
        except (XmenError, OSError) as error:
            if self.found is None:
                raise
            message = error.reason if isinstance(error, XmenError) else str(error)
            key, offset = getattr(error, "key", None) or None, getattr(error, "offset", None)
            self.found.append(Mistake(part, message, name, index, key, offset))
            return None

    def problem(self, document: TomlTable) -> "Problem | None":
        """The problem in a file, as far as it can be read; without a world there is none."""
        self.part("problem", _require_format, document)
        tables = {key: document.table(key, {}) for key in ("events", "costs", "reward", "settings", "studio")}
        world_table, rule_tables = document.table("world"), document.tables("constraints")
        files = self.part("problem", _read_files, document) or {}
        world, graph = self.part("world", parts.read_world, world_table) or (None, None)
        settings = self.part("settings", _read_settings, tables["settings"]) or Settings()
        if world is None:
            return None
        events, costs = dict[str, Any](), dict[str, Any]()
        for part, read, found in (("event", parts.read_event, events), ("cost", parts.read_cost, costs)):
            for name in tables[f"{part}s"].values:
                value = self.part(part, read, tables[f"{part}s"], name, world, events, name=name)
                found.update({} if value is None else {name: value})
        spelled: dict[str, Mapping[str, Any]] = {}
        rules: dict[str, Constraint] = {}
        for index, table in enumerate(rule_tables):
            rule = self.part("rule", _read_rule, table, world, {**events, **costs}, spelled, index=index)
            rules.update({} if rule is None else {str(rule.name): rule})
        reward, features = self.part("reward", parts.read_reward, tables["reward"], world, events) or (None, ())
        words, shown = dict(tables["events"].values), tables["studio"].values
        spelling = Spelling(words, spelled, features, graph, shown, document.file.parent)
        return Problem(world, events, rules, reward, settings, spelling, costs=costs, **files)


def _require_format(document: TomlTable) -> None:
    found = document.take("format", toml.INTEGER)
    if found != FORMAT:
        document.fail("format", f"this version of xmen reads format {FORMAT}, and this file is format {found}")


def _read_files(document: TomlTable) -> dict[str, Path]:
    """The demonstrations, which are opened when they are asked for: a problem can be sampled before there are any."""
    kind = toml.one_of("the name of a .csv or .jsonl file, relative to this one", str)
    return {key: document.file.parent / name for key, name in document.take_all({}, dict.fromkeys(SHORT, kind)).items()}


def parse_rule(text: str, world: MDP, names: Mapping[str, Name], folder: Path | None) -> Constraint:
    """The rule that a text spells in the words of a problem, whose files of costs are in `folder`."""
    tables = None if folder is None else lambda name: parts.cost_file(folder, name, world)
    return parse_constraint(text, names, tables, world)


def _read_rule(
    table: TomlTable, world: MDP, names: Mapping[str, Name], spelled: dict[str, Mapping[str, Any]]
) -> Constraint | None:
    """One rule, None where it is switched off; it is noted among those that are spelled already."""
    found = table.take_all({"name": toml.TEXT, "rule": toml.TEXT}, {"off": toml.BOOLEAN})
    name, text = found["name"], found["rule"]
    if not name.strip():
        table.fail("name", "a rule needs a name that messages can show")
    if name in spelled:
        table.fail("name", f"there is already a rule named {name!r}: each needs its own")
    spelled[name] = table.values
    if found.get("off"):
        return None
    table.name = f"{table.name} ({name!r})"
    with table.explaining("rule"):
        rule = parse_rule(text, world, names, table.file.parent).named(name)
        rule.check_world(world)
    return rule


_SETTINGS = {
    "str": toml.TEXT,
    "int": toml.INTEGER,
    "float": toml.NUMBER,
    "str | float": toml.one_of('"sure", "best" or a probability', str, int, float),
}
"""What a setting of a type takes in a file."""


def _read_settings(table: TomlTable) -> Settings:
    types = {one.name: str(getattr(one.type, "__name__", one.type)) for one in fields(Settings)}
    kinds = {name: _SETTINGS[of.removesuffix(" | None")] for name, of in types.items()}
    settings = Settings()
    for name, value in table.take_all({}, kinds).items():  # one by one, so that the one that does not fit is named
        with table.explaining(name):  # TOML has no null
            settings = settings.changed(**{name: None if (name, value) == ("time_limit", math.inf) else value})
    return settings


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that one run needs, as a problem file has it.

    Parameters
    ----------
    world
        The MDP.
    events, rules
        By name.
    reward
        A reward, an array (n_states, n_actions), or None.
    settings
        How it is to be answered: the arguments of `xm.distribution` and `xm.plan`.
    spelling
        How a file said it, which writing keeps.
    demonstrations, validation
        Files; they are opened when they are asked for.
    costs
        Arrays, or events with weights, for `total(name)` in rules; by name.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> problem = Problem(grid, events={"key": grid.at((1, 2))}, rules={"fetch the key": xm.visit(grid.at((1, 2)))})
    >>> problem.constraint
    visit(at(9)).named('fetch the key')
    >>> round(problem.distribution().entropy(), 3)
    2.197
    """

    world: MDP
    events: Mapping[str, Event] = field(default_factory=dict)
    rules: Mapping[str, Constraint] = field(default_factory=dict)
    reward: Reward | Floats | None = None
    settings: Settings = field(default_factory=Settings)
    spelling: Spelling = field(default_factory=Spelling, repr=False)
    demonstrations: Path | None = None
    validation: Path | None = None
    costs: Mapping[str, parts.Costs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, event in self.events.items():
            require_event(event, f"the event {name!r}").check_world(self.world)
        check_names({**self.costs, **self.events}, "Problem(events=..., costs=...)")
        named = {name: require_constraint(rule, f"the rule {name!r}").named(name) for name, rule in self.rules.items()}
        for rule in named.values():
            rule.check_world(self.world)
        reward_table(self.reward, self.world)
        for key in ("demonstrations", "validation"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, as_path(getattr(self, key), f"Problem({key}=...)"))
        object.__setattr__(self, "rules", named)

    @property
    def constraint(self) -> Constraint | None:
        """All rules together; None without any."""
        return conjunction(self.rules.values())

    def distribution(self, also: Constraint | Iterable[Constraint] | None = None, **changes: Any) -> Distribution:
        """The distribution of this problem under its settings, some of them changed, and under extra rules."""
        others = ("validity", "patience", "noise")  # of policies, of learners and of demonstrations
        chosen = {name: value for name, value in self.settings.chosen().items() if name not in others} | changes
        seed, law = chosen.pop("seed"), {name: chosen.pop(name, None) for name in ("discount", "given")}
        with self.speaking():
            rules = conjunction([*self.rules.values(), as_constraint(also)])
            return answering(Law(self.world, rules, self.reward, **law), EngineSettings(**chosen), seed)

    def plan(self, also: Constraint | Iterable[Constraint] | None = None, **changes: Any) -> Policy:
        """The policy for this problem under its settings, some of them changed, and under extra rules."""
        names = ("validity", "discount", "seed", "max_nodes", "device")
        chosen = {name: getattr(self.settings, name) for name in names} | changes
        with self.speaking():
            return plan(self.world, conjunction([*self.rules.values(), as_constraint(also)]), self.reward, **chosen)

    def demos(self) -> list[Trajectory]:
        """The demonstrations of this problem, at least one; they are not checked against the world and the rules."""
        return self._read_demos("demonstrations")

    def validation_demos(self) -> list[Trajectory] | None:
        """The demonstrations that a fit watches and does not learn from; None where the problem names none."""
        return None if self.validation is None else self._read_demos("validation", "demonstrations to validate with")

    def _read_demos(self, key: str, role: str = "demonstrations") -> list[Trajectory]:
        file: Path | None = getattr(self, key)
        if file is None:
            advice = f'write {key} = "{SHORT[key]}.csv" at the top of the problem file, or give the file itself'
            raise FileFormatError(f"this problem names no {key}: {advice}")
        try:
            return self.read_seen(within_fence(file))
        except MissingFileError as error:
            raise MissingFileError(error.filename, role) from None

    def read_seen(self, file: Path) -> RecordedDemos:
        """The demonstrations in a file, under the noise of this problem."""
        noise = confusion(self.settings.noise) if self.settings.noise else None
        demos = read_demos(file, self.world, noise=noise)
        if not demos:
            raise TrajectoryError(f"{file}: there are no demonstrations in this file")
        return demos

    def under_noise(self, demos: Iterable[Any]) -> list[Any]:
        """Demonstrations as they count: where the problem has noise, each as what was seen of it."""
        if not self.settings.noise:
            return list(demos)
        noise = confusion(self.settings.noise)
        return [Sighting(one.seen if isinstance(one, Sighting) else one.states, noise=noise) for one in demos]

    @property
    def features(self) -> Floats | None:
        """The features that a fit uses, (n_states, n_actions, d); None is one weight per state."""
        return self.reward.features if isinstance(self.reward, LinearReward) else None

    @cached_property
    def feature_names(self) -> list[str]:
        """The names of the features that a fit uses; without any there is one weight per state."""
        if not isinstance(self.reward, LinearReward):
            return [self.world.describe_state(state) for state in range(self.world.n_states)]
        n, names = len(self.reward.weights), list(self.spelling.features)
        return names if len(names) == n else [f"feature {k}" for k in range(n)]

    @cached_property
    def words(self) -> Words:
        """The names that this problem has for events and features, for whoever prints a message about it."""
        names = {event: name for name, event in self.events.items() if event != anytime}
        return Words(self.world, names, self.feature_names)

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Inside, errors of ours speak in the words of this problem."""
        try:
            yield
        except XmenError as error:
            error.words = self.words
            raise

    def parse(self, text: str) -> Constraint:
        """The rule that a text spells with the events and costs of this problem."""
        return parse_rule(text, self.world, {**self.events, **self.costs}, self.spelling.folder)

    def further(self, text: str) -> Constraint:
        """A rule that is asked about beside those of this problem: checked, and under its own text in messages."""
        rule = self.parse(text)
        rule.check_world(self.world)
        return rule if rule.name is not None else rule.named(text.strip())

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "Problem":
        """The problem in a file; errors name the file, the table and the key."""
        return read_problem(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the problem to a file; see `write_problem`."""
        write_problem(self, path)


def read_problem(path: str | PathLike[str]) -> Problem:
    """The problem in a TOML file; what is wrong with it is refused with the file, the table and the key."""
    file = as_path(path, "read_problem(path)")
    problem = _Reader(None).problem(TomlTable(read_values(file), file))
    assert problem is not None  # the first mistake was raised
    return problem


def problem_or_mistakes(values: Mapping[str, Any], path: Path) -> tuple[Problem | None, list[Mistake]]:
    """What the values of a problem file that is to be at `path` spell, as far as they do, and everything that is wrong.

    Events, rules, rewards and settings with a mistake are left out; without a world there is no problem.
    """
    mistakes: list[Mistake] = []
    reader = _Reader(mistakes)
    return reader.part("problem", reader.problem, TomlTable(dict(values), path)), mistakes


def write_problem(problem: Problem, path: str | PathLike[str]) -> None:
    """Write a problem as a TOML file that `read_problem` gives back, replacing what was there.

    What was read keeps its spelling while it means the same. A world that is no grid goes to STEM.transitions.csv
    (a graph that was read, to a copy of its file), a reward without named features to STEM.reward.csv, large costs to
    STEM.NAME.csv, and demonstrations from another folder to STEM_demos.csv, all beside the file. Nothing is written
    when a part has no text form. Whatever stops it leaves the old problem or the new one.
    """
    write_together(as_path(path, "write_problem(problem, path)"), partial(problem_files, problem))


def problem_files(problem: Problem, target: Path) -> dict[Path, bytes]:
    """The files that `write_problem` writes, the problem file last: content by path."""
    spelling = problem.spelling
    world, events, beside = problem.world, problem.events, parts.Beside(target, {})
    demos = {key: _spell_file(getattr(problem, key), f"_{short}", beside) for key, short in SHORT.items()}
    settings = {name: value for name, value in problem.settings.chosen().items() if value != getattr(Settings, name)}
    if "time_limit" in settings:
        settings["time_limit"] = settings["time_limit"] or math.inf
    document = {
        "format": FORMAT,
        **demos,
        "world": parts.write_world(world, spelling.graph, beside),
        "events": _spell_events(problem, target),
        "costs": parts.write_costs(problem.costs, events, beside),
        "constraints": _spell_rules(problem, target),
        "reward": parts.write_reward(problem.reward, spelling.features, world, events, beside),
        "settings": settings,
        "studio": spelling.studio,
    }
    text = toml_text({key: value for key, value in document.items() if value})
    return {**beside.files, target: text.encode()}


def _spell_file(file: Path | None, ending: str, beside: parts.Beside) -> str | None:
    """The name of a file of demonstrations; one in another folder comes along, if it is there yet."""
    if file is None:
        return None
    if file.is_file():
        return beside.put_copy(file, f"{ending}{file.suffix}")
    return Path(os.path.relpath(file, beside.target.parent)).as_posix()


def problem_parts(problem: Problem) -> dict[str, Any]:
    """What a model that was learned for the problem has in common with it, by name: the file is enough for both."""
    shared: dict[str, Any] = {"world": problem.world, "constraint": problem.constraint, "events": dict(problem.events)}
    reward = problem.reward
    if isinstance(reward, LinearReward):
        shared |= {"features": reward.features, "weights": reward.weights}
    elif reward is not None:
        shared["weights"] = np.ascontiguousarray(reward_table(reward, problem.world)[:, 0])  # where one holds per state
    return shared


def _spell_events(problem: Problem, target: Path) -> dict[str, Any]:
    table = TomlTable(dict(problem.spelling.events), target, "[events]")
    written: dict[str, Any] = {}
    above: dict[str, Event] = {}
    for name, event in problem.events.items():
        try:
            kept = name in table.values and parts.read_event(table, name, problem.world, above) == event
        except (ConstraintError, FileFormatError):
            kept = False
        written[name] = table.values[name] if kept else parts.spell_event(name, event, problem.world)
        above[name] = event
    return written


def _spell_rules(problem: Problem, target: Path) -> list[Mapping[str, Any]]:
    """All rules in the order of the file, with those that are switched off."""
    spelled, rules = problem.spelling.rules, problem.rules
    return [
        {"name": name, "rule": _spell_rule(problem, name, rules[name], target)} if name in rules else spelled[name]
        for name in dict.fromkeys([*spelled, *rules])
        if name in rules or spelled[name].get("off")
    ]


def _spell_rule(problem: Problem, name: str, rule: Constraint, target: Path) -> str:
    names = {**problem.events, **problem.costs}
    for text in (problem.spelling.rules.get(name, {}).get("rule"), rule_text(rule, problem.world)):
        try:
            # Files of costs that the text names have to be where it will stand.
            if text is not None and parse_rule(text, problem.world, names, target.parent).named(name) == rule:
                return text
        except ConstraintError:
            continue
    why = "it holds a function (`when` or `monitor`), which has no text form"
    advice = "Spell it with the other constraints, or keep this problem in Python"
    raise ConstraintError(f"the rule {name!r} cannot be written to a file: {why}. {advice}.")


# ---- Adding rules to a problem file, whose own words, order and comments stay as they are


def append_rules(path: Path, problem: Problem, rules: Mapping[str, Sequence[str]]) -> list[str]:
    """Add rules, texts over the events of the problem with the comments above them, to a file; returns their names."""
    values = read_values(path)
    added = {text if text not in problem.rules else f"{text} (found)": text for text in rules}
    for text in rules:
        problem.further(text)
    tables = [{"name": name, "rule": text} for name, text in added.items()]
    values["constraints"] = [*values.get("constraints", []), *tables]
    text = toml_text(values, read_text(path), {name: rules[text] for name, text in added.items()})
    write_whole(path, text.encode())
    return [*added]
