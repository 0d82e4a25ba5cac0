"""Algorithm 1 with a network in the place of theta . f: a variant that the paper mentions and does not run.

The gradient of the loss in the network's parameters is that of sum r(s, a) (visits under P - demonstrated visits). The
expected visits come from PAWS draws of exp(R) I_C within delta, with the dynamics as importance weights, as in the
linear case; the steps are those of the training's optimiser. Theorems 3 and 4 are about convex losses, and say nothing
here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from xmen.engines.xor import XorDistribution
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.likelihood import Likelihood, LossEstimate
from xmen.methods.proposal import Proposal, effective_sample_size
from xmen.rewards import Floats
from xmen.rewards.features import DenseFeatures

if TYPE_CHECKING:
    from xmen.methods.paper import Paper


class PaperLikelihood(Likelihood):
    """dL/dr by PAWS draws and demonstrations, as many of each as the method says; the loss itself is not known."""

    def __init__(
        self, base: XorDistribution, demos: Demonstrations, method: Paper, delta: float, failure: float
    ) -> None:
        self.base, self.demos, self.method, self.delta, self.failure = base, demos, method, delta, failure

    def __call__(self, table: Floats) -> LossEstimate:
        proposal = Proposal(self.base, DenseFeatures(table[:, :, None]))
        start = float(self.parities) if self.parities else math.nan
        n, one = int(self.method.n_samples), np.ones(1)
        pool = proposal.draw(one, 0.0 * one, 0.0, n, self.delta, self.failure, self._rng, log2_mass=start)
        self.parities = max(1, round(pool.log2_mass))
        shares = self.method.shares(pool.log_weights, weighted=not proposal.constant_dynamics)
        visits, spread = _mean(pool.walks.visit_rows(self.base.discount), shares)
        spent = pool.search + pool.draws
        details = {
            "parities": float(pool.k),
            "queries": float(spent.n_queries),
            "solutions": float(spent.n_points),
            "effective_sample_size": effective_sample_size(pool.log_weights),
        }
        difference = visits.reshape(table.shape) - self._demonstrated()
        return LossEstimate(math.nan, difference, math.nan, spread, details)

    def _demonstrated(self) -> Floats:
        """Mean visits of M1 demonstrations, drawn by their weights; of all for None."""
        n = self.method.n_demonstrations
        if n is None:
            return self.demos.visits(self.base.discount)
        chosen = self._rng.choice(len(self.demos), size=n, p=self.demos.weights)
        return self.demos.walks[chosen].visits(self.base.discount, np.full(n, 1.0 / n))


def _mean(rows: csr_matrix, weights: Floats) -> tuple[Floats, float]:
    """The weighted sum of rows (S A,), and the norm of its standard errors."""
    mean = np.asarray(weights @ rows)
    squares = np.asarray((weights**2) @ rows.power(2)) - (weights**2).sum() * mean**2
    return mean, float(np.sqrt(np.maximum(squares, 0.0).sum()))
