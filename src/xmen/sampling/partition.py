"""How many parities cells of a given size need, and a confidence interval for Z that assumes nothing.

The size of a cell is measured in weight-equivalents, mu / w_max with mu = Z / 2^m: how many solutions of the largest
weight it would take to make up its mean total. The relative variance of a cell's total is at most w_max / mu.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xmen.errors import EngineError, InfeasibleError
from xmen.oracles.formula import Parities
from xmen.sampling.bounds import best_grouping, interval_of_mean, require_probability
from xmen.sampling.cells import read_sums
from xmen.sampling.jobs import run_jobs, spawn
from xmen.sampling.space import Info, Space, growing_reads, waits

MAX_POINTS = 50_000  # in one cell of the search; weights that need more are too unequal for plain cells
_PROBES = 5
_LONGEST_STEP = 8
_CEILING = 4.0  # a probe stops at this many times the wanted size


@dataclass(frozen=True)
class PartitionBound:
    """log Z within [log_lower, log_upper]; each side fails with probability at most `failure`. Exact when m = 0."""

    log_lower: float
    log_estimate: float
    log_upper: float
    log_max: float
    failure: float
    m: int
    points_per_weight: float  # solutions read per weight-equivalent: 1 for equal weights, large for unequal ones
    info: Info


def choose_parities(
    space: Space,
    cell_size: float,
    rng: np.random.Generator,
    *,
    start: int = 0,
    max_points: int = MAX_POINTS,
) -> tuple[int, Info]:
    """An m whose cells have about `cell_size` weight-equivalents, and the cost of finding it.

    Probes 5 cells per m and follows their median, from `start` (a guess helps) in steps of up to 8. Reading stops at 4
    times the wanted size. The answer comes without a guarantee: estimates and bounds use fresh cells, at this m.
    """
    if not cell_size > 0.0:
        raise EngineError(f"a cell size has to be positive, not {cell_size!r}")
    too_large, too_small = -1, space.n_hash + 2
    m, info = min(max(start, 0), space.n_hash + 1), Info()
    while True:
        probe = _Probe(space, m, _CEILING * cell_size, max_points)
        results = run_jobs(probe, spawn(rng, _PROBES if m > 0 else 1), waiting=waits(space.oracle))
        info = sum((spent for _, spent in results), info)
        size = float(np.median([size for size, _ in results]))
        if m == 0 and size <= cell_size:
            return 0, info
        # The number of parities by which this m is off; where the median is 0 or cut off, only the direction is known.
        if size == 0.0:
            shift = -_LONGEST_STEP
        elif size >= _CEILING * cell_size:
            shift = _LONGEST_STEP
        else:
            shift = round(math.log2(size / cell_size))
            if shift == 0:
                return m, info
        if shift > 0:
            too_large = max(too_large, m)
        else:
            too_small = min(too_small, m)
        if too_small - too_large <= 1:
            return max(too_large, 0), info
        m += shift
        if not too_large < m < too_small:
            m = (too_large + too_small) // 2


def bound_partition(
    space: Space,
    m: int,
    failure: float,
    rng: np.random.Generator,
    *,
    cell_size: float = 32.0,
    precision: float = 0.2,
) -> PartitionBound:
    """Bounds on Z that hold with probability 1 - failure each, from fresh cells of m parities; see `interval_of_mean`.

    Cells of `cell_size` weight-equivalents give bounds within about `precision` of Z, relatively: this sets the number
    of cells, s^2 G / (precision^2 cell_size), 1,900 / cell_size for failure = 0.001 and precision = 0.2. If the cells
    turn out smaller the bounds are wider, and still hold. No m is wrong, but m has to be chosen beforehand.
    """
    require_probability(failure)
    if not precision > 0.0:
        raise EngineError(f"the precision of a bound on Z has to be positive, not {precision!r}")
    grouping, log_max = best_grouping(failure), float(space.log_max)
    per_group = math.ceil((grouping.deviation / precision) ** 2 / cell_size)
    n_cells = max(2, per_group * grouping.n_groups)
    sums = read_sums(space, m, n_cells, rng)
    info = sum((one.info for one in sums), Info())
    totals = np.exp(np.array([one.log_total for one in sums]) - log_max)  # in weight-equivalents
    total = float(totals.sum())
    points = info.n_points / total if total > 0.0 else 1.0
    if m == 0:
        if sums[0].log_total == -math.inf:
            raise InfeasibleError("there is nothing to sample: the formula has no model")
        exact = sums[0].log_total
        return PartitionBound(exact, exact, exact, log_max, failure, m, points, info)
    offset = log_max + m * math.log(2.0)
    log_bounds = [math.log(x) if x > 0.0 else -math.inf for x in (*interval_of_mean(totals, grouping), total / n_cells)]
    lower, upper, middle = (offset + x for x in log_bounds)
    return PartitionBound(lower, middle, upper, log_max, failure, m, points, info)


@dataclass(frozen=True)
class _Probe:
    """The size of one cell in weight-equivalents, read up to a ceiling."""

    space: Space
    m: int
    ceiling: float
    max_points: int

    def __call__(self, rng: np.random.Generator, attempt: int) -> tuple[float, Info]:
        space = self.space.patient(attempt)
        queries = space.oracle.n_queries
        parities = Parities.dense(self.m, space.n_hash, rng)
        # Equal weights reach the ceiling within the first read.
        for rows, complete in growing_reads(space.oracle, parities, first=math.ceil(self.ceiling) + 1):
            size = float(np.exp(space.log_weights(rows) - space.log_max).sum())
            if complete or size >= self.ceiling:
                return min(size, self.ceiling), Info(1, len(rows), space.oracle.n_queries - queries)
            if len(rows) >= self.max_points:
                break
        raise EngineError(
            f"{len(rows)} solutions in one cell weigh only {size:.3g} times the largest possible weight: the weights "
            f"are too unequal for plain cells (or log_max = {space.log_max:g} is far above them). Embed them first: "
            "Embedding.residual has weights within a factor 2 of each other."
        )
