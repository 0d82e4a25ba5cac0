"""The loss of the weights of a linear reward, from the loss of its table: exact, causal, or an estimate."""

from __future__ import annotations

from xmen.methods.coordinates import Coordinates, Value
from xmen.methods.likelihood import Likelihood
from xmen.rewards import Floats
from xmen.rewards.features import Features


class Objective:
    """L and grad L = f contracted with dL/dr, along the weights that move; what large weights cost is added."""

    def __init__(self, likelihood: Likelihood, features: Features, coordinates: Coordinates) -> None:
        self.likelihood, self.features, self.coordinates = likelihood, features, coordinates

    def __call__(self, moved: Floats) -> Value:
        weights = self.coordinates.full(moved)
        found = self.likelihood(self.features.table(weights))
        return self.coordinates.penalised(weights, found.loss, self.features.contract(found.difference))
