"""The model under the rules so far, and how likely it keeps a candidate: exactly where that fits, else estimated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.diagnosis import multiply
from xmen.engines.exact import ExactDistribution
from xmen.errors import ProductTooLargeError
from xmen.learners.xmen import XMEN
from xmen.notices import LearningWarning
from xmen.rules.batch import Batch, batch_of
from xmen.rules.chain import Chain, chain_of
from xmen.rules.machine import join
from xmen.worlds.mdp import MDP
from xmen.worlds.trajectory import Trajectory

CANDIDATE_NODES = 50_000  # of a product that is built for one candidate alone
N_DRAWS = 20_000  # trajectories behind an estimate
FEWEST_DRAWS = 200  # accepted ones without which nothing is estimated


@dataclass(frozen=True)
class Kept:
    """P(c) as log_kept and 1 - P(c) as broken (exactly 0 only where c is certain), with the error of log_kept."""

    log_kept: float
    broken: float
    std: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether this is no estimate."""
        return self.std == 0.0


@dataclass(frozen=True)
class Setting:
    """What all models of one search share."""

    world: MDP
    features: ArrayLike | None
    discount: float
    l2: float
    max_nodes: int | None
    seed: int


@dataclass
class Model:
    """A reward fitted under `multiplied`; the rules in `rejecting` did not fit the product, and reject its draws."""

    setting: Setting
    fitted: XMEN
    multiplied: list[Constraint]
    rejecting: list[Constraint] = field(default_factory=list)
    too_large: set[Constraint] = field(default_factory=set)  # candidates whose product did not fit before

    def __getstate__(self) -> dict[str, Any]:
        # Compiled work is made again when it is asked for.
        return {name: value for name, value in vars(self).items() if name not in ("_exact", "_chain", "_draws")}

    @cached_property
    def _exact(self) -> ExactDistribution:
        d = self.fitted.distribution()
        assert isinstance(d, ExactDistribution)
        return d

    @cached_property
    def _chain(self) -> Chain | None:
        return chain_of(self._exact, self.fitted.reward_.table())

    @cached_property
    def _draws(self) -> Batch:
        """Trajectories of the model, the same ones whoever asks."""
        drawn = self._exact.sample(N_DRAWS, seed=self.setting.seed)
        valid = np.ones(len(drawn), dtype=np.bool_)
        whole = batch_of(self.setting.world, drawn)
        for rule in self.rejecting:
            valid &= whole.keeps(rule)
        return Batch(whole.walks[valid])

    def prepare(self) -> None:
        """Compile what all candidates share, before they are tried side by side."""
        _ = self._draws if self.rejecting else self._chain

    def keeps(self, constraint: Constraint) -> Kept:
        """How likely a trajectory of the model keeps the constraint."""
        if not self.rejecting:
            answer = self._by_chain(constraint) or self._by_product(constraint)
            if answer is not None:
                return answer
        return self._by_draws(constraint)

    def _by_chain(self, constraint: Constraint) -> Kept | None:
        if self._chain is None or (machine := join(constraint, self.setting.world)) is None:
            return None
        mass = self._chain.mass(machine)
        if mass is None:
            return None
        if mass.kept > 0:
            return Kept(math.log(mass.kept), mass.broken)
        # Too unlikely for ordinary numbers, or impossible: the product's log space can tell.
        return self._by_product(constraint) or Kept(-math.inf, 1.0)

    def _by_product(self, constraint: Constraint) -> Kept | None:
        if constraint in self.too_large:
            return None
        rules = conjunction([*self.multiplied, constraint])
        try:
            product = multiply(self.setting.world, rules, self._budget)
        except ProductTooLargeError:
            self.too_large.add(constraint)
            return None
        if not product.feasible():
            return Kept(-math.inf, 1.0)
        smaller = ExactDistribution(product, self.fitted.reward_, self.setting.discount, None)
        log_kept = float(smaller.log_partition() - self._exact.log_partition())
        certain = log_kept >= -1e-12  # equal log Z: what is left is rounding
        return Kept(0.0, 0.0) if certain else Kept(log_kept, -math.expm1(log_kept))

    @property
    def _budget(self) -> int:
        most = CANDIDATE_NODES if self.setting.max_nodes is None else min(CANDIDATE_NODES, self.setting.max_nodes)
        return max(most, self._exact.product.n_nodes)

    def _by_draws(self, constraint: Constraint) -> Kept:
        n = len(self._draws)
        if n < FEWEST_DRAWS:
            return Kept(0.0, 0.0, math.inf)
        share = float(np.mean(self._draws.keeps(constraint)))
        share = max(share, 3.0 / n)  # with none of n, at most 3 / n (19 times of 20): no gain is claimed beyond that
        return Kept(math.log(share), 1.0 - share, math.sqrt(max(1.0 - share, 1.0 / n) / (share * n)))

    def impossible(self, constraint: Constraint) -> bool:
        """Whether no trajectory of the model keeps the constraint, as far as that is known."""
        kept = self.keeps(constraint)
        return kept.exact and kept.log_kept == -math.inf


def fit_model(
    setting: Setting,
    rules: Sequence[Constraint],
    demos: Sequence[Trajectory],
    weights: NDArray[np.float64],
    too_large: set[Constraint],
) -> Model:
    """The reward fitted under the rules, in their order, as many of them as fit the product."""
    multiplied, rejecting = list(rules), list[Constraint]()
    while True:
        try:
            return Model(setting, _fit(setting, multiplied, demos, weights), multiplied, rejecting, too_large)
        except ProductTooLargeError:
            if not multiplied:
                raise
            # What was found last is what did not fit before.
            rejecting.insert(0, multiplied.pop())


def _fit(setting: Setting, rules: list[Constraint], demos: Sequence[Trajectory], weights: Any) -> XMEN:
    """X-MEN to the optimum; that weights run to infinity, or mean nothing, is no news to a search for rules."""
    learner = XMEN(
        setting.world,
        conjunction(rules),
        features=setting.features,
        discount=setting.discount,
        method="exact",
        l2=setting.l2,
        max_nodes=setting.max_nodes,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        return learner.fit(demos, sample_weight=weights)
