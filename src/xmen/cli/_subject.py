"""What the user points at: a problem file, or the folder of a model together with the problem it was learned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xmen.answers.checking import rule_notes
from xmen.cli._folder import CHECKPOINT
from xmen.cli._output import print_notes
from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.distribution import Distribution
from xmen.errors import ConstraintError, ConstraintSyntaxError, EngineError, FileFormatError, StorageError
from xmen.learners.base import Learner
from xmen.policies.policy import Policy
from xmen.problem import Problem, read_problem
from xmen.registry import load_with_problem
from xmen.rules.inference import RuleInference
from xmen.storage.models import PROBLEM, has_model
from xmen.worlds import Network, Trajectory


def open_problem(path: Path, demos: Path | None = None) -> Problem:
    """The problem in a file, with demonstrations from another file if one is given."""
    if path.is_dir():
        inside = path / PROBLEM
        hint = f": give the problem file inside it, {inside}" if inside.is_file() else ""
        raise FileFormatError(f"{path} is a folder, not a problem file{hint}")
    problem = read_problem(path)
    return problem if demos is None else replace(problem, demonstrations=demos)


@dataclass(frozen=True)
class Subject:
    """A problem, and the model that was learned for it if there is one."""

    path: Path
    problem: Problem
    model: Learner | None = None

    def on(self, device: str | None) -> Subject:
        """The same answering on a device; as it was for None."""
        if device is None:
            return self
        if self.model is not None:
            if "device" not in self.model.setting_names():
                raise EngineError(f"--device: a {type(self.model).__name__} computes on the host.")
            self.model.set_params(device=device)
        return replace(self, problem=replace(self.problem, settings=self.problem.settings.changed(device=device)))

    @property
    def name(self) -> str:
        """The name of the file or folder, without a suffix."""
        return self.path.resolve().name if self.model is not None else self.path.stem

    def distribution(
        self, also: Constraint | None = None, engine: str | None = None, seed: int | None = None
    ) -> Distribution:
        """The trajectories of the problem or of the model, under extra rules and changed settings."""
        asked: dict[str, Any] = {"engine": engine, "seed": seed}
        changes = {name: value for name, value in asked.items() if value is not None}
        if self.model is None:
            return self.problem.distribution(also, **changes)
        with self.problem.speaking():
            return self.model.set_params(**changes).distribution(also)

    @property
    def seed(self) -> int | None:
        """The seed that is used when none is given."""
        seed = self.problem.settings.seed if self.model is None else self.model.seed
        return seed if isinstance(seed, int) else None

    def n_valid(self, trajectories: Sequence[Trajectory]) -> int:
        """How many keep the rules of the problem: a learner that knows no rules may break them."""
        rule = self.problem.constraint
        return len(trajectories) if rule is None else sum(map(rule.accepts, trajectories))


def open_subject(path: Path, demos: Path | None = None) -> Subject:
    """A problem file, or a model's folder: written by `xmen fit`, or by `model.save` in Python."""
    if not path.is_dir():
        return Subject(path, open_problem(path, demos))
    if not has_model(path) and (path / CHECKPOINT).exists():
        raise StorageError(
            f"{path}: the fit in this folder is not finished. The same xmen fit command with --resume goes on."
        )
    model, problem = load_with_problem(path)
    if isinstance(model, Policy):
        raise StorageError(
            f"{path} is a policy, as xmen plan --out wrote it: it acts step by step, in Python by xm.load. This "
            "command takes a problem file or a model's folder."
        )
    if isinstance(model, RuleInference):
        found = "; ".join(model.texts_) or "none"
        raise StorageError(
            f"{path} holds rules that RuleInference found: {found}. It is for Python: xm.load reads it, and its model_ "
            "samples. This command takes a problem file or a model's folder; xmen rules --write adds to the former."
        )
    if (path / CHECKPOINT).exists():
        print_notes(
            [
                f"the last fit in {path} is not finished: this is the model as it was saved before. "
                "The same xmen fit command with --resume goes on."
            ]
        )
    if problem is not None:
        return Subject(path, problem if demos is None else replace(problem, demonstrations=demos), model)
    if isinstance(model.world, Network):
        raise StorageError(f"{path} is a model of a Network: its trips need a start and a goal. Use it from Python.")
    rule = model._rule()
    rules = {} if rule is None else {rule.label: rule}
    return Subject(path, Problem(model.world, rules=rules, reward=model.reward_, demonstrations=demos), model)


def extra_rules(texts: Sequence[str], problem: Problem) -> Constraint | None:
    """The rules of `--also`, which may use the problem's events."""
    rules = [_extra_rule(text, problem) for text in texts]
    print_notes(rule_notes(problem, {rule.label: rule for rule in rules}))
    return conjunction(rules)


def _extra_rule(text: str, problem: Problem) -> Constraint:
    try:
        return problem.further(text)
    except ConstraintSyntaxError as error:
        raise ConstraintSyntaxError(f"--also: {error}", error.text, error.offset) from None
    except ConstraintError as error:
        raise ConstraintError(f"--also {text}: {error}") from None
