"""The loss L = -mean R + log Z as a function of the reward table, and dL/dr: what every reward is trained on.

dL/dr = expected visits - the demonstrations' visits. A linear reward takes its gradient from there, too (`objective`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.engines.xor import WalkFunction, XorDistribution
from xmen.methods.runs import Coordinates, Value
from xmen.product.best import score_range
from xmen.rewards import Floats
from xmen.rewards.linear import Features
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import torch
from xmen.sampling import choose_parities, estimate

if TYPE_CHECKING:
    from xmen.product.device.run import OnDevice


class LossEstimate(NamedTuple):
    """The loss at a table and dL/dr (n_states, n_actions), an array, or a tensor where a device found it.

    `visits_std` is the norm of the standard errors of dL/dr, 0 where it is exact; `details` is what else to record.
    """

    loss: float
    difference: Any
    loss_std: float
    visits_std: float
    details: dict[str, float]


class Likelihood(ABC):
    """Finds loss and dL/dr of tables; `exact` where they carry no noise."""

    exact: bool = False
    parities: int = 0  # how finely the last estimate cut the trajectories; where the next one starts to search
    _rng: np.random.Generator

    def begin(self, rng: np.random.Generator, parities: int) -> None:
        """Estimates from here on depend on these and on the table, and on nothing else."""
        self._rng, self.parities = rng, parities

    @abstractmethod
    def __call__(self, table: Floats) -> LossEstimate:
        """The estimate at a table (n_states, n_actions)."""


class DistributionLikelihood(Likelihood):
    """By a distribution's own log Z and expected visits: one dynamic program where the engine is exact."""

    def __init__(self, base: Distribution, demo_visits: Floats) -> None:
        self.base, self.demo_visits, self.exact = base, demo_visits, base.engine == "exact"

    def __call__(self, table: Floats) -> LossEstimate:
        present = self.base.with_reward(table)
        log_partition, loss_std = present.log_partition(return_std=True)
        visits, visits_std = present.visits(return_std=True)
        loss = log_partition - float(np.sum(self.demo_visits * table))
        return LossEstimate(loss, visits - self.demo_visits, loss_std, float(np.linalg.norm(visits_std)), {})


class DeviceLikelihood(DistributionLikelihood):
    """The same where the engine computes on a device: a network's table and dL/dr do not leave it."""

    def __init__(self, base: ExactDistribution, place: OnDevice, demo_visits: Floats) -> None:
        super().__init__(base, demo_visits)
        self._gradient = place.gradient(base.weights)
        self._demo_visits = torch.as_tensor(demo_visits, device=place.device)

    def through(self, reward: NeuralReward) -> LossEstimate:
        """The estimate at the table of a network, and the gradient of its parameters by one pass through it."""
        with torch.enable_grad():
            table = reward.forward()
        log_partition, visits = self._gradient(table)
        loss = log_partition - float((self._demo_visits * table.detach().to(visits.device)).sum())
        difference = visits - self._demo_visits
        reward.differentiate(table, difference)
        return LossEstimate(loss, difference, 0.0, 0.0, {})


def likelihood_of(base: Distribution, demo_visits: Floats) -> DistributionLikelihood:
    """By a distribution's own log Z and expected visits, where it computes them."""
    if isinstance(base, ExactDistribution) and base.place is not None:
        return DeviceLikelihood(base, base.place, demo_visits)
    return DistributionLikelihood(base, demo_visits)


class CellsLikelihood(Likelihood):
    """By `n_cells` fresh hash cells of about `cell_size` trajectories: where the product is too large.

    A cell is enumerated completely and weighed exactly, D(tau) included, so no importance weights are left: dL/dr is a
    ratio of unbiased sums, its bias and error by the jackknife over fresh matrices.
    """

    def __init__(self, base: XorDistribution, demo_visits: Floats, n_cells: int, cell_size: float) -> None:
        self._base, self._demo_visits, self._n_cells, self._cell_size = base, demo_visits, n_cells, cell_size

    def __call__(self, table: Floats) -> LossEstimate:
        base, shape = self._base, self._demo_visits.shape
        weights = base.weights.with_table(base.world, table)
        space = base.hashed.space(weights, score_range(base.relaxation.product, weights))
        self.parities, _ = choose_parities(space, self._cell_size, self._rng, start=self.parities)
        found = estimate(space, self.parities, self._n_cells, self._rng, WalkFunction(base.hashed.decoder, weights))
        visits, visits_std = (x[: self._demo_visits.size] for x in (found.expectation, found.expectation_std))
        loss = found.log_partition - float(np.sum(self._demo_visits * table))
        details = {"parities": float(self.parities), "solutions": float(found.info.n_points)}
        difference, std = visits.reshape(shape) - self._demo_visits, float(np.linalg.norm(visits_std))
        return LossEstimate(loss, difference, found.log_partition_std, std, details)


# ---- The loss of the weights of a linear reward, from the loss of its table: exact, causal, or an estimate


class Objective:
    """L and grad L = f contracted with dL/dr, along the weights that move; what large weights cost is added."""

    def __init__(self, likelihood: Likelihood, features: Features, coordinates: Coordinates) -> None:
        self.likelihood, self.features, self.coordinates = likelihood, features, coordinates

    def __call__(self, moved: Floats) -> Value:
        weights = self.coordinates.full(moved)
        found = self.likelihood(self.features.table(weights))
        return self.coordinates.penalised(weights, found.loss, self.features.contract(found.difference))
