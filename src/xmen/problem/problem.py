"""A problem: everything that one run needs, as one object and as one file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction, require_constraint
from xmen.constraints.names import check_names
from xmen.engines.choose import answering
from xmen.engines.distribution import Distribution, as_constraint
from xmen.engines.law import Law
from xmen.engines.settings import EngineSettings
from xmen.errors import ConstraintError, ConstraintSyntaxError, FileFormatError, XmenError
from xmen.events import Event, require_event
from xmen.files import as_path, write_together
from xmen.policies.plan import plan
from xmen.policies.policy import Policy
from xmen.problem._costs import Costs, write_costs
from xmen.problem._demonstrations import read_demonstrations, write_demonstrations
from xmen.problem._document import TomlTable, read_toml
from xmen.problem._events import read_event, spell_event
from xmen.problem._reading import FORMAT, Mistake, Mistakes, Parts, Settings, Spelling, parse_rule, read_parts
from xmen.problem._rewards import write_reward
from xmen.problem._toml import toml_text
from xmen.problem._worlds import write_world
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.worlds import MDP, Trajectory
from xmen.worlds.words import in_world_words, rule_text


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
