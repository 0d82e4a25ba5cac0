"""One colour, marker and name for each method, the same in every figure.

RE-IRL is relative entropy inverse reinforcement learning, MLCI maximum likelihood constraint inference.

The colours are Okabe and Ito's, which readers with any colour vision can tell apart; line styles and markers
differ as well.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METHODS", "Method"]


@dataclass(frozen=True)
class Method:
    """How a method is called and drawn."""

    label: str
    colour: str
    marker: str
    line: str = "-"


METHODS = {
    "demonstrations": Method("demonstrations", "#000000", "o"),
    "exact": Method("X-MEN exact", "#0072B2", "s"),
    "cells": Method("X-MEN cells", "#56B4E9", "D", "--"),
    "paper": Method("X-MEN paper", "#009E73", "^", "-."),
    "maxent": Method("MaxEnt", "#E69F00", "v"),
    "relative-entropy": Method("RE-IRL", "#D55E00", "X", "--"),
    "constraint-inference": Method("MLCI", "#CC79A7", "P", "-."),
}
"""By the names that `xmen fit` uses for methods and learners."""
