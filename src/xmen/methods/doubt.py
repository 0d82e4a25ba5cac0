"""How little the draws know of what is like a known trajectory: its leverage, from 0 to 1.

With u = f(x) - mean f, the leverage of a known x is u^T (G + K)^+ u, where G adds up u u^T over the draws, each by the
number of draws it is worth, and K over all that is known. For weights per state: of k demonstrations through a state
that c draws pass, each has about 1 / (k + c). Together they stand for k / (k + c) of a draw, at most for one, so that
what they add to log Z falls with the number of draws faster than its noise does.
"""

from __future__ import annotations

import numpy as np

from xmen.methods.drawn_loss import DrawnLoss
from xmen.methods.judge import Metric
from xmen.methods.spread import CHUNK, gram
from xmen.rewards import Floats


def doubts(loss: DrawnLoss, weights: Floats) -> Floats:
    """The share of a draw (n,) that each known trajectory stands for at these weights, 0 of all others. O(n d^2)."""
    draws, features = loss.draws, loss.features
    share = np.zeros(len(draws))
    known = np.flatnonzero(draws.known & (draws.noise[draws.batch] > 0.0))
    if not len(known):
        return share
    batches = np.bincount(draws.part, minlength=len(loss.parts))[draws.part[draws.batch]]
    worth = loss.worth(weights) + draws.known / batches  # every batch of a part has all that is known of it
    mean = worth @ draws.visits / worth.sum()
    centre = features.contract(np.asarray(mean))
    step = max(1, CHUNK // features.d)
    blocks = [slice(first, first + step) for first in range(0, len(draws), step)]
    seen = np.sum([_around(loss, rows, centre, worth) for rows in blocks], axis=0)
    metric = Metric(seen, features.scale)
    for first in range(0, len(known), step):
        some = known[first : first + step]
        away = features.contract(draws.visits[some]) - centre
        share[some] = np.minimum(np.square(metric.vector(away)).sum(axis=1), 1.0)
    return share


def _around(loss: DrawnLoss, rows: slice, centre: Floats, worth: Floats) -> Floats:
    away = loss.features.contract(loss.draws.visits[rows]) - centre
    return gram(away, away, worth[rows])
