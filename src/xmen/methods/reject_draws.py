"""Draws by rejection: exact samples at some theta, which serve every other by their weights (see `draws`).

The relaxation's own log Z is exact. So with n relaxed draws, of which the valid ones are kept, each of these has the
measure Z_relaxed / (n w): refused draws count, and log Z comes without a constant that nobody knows.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen.engines.reject import RejectDistribution
from xmen.methods.drawn_loss import DrawnLoss
from xmen.methods.draws import Draws
from xmen.methods.sources import Batch, Plan
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.sampling import Info
from xmen.worlds.edge_weights import EdgeWeights


class RejectSource:
    """Exact samples of the reject engine as a source of draws, each round at the weights it starts from."""

    def __init__(self, base: RejectDistribution, features: Features) -> None:
        self.base, self.features = base, features

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        return {"draws": math.ceil(wanted)}, Info()

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        return {"draws": math.ceil(effective)}

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        table, world, discount = self.features.table(weights), self.base.world, self.base.discount
        present = self.base.with_reward(table)
        batches, n_drawn = present.accepted(int(plan["draws"]), rng)
        dynamics, weighed = EdgeWeights.of(world), EdgeWeights.of(world, table, discount)
        visits = csr_matrix(vstack([walks.visit_rows(discount) for walks in batches]))
        log_dynamics = np.concatenate([walks.scores(dynamics) for walks in batches])
        proposal = np.concatenate([walks.scores(weighed) for walks in batches])
        log_proposal = proposal - present.relaxed_log_partition
        return Batch(Draws.of_samples(visits, log_dynamics, log_proposal, n_drawn), Info(0, len(proposal), 0))
