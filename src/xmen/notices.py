"""Warnings: what was asked for was done, and something about it is worth knowing.

CostsWarning (UserWarning)      a file of costs does not name all states
RuleWarning (UserWarning)       no trajectory can break a rule
LearningWarning (UserWarning)   the fit went through
├── IdentifiabilityWarning      weights that no set of demonstrations can tell apart
├── UnboundedWarning            the best weights are infinitely large
├── StartsWarning               demonstrations start elsewhere than the joint model does
├── LuckWarning                 the world has chance, and the model takes its outcomes for choices
├── PromiseWarning              the learned policy keeps the rules more or less often than the demonstrations
├── ConvergenceWarning          stopped before the optimum
├── GuaranteeWarning            settings for which the theorems of method="paper" promise nothing
└── InterruptedWarning          stopped by Ctrl-C; what was learned so far is kept
"""

from __future__ import annotations

import sys
import warnings


class CostsWarning(UserWarning):
    """A file of costs leaves out states where trajectories can be: they cost 0 there, meant or not."""


class RuleWarning(UserWarning):
    """No trajectory of the world can break a rule, which may have been meant otherwise: 15 % is 0.15."""


class LearningWarning(UserWarning):
    """Something to know about a fit that went through."""


class IdentifiabilityWarning(LearningWarning):
    """Combinations of features that are the same on every valid trajectory: their weights mean nothing."""


class StartsWarning(LearningWarning):
    """Demonstrations start in other shares than the joint model's trajectories: `given="start"` does not mind."""


class LuckWarning(LearningWarning):
    """P(tau) was fitted in a world with chance, where it conditions on outcomes: `CausalXMEN` does not."""


class PromiseWarning(LearningWarning):
    """`validity` is not what demonstrations keep to: the weights of a causal fit make up for the difference."""


class UnboundedWarning(LearningWarning):
    """Demonstrations at the edge of what is possible: the likelihood rises for ever along some direction."""


class ConvergenceWarning(LearningWarning):
    """The fit stopped before its tolerance was met."""


class GuaranteeWarning(LearningWarning):
    """Settings outside the conditions of the theorems: the fit goes through, its rate is not guaranteed."""


class InterruptedWarning(LearningWarning):
    """The fit was stopped by Ctrl-C and kept what it had learned."""


def notify(message: str, category: type[Warning]) -> None:
    """Warn at the line outside xmen that set this off, however deep inside we are."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "xmen":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
