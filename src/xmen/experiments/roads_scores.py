"""How well routes are predicted: edit distance, BLEU and exact hits of one predicted route per trip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

GRAMS = 4  # of BLEU
SMOOTHED = 0.1  # count of n-grams that do not occur, as the first smoothing of Chen and Cherry (2014) has it


class RouteScores(NamedTuple):
    """Means over trips: edit distance over the length of the observed trip, BLEU, and the share predicted exactly."""

    edit_distance: float
    bleu: float
    exact: float


def score_routes(observed: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> RouteScores:
    """One predicted route per observed trip, both as links."""
    pairs = list(zip(observed, predicted, strict=True))
    return RouteScores(
        float(np.mean([edit_distance(a, b) / len(a) for a, b in pairs])),
        float(np.mean([bleu(a, b) for a, b in pairs])),
        float(np.mean([list(a) == list(b) for a, b in pairs])),
    )


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """The least number of insertions, deletions and substitutions.

    >>> edit_distance([1, 2, 3, 4], [1, 3, 4, 5])
    2
    """
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        corner, row[0] = row[0], i
        for j, b in enumerate(other, start=1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
    return row[-1]


def bleu(reference: Sequence[int], candidate: Sequence[int]) -> float:
    """BLEU of one candidate against one reference, with n-grams up to 4, smoothed.

    >>> bleu([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    1.0
    """
    if not candidate:
        return 0.0
    logs = []
    for n in range(1, GRAMS + 1):
        grams = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
        known = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        hits = sum(min(count, known[gram]) for gram, count in grams.items())
        logs.append(np.log((hits or SMOOTHED) / max(1, sum(grams.values()))))
    brevity = min(0.0, 1.0 - len(reference) / len(candidate))
    return float(np.exp(brevity + np.mean(logs)))
