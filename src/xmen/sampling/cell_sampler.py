"""Near-exact independent samples from hash cells with exact weights.

One attempt: draw m fresh dense parities, enumerate the cell C, W = sum_C w. Reject if W > cap (reading stops there);
otherwise return each x in C with probability w(x) / cap, so something with probability W / cap.

**Guarantee.** x is returned with probability 2^-m (w(x) / cap) a_x with a_x = P[W <= cap | x in C]. Given x in C, the
rest of the cell has mean (Z - w_x) / 2^m <= mu = Z / 2^m and variance at most V = (1 - 2^-m) mu w_max (`bounds`), and
W > cap means that it is above cap - w_x >= cap - w_max. By Cantelli, where cap > w_max + mu,

    1 - a_x <= eta = V / (V + (cap - w_max - mu)^2).

So p'(x) / p(x) = a_x / sum_y p(y) a_y with all a in [1 - eta, 1], which lies in [1 - eta, 1 / (1 - eta)]:
delta = 1 / (1 - eta). eta grows with Z, so an upper bound on Z is enough; its failure probability is that of the
guarantee. The cap has to be fixed before the draw, and every attempt needs its own matrix.

**Cost.** An attempt succeeds with probability between (1 - eta) mu / cap and mu / cap, and reads mu / w_mean solutions.
The plan minimises (solutions + overhead of a cell) per success over m. The larger the cells, the closer to mu is the
cap that delta needs, w_max + mu + sqrt(V (1/eta - 1)); but all that is read beyond one sample is wasted, so small cells
win where opening a cell is cheap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xmen.errors import EngineError
from xmen.oracles.formula import Bits, Parities
from xmen.sampling.bounds import cantelli, require_delta
from xmen.sampling.jobs import run_jobs, spawn
from xmen.sampling.partition import PartitionBound
from xmen.sampling.space import CELL_OVERHEAD, Floats, Info, Space, growing_reads, pick, read_cell, waits

_SMALLEST_CELL, _LARGEST_CELL = 0.25, 65_536.0


@dataclass(frozen=True)
class CellPlan:
    """Settings of the cell sampler and what they guarantee: m parities, and a cap in weight-equivalents cap / w_max.

    Every probability is within a factor `delta` of the true one, unless Z is above exp(log_upper), which happens with
    probability at most `failure`. Make one with `solve`, or `check` your own settings.
    """

    m: int
    cap: float
    log_upper: float
    log_max: float
    failure: float
    points_per_weight: float
    acceptance: float  # expected share of cells that give a sample
    cost: float  # expected solutions read per sample, cell overheads included

    @property
    def eta(self) -> float:
        """The largest probability that a cell overflows, given any one of its members."""
        return _eta(self.m, self.cap, self.size)

    @property
    def delta(self) -> float:
        """1 / (1 - eta)."""
        return 1.0 / (1.0 - self.eta)

    @property
    def size(self) -> float:
        """The upper bound on mu / w_max, the size of a cell."""
        return _size(self.log_upper, self.log_max, self.m)

    @classmethod
    def solve(
        cls,
        delta: float,
        bound: PartitionBound,
        *,
        cell_size: float | None = None,
        overhead: float = CELL_OVERHEAD,
    ) -> CellPlan:
        """The cheapest m and cap that guarantee delta; with a cell_size, the m that comes closest to it.

        `overhead` is the cost of opening a cell, in solutions: more for a long list, whose every cell goes through all
        of it, and for many parities.
        """
        require_delta(delta)
        if cell_size is not None and not cell_size > 0.0:
            raise EngineError(f"a cell size has to be positive, not {cell_size!r}")
        eta = 1.0 - 1.0 / delta
        if cell_size is not None:
            log_size = bound.log_estimate - bound.log_max - math.log(cell_size)
            nearest = max(0, round(log_size / math.log(2.0))) if log_size > -math.inf else 0
            return cls._at(nearest, eta, bound, overhead)
        plans = [cls._at(m, eta, bound, overhead) for m in _range_of_m(bound)]
        return min(plans, key=lambda plan: plan.cost)

    @classmethod
    def check(cls, m: int, cap: float, bound: PartitionBound, overhead: float = CELL_OVERHEAD) -> CellPlan:
        """Given settings, with the delta that they guarantee; refused when that is none."""
        size, mean = (_size(log_total, bound.log_max, m) for log_total in (bound.log_upper, bound.log_estimate))
        if not (cap > 1.0 + size or (m == 0 and cap >= size)):
            raise EngineError(
                f"cells of {m} parities with a cap of {cap:g} times the largest weight have no guarantee: their mean "
                f"may be {size:.4g}, and the cap has to be above that plus 1. Raise the cap above {1.0 + size:.4g}, or "
                "use CellPlan.solve."
            )
        acceptance = min(mean, size) / cap
        if acceptance == 0.0:
            raise EngineError(
                f"all cells of {bound.m} parities that were read to bound Z are empty: bound Z with fewer parities"
            )
        cost = (mean * bound.points_per_weight + overhead) / acceptance
        points = bound.points_per_weight
        return cls(m, cap, bound.log_upper, bound.log_max, bound.failure, points, acceptance, cost)

    @classmethod
    def _at(cls, m: int, eta: float, bound: PartitionBound, overhead: float) -> CellPlan:
        """The smallest cap that guarantees eta at this m; the whole space, which never overflows, at m = 0."""
        size = _size(bound.log_upper, bound.log_max, m)
        if m == 0:
            return cls.check(0, size, bound, overhead)
        deviation = math.sqrt((1.0 - 2.0**-m) * size * (1.0 / eta - 1.0))
        return cls.check(m, 1.0 + size + deviation, bound, overhead)


def possible_draws(space: Space, parities: Parities, cap: float, first: int | None = None) -> tuple[Bits, Floats, int]:
    """All that an attempt in this cell can return, with its probabilities, and the number of solutions read.

    The probabilities add up to W / cap, or to 0 as soon as the weights read are above the cap; the rest is failure.
    The first read is of `first` solutions, and every further one twice as long.
    """
    for rows, complete in growing_reads(space.oracle, parities, first or _first_read(cap)):
        weights = np.exp(space.log_weights(rows) - space.log_max)
        if complete or weights.sum() > cap:
            break
    return rows, keep_probabilities(weights, cap), len(rows)


def _first_read(cap: float, points_per_weight: float = 1.0) -> int:
    """Most cells are over the cap, or complete, within twice the number of solutions that make up a cap."""
    return math.ceil(2.0 * cap * max(points_per_weight, 1.0)) + 1


def keep_probabilities(weights: Floats, cap: float) -> Floats:
    """The probability with which each member of a cell is returned: w / cap, or 0 when they add up to more."""
    return weights / cap if weights.sum() <= cap else np.zeros(len(weights))


def sample_cells(space: Space, plan: CellPlan, n: int, rng: np.random.Generator) -> tuple[Bits, Info]:
    """n independent samples (n, n_hash), each from fresh matrices, within plan.delta of their probability."""
    if plan.m == 0:  # the whole space is one cell: draw from its list
        queries = space.oracle.n_queries
        rows = read_cell(space.oracle, Parities.dense(0, space.n_hash, rng))
        log_weights = space.log_weights(rows)
        weights = np.exp(log_weights - log_weights.max())
        drawn = rows[rng.choice(len(rows), size=n, p=weights / weights.sum())]
        return drawn, Info(1, len(rows), space.oracle.n_queries - queries)
    # Misses them all once in 10^9 draws at half the acceptance that is expected.
    most = math.ceil(math.log(1e-9) / math.log1p(-min(plan.acceptance, 1.0) / 2.0))
    first = _first_read(plan.cap, plan.points_per_weight)
    advice = "the plan does not fit this space. Bound Z again with bound_partition and solve for a new plan."
    return Attempts(space, plan.m, plan.cap, first, most, plan.acceptance, advice).draw(n, rng)


@dataclass(frozen=True)
class Attempts:
    """Attempts with fresh matrices of m parities until one succeeds, `most` of them; see `possible_draws`.

    `acceptance`: the share of cells that is expected to give a sample; `advice`: what to do where none does.
    """

    space: Space
    m: int
    cap: float
    first: int
    most: int
    acceptance: float
    advice: str

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Bits, Info]:
        """n independent samples (n, n_hash), and what they cost."""
        results = run_jobs(self, spawn(rng, n), waiting=waits(self.space.oracle))
        rows = np.array([row for row, _ in results], dtype=np.bool_).reshape(n, self.space.n_hash)
        return rows, sum((info for _, info in results), Info())

    def __call__(self, rng: np.random.Generator, attempt: int) -> tuple[Bits, Info]:
        space, points = self.space.patient(attempt), 0
        queries = space.oracle.n_queries
        for failures in range(self.most):
            parities = Parities.dense(self.m, space.n_hash, rng)
            rows, probabilities, n_points = possible_draws(space, parities, self.cap, self.first)
            points += n_points
            choice = pick(probabilities, rng)
            if choice is not None:
                return rows[choice], Info(failures + 1, points, space.oracle.n_queries - queries, failures)
        raise EngineError(
            f"no sample in {self.most} cells of {self.m} parities, where one in {1 / self.acceptance:.0f} was expected "
            f"to give one: {self.advice}"
        )


def _size(log_total: float, log_max: float, m: int) -> float:
    """mu / w_max = Z / (w_max 2^m)."""
    return math.exp(log_total - log_max - m * math.log(2.0))


def _eta(m: int, cap: float, size: float) -> float:
    """The bound on the probability to overflow; 0 without parities, where the cap is Z itself."""
    return cantelli((1.0 - 2.0**-m) * size, cap - 1.0 - size) if m > 0 else 0.0


def _range_of_m(bound: PartitionBound) -> range:
    """The numbers of parities worth a look: neither empty cells nor endless ones."""
    log_size = (bound.log_upper - bound.log_max) / math.log(2.0)
    first = max(0, math.floor(log_size - math.log2(_LARGEST_CELL)))
    last = max(first, math.ceil(log_size - math.log2(_SMALLEST_CELL)))
    return range(first, last + 1)
