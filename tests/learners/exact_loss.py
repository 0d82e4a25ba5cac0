"""The loss of linear weights and its gradient, from a distribution's log Z and visits; losses of draws by it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from learners.tasks import slopes
from xmen.engines.distribution import Distribution
from xmen.methods.loss import DrawnLoss, Spread
from xmen.methods.runs import Value
from xmen.rewards.linear import Features


def exact_loss(base: Distribution, features: Features, demo_features: np.ndarray) -> Callable[[np.ndarray], Value]:
    """L = log Z - theta . mean f, and E[f] - mean f."""

    def at(theta: np.ndarray) -> Value:
        d = base.with_reward(features.table(theta))
        return Value(d.log_partition() - float(theta @ demo_features), features.contract(d.visits()) - demo_features)

    return at


def assert_derivatives(loss: DrawnLoss, theta: np.ndarray, expected: Callable[[np.ndarray], float]) -> None:
    """The loss is the expected one, with the gradient and the Hessian that finite differences find."""
    value = loss(theta)
    np.testing.assert_allclose(value.loss, expected(theta), atol=1e-9, rtol=0)
    np.testing.assert_allclose(value.gradient, slopes(expected, theta), atol=1e-6, rtol=0)
    curved = slopes(lambda at: loss(at).gradient, theta)
    np.testing.assert_allclose(Spread(loss, theta).hessian, curved, atol=1e-6)


def assert_noise(*ratios: list) -> None:
    """Errors in units of what they are said to be: unbiased, and of about the stated variance."""
    for each in map(np.array, ratios):
        assert 0.67 < np.mean(each**2) < 1.5, np.mean(each**2)
        assert np.abs(each.mean(axis=0)).max() < 0.4
