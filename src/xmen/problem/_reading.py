"""From the tables of a problem file to its parts, at the first mistake or through all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from xmen.constraints.constraint import Constraint
from xmen.constraints.names import Name
from xmen.constraints.text import parse_constraint
from xmen.engines.choose import require_engine
from xmen.engines.distribution import check_discount
from xmen.engines.settings import EngineSettings
from xmen.errors import XmenError, caret_lines
from xmen.events import Event
from xmen.methods.validation import check_patience
from xmen.policies.planning import read_validity
from xmen.problem._costs import Costs, cost_file, read_cost
from xmen.problem._document import PlacedError, PlacedSyntaxError, TomlTable
from xmen.problem._events import read_events
from xmen.problem._rewards import read_reward
from xmen.problem._worlds import GraphFile, read_world
from xmen.rewards import Floats, Reward
from xmen.storage.models import MODEL, PROBLEM
from xmen.worlds import MDP

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
