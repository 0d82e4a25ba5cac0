"""Validation demonstrations of a fit, and what is said of them afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xmen.errors import EngineError, InvalidDemonstrationError, TrajectoryError
from xmen.methods.validation import VALIDATION_LOSS, Validation
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from xmen.learners.base import Learner


VALIDATION = "validation: "  # what an error about these demonstrations begins with


def read_validation(learner: Learner, demos: Iterable[Trajectory] | None) -> Validation | None:
    """The demonstrations that `fit` was given to validate with, or else those of the learner, checked."""
    given = getattr(learner, "validation", None) if demos is None else demos
    if given is None:
        return None
    if "validation" not in learner.setting_names():
        raise EngineError(f"{type(learner).__name__} does not validate while it learns: score(demos) does, afterwards.")
    try:
        found = learner._gather(given, None)
    except (InvalidDemonstrationError, TrajectoryError) as error:
        error.args = (f"{VALIDATION}{error}",)
        raise
    return Validation(found, learner._likelihoods_under(found), learner.patience)  # type: ignore[attr-defined]


def validation_note(learner: Learner) -> dict[str, str]:
    """Which iteration validation has chosen; nothing where there was none."""
    best = vars(learner).get("best_iteration_")
    if best is None:
        return {}
    loss = learner.history_[best - 1].details[VALIDATION_LOSS]
    last = "the last one" if best == learner.n_iter_ else f"of {learner.n_iter_}"
    return {"validation": f"these are the weights of iteration {best}, {last}: the best on validation, {loss:.4f} nats"}
