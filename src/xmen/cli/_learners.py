"""What a user asked of `xmen fit`, and the learner that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xmen.cli._names import named_features
from xmen.errors import EngineError
from xmen.learners.base import Learner
from xmen.methods.method import Method
from xmen.methods.table import parse_method, read_method
from xmen.problem import Problem
from xmen.registry import LEARNERS

STORED_EVERY = 1  # iterations between checkpoints: a slow one is worth keeping, a quick one is cheap to write


@dataclass(frozen=True)
class Choice:
    """What the user asked of a fit; None is the learner's own default."""

    learner: str = "xmen"
    method: str | None = None
    seed: int | None = None
    max_iter: int | None = None
    l2: float | None = None
    resume: bool = False
    validity: str | float | None = None
    checkpoint: Path | None = None
    callback: Callable[[Any], object] | None = field(default=None, compare=False)


OPTIONS = ("method", "validity", "max_iter", "l2", "resume")
"""The options that not all learners have."""


def check_choice(choice: Choice) -> None:
    """Refuse names that do not exist, and options that the learner does not have."""
    if choice.learner not in LEARNERS:
        close = get_close_matches(choice.learner, LEARNERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise EngineError(f"--learner {choice.learner}: unknown learner{hint} Choose one of {', '.join(LEARNERS)}.")
    method_of(choice)
    for option in OPTIONS:
        given = getattr(choice, option) not in (None, False, "auto")
        if given and option not in LEARNERS[choice.learner].kind.setting_names():
            having = ", ".join(name for name, learner in LEARNERS.items() if option in learner.kind.setting_names())
            raise EngineError(
                f"--{option.replace('_', '-')} is no option of --learner {choice.learner}; these have it: {having}."
            )


def make_learner(choice: Choice, problem: Problem) -> Learner:
    """The learner, not fitted yet: made from the parts of the problem it takes, with those settings that it has."""
    learner = LEARNERS[choice.learner]
    offered = {
        "constraint": problem.constraint,
        "features": named_features(problem)[0],
        "reward": problem.reward,
        "events": dict(problem.events),
    }
    asked = {
        "method": method_of(choice),
        "seed": choice.seed,
        "max_iter": choice.max_iter,
        "l2": choice.l2,
        "validity": choice.validity,
        "checkpoint": None if choice.checkpoint is None else str(choice.checkpoint),
        "checkpoint_every": STORED_EVERY,
        "resume": choice.resume,
        "callback": choice.callback,
    }
    settings = problem.settings.chosen() | {name: value for name, value in asked.items() if value is not None}
    made = {"world": problem.world} | {name: offered[name] for name in learner.takes}
    return learner.kind(**made, **{k: v for k, v in settings.items() if k in learner.kind.setting_names()})


def bar_length(choice: Choice) -> int | None:
    """The number of iterations to come, where that is known: others stop at their optimum, whenever that is."""
    method = read_method(method_of(choice))
    return (choice.max_iter or method.default_max_iter) if method is not None and method.takes_every_step else None


def method_of(choice: Choice) -> str | Method:
    """The method that was asked for, as XMEN takes it."""
    try:
        return parse_method(choice.method or "auto")
    except EngineError as error:
        raise EngineError(f"--method {choice.method}: {error}") from None
