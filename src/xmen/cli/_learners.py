"""The learners by their names on the command line, and which options each of them has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xmen.baselines.constraint_inference import ConstraintInference
from xmen.baselines.maxent import MaxEntIRL
from xmen.baselines.relative_entropy import RelativeEntropyIRL
from xmen.cli._names import named_features
from xmen.errors import EngineError
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.learners.xmen import XMEN
from xmen.methods.method import Method
from xmen.methods.table import parse_method, read_method
from xmen.problem import Problem

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


OPTIONS = {
    "xmen": ("method", "max_iter", "l2", "resume"),
    "causal": ("validity", "max_iter", "l2", "resume"),
    "maxent": ("max_iter", "l2", "resume"),
    "relative-entropy": ("max_iter",),
    "constraint-inference": (),
}
"""The learners, and the options that not all of them have."""


def check_choice(choice: Choice) -> None:
    """Refuse names that do not exist, and options that the learner does not have."""
    if choice.learner not in OPTIONS:
        close = get_close_matches(choice.learner, OPTIONS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise EngineError(f"--learner {choice.learner}: unknown learner{hint} Choose one of {', '.join(OPTIONS)}.")
    method_of(choice)
    for option in ("method", "validity", "max_iter", "l2", "resume"):
        value = getattr(choice, option)
        if value not in (None, False, "auto") and option not in OPTIONS[choice.learner]:
            having = ", ".join(name for name, options in OPTIONS.items() if option in options)
            raise EngineError(
                f"--{option.replace('_', '-')} is no option of --learner {choice.learner}; these have it: {having}."
            )


def make_learner(choice: Choice, problem: Problem) -> Learner:
    """The learner, not fitted yet, with the problem's settings."""
    settings = problem.settings
    seed = settings.seed if choice.seed is None else choice.seed
    shared: dict[str, Any] = {
        "discount": settings.discount,
        "engine": settings.engine,
        "seed": seed,
        "callback": choice.callback,
    }
    features, _ = named_features(problem)
    limit: dict[str, Any] = {} if choice.max_iter is None else {"max_iter": choice.max_iter}
    stored: dict[str, Any] = {
        "l2": choice.l2 or 0.0,
        "max_nodes": settings.max_nodes,
        "checkpoint": None if choice.checkpoint is None else str(choice.checkpoint),
        "checkpoint_every": STORED_EVERY,
        "resume": choice.resume,
    }
    if choice.learner == "maxent":
        return MaxEntIRL(problem.world, features, **shared, **limit, **stored)
    if choice.learner == "causal":
        validity = settings.validity if choice.validity is None else choice.validity
        del shared["engine"]
        return CausalXMEN(problem.world, problem.constraint, features, validity, **shared, **limit, **stored)
    if choice.learner == "relative-entropy":
        return RelativeEntropyIRL(problem.world, features, **shared, **limit)
    if choice.learner == "constraint-inference":
        return ConstraintInference(problem.world, problem.reward, events=dict(problem.events), **shared)

    engine = {name: getattr(settings, name) for name in ("oracle", "cell_size", "delta", "failure")}
    method = method_of(choice)
    return XMEN(problem.world, problem.constraint, features, method=method, **shared, **limit, **stored, **engine)


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
