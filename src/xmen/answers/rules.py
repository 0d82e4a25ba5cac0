"""The search for rules that a problem's demonstrations keep."""

from __future__ import annotations

from typing import Any

from xmen.answers.names import named_features
from xmen.problem import Problem
from xmen.rules.inference import RuleInference


def rule_search(problem: Problem, **wanted: Any) -> RuleInference:
    """A search over the events of a problem, beyond its rules and what a reward of its features explains."""
    settings = problem.settings
    return RuleInference(
        problem.world,
        dict(problem.events),
        named_features(problem)[0],
        known=problem.constraint,
        discount=settings.discount,
        max_nodes=settings.max_nodes,
        seed=settings.seed,
        **wanted,
    )
