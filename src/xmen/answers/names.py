"""The names that a user gave to features, instead of the numbers that learners know."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xmen.problem import Problem
from xmen.rewards import Floats, LinearReward

_NUMBERED = re.compile(r"\bfeatures? (\d+(?:, \d+)*(?: and \d+)?)(?! more)\b")


def named_features(problem: Problem) -> tuple[Floats | None, list[str]]:
    """The features that a fit uses, (n_states, n_actions, d), and their names; None is one weight per state."""
    if isinstance(problem.reward, LinearReward):
        names = list(problem.spelling.features)
        if len(names) != len(problem.reward.weights):
            names = [f"feature {k}" for k in range(len(problem.reward.weights))]
        return problem.reward.features, names
    return None, [problem.world.describe_state(state) for state in range(problem.world.n_states)]


def with_names(message: str, names: Sequence[str]) -> str:
    """The message with 'feature 2' and 'features 0, 1 and 2' spelled as the user spells them.

    >>> with_names("so is 1 * feature 0 -2 * feature 1; features 0 and 1 are", ["steps", "mud"])
    "so is 1 * 'steps' -2 * 'mud'; 'steps' and 'mud' are"
    >>> with_names("features 0, 1 and 12 more never vary", ["steps", "mud"])
    "'steps', 'mud' and 12 more never vary"
    """

    def spelled(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: _quoted(int(number[0]), names), match[1])

    return _NUMBERED.sub(spelled, message)


def _quoted(index: int, names: Sequence[str]) -> str:
    return repr(names[index]) if index < len(names) else f"feature {index}"
