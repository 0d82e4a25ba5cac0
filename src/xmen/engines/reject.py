"""The reject engine: multiply the constraints that fit, sample from that relaxation exactly, reject with the rest.

A valid trajectory has the same weight in the relaxation and in the truth, so accepted samples are exact. What the
relaxation cannot carry is only the acceptance rate, which is measured and reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.engines.distribution import Distribution, Guarantee, Seed
from xmen.engines.exact import SAMPLE_CELLS, ExactDistribution
from xmen.engines.law import Law
from xmen.engines.moments import WalkMoments
from xmen.engines.relaxation import Relaxation, listed
from xmen.errors import EngineError, InfeasibleError
from xmen.machines.release import release
from xmen.machines.tables import CompiledConstraint
from xmen.machines.watch import Watch
from xmen.options import require_whole
from xmen.product.k_best import best_walks
from xmen.progress.telling import tell
from xmen.rewards import Floats, Reward
from xmen.sharing import once
from xmen.worlds import Trajectory, Walks
from xmen.worlds.counting import require_count

ESTIMATE_DRAWS = 100_000  # relaxed draws behind estimates of log Z and visits
FIRST_DRAWS = 2_000
FEW_EXPECTED = 10  # valid draws that a rate would have shown by now; with none, it is lower with probability 1 - e^-10
PATIENCE = 400_000  # relaxed draws in a row without an accepted one, after which a case is hopeless


class RejectDistribution(Distribution):
    """Exact samples by rejection; log Z and expectations are estimates with standard errors."""

    engine = "reject"
    guarantee = Guarantee(delta=1.0, failure=0.0)

    def __init__(
        self,
        relaxation: Relaxation,
        compiled: CompiledConstraint,
        law: Law,
        seed: Seed,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(law, seed)
        self.relaxation = relaxation
        self._compiled = compiled
        self.time_limit = time_limit
        self._relaxed = ExactDistribution(
            relaxation.product, law.under(relaxation.product.compiled.constraint), self._rng
        )
        self._estimate_seed = np.random.SeedSequence(int(self._rng.integers(2**63)))

    @property
    def acceptance(self) -> float:
        """The share of relaxed draws that were valid, measured on the first draws."""
        return self._moments.acceptance

    def acceptance_or_less(self, least: float) -> float:
        """`acceptance`; or, where a few draws show that it is below `least`, what they show."""
        n_drawn = n_accepted = 0
        for n, valid in self._accepted(np.random.default_rng(self._estimate_seed)):
            n_drawn, n_accepted = n_drawn + n, n_accepted + len(valid)
            if n_accepted >= 10 * least * n_drawn:
                break
            if n_drawn * least >= FEW_EXPECTED:
                if 2 * n_accepted < least * n_drawn:
                    return n_accepted / n_drawn
                break
        return self.acceptance

    def sizes(self) -> dict[str, Any]:
        return {
            "acceptance": self.acceptance,
            "product nodes": self.relaxation.product.n_nodes,
            "multiplied": list(self.relaxation.multiplied),
            "rejecting": list(self.relaxation.rejecting),
        }

    def _accepted(self, rng: np.random.Generator) -> Iterator[tuple[int, Walks]]:
        """Batches of relaxed draws without end: how many were drawn, and the valid ones among them."""
        for walks, valid in self.checked(rng):
            yield len(walks), walks[valid]

    def checked(self, rng: np.random.Generator) -> Iterator[tuple[Walks, NDArray[np.bool_]]]:
        """Batches of relaxed draws without end, and which of them are valid."""
        size, largest = FIRST_DRAWS, max(1, SAMPLE_CELLS // (self.relaxation.product.usual_length + 1))
        n_drawn, n_valid, since, began = 0, 0, 0, time.perf_counter()
        while True:
            n = min(size, largest)
            walks = self._relaxed.draw(n, rng)
            kept = np.zeros(n, dtype=np.bool_)
            # A long check has to end in time, so it goes in pieces; draws do not, or the seed would not decide them.
            for begin in range(0, n, FIRST_DRAWS):
                piece = np.arange(begin, min(begin + FIRST_DRAWS, n))
                kept[piece] = self._compiled.check(walks[piece])
                n_drawn, n_valid = n_drawn + len(piece), n_valid + int(kept[piece].sum())
                since, began = (0, time.perf_counter()) if kept[piece].any() else (since + len(piece), began)
                tell(f"rejection: {n_valid:,} of {n_drawn:,} draws are valid")
                self._refuse_hopeless(since, time.perf_counter() - began)
            yield walks, kept
            size *= 2

    def _refuse_hopeless(self, n_in_vain: int, seconds: float) -> None:
        """Give up after many draws in a row of which none was valid, or a long time."""
        late = self.time_limit is not None and seconds > self.time_limit
        if n_in_vain >= PATIENCE or (n_in_vain and late):
            limit = f" within time_limit = {self.time_limit:g} s" if late else ""
            raise EngineError(
                f"rejection is hopeless here{limit}: none of {n_in_vain:,} draws that keep "
                f"{listed(self.relaxation.multiplied) or 'the world alone'} also kept "
                f"{listed(self.relaxation.rejecting)}, so fewer than about 1 in {max(2, n_in_vain // 3):,} does. "
                "Use engine='xor', raise max_nodes so that more is multiplied in, or loosen a constraint."
            )

    @property
    def relaxed(self) -> ExactDistribution:
        """What is drawn from, before anything is refused."""
        return self._relaxed

    @once
    def _moments(self) -> WalkMoments:
        """Means and their spread over a fixed number of relaxed draws."""
        moments = WalkMoments(self.world, self.weights)
        for n, valid in self._accepted(np.random.default_rng(self._estimate_seed)):
            moments.add(n, valid)
            if moments.n_drawn >= ESTIMATE_DRAWS and moments.n_accepted:
                return moments
        raise AssertionError

    def log_partition(self, return_std: bool = False) -> Any:
        rate, n = self._moments.acceptance, self._moments.n_drawn
        log_z = self._relaxed.log_partition() + float(np.log(rate))
        # That all draws were valid does not make the rate 1: one in as many could still break a rule.
        missed = max(1 - rate, 1 / (n + 1)) if self.relaxation.rejecting else 0.0
        return (log_z, float(np.sqrt(missed / (rate * n)))) if return_std else log_z

    def visits(self, return_std: bool = False) -> Any:
        mean, std = self._moments.visits()
        return (mean, std) if return_std else mean

    def state_visits(self) -> Floats:
        return self._moments.state_visits()

    def entropy(self) -> float:
        """log Z - E[R + log D], estimated like `log_partition`."""
        return float(self.log_partition()) - self._moments.score()

    def mode(self) -> Trajectory:
        best = self.best(1)
        if not best:
            raise InfeasibleError("no trajectory of this world keeps all rules: a search has been through all of them.")
        return best[0]

    def best(self, k: int) -> list[Trajectory]:
        """Exactly, as everywhere: a valid trajectory weighs the same in the relaxation, which guides the search."""
        require_whole("k of best(k)", k, least=0)
        walks = best_walks(self.relaxation.product, self.weights, int(k), Watch(self._compiled))
        return release(walks, self._compiled)

    def with_reward(self, reward: Reward | ArrayLike | None) -> RejectDistribution:
        return RejectDistribution(
            self.relaxation, self._compiled, self.law.with_reward(reward), self._rng, self.time_limit
        )

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        wanted = require_count(n, self.world)
        out: list[Trajectory] = []
        for _, valid in self._accepted(self._generator(seed)) if wanted else ():
            out += release(valid[: wanted - len(out)], self._compiled)
            if len(out) == wanted:
                break
        return out

    def __repr__(self) -> str:
        carried = listed(self.relaxation.multiplied) or "nothing"
        left = listed(self.relaxation.rejecting) or "nothing"
        return (
            f"{super().__repr__()[:-1]}; multiplied {carried} ({self.relaxation.product.n_nodes:,} nodes), rejecting "
            f"with {left}>"
        )
