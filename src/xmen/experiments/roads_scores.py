"""How well routes are predicted, as the data's authors measure it: against all routes that trips of a pair have taken.

Zhao and Liang's published code compares the one predicted route of a pair with every different route of the test trips
of that pair: the least edit distance over the length of the observed route, at most 1, and BLEU with all of them as
references, smoothed by the first method of Chen and Cherry (2014). Both are means over trips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

Route: TypeAlias = tuple[int, ...]

GRAMS = 4  # of BLEU
SMOOTHED = 0.1  # count of n-grams that do not occur
FARTHEST = 1.0  # the edit distance of a route that has nothing in common


class RouteScores(NamedTuple):
    """Means over trips: edit distance, BLEU, and the share of trips whose own route was predicted exactly."""

    edit_distance: float
    bleu: float
    exact: float


def score_routes(observed: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> RouteScores:
    """One predicted route per observed trip, both as links."""
    trips = [(tuple(a), tuple(b)) for a, b in zip(observed, predicted, strict=True)]
    taken: dict[tuple[int, int], dict[Route, None]] = {}
    for route, _ in trips:
        taken.setdefault((route[0], route[-1]), {})[route] = None
    compared: dict[tuple[int, int, Route], tuple[float, float]] = {}
    for route, guess in trips:
        key = (route[0], route[-1], guess)
        if key not in compared:
            others = list(taken[key[:2]])
            nearest = min(edit_distance(other, guess) / len(other) for other in others)
            compared[key] = min(FARTHEST, nearest), bleu(others, guess)
    scores = np.array([compared[route[0], route[-1], guess] for route, guess in trips])
    exact = float(np.mean([route == guess for route, guess in trips]))
    return RouteScores(float(scores[:, 0].mean()), float(scores[:, 1].mean()), exact)


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


def bleu(references: Sequence[Sequence[int]], candidate: Sequence[int]) -> float:
    """BLEU of one candidate against some references, with n-grams up to 4, smoothed.

    >>> bleu([[1, 2, 3, 4, 5], [1, 6, 5]], [1, 2, 3, 4, 5])
    1.0
    """
    if set(candidate).isdisjoint(chain(*references)):
        return 0.0
    logs = []
    for n in range(1, GRAMS + 1):
        grams, known = _grams(candidate, n), Counter[Route]()
        for reference in references:
            known |= _grams(reference, n)
        hits = (grams & known).total()
        logs.append(np.log((hits or SMOOTHED) / max(1, grams.total())))
    length = len(candidate)
    nearest = min((abs(len(reference) - length), len(reference)) for reference in references)[1]
    return float(np.exp(min(0.0, 1.0 - nearest / length) + np.mean(logs)))


def _grams(route: Sequence[int], n: int) -> Counter[Route]:
    return Counter(tuple(route[i : i + n]) for i in range(len(route) - n + 1))
