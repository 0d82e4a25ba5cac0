"""The XOR engine: random parities cut the valid trajectories into cells small enough to list, by an NP oracle.

Samples are within a stated factor of their probability; log Z and expectations come with standard errors. The space
is never multiplied out: machines stand side by side in one formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.engines.distribution import Distribution, Guarantee, Seed
from xmen.engines.hashed import HashedWorld, WalkFunction
from xmen.engines.law import Law
from xmen.engines.relaxation import Relaxation
from xmen.engines.settings import DEFAULT_CELL_SIZE, EngineSettings
from xmen.errors import EngineError
from xmen.machines.release import release
from xmen.machines.tables import CompiledConstraint
from xmen.product.best import score_range
from xmen.rewards import Floats, Reward
from xmen.sampling import (
    CellEstimate,
    CellPlan,
    Info,
    PawsPlan,
    Space,
    bound_partition,
    choose_parities,
    estimate,
    find_level,
    sample_cells,
    sample_paws,
)
from xmen.sharing import lock_of, once
from xmen.worlds.counting import require_count
from xmen.worlds.trajectory import Trajectory

N_CELLS = 64  # fresh matrices behind an estimate


class XorDistribution(Distribution):
    """Samples from hash cells within `guarantee.delta`; estimates from whole cells with standard errors."""

    engine = "xor"

    def __init__(
        self,
        hashed: HashedWorld,
        relaxation: Relaxation,
        compiled: CompiledConstraint,
        law: Law,
        seed: Seed,
        settings: EngineSettings,
    ) -> None:
        super().__init__(law, seed)
        self.hashed, self.relaxation, self.settings = hashed, relaxation, settings
        self._compiled = compiled
        # Estimates and plans have streams of their own: answers do not depend on the order of questions.
        planning, self._estimate_seed = np.random.SeedSequence(int(self._rng.integers(2**63))).spawn(2)
        self._plan_seed, self._parities_seed = planning.spawn(2)
        self.info = Info()

    def _spend(self, spent: Info) -> None:
        with lock_of(self):
            self.info += spent

    @property
    def oracle(self) -> str:
        """The oracle that answers."""
        return self.hashed.oracle_name

    def sizes(self) -> dict[str, Any]:
        formula = self.hashed.encoding.formula
        return {
            "oracle": self.oracle,
            "hash variables": self.hashed.decoder.width,
            "variables": formula.n_variables,
            "clauses": formula.n_clauses,
        }

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """The requested bound; settings without one were refused."""
        return Guarantee(*self.settings.guarantee)

    @once
    def _log_range(self) -> tuple[float, float]:
        """Bounds on R + log D over valid trajectories, from the relaxation that could be multiplied."""
        return score_range(self.relaxation.product, self.weights)

    @once
    def _space(self) -> Space:
        return self.hashed.space(self.weights, self._log_range)

    @once
    def n_parities(self) -> int:
        """The number of parities of an estimate's cells."""
        rng = np.random.default_rng(self._parities_seed)
        m, spent = choose_parities(self._space, self.settings.cell_size or DEFAULT_CELL_SIZE, rng)
        self._spend(spent)
        return m

    @once
    def _plan(self) -> CellPlan:
        rng = np.random.default_rng(self._plan_seed)
        size = self.settings.cell_size or DEFAULT_CELL_SIZE
        bound = bound_partition(self._space, self.n_parities, self.guarantee.failure, rng, cell_size=size)
        self._spend(bound.info)
        return CellPlan.solve(self.guarantee.delta, bound, cell_size=self.settings.cell_size)

    @once
    def _estimate(self) -> CellEstimate:
        rng = np.random.default_rng(self._estimate_seed)
        function = WalkFunction(self.hashed.decoder, self.weights)
        found = estimate(self._space, self.n_parities, N_CELLS, rng, function)
        self._spend(found.info)
        return found

    def log_partition(self, return_std: bool = False) -> Any:
        found = self._estimate
        return (found.log_partition, found.log_partition_std) if return_std else found.log_partition

    def _split(self, values: Floats) -> tuple[Floats, Floats, float]:
        S, A = self.world.n_states, self.world.n_actions
        return values[: S * A].reshape(S, A), values[S * A : S * A + S], float(values[-1])

    def visits(self, return_std: bool = False) -> Any:
        mean = self._split(self._estimate.expectation)[0]
        return (mean, self._split(self._estimate.expectation_std)[0]) if return_std else mean

    def state_visits(self) -> Floats:
        return self._split(self._estimate.expectation)[1]

    def entropy(self) -> float:
        """log Z - E[R + log D], estimated like both."""
        return float(self._estimate.log_partition) - self._split(self._estimate.expectation)[2]

    def mode(self) -> Trajectory:
        raise EngineError(
            "the XOR engine samples and estimates; it does not search for the mode. engine='exact' finds it; draw "
            "samples and take the best for a good one."
        )

    def with_reward(self, reward: Reward | ArrayLike | None) -> XorDistribution:
        return XorDistribution(
            self.hashed, self.relaxation, self._compiled, self.law.with_reward(reward), self._rng, self.settings
        )

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        wanted, rng = require_count(n, self.world), self._generator(seed)
        if not wanted:
            return []
        rows, spent = sample_cells(self._space, self._plan, wanted, rng)
        self._spend(spent)
        return release(self.hashed.decoder.decode(rows[:, : self.hashed.decoder.width]), self._compiled)

    def sample_paws(self, n: int, seed: Seed = None, **choices: Any) -> tuple[list[Trajectory], PawsPlan, Info]:
        """n samples by the paper's own sampler under the same guarantee, its parameters, and what it cost."""
        wanted, rng, hashed = require_count(n, self.world), self._generator(seed), self.hashed
        low, high = hashed.log_range(self.weights, self._log_range)
        space = hashed.plain_space(self.weights, high)
        plan = PawsPlan.solve(
            self.guarantee.delta,
            self.guarantee.failure,
            log_span=high - low,
            n_hash=space.n_hash,
            rounding=hashed.rounding,
            **choices,
        )
        embedding = hashed.embedding(space, plan.embedding_levels(high))
        level = find_level(embedding, plan, rng)
        rows, spent = sample_paws(embedding, plan, level.k, wanted, rng)
        return release(self.hashed.decoder.decode(rows), self._compiled), plan, level.info + spent

    def __repr__(self) -> str:
        hashes = self.hashed.encoding.hashes
        return (
            f"{super().__repr__()[:-1]}; oracle {self.oracle}, parities over {self.hashed.decoder.width} {hashes}, "
            f"delta {self.guarantee.delta:g} except with probability {self.guarantee.failure:g}>"
        )
