"""A problem: everything that one run needs, as one object and as one file."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction, require_constraint
from xmen.constraints.text import Name, check_names, parse_constraint
from xmen.engines.choose import answering, require_engine
from xmen.engines.distribution import Distribution, Law, as_constraint, check_discount
from xmen.engines.settings import EngineSettings
from xmen.errors import (
    ConstraintError,
    ConstraintSyntaxError,
    FileFormatError,
    MissingFileError,
    TrajectoryError,
    XmenError,
    caret_lines,
)
from xmen.events import Event, require_event
from xmen.files import as_path, write_together, write_whole
from xmen.methods.runs import check_patience
from xmen.policies.planning import read_validity
from xmen.policies.policy import Policy, plan
from xmen.problem.document import PlacedError, PlacedSyntaxError, TomlTable, read_toml, toml_text, within_fence
from xmen.problem.parts import (
    Costs,
    GraphFile,
    cost_file,
    read_cost,
    read_event,
    read_events,
    read_reward,
    read_world,
    spell_event,
    write_costs,
    write_reward,
    write_world,
)
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.storage.models import MODEL, PROBLEM
from xmen.worlds import MDP, Trajectory, read_demos
from xmen.worlds.names import in_world_words, is_missing, rule_text

# ---- The keys `demonstrations` and `validation`: names of files beside the problem file


WEIGHT = "sample_weight"  # the column; `weight` may be a traveller's, or a van's

SHORT = {"demonstrations": "demos", "validation": "validation"}  # in names of files


def read_demonstrations(file: Path | None, world: Any = None, key: str = "demonstrations") -> list[Trajectory]:
    """What is in the file, at least one; says what to do when there is none."""
    if file is None:
        raise FileFormatError(
            f'this problem names no {key}: write {key} = "{SHORT[key]}.csv" at the top of the problem file, or give '
            "the file itself"
        )
    try:
        demos = read_demos(within_fence(file), world)
    except MissingFileError as error:
        raise MissingFileError(
            error.filename, {"validation": "demonstrations to validate with"}.get(key, key)
        ) from None
    if not demos:
        raise TrajectoryError(f"{file}: there are no demonstrations in this file")
    return demos


def demo_weights(demos: Iterable[Trajectory]) -> list[float] | None:
    """The column `sample_weight` of the file from which demonstrations were read, for `fit`; None without one.

    >>> from xmen.worlds import read_demos
    >>> demo_weights(read_demos({"demo": [0, 1], "state": [3, 3], "sample_weight": [2.0, None]}))
    [2.0, 1.0]
    """
    records = [record.get(WEIGHT) for record in getattr(demos, "metadata", ())]
    if all(map(is_missing, records)):
        return None
    return [_weight(value) for value in records]


def _weight(value: Any) -> float:
    try:
        return 1.0 if is_missing(value) else float(value)
    except (TypeError, ValueError):
        raise TrajectoryError(f"the column {WEIGHT} holds a number per demonstration, got {value!r:.60}") from None


def write_demonstrations(
    file: Path | None, target: Path, key: str = "demonstrations"
) -> tuple[str | None, dict[Path, bytes]]:
    """The value of the key, and the file that goes with it: a file in another folder comes along."""
    if file is None:
        return None, {}
    if file.parent.resolve() == target.parent.resolve():
        return file.name, {}
    if not file.is_file():  # nothing to copy yet
        return Path(os.path.relpath(file, target.parent)).as_posix(), {}
    name = f"{target.stem}_{SHORT[key]}{file.suffix}"
    return name, {target.with_name(name): file.read_bytes()}


# ---- From the tables of a problem file to its parts, at the first mistake or through all of them


FORMAT = 1


@dataclass(frozen=True, repr=False)
class Settings(EngineSettings):
    """How a problem is to be answered; arguments of `xmen.distribution`, `xmen.plan` and learners of the same names."""

    discount: float = 1.0
    seed: int | None = None
    validity: str | float = "sure"
    patience: int | None = None  # the learner's own


@dataclass(frozen=True)
class Spelling:
    """How a file said it, so that writing keeps the user's words where they still mean the same."""

    events: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    graph: GraphFile | None = None
    off: Mapping[str, str] = field(default_factory=dict)  # rules that are switched off, by name: any text
    studio: Mapping[str, Any] = field(default_factory=dict)  # what only Studio shows, such as colours
    folder: Path | None = None  # of the file: where those that its rules name are


@dataclass
class Parts:
    """What a problem is made of, as far as it could be read."""

    world: MDP | None = None
    events: dict[str, Event] = field(default_factory=dict)
    costs: dict[str, Costs] = field(default_factory=dict)
    rules: dict[str, Constraint] = field(default_factory=dict)
    reward: Reward | Floats | None = None
    settings: Settings = field(default_factory=Settings)
    spelling: Spelling = field(default_factory=Spelling)
    demonstrations: Path | None = None
    validation: Path | None = None


@dataclass(frozen=True)
class Mistake:
    """Something wrong in a part of a problem: which event (`name`), rule (`index`, from 0) or key, and where in it."""

    part: str
    message: str
    name: str | None = None
    index: int | None = None
    key: str | None = None
    offset: int | None = None


class Mistakes:
    """Raises the first mistake, or lets reading go on without that part and keeps all of them."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.found: list[Mistake] = []

    def of(self, part: str, name: str | None = None, index: int | None = None) -> _Reading:
        """Where a part is read."""
        return _Reading(self, part, name, index)


class _Reading(NamedTuple):
    """A block that reads one part; its end says to mypy, too, that what went wrong in it may be over."""

    mistakes: Mistakes
    part: str
    name: str | None
    number: int | None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self.mistakes.strict or not isinstance(error, XmenError | OSError):
            return False
        self.mistakes.found.append(_described(error, self.part, self.name, self.number))
        return True


def _described(error: Exception, part: str, name: str | None, index: int | None) -> Mistake:
    if isinstance(error, PlacedError):
        return Mistake(part, error.reason, name, index, key=error.key or None)
    if isinstance(error, PlacedSyntaxError) and error.text is not None and error.offset is not None:
        # The text is shown where it is edited, with the caret in it.
        reason = error.reason.removesuffix("\n" + caret_lines(error.text, error.offset))
        return Mistake(part, reason, name, index, offset=error.offset)
    return Mistake(part, str(error), name, index)


def read_parts(document: TomlTable, mistakes: Mistakes) -> Parts:
    """All parts of a problem file."""
    with mistakes.of("problem"):
        found = document.integer("format")
        if found != FORMAT:
            document.fail("format", f"this version of xmen reads format {FORMAT}, and this file is format {found}")
    parts = Parts()
    world_table, events_table = document.table("world"), document.table("events", {})
    rule_tables = document.tables("constraints")
    reward_section, settings_table = document.table("reward", {}), document.table("settings", {})
    costs_table, studio = document.table("costs", {}), document.table("studio", {}).values
    with mistakes.of("problem"):
        demos = document.text(
            "demonstrations", None, expected="the name of a .csv or .jsonl file, relative to this one"
        )
        # The file is opened when it is asked for: a problem can be sampled before anyone has demonstrated anything.
        parts.demonstrations = None if demos is None else document.file.parent / demos
        held_out = document.text("validation", None, expected="the name of a file as that of the demonstrations")
        parts.validation = None if held_out is None else document.file.parent / held_out
        document.finish()

    graph: GraphFile | None = None
    with mistakes.of("world"):
        parts.world, graph = read_world(world_table)
    with mistakes.of("settings"):
        parts.settings = _read_settings(settings_table)
    if parts.world is None:
        return parts
    spoken = parts.world
    if document.file.name == PROBLEM and document.file.with_name(MODEL).is_file():
        # Models that were saved before rules had to name places mean states by their numbers.
        spoken = copy(spoken)
        spoken.numbers_are_states = True
    read_events(events_table, spoken, parts.events, lambda name: mistakes.of("event", name))
    costs_table.allow(*costs_table.values)
    for name in costs_table.values:
        with mistakes.of("cost", name):
            parts.costs[name] = read_cost(costs_table, name, parts.world, parts.events)
    texts, off = _read_rules(rule_tables, spoken, parts, mistakes)
    features: tuple[str, ...] = ()
    with mistakes.of("reward"):
        parts.reward, features = read_reward(reward_section, parts.world, parts.events)
    parts.spelling = Spelling(
        dict(events_table.values), texts, features, graph, off, dict(studio), document.file.parent
    )
    return parts


def parse_rule(text: str, world: MDP, names: Mapping[str, Name], folder: Path | None) -> Constraint:
    """The rule that a text spells in the words of a problem, whose files of costs are in `folder`."""
    tables = None if folder is None else lambda name: cost_file(folder, name, world)
    return parse_constraint(text, names, tables, world)


def _read_rules(
    tables: list[TomlTable], world: MDP, parts: Parts, mistakes: Mistakes
) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of all rules, and of those that are switched off; the others become part of the problem."""
    texts: dict[str, str] = {}
    off: dict[str, str] = {}
    for index, table in enumerate(tables):
        with mistakes.of("rule", index=index):
            name, text, is_off = table.text("name"), table.text("rule"), table.boolean("off", False)
            table.finish()
            if not name.strip():
                table.fail("name", "a rule needs a name that messages can show")
            if name in texts:
                table.fail("name", f"there is already a rule named {name!r}: each needs its own")
            texts[name] = text
            if is_off:
                off[name] = text
                continue
            table.name = f"{table.name} ({name!r})"
            with table.explaining("rule"):
                rule = parse_rule(text, world, {**parts.events, **parts.costs}, table.file.parent).named(name)
                rule.check_world(world)
            parts.rules[name] = rule
    return texts, off


_TOGETHER = {"device": ("engine",), "precision": ("device",)}
"""Settings that make sense, or none, beside others."""


def _read_settings(table: TomlTable) -> Settings:
    default = Settings()
    found: dict[str, Any] = {
        "engine": table.text("engine", default.engine),
        "max_nodes": table.integer("max_nodes", None),
        "oracle": table.text("oracle", default.oracle),
        "cell_size": table.number("cell_size", None),
        "delta": table.number("delta", None),
        "failure": table.number("failure", None),
        "time_limit": table.number("time_limit", default.time_limit),
        "device": table.text("device", None),
        "precision": table.text("precision", default.precision),
    }
    if found["time_limit"] == math.inf:
        found["time_limit"] = None  # TOML has no null
    for name in found:
        with table.explaining(name):
            EngineSettings(**{key: found[key] for key in (name, *_TOGETHER.get(name, ()))})
    with table.explaining("engine"):
        require_engine(found["engine"])
    discount = table.number("discount", default.discount)
    with table.explaining("discount"):
        check_discount(discount)
    validity = table.text_or_number("validity", default.validity, '"sure", "best" or a probability')
    with table.explaining("validity"):
        read_validity(validity)
    patience = table.integer("patience", None)
    with table.explaining("patience"):
        check_patience(patience)
    seed = table.integer("seed", None)
    table.finish()
    if seed is not None and seed < 0:
        table.fail("seed", f"a seed is 0 or more, got {seed}")
    return Settings(**found, discount=discount, seed=seed, validity=validity, patience=patience)


# ---- A problem: everything that one run needs, as one object and as one file


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
    costs: Mapping[str, Costs] = field(default_factory=dict)

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
        return conjunction(list(self.rules.values()))

    def distribution(self, also: Constraint | Iterable[Constraint] | None = None, **changes: Any) -> Distribution:
        """`xmen.distribution` of this problem under its settings, some of them changed, and under extra rules."""
        others = ("validity", "patience")  # of policies and of learners
        chosen = {name: value for name, value in self.settings.chosen().items() if name not in others} | changes
        seed, law = chosen.pop("seed"), {name: chosen.pop(name, None) for name in ("discount", "given")}
        with self.speaking():
            return answering(Law(self.world, self._with(also), self.reward, **law), EngineSettings(**chosen), seed)

    def plan(self, also: Constraint | Iterable[Constraint] | None = None, **changes: Any) -> Policy:
        """`xmen.plan` of this problem under its settings, some of them changed, and under extra rules."""
        names = ("validity", "discount", "seed", "max_nodes", "device")
        chosen = {**{name: getattr(self.settings, name) for name in names}, **changes}
        with self.speaking():
            return plan(self.world, self._with(also), self.reward, **chosen)

    def _with(self, also: Constraint | Iterable[Constraint] | None) -> Constraint | None:
        extra = as_constraint(also)
        return conjunction([*self.rules.values(), *([] if extra is None else [extra])])

    def demos(self) -> list[Trajectory]:
        """The demonstrations of this problem, at least one; they are not checked against the world and the rules."""
        return read_demonstrations(self.demonstrations, self.world)

    def validation_demos(self) -> list[Trajectory] | None:
        """The demonstrations that a fit watches and does not learn from; None where the problem names none."""
        if self.validation is None:
            return None
        return read_demonstrations(self.validation, self.world, "validation")

    def in_words(self, message: str) -> str:
        """A message with the names of this problem's events, and the words of its world, in place of numbers."""
        texts: dict[str, str] = {}
        for name, event in self.events.items():
            text = str(event)
            texts |= {form: name for form in (text, in_world_words(text, self.world)) if "(" in form}
        if texts:
            longest_first = sorted(texts, key=len, reverse=True)
            pattern = "|".join(re.escape(text) for text in longest_first)
            message = re.sub(rf"(?<!\w)(?:{pattern})", lambda found: texts[found[0]], message)
        return in_world_words(message, self.world)

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Inside, errors of ours speak of events by the names that this problem gives them."""
        try:
            yield
        except XmenError as error:
            error.args = (self.in_words(str(error)), *error.args[1:])
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
    def read(cls, path: str | PathLike[str]) -> Problem:
        """The problem in a file; errors name the file, the table and the key."""
        return read_problem(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the problem to a file; see `write_problem`."""
        write_problem(self, path)


def read_problem(path: str | PathLike[str]) -> Problem:
    """The problem in a TOML file; what is wrong with it is refused with the file, the table and the key."""
    return _made(read_parts(read_toml(as_path(path, "read_problem(path)")), Mistakes(strict=True)))


def problem_or_mistakes(values: Mapping[str, Any], path: Path) -> tuple[Problem | None, list[Mistake]]:
    """What the values of a problem file that is to be at `path` spell, as far as they do, and everything that is wrong.

    Events, rules, rewards and settings with a mistake are left out; without a world there is no problem.
    """
    mistakes = Mistakes(strict=False)
    parts: Parts | None = None
    with mistakes.of("problem"):
        parts = read_parts(TomlTable(dict(values), path, ""), mistakes)
    problem = None
    if parts is not None and parts.world is not None:
        with mistakes.of("problem"):
            problem = _made(parts)
    return problem, mistakes.found


def _made(parts: Parts) -> Problem:
    assert parts.world is not None
    return Problem(**vars(parts))


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
    world, files = write_world(problem.world, problem.spelling.graph, target)
    reward, reward_files = write_reward(
        problem.reward, problem.spelling.features, problem.world, problem.events, target
    )
    demos, demo_files = write_demonstrations(problem.demonstrations, target)
    held_out, held_out_files = write_demonstrations(problem.validation, target, "validation")
    costs, cost_files = write_costs(problem.costs, problem.events, target)
    default = Settings()
    chosen = problem.settings.chosen()
    if chosen["time_limit"] is None:
        chosen["time_limit"] = math.inf
    changed = {name: value for name, value in chosen.items() if value != getattr(default, name)}
    document = {
        "format": FORMAT,
        "demonstrations": demos,
        "validation": held_out,
        "world": world,
        "events": _spell_events(problem, target),
        "costs": costs,
        "constraints": _spell_rules(problem, target),
        "reward": reward,
        "settings": changed,
        "studio": dict(problem.spelling.studio),
    }
    text = toml_text({key: value for key, value in document.items() if value})
    return {**files, **reward_files, **demo_files, **held_out_files, **cost_files, target: text.encode()}


def problem_parts(problem: Problem) -> dict[str, Any]:
    """What a model that was learned for the problem has in common with it, by name: the file is enough for both."""
    parts: dict[str, Any] = {"world": problem.world, "constraint": problem.constraint, "events": dict(problem.events)}
    reward = problem.reward
    if isinstance(reward, LinearReward):
        parts |= {"features": reward.features, "weights": reward.weights}
    elif reward is not None:
        parts["weights"] = np.ascontiguousarray(reward_table(reward, problem.world)[:, 0])  # where one holds per state
    return parts


def _spell_events(problem: Problem, target: Path) -> dict[str, Any]:
    table = TomlTable({}, target, "[events]")
    written: dict[str, Any] = {}
    above: dict[str, Event] = {}
    for name, event in problem.events.items():
        value = problem.spelling.events.get(name)
        try:
            kept = value is not None and read_event(table, name, value, problem.world, above) == event
        except (ConstraintError, FileFormatError):
            kept = False
        written[name] = value if kept else spell_event(name, event, problem.world)
        above[name] = event
    return written


def _spell_rules(problem: Problem, target: Path) -> list[dict[str, Any]]:
    """All rules in the order of the file, with those that are switched off."""
    off = {name: text for name, text in problem.spelling.off.items() if name not in problem.rules}
    order = [name for name in problem.spelling.rules if name in problem.rules or name in off]
    return [
        {"name": name, "rule": off[name], "off": True}
        if name in off
        else {"name": name, "rule": _spell_rule(problem, name, problem.rules[name], target)}
        for name in dict.fromkeys([*order, *problem.rules, *off])
    ]


def _spell_rule(problem: Problem, name: str, rule: Constraint, target: Path) -> str:
    names = {**problem.events, **problem.costs}
    for text in (problem.spelling.rules.get(name), rule_text(rule._text(), problem.world)):
        try:
            # Files of costs that the text names have to be where it will stand.
            if text is not None and parse_rule(text, problem.world, names, target.parent).named(name) == rule:
                return text
        except ConstraintSyntaxError:
            continue
    raise ConstraintError(
        f"the rule {name!r} cannot be written to a file: it holds a function (`when` or `monitor`), which has no "
        "text form. Spell it with the other constraints, or keep this problem in Python."
    )


# ---- Adding rules to a problem file, whose own words, order and comments stay as they are


@dataclass(frozen=True)
class NewRule:
    """A rule in text form over the events of a problem, and what is to be said about it."""

    text: str
    comments: Sequence[str] = ()


def append_rules(path: Path, problem: Problem, rules: Sequence[NewRule]) -> list[str]:
    """Add rules at the end of a problem file, each under a comment and named by its text; returns the names.

    Raises
    ------
    FileFormatError
        Where the file spells its rules in a way that nothing can be added to; it is then left as it is.
    """
    blocks, names = [], set(problem.rules)
    added: list[str] = []
    for rule in rules:
        problem.parse(rule.text).check_world(problem.world)
        name = rule.text if rule.text not in names else f"{rule.text} (found)"
        names.add(name)
        added.append(name)
        comments = "".join(f"# {line}\n" for line in rule.comments)
        blocks.append("\n" + comments + toml_text({"constraints": [{"name": name, "rule": rule.text}]}))
    before = path.read_bytes()
    newline = "\r\n" if b"\r\n" in before else "\n"
    gap = "" if before.endswith(b"\n") else "\n"
    after = before + (gap + "".join(blocks)).replace("\n", newline).encode()
    try:
        tomllib.loads(after.decode("utf-8-sig").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(
            f"{path}: rules cannot be added to this file ({error}). Spell its rules as [[constraints]] tables, or "
            "paste the new ones by hand."
        ) from None
    write_whole(path, after)
    return added
