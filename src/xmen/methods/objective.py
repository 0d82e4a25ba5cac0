"""The loss of a linear reward, L(theta) = -theta . mean f + log Z, with its exact gradient."""

from __future__ import annotations

from xmen.engines.distribution import Distribution
from xmen.methods.coordinates import Coordinates, Value, read_l2
from xmen.rewards import Floats
from xmen.rewards.features import Features


class Objective:
    """L and grad L = E_P[f] - mean f, from any engine's log Z and expected visits; what is fixed and what large
    weights cost is added by `Coordinates`.

    One call costs one forward and one backward pass of the engine: expected visits are d log Z / d r.
    """

    def __init__(
        self,
        base: Distribution,
        features: Features,
        demo_features: Floats,
        l2: float = 0.0,
        coordinates: Coordinates | None = None,
    ) -> None:
        self.base, self.features, self.demo_features = base, features, demo_features
        self.coordinates = Coordinates(features.d, None, read_l2(l2)) if coordinates is None else coordinates

    def __call__(self, moved: Floats) -> Value:
        weights = self.coordinates.full(moved)
        d = self.base.with_reward(self.features.table(weights))
        loss = d.log_partition() - float(weights @ self.demo_features)
        return self.coordinates.penalised(weights, loss, self.features.contract(d.visits()) - self.demo_features)
