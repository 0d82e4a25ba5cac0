"""What a user asked of a fit, and the learner that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xmen.answers.names import named_features
from xmen.learners.base import Learner
from xmen.methods.table import parse_method
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
    validation: Path | None = None
    patience: int | None = None
    device: str | None = None
    outcomes: str | None = None
    checkpoint: Path | None = None
    callback: Callable[[Any], object] | None = field(default=None, compare=False)


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
        "method": parse_method(choice.method or "auto"),
        "seed": choice.seed,
        "max_iter": choice.max_iter,
        "l2": choice.l2,
        "validity": choice.validity,
        "validation": problem.validation_demos(),
        "patience": choice.patience,
        "device": choice.device,
        "outcomes": choice.outcomes,
        "checkpoint": None if choice.checkpoint is None else str(choice.checkpoint),
        "checkpoint_every": STORED_EVERY,
        "resume": choice.resume,
        "callback": choice.callback,
    }
    settings = problem.settings.chosen() | {name: value for name, value in asked.items() if value is not None}
    made = {"world": problem.world} | {name: offered[name] for name in learner.takes}
    return learner.kind(**made, **{k: v for k, v in settings.items() if k in learner.kind.setting_names()})
