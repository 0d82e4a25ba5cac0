"""The loss L = -mean R + log Z as a function of the reward table, and dL/dr: what a network is trained on.

For a table every reward r(s, a) is a weight of its own, whose feature is the (s, a) visit. So the objectives of linear
rewards serve networks too, and dL/dr = expected visits - the demonstrations' visits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_matrix, identity

from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.engines.xor import XorDistribution
from xmen.methods.cell_objective import CellObjective
from xmen.rewards import Floats
from xmen.rewards.neural import NeuralReward
from xmen.rewards.sparse import SparseFeatures

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


class Likelihood(Protocol):
    """Finds loss and dL/dr of tables; `exact` where they carry no noise."""

    exact: bool
    parities: int  # how finely the last estimate cut the trajectories; where the next one starts to search

    def begin(self, rng: np.random.Generator, parities: int) -> None:
        """Estimates from here on depend on these and on the table, and on nothing else."""

    def __call__(self, table: Floats) -> LossEstimate:
        """The estimate at a table (n_states, n_actions)."""


class DistributionLikelihood:
    """By a distribution's own log Z and expected visits: one dynamic program where the engine is exact."""

    def __init__(self, base: Distribution, demo_visits: Floats) -> None:
        self.base, self.demo_visits = base, demo_visits
        self.exact, self.parities = base.engine == "exact", 0

    def begin(self, rng: np.random.Generator, parities: int) -> None:
        pass

    def __call__(self, table: Floats) -> LossEstimate:
        present = self.base.with_reward(table)
        log_partition, loss_std = present.log_partition(return_std=True)
        visits, visits_std = present.visits(return_std=True)
        loss = log_partition - float(np.sum(self.demo_visits * table))
        return LossEstimate(loss, visits - self.demo_visits, loss_std, float(np.linalg.norm(visits_std)), {})


class DeviceLikelihood(DistributionLikelihood):
    """The same where the engine computes on a device: a network's table and dL/dr do not leave it."""

    def __init__(self, base: ExactDistribution, place: OnDevice, demo_visits: Floats) -> None:
        import torch

        super().__init__(base, demo_visits)
        self._gradient = place.gradient(base.weights)
        self._demo_visits = torch.as_tensor(demo_visits, device=place.device)

    def through(self, reward: NeuralReward) -> LossEstimate:
        """The estimate at the table of a network, and the gradient of its parameters by one pass through it."""
        import torch

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


class CellsLikelihood:
    """By `n_cells` fresh hash cells of about `cell_size` trajectories: where the product is too large."""

    exact = False

    def __init__(self, base: XorDistribution, demo_visits: Floats, n_cells: int, cell_size: float) -> None:
        self._shape, self.parities = demo_visits.shape, 0
        # The weights are the reward table, row by row: the features of an action in a state are one-hot.
        table = SparseFeatures(csr_matrix(identity(demo_visits.size)), *demo_visits.shape)
        self._objective = CellObjective(base, table, demo_visits.ravel(), 0.0, n_cells, cell_size)
        self._rng = np.random.default_rng(0)

    def begin(self, rng: np.random.Generator, parities: int) -> None:
        self._rng, self.parities = rng, parities

    def __call__(self, table: Floats) -> LossEstimate:
        found = self._objective(table.ravel(), self._rng, self.parities)
        self.parities = found.m
        details = {"parities": float(found.m), "solutions": float(found.n_points)}
        visits_std = float(np.linalg.norm(found.gradient_std))
        return LossEstimate(found.loss, found.gradient.reshape(self._shape), found.loss_std, visits_std, details)
