"""The model on one world: candidates by the chain, by a product of their own, or by draws."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.diagnosis import multiply
from xmen.engines.exact import ExactDistribution
from xmen.errors import ProductTooLargeError
from xmen.rules.chain import Chain, chain_of
from xmen.rules.model import N_DRAWS, Kept, Model
from xmen.rules.positions import Positions, batch_of

CANDIDATE_NODES = 50_000  # of a product that is built for one candidate alone
ROUNDING = 1e-12  # of a difference of two log Z


class WorldModel(Model):
    """The model of trajectories in one MDP."""

    @cached_property
    def _exact(self) -> ExactDistribution:
        d = self.fitted.distribution()
        assert isinstance(d, ExactDistribution)
        return d

    @cached_property
    def _chain(self) -> Chain | None:
        return chain_of(self._exact, self.fitted.reward_.table())

    def _compile(self) -> None:
        _ = self._chain

    def _draw(self) -> Positions:
        return batch_of(self.setting.world.any_task, self._exact.sample(N_DRAWS, seed=self.setting.seed))

    def _exactly(self, constraint: Constraint) -> Kept | None:
        return self._by_chain(constraint) or self._by_product(constraint)

    def _implies(self, strong: Constraint, weak: Constraint) -> bool:
        kept = self.keeps(strong & ~weak)
        return kept.exact and kept.log_kept == -math.inf

    def _by_chain(self, constraint: Constraint) -> Kept | None:
        if self._chain is None or (machine := self.shared.machines.of(constraint)) is None:
            return None
        mass = self._chain.mass(machine)
        if mass is None:
            return None
        if mass.kept > 0:
            return Kept(math.log(mass.kept), mass.broken)
        # Too unlikely for ordinary numbers, or impossible: the product's log space can tell.
        return self._by_product(constraint) or Kept(-math.inf, 1.0)

    def _by_product(self, constraint: Constraint) -> Kept | None:
        rules = conjunction([*self.multiplied, constraint])
        most = CANDIDATE_NODES if self.setting.max_nodes is None else min(CANDIDATE_NODES, self.setting.max_nodes)
        try:
            product = multiply(self.setting.world.any_task, rules, max(most, self._exact.product.n_nodes))
        except ProductTooLargeError:
            self.shared.too_large.add(constraint)
            return None
        if not product.feasible():
            return Kept(-math.inf, 1.0)
        smaller = ExactDistribution(product, replace(self._exact.law, constraint=rules), None)
        log_kept = float(smaller.log_partition() - self._exact.log_partition())
        return Kept(0.0, 0.0) if log_kept >= -ROUNDING else Kept(log_kept, -math.expm1(log_kept))
