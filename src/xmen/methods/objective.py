"""The loss of a linear reward, L(theta) = -theta . mean f + log Z + l2/2 |theta|^2, with its exact gradient."""

from __future__ import annotations

from typing import NamedTuple

from xmen.engines.distribution import Distribution
from xmen.rewards import Floats
from xmen.rewards.features import Features


class Value(NamedTuple):
    """The loss and its gradient (d,) at some weights."""

    loss: float
    gradient: Floats


class Objective:
    """L and grad L = E_P[f] - mean f + l2 theta, from any engine's log Z and expected visits.

    One call costs one forward and one backward pass of the engine: expected visits are d log Z / d r.
    """

    def __init__(self, base: Distribution, features: Features, demo_features: Floats, l2: float) -> None:
        self.base, self.features, self.demo_features, self.l2 = base, features, demo_features, l2

    def __call__(self, weights: Floats) -> Value:
        d = self.base.with_reward(self.features.table(weights))
        loss = d.log_partition() - float(weights @ self.demo_features) + 0.5 * self.l2 * float(weights @ weights)
        return Value(loss, self.features.contract(d.visits()) - self.demo_features + self.l2 * weights)
