"""Which engine answers: exact under a node budget, else rejection where it accepts often enough, else XOR."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, units
from xmen.engines.diagnosis import explain_conflict, feasible_product, from_start, require_every_start
from xmen.engines.distribution import Distribution, Seed, generator
from xmen.engines.exact import ExactDistribution
from xmen.engines.given import GivenStart
from xmen.engines.reject import RejectDistribution, Relaxation, relax
from xmen.engines.settings import XorSettings
from xmen.errors import EngineError, InfeasibleError, ProductTooLargeError
from xmen.product.tables import CompiledConstraint
from xmen.rewards import Reward
from xmen.worlds.mdp import MDP

if TYPE_CHECKING:
    from xmen.engines.xor import XorDistribution

LEAST_ACCEPTANCE = 1e-3  # below this, rejection is left for hashing
RELAXED_SHARE = 8  # the relaxations of rejection may cost this fraction of the node budget


class Chooser:
    """One problem, and the engines that can be tried on it."""

    def __init__(
        self,
        world: MDP,
        constraint: Constraint | None,
        reward: Reward | ArrayLike | None,
        discount: float,
        seed: Seed,
        max_nodes: int,
        oracle: str,
        time_limit: float | None,
        settings: XorSettings,
        given: str | None = None,
    ) -> None:
        self.world, self.constraint, self.reward = world, constraint, reward
        self.discount, self.seed, self.max_nodes = discount, seed, max_nodes
        self.oracle, self.time_limit, self.settings = oracle, time_limit, settings
        self.given = given
        self._relaxation: Relaxation | None = None

    def relaxation(self) -> Relaxation:
        """What can be multiplied within a fraction of the budget."""
        if self._relaxation is None:
            self._relaxation = relax(self.world, self.constraint, max(1, self.max_nodes // RELAXED_SHARE))
        return self._relaxation

    def exact(self) -> ExactDistribution:
        """The exact engine; ProductTooLargeError past the node budget."""
        product = feasible_product(self.world, self.constraint, self.max_nodes)
        if self.given == "start":
            require_every_start(product, self.max_nodes)
        d = ExactDistribution(product, self.reward, self.discount, self.seed, self.given)
        if self.world.unbounded:
            d.log_partition()  # weights that do not add up are reported here, where the reward was given
        sizes = f"{product.n_nodes:,} nodes and {product.n_edges:,} edges"
        d.reason = f"the product has {sizes}, within max_nodes = {self.max_nodes:,}"
        return d

    def reject(self) -> Distribution:
        """The reject engine, whatever its acceptance rate; given the start, one for each start."""
        return self._by_start(Chooser._reject)

    def xor(self) -> Distribution:
        """The XOR engine; given the start, one for each start."""
        return self._by_start(Chooser._xor)

    def _by_start(self, make: Callable[[Chooser], Distribution]) -> Distribution:
        starts = np.flatnonzero(self.world.start > 0)
        if self.given is None or len(starts) == 1:
            return make(self)
        rng = generator(self.seed)
        parts = []
        for start in starts.tolist():
            part = copy(self)
            part.world, part.given, part.seed = self.world.with_start(start), None, rng.spawn(1)[0]
            part._relaxation = None
            try:
                parts.append(make(part))
            except InfeasibleError as error:
                raise from_start(self.world, start, error) from None
        return GivenStart(self.world, parts, self.reward, rng)

    def _reject(self) -> RejectDistribution:
        relaxation = self.relaxation()
        if not relaxation.product.feasible():
            parts = [] if self.constraint is None else units(self.constraint)
            suspects = [i for i, (label, _) in enumerate(parts) if label in relaxation.multiplied]
            raise explain_conflict(self.world, parts, self.max_nodes, suspects)
        compiled = CompiledConstraint(self.constraint, self.world)
        d = RejectDistribution(relaxation, compiled, self.reward, self.discount, self.seed)
        d.reason = "asked for"
        return d

    def _xor(self) -> XorDistribution:
        from xmen.engines.hashed import HashedWorld  # loads solvers: not before they are needed
        from xmen.engines.xor import XorDistribution

        # Weights per state need a place per time once they are discounted.
        timed = None if self.discount == 1.0 else True
        hashed = HashedWorld(self.world, self.constraint, self.oracle, timed, self.time_limit)
        compiled = CompiledConstraint(self.constraint, self.world)
        d = XorDistribution(hashed, self.relaxation(), compiled, self.reward, self.discount, self.seed, self.settings)
        d.reason = f"asked for; the oracle is {d.oracle}"
        return d

    def auto(self) -> Distribution:
        """The first engine that fits, with the reason."""
        try:
            return self.exact()
        except ProductTooLargeError as error:
            too_large = str(error).split("\n")[0]
        reject = self.reject()
        try:
            rate = reject.acceptance  # type: ignore[attr-defined]
        except EngineError:
            rate = 0.0
        if rate >= LEAST_ACCEPTANCE:
            reject.reason = f"{too_large} Rejection accepts {rate:.2%} of relaxed draws."
            return reject
        if self.world.unbounded:
            return reject  # hashing would need a horizon; what hopeless rejection says is the answer
        xor = self.xor()
        share = f"only {rate:.1e}" if rate else "none"
        xor.reason = f"{too_large} Rejection accepts {share} of relaxed draws. The oracle is {xor.oracle}."  # type: ignore[attr-defined]
        return xor
