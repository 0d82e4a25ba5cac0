"""What notebooks show of a learner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmen.displays import facts_html
from xmen.learners.held_out import validation_note

if TYPE_CHECKING:
    from xmen.learners.base import Learner


def learner_html(learner: Learner) -> str:
    """Its settings, and what it has learned."""
    rule = learner._rule()
    facts: dict[str, object] = {"world": learner.world, "rules": "none" if rule is None else rule}
    if "reward_" not in vars(learner):
        return facts_html(f"{type(learner).__name__}, not fitted", facts)
    facts["iterations"] = f"{learner.n_iter_}, {'converged' if learner.converged_ else 'not converged'}"
    facts |= validation_note(learner)
    if learner.history_:
        facts["loss"] = f"{learner.history_[-1].loss:.6g} nats per demonstration"
    facts["reward"] = learner.reward_
    if "weights_" in vars(learner):
        facts["weights"] = np.array2string(learner.weights_, precision=4, threshold=20)
    return facts_html(f"{type(learner).__name__}, fitted", facts)
