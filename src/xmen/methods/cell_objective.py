"""The loss and its gradient from whole hash cells, with error bars.

A cell is enumerated completely and weighed exactly, D(tau) included, so no importance weights are left: the gradient
E_P[f] - mean f is a ratio of unbiased sums, its bias and error by the jackknife over fresh matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xmen.encoding.decoding import WalkDecoder
from xmen.engines.xor import XorDistribution
from xmen.oracles.formula import Bits
from xmen.product.best import score_range
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.sampling import choose_parities, estimate


@dataclass(frozen=True)
class WalkFeatures:
    """f(tau) of the trajectories that rows of hash bits stand for; picklable, for other processes."""

    decoder: WalkDecoder
    features: Features
    discount: float

    def __call__(self, bits: Bits) -> Floats:
        """(k, d) from rows whose first bits are the trajectory's."""
        walks = self.decoder.decode(bits[:, : self.decoder.width])
        return self.features.contract(walks.visit_rows(self.discount))


class NoisyValue(NamedTuple):
    """Estimates at some weights, each with its standard error, and the number of parities they were made with."""

    loss: float
    loss_std: float
    gradient: Floats
    gradient_std: Floats
    m: int
    n_points: int


class CellObjective:
    """L and grad L at given weights, from `n_cells` fresh cells of about `cell_size` weight-equivalents each."""

    def __init__(
        self,
        base: XorDistribution,
        features: Features,
        demo_features: Floats,
        l2: float | Floats,
        n_cells: int,
        cell_size: float,
    ) -> None:
        self.base, self.features, self.demo_features, self.l2 = base, features, demo_features, l2
        self.n_cells, self.cell_size = n_cells, cell_size
        self.function = WalkFeatures(base.hashed.decoder, features, base.discount)

    def __call__(self, weights: Floats, rng: np.random.Generator, m: int = 0, more: int = 1) -> NoisyValue:
        """The estimates; m is where the search for the number of parities starts, `more` multiplies the cells."""
        edge_weights = self.base.weights.with_table(self.base.world, self.features.table(weights))
        space = self.base.hashed.space(edge_weights, score_range(self.base.relaxation.product, edge_weights))
        m, _ = choose_parities(space, self.cell_size, rng, start=m)
        found = estimate(space, m, more * self.n_cells, rng, self.function)
        loss = found.log_partition - float(weights @ self.demo_features) + 0.5 * float(np.sum(self.l2 * weights**2))
        gradient = found.expectation - self.demo_features + self.l2 * weights
        return NoisyValue(loss, found.log_partition_std, gradient, found.expectation_std, m, found.info.n_points)
