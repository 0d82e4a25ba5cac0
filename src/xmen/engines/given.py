"""Given the start: one distribution for each start, mixed as the world says, for engines that cannot share the work.

P(tau) = d0(s_0) P(tau | s_0). Every part answers for its own start, so whatever a part guarantees holds for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.engines.distribution import Distribution, Guarantee, Seed
from xmen.engines.law import Law
from xmen.rewards import Floats, Reward
from xmen.worlds.counting import require_count
from xmen.worlds.trajectory import Trajectory


class GivenStart(Distribution):
    """The d0-mixture of one distribution per start, in the order of the starts' numbers."""

    def __init__(self, law: Law, parts: Sequence[Distribution], seed: Seed) -> None:
        super().__init__(law, seed)
        self.parts = tuple(parts)
        self.engine, self.reason = parts[0].engine, parts[0].reason
        self._starts = np.flatnonzero(law.world.start > 0)
        self._shares = law.world.start[self._starts]

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """The widest factor of a part; the failures of all parts together."""
        return Guarantee(
            max(part.guarantee.delta for part in self.parts), sum(part.guarantee.failure for part in self.parts)
        )

    @property
    def acceptance(self) -> float:
        """The share of relaxed draws that are valid, averaged over starts; for the reject engine."""
        return float(self._shares @ [part.acceptance for part in self.parts])  # type: ignore[attr-defined]

    def acceptance_or_less(self, least: float) -> float:
        """`acceptance`, with less care where it is below `least`."""
        return float(self._shares @ [part.acceptance_or_less(least) for part in self.parts])  # type: ignore[attr-defined]

    @property
    def oracle(self) -> str:
        """The oracle that answers; for the XOR engine."""
        return str(self.parts[0].oracle)  # type: ignore[attr-defined]

    def log_partition(self, return_std: bool = False) -> Any:
        found = [part.log_partition(return_std=True) for part in self.parts]
        log_z = float(self._shares @ [value for value, _ in found])
        return (log_z, float(np.linalg.norm(self._shares * [std for _, std in found]))) if return_std else log_z

    def visits(self, return_std: bool = False) -> Any:
        found = [part.visits(return_std=True) for part in self.parts]
        mean = np.tensordot(self._shares, np.stack([value for value, _ in found]), axes=1)
        if not return_std:
            return mean
        return mean, np.sqrt(np.tensordot(self._shares**2, np.stack([std**2 for _, std in found]), axes=1))

    def state_visits(self) -> Floats:
        visits: Floats = np.tensordot(self._shares, np.stack([part.state_visits() for part in self.parts]), axes=1)
        return visits

    def entropy(self) -> float:
        """The entropy of the start, and the mean entropy of what follows."""
        return float(self._shares @ (np.array([part.entropy() for part in self.parts]) - np.log(self._shares)))

    def mode(self) -> Trajectory:
        best = [part.mode() for part in self.parts]
        return max(best, key=self.log_prob)

    def best(self, k: int) -> list[Trajectory]:
        """The best of every start, in the order of P; where log Z is estimated, so is the order between starts."""
        best = [tau for part in self.parts for tau in part.best(k)]
        return sorted(best, key=self.log_prob, reverse=True)[:k]

    def _log_normaliser(self, start: int) -> float:
        part = self.parts[int(np.searchsorted(self._starts, start))]
        return float(part.log_partition())  # a part starts with probability 1, so that log d0 stays in the score

    def with_reward(self, reward: Reward | ArrayLike | None) -> GivenStart:
        return GivenStart(self.law.with_reward(reward), [part.with_reward(reward) for part in self.parts], self._rng)

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        """n independent trajectories: starts from d0, then each start's own distribution."""
        rng = self._generator(seed)
        chosen = rng.choice(len(self.parts), size=require_count(n, self.world), p=self._shares)
        counts = np.bincount(chosen, minlength=len(self.parts))
        drawn = [iter(part.sample(int(k), seed=rng.spawn(1)[0])) for part, k in zip(self.parts, counts, strict=True)]
        return [next(drawn[i]) for i in chosen.tolist()]
