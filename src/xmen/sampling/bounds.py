"""The few inequalities that all guarantees rest on, with their proofs.

**Cantelli.** A variable with mean mu and variance at most V lies t or more below (above) its mean with probability at
most V / (V + t^2), for t > 0.

**Cells.** For weights 0 < w <= w_max with sum Z, a cell of m parities has W = sum_C w with mean mu = Z / 2^m and
variance 2^-m (1 - 2^-m) sum w^2 <= mu w_max (members are pairwise independent). Given x in C, the rest of the cell has
mean (Z - w_x) / 2^m <= mu and variance at most (1 - 2^-m) mu w_max (three-wise independence; see `space`).

**Majority.** If each of T independent votes is wrong with probability at most p, a majority is wrong with probability
at most P[Bin(T, p) >= (T + 1) / 2], T odd. This is computed, not bounded.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc, betaincinv

from xmen.errors import EngineError
from xmen.sampling.space import Floats


def cantelli(variance: float, distance: float) -> float:
    """V / (V + t^2): the probability to be t or more on one side of the mean; 1 when t <= 0 says nothing."""
    return variance / (variance + distance**2) if distance > 0.0 else 1.0


def wrong_majority(vote: float, n_votes: int) -> float:
    """P[Bin(n_votes, vote) >= (n_votes + 1) / 2] for odd n_votes."""
    return float(bdtrc((n_votes - 1) // 2, n_votes, vote))


class Grouping(NamedTuple):
    """A median of means: an odd number of groups, and the deviation s of one group in standard deviations."""

    n_groups: int
    deviation: float


@lru_cache(maxsize=64)
def best_grouping(failure: float) -> Grouping:
    """The odd number of groups G with the smallest s^2 G, which is the number of cells times squared precision.

    Each group mean is s standard deviations or more to one side of its mean with probability at most 1 / (1 + s^2);
    s is chosen such that a majority of the G groups does so with probability at most `failure`.

    >>> best_grouping(0.001).n_groups
    11
    """

    def of(n_groups: int) -> Grouping:
        half = (n_groups + 1) / 2
        vote = float(betaincinv(half, half, failure))
        return Grouping(n_groups, math.sqrt(1.0 / vote - 1.0))

    return min((of(n) for n in range(1, 200, 2)), key=lambda g: g.deviation**2 * g.n_groups)


def interval_of_mean(totals: Floats, grouping: Grouping) -> tuple[float, float]:
    """Bounds on mu / w_max from totals W_i / w_max of independent cells, one side at a time with `failure` each.

    With G groups of K cells, a group mean has variance at most mu w_max / K. Unless a majority of groups lies low, the
    median M of the group means has M >= mu - s sqrt(mu w_max / K). In u = sqrt(mu / w_max) and a = s / sqrt(K) this is
    u^2 - a u - M / w_max <= 0, hence

        mu / w_max <= ((a + sqrt(a^2 + 4 M / w_max)) / 2)^2,

    and the mirror image bounds mu from below. No assumption on m or on the shape of the weights is made. Cells beyond
    G K are left out.
    """
    per_group = len(totals) // grouping.n_groups
    means = totals[: per_group * grouping.n_groups].reshape(grouping.n_groups, per_group).mean(axis=1)
    middle = float(np.median(means))
    a = grouping.deviation / math.sqrt(per_group)
    root = math.sqrt(a * a + 4.0 * middle)
    return ((root - a) / 2.0) ** 2, ((root + a) / 2.0) ** 2


def require_probability(failure: float) -> None:
    """Refuses a failure probability outside (0, 1)."""
    if not 0.0 < failure < 1.0:
        raise EngineError(f"failure is a probability strictly between 0 and 1, not {failure!r}: try failure=0.001")


def require_delta(delta: float) -> None:
    """Refuses a factor that no sampler of this kind can promise."""
    if not delta > 1.0 or math.isinf(delta):
        raise EngineError(
            f"delta = {delta!r} cannot be promised: samples from hash cells are within a factor delta > 1 of the true "
            "probabilities. Try delta=1.1, or an exact engine, whose delta is 1."
        )
