"""The job `find`: which rules the demonstrations keep, over the marks of the problem."""

from __future__ import annotations

from typing import Any

from xmen.answers.rules import rule_search
from xmen.problem import Problem
from xmen.studio.document import Document
from xmen.studio.live import valid_ones

Record = dict[str, Any]

MOST_OTHERS = 50


def find_rules(problem: Problem, document: Document, max_rules: int, level: float) -> Record:
    """Rules with their gains, what became of the other candidates, and what would decide."""
    demos, weights, _ = valid_ones(problem, document)
    model = rule_search(problem, max_rules=max_rules, level=level).fit(demos, sample_weight=weights)
    rows = model.verdicts()
    return {
        "rules": [
            {"rule": one.rule, "gain": one.gain, "chance": one.chance, "kept": one.kept, "note": one.note}
            for one in rows
            if one.status == "found"
        ],
        "others": [
            {"rule": one.rule, "status": one.status, "gain": one.gain, "kept": one.kept, "note": one.note}
            for one in rows
            if one.status != "found"
        ][:MOST_OTHERS],
        "candidates": model.n_candidates_,
        "least_gain": model.least_gain_,
        "undecided": [str(one) for one in model.undecided()],
    }
