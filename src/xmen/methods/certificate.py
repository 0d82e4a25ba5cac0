"""A number of parities that was certified at one theta-hat serves those nearby.

A level search certifies, but for its failure probability, that k parities leave cells of mean size Z / (u 2^k) <= mu,
copies being thinned to sizes of their weights over the largest possible weight u of a copy. So

    log Z <= log mu + k log 2 + log u,

which says nothing of copies any more. At another theta-hat every trajectory's weight has changed by at most the
*drift*, the largest (theta-hat' - theta-hat) . f(tau) + (beta' - beta) log D(tau), and so has Z. The same equation,
with the u of that place, then gives parities that leave cells of mean mu or less, without a question to the oracle and
within the same failure probability. The drift is paid for in parities, which make draws fail more often; after
PATIENCE bits of it a fresh search is cheaper.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xmen.rewards import Floats
from xmen.sampling import PawsPlan
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


def certify(plan: PawsPlan, log_unit: float, k: int) -> float:
    """The bound on log Z that k, found by a search over copies of a weight of at most exp(log_unit), certifies."""
    return math.log(largest_mean(plan.pivot, plan.faithful)) + k * LOG2 + log_unit


def parities_for(log_mass: float, plan: PawsPlan, log_unit: float) -> int:
    """The fewest parities k that surely leave cells of the plan's mean or less, where log Z is at most log_mass."""
    return max(0, math.ceil((log_mass - certify(plan, log_unit, 0)) / LOG2))


def place_of(weights: Floats, beta: float) -> Floats:
    """theta-hat and beta as one point (d + 1,)."""
    return np.append(weights, beta)
