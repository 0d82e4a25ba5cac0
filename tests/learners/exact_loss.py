"""The loss of linear weights and its gradient, straight from a distribution's log Z and visits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xmen.engines.distribution import Distribution
from xmen.methods.runs import Value
from xmen.rewards.linear import Features


def exact_loss(base: Distribution, features: Features, demo_features: np.ndarray) -> Callable[[np.ndarray], Value]:
    """L = log Z - theta . mean f, and E[f] - mean f."""

    def at(theta: np.ndarray) -> Value:
        d = base.with_reward(features.table(theta))
        return Value(d.log_partition() - float(theta @ demo_features), features.contract(d.visits()) - demo_features)

    return at
