"""A problem: everything that one run needs, as one object and as one file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction, require_constraint
from xmen.constraints.text import check_names, parse_constraint
from xmen.engines.choose import distribution, require_engine
from xmen.engines.distribution import Distribution, as_constraint, check_discount
from xmen.engines.settings import EngineSettings
from xmen.errors import ConstraintError, ConstraintSyntaxError, FileFormatError
from xmen.events import Event, require_event
from xmen.files import write_whole
from xmen.policies.plan import plan
from xmen.policies.planning import read_validity
from xmen.policies.policy import Policy
from xmen.problem._demonstrations import read_demonstrations, write_demonstrations
from xmen.problem._document import TomlTable, read_toml
from xmen.problem._events import read_event, read_events, spell_event
from xmen.problem._rewards import read_reward, write_reward
from xmen.problem._toml import toml_text
from xmen.problem._worlds import GraphFile, read_world, write_world
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.worlds import MDP, Trajectory

FORMAT = 1


@dataclass(frozen=True, repr=False)
class Settings(EngineSettings):
    """How a problem is to be answered; the arguments of `xmen.distribution` and `xmen.plan` of the same names."""

    discount: float = 1.0
    seed: int | None = None
    validity: str | float = "sure"


@dataclass(frozen=True)
class Spelling:
    """How a file said it, so that writing keeps the user's words where they still mean the same."""

    events: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    graph: GraphFile | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """A world, named events, named rules, a reward, settings, and the file with the demonstrations.

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
    settings: Settings = Settings()
    spelling: Spelling = field(default=Spelling(), repr=False)
    demonstrations: Path | None = None

    def __post_init__(self) -> None:
        for name, event in self.events.items():
            require_event(event, f"the event {name!r}").check_world(self.world)
        check_names(self.events, "Problem(events=...)")
        named = {name: require_constraint(rule, f"the rule {name!r}").named(name) for name, rule in self.rules.items()}
        for rule in named.values():
            rule.check_world(self.world)
        reward_table(self.reward, self.world)
        if self.demonstrations is not None:
            object.__setattr__(self, "demonstrations", Path(self.demonstrations))
        object.__setattr__(self, "rules", named)

    @property
    def constraint(self) -> Constraint | None:
        """All rules together; None without any."""
        return conjunction(list(self.rules.values()))

    def distribution(self, also: Constraint | Iterable[Constraint] | None = None, **changes: Any) -> Distribution:
        """`xmen.distribution` of this problem under its settings, some of them changed, and under extra rules."""
        chosen = {name: value for name, value in self.settings.chosen().items() if name != "validity"} | changes
        return distribution(self.world, self._with(also), self.reward, **chosen)

    def plan(self, also: Constraint | Iterable[Constraint] | None = None, **changes: Any) -> Policy:
        """`xmen.plan` of this problem under its settings, some of them changed, and under extra rules."""
        names = ("validity", "discount", "seed", "max_nodes")
        chosen = {**{name: getattr(self.settings, name) for name in names}, **changes}
        return plan(self.world, self._with(also), self.reward, **chosen)

    def _with(self, also: Constraint | Iterable[Constraint] | None) -> Constraint | None:
        extra = as_constraint(also)
        return conjunction([*self.rules.values(), *([] if extra is None else [extra])])

    def demos(self) -> list[Trajectory]:
        """The demonstrations of this problem, at least one; they are not checked against the world and the rules."""
        return read_demonstrations(self.demonstrations, self.world)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Problem:
        """The problem in a file; errors name the file, the table and the key."""
        return read_problem(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the problem to a file; see `write_problem`."""
        write_problem(self, path)


def read_problem(path: str | PathLike[str]) -> Problem:
    """The problem in a TOML file; what is wrong with it is refused with the file, the table and the key."""
    document = read_toml(Path(path))
    found = document.integer("format")
    if found != FORMAT:
        document.fail("format", f"this version of xmen reads format {FORMAT}, and this file is format {found}")
    world_table, events_table = document.table("world"), document.table("events", {})
    rule_tables = document.tables("constraints")
    reward_section, settings_table = document.table("reward", {}), document.table("settings", {})
    demos = document.text("demonstrations", None, expected="the name of a .csv or .jsonl file, relative to this one")
    document.finish()

    world, graph = read_world(world_table)
    events = read_events(events_table, world)
    rules, texts = _read_rules(rule_tables, world, events)
    reward, features = read_reward(reward_section, world, events)
    spelling = Spelling(dict(events_table.values), texts, features, graph)
    # The file is opened when it is asked for: a problem can be sampled before anyone has demonstrated anything.
    file = None if demos is None else document.file.parent / demos
    return Problem(world, events, rules, reward, _read_settings(settings_table), spelling, file)


def _read_rules(
    tables: list[TomlTable], world: MDP, events: Mapping[str, Event]
) -> tuple[dict[str, Constraint], dict[str, str]]:
    rules: dict[str, Constraint] = {}
    texts: dict[str, str] = {}
    for table in tables:
        name, text = table.text("name"), table.text("rule")
        table.finish()
        if not name.strip():
            table.fail("name", "a rule needs a name that messages can show")
        if name in rules:
            table.fail("name", f"there is already a rule named {name!r}: each needs its own")
        table.name = f"{table.name} ({name!r})"
        with table.explaining("rule"):
            rules[name] = parse_constraint(text, events).named(name)
            rules[name].check_world(world)
        texts[name] = text
    return rules, texts


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
    }
    if found["time_limit"] == math.inf:
        found["time_limit"] = None  # TOML has no null
    for name, value in found.items():
        with table.explaining(name):
            EngineSettings(**{name: value})
    with table.explaining("engine"):
        require_engine(found["engine"])
    discount = table.number("discount", default.discount)
    with table.explaining("discount"):
        check_discount(discount)
    validity = table.text_or_number("validity", default.validity, '"sure", "best" or a probability')
    with table.explaining("validity"):
        read_validity(validity)
    seed = table.integer("seed", None)
    table.finish()
    if seed is not None and seed < 0:
        table.fail("seed", f"a seed is 0 or more, got {seed}")
    return Settings(**found, discount=discount, seed=seed, validity=validity)


def write_problem(problem: Problem, path: str | PathLike[str]) -> None:
    """Write a problem as a TOML file that `read_problem` gives back, replacing what was there.

    What was read keeps its spelling while it means the same. A world that is no grid goes to STEM.transitions.csv
    (a graph that was read, to a copy of its file), a reward without named features to STEM.reward.csv, and
    demonstrations from another folder to STEM_demos.csv, all beside the file. Nothing is written when a part has no
    text form.
    """
    for file, content in problem_files(problem, Path(path)).items():
        write_whole(file, content)


def problem_files(problem: Problem, target: Path) -> dict[Path, bytes]:
    """The files that `write_problem` writes, the problem file last: content by path."""
    world, files = write_world(problem.world, problem.spelling.graph, target)
    reward, reward_files = write_reward(
        problem.reward, problem.spelling.features, problem.world, problem.events, target
    )
    demos, demo_files = write_demonstrations(problem.demonstrations, target)
    default = Settings()
    chosen = problem.settings.chosen()
    if chosen["time_limit"] is None:
        chosen["time_limit"] = math.inf
    changed = {name: value for name, value in chosen.items() if value != getattr(default, name)}
    document = {
        "format": FORMAT,
        "demonstrations": demos,
        "world": world,
        "events": _spell_events(problem, target),
        "constraints": [
            {"name": name, "rule": _spell_rule(problem, name, rule)} for name, rule in problem.rules.items()
        ],
        "reward": reward,
        "settings": changed,
    }
    text = toml_text({key: value for key, value in document.items() if value})
    return {**files, **reward_files, **demo_files, target: text.encode()}


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


def _spell_rule(problem: Problem, name: str, rule: Constraint) -> str:
    for text in (problem.spelling.rules.get(name), rule._text()):
        try:
            if text is not None and parse_constraint(text, problem.events).named(name) == rule:
                return text
        except ConstraintSyntaxError:
            continue
    raise ConstraintError(
        f"the rule {name!r} cannot be written to a file: it holds a function (`when` or `monitor`), which has no "
        "text form. Spell it with the other constraints, or keep this problem in Python."
    )
