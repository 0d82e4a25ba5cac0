"""What rules can be made of, with a sentence for each: for completion, and for the palette."""

from __future__ import annotations

from typing import Any

from xmen.constraints.words import FUNCTIONS
from xmen.methods.table import METHODS
from xmen.registry import LEARNERS
from xmen.studio import limits
from xmen.worlds import MOVES

OPERATORS = {
    "&": "both hold",
    "|": "at least one of them holds",
    "~": "it does not hold",
    ">>": "if the first holds, the second does",
    "<=": "at most",
    ">=": "at least",
    "==": "exactly",
}

TEMPLATES = (
    ("Never", "never({a})", "No position of the trajectory is at {a}."),
    ("Visit", "visit({a})", "Some position of the trajectory is at {a}."),
    ("Always", "always({a})", "Every position, the first and the last included, is at {a}."),
    ("First", "first({a}, among={b})", "{a} is reached, and {b} not before it."),
    ("Before", "before({a}, {b})", "{b} does not happen before {a} has happened; neither has to happen."),
    ("In this order", "sequence({a}, {b})", "{a}, and later {b}."),
    ("Answer", "response({a}, {b}, within=5)", "Every {a} is followed by {b} at most five moves later."),
    ("At most so often", "count({a}) <= 2", "{a} at most twice."),
    ("Exactly once", "count({a}) == 1", "{a} exactly once."),
    ("At least a share", "share({a}) >= 0.5", "At least half of all positions are at {a}."),
    ("No long stay", "longest_run({a}) <= 3", "Never more than three positions in a row at {a}."),
    ("No long straights", "longest_repeat() <= 3", "Never more than three equal moves in a row."),
    ("No place twice", "no_revisit()", "No state is visited twice."),
    ("Short", "length() <= 20", "At most twenty visited states, the first and the last included."),
    ("If this, then that", "visit({a}) >> visit({b})", "Whoever visits {a} also visits {b}."),
    ("One of two", "exactly(1, visit({a}), visit({b}))", "Exactly one of {a} and {b} is visited."),
    ("Temporal logic", "ltlf('G(!a | F(b))', a={a}, b={b})", "After every {a} there is {b}, sooner or later."),
)

METHOD_SENTENCES = {
    "auto": "exact where the product of world and rules fits, else by hash cells",
    "exact": "dynamic programming, to the optimum",
    "cells": "rounds of hash cells, until others agree that the optimum is near",
    "paper": "Algorithm 1 of the paper, to compare with",
}


def vocabulary() -> dict[str, Any]:
    """Everything that does not depend on the document."""
    return {
        "primitives": [
            {"name": name, "usage": usage, "sentence": (function.__doc__ or "").strip().partition("\n")[0]}
            for name, (function, usage) in FUNCTIONS.items()
        ],
        "templates": [
            {"title": title, "rule": rule, "sentence": sentence, "marks": sum(f"{{{m}}}" in rule for m in "abc")}
            for title, rule, sentence in TEMPLATES
        ],
        "operators": [{"name": name, "sentence": sentence} for name, sentence in OPERATORS.items()],
        "moves": list(MOVES),
        "learners": [
            {"name": name, "label": learner.look.label, "sentence": learner.description}
            for name, learner in LEARNERS.items()
            if "features" in learner.takes
        ],
        "methods": [
            {"name": name, "sentence": METHOD_SENTENCES.get(name, "")}
            for name in ("auto", *METHODS)
            if name != "reject"  # of trips through networks
        ],
        "limits": {
            "cells": limits.CELLS,
            "demonstrations": limits.DEMONSTRATIONS,
            "samples": limits.SAMPLES,
            "best": limits.BEST,
            "body": limits.BODY,
        },
    }
