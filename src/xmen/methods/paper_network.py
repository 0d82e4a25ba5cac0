"""Algorithm 1 with a network in the place of theta . f: a variant that the paper mentions and does not run.

The gradient of the loss in the network's parameters is that of sum r(s, a) (visits under P - demonstrated visits). The
expected visits come from PAWS draws of exp(R) I_C within delta, with the dynamics as importance weights, as in the
linear case; the steps are those of the training's optimiser. Theorems 3 and 4 are about convex losses, and say nothing
here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_matrix

from xmen.engines.xor import XorDistribution
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.likelihood import LossEstimate
from xmen.methods.proposal import Proposal, effective_sample_size
from xmen.rewards import Floats
from xmen.rewards.features import DenseFeatures


class PaperLikelihood:
    """dL/dr by `n_draws` PAWS draws and `n_demonstrations` demonstrations; the loss itself is not known."""

    exact = False

    def __init__(
        self,
        base: XorDistribution,
        demos: Demonstrations,
        n_draws: int,
        n_demonstrations: int | None,
        delta: float,
        failure: float,
        self_normalised: bool,
    ) -> None:
        self.base, self.demos, self.n_draws, self.n_demonstrations = base, demos, n_draws, n_demonstrations
        self.delta, self.failure, self.self_normalised, self.parities = delta, failure, self_normalised, 0
        self._rng = np.random.default_rng(0)

    def begin(self, rng: np.random.Generator, parities: int) -> None:
        self._rng, self.parities = rng, parities

    def __call__(self, table: Floats) -> LossEstimate:
        proposal = Proposal(self.base, DenseFeatures(table[:, :, None]))
        start = float(self.parities) if self.parities else math.nan
        pool = proposal.draw(
            np.ones(1), np.zeros(1), 0.0, self.n_draws, self.delta, self.failure, self._rng, log2_mass=start
        )
        self.parities = max(1, round(pool.log2_mass))
        rows, weights = pool.walks.visit_rows(self.base.discount), np.full(self.n_draws, 1.0 / self.n_draws)
        if not proposal.constant_dynamics:
            weights = self._weights(pool.log_weights)
        visits, spread = _mean(rows, weights)
        spent = pool.search + pool.draws
        details = {
            "parities": float(pool.k),
            "queries": float(spent.n_queries),
            "solutions": float(spent.n_points),
            "effective_sample_size": effective_sample_size(pool.log_weights),
        }
        difference = visits.reshape(table.shape) - self._demonstrated()
        return LossEstimate(math.nan, difference, math.nan, spread, details)

    def _weights(self, log_weights: Floats) -> Floats:
        """Of each draw in E_P[f]: the paper's split sample, or one ratio over all draws."""
        w = np.exp(log_weights - log_weights.max())
        if self.self_normalised:
            shares: Floats = w / w.sum()
            return shares
        half = len(w) // 2
        split: Floats = np.where(np.arange(len(w)) < half, w / half / w[half:].mean(), 0.0)
        return split

    def _demonstrated(self) -> Floats:
        """Mean visits of M1 demonstrations, drawn by their weights; of all for None."""
        if self.n_demonstrations is None:
            return self.demos.visits(self.base.discount)
        chosen = self._rng.choice(len(self.demos), size=self.n_demonstrations, p=self.demos.weights)
        shares = np.full(self.n_demonstrations, 1.0 / self.n_demonstrations)
        return self.demos.walks[chosen].visits(self.base.discount, shares)


def _mean(rows: csr_matrix, weights: Floats) -> tuple[Floats, float]:
    """The weighted sum of rows (S A,), and the norm of its standard errors."""
    mean = np.asarray(weights @ rows)
    squares = np.asarray((weights**2) @ rows.power(2)) - (weights**2).sum() * mean**2
    return mean, float(np.sqrt(np.maximum(squares, 0.0).sum()))
