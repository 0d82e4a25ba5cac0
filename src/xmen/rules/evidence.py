"""How strong the evidence for a rule is: its gain in nats, and the probability of such a gain by chance.

A rule that the share q of n demonstrations keeps, and that the model keeps with probability P < q, raises their mean
log-likelihood by

    gain = q log(q / P) + (1 - q) log((1 - q) / (1 - P))          -log P where all of them keep it.

Were the model true, the rule would be kept that often with probability at most exp(-n gain) (P^n where all keep it).
The smallest of m such numbers is below level / m with probability at most `level`: that is the correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xmen.rewards import Floats

EQUAL = 1e-9  # gains that differ by less are the same


def gain_of(log_kept: float, broken: float, share: float) -> float:
    """The gain of a rule with P = exp(log_kept) and 1 - P = broken, of which the share q of demonstrations is kept."""
    log_p = log_kept if broken > 0.5 else math.log1p(-broken)  # the one that loses no digits
    if share == 1.0:
        return max(0.0, -log_p)
    if log_p >= math.log(share):
        return 0.0
    return share * (math.log(share) - log_p) + (1 - share) * (math.log(1 - share) - math.log(broken))


def effective_number(weights: Floats) -> float:
    """Kish's number of demonstrations (sum w)^2 / sum w^2: their number where all weights are equal."""
    total = float(weights.sum())
    return total**2 / float(weights @ weights) if total else 0.0


@dataclass(frozen=True)
class Level:
    """When a gain counts: n demonstrations, m candidates tried, the level of the whole search, the least gain."""

    n: float
    m: int
    level: float
    min_gain: float

    @property
    def least(self) -> float:
        """The smallest gain that passes, in nats per demonstration."""
        return max(self.min_gain, math.log(max(1, self.m) / self.level) / self.n) if self.n else np.inf

    def passes(self, gain: float) -> bool:
        """Whether a gain passes both the level and `min_gain`."""
        return gain >= self.least and gain > EQUAL

    def decides(self, increment: float) -> bool:
        """Whether a stronger rule gains so much more than a weaker one that n demonstrations would not by chance.

        One comparison of two rules: nothing to correct for.
        """
        return increment > EQUAL and increment >= max(self.min_gain, -math.log(self.level) / self.n)

    def chance(self, gain: float) -> float:
        """The probability that some rule of the m gains this much by chance, at most 1."""
        return math.exp(min(0.0, math.log(max(1, self.m)) - self.n * gain))

    def demonstrations_for(self, gain: float) -> float:
        """How many demonstrations it takes until this gain per demonstration is significant."""
        return math.log(max(1, self.m) / self.level) / gain
