"""A number of parities that was certified at one theta-hat serves those nearby.

A level search certifies, but for its failure probability, that k parities leave cells of mean N / 2^k <= mu, N being
the number of copies. Every copy stands for a weight of at most e^(log_max + slack + rounding) / 2^B, so that

    log Z <= log mu + k log 2 + log_max + slack + rounding - B log 2,

which says nothing of copies any more. At another theta-hat every trajectory's weight has changed by at most the
*drift*, the largest (theta-hat' - theta-hat) . f(tau) + (beta' - beta) log D(tau), and so has Z. There a weight w has
at most 2^B' r e^(rounding - log_max') w copies: that bounds their number, and gives parities that leave cells of mean
mu or less, without a question to the oracle and within the same failure probability. Bounds are paid for in parities,
which make draws fail more often; after PATIENCE bits of drift a fresh search is cheaper.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xmen.rewards import Floats
from xmen.sampling import Levels, NumberedLevels, PawsPlan
from xmen.sampling.embedding import log_ratio
from xmen.sampling.paws_plan import largest_mean

PATIENCE = 1.0  # bits
LOG2 = math.log(2.0)


class Certificate(NamedTuple):
    """log Z of Q at `place` (d + 1,), theta-hat and beta, is at most `log_mass`; `centre` (d + 1,): the mean of f and
    log D over the draws there, by which the costs of drifting are judged."""

    log_mass: float
    place: Floats
    centre: Floats

    def paid(self, place: Floats, drift: float) -> float:
        """The bits by which the bound has moved away from what Z is likely to have done."""
        return (drift - float((place - self.place) @ self.centre)) / LOG2


def certify(plan: PawsPlan, levels: Levels | NumberedLevels, k: int, rounding: float) -> float:
    """The bound on log Z that k, found by a search, certifies."""
    log_mean = math.log(largest_mean(plan.pivot, plan.faithful))
    return log_mean + (k - levels.n_bits) * LOG2 + levels.log_max + levels.slack + rounding


def parities_for(log_mass: float, plan: PawsPlan, levels: Levels | NumberedLevels, rounding: float) -> int:
    """The fewest parities k that surely leave cells of the plan's mean or less, where log Z is at most log_mass."""
    log_copies = log_mass - levels.log_max + levels.n_bits * LOG2 + log_ratio(plan.bits_per_level) + rounding
    excess = log_copies - math.log(largest_mean(plan.pivot, plan.faithful))
    return max(0, math.ceil(excess / LOG2))


def place_of(weights: Floats, beta: float) -> Floats:
    """theta-hat and beta as one point (d + 1,)."""
    return np.append(weights, beta)
