"""Whole hash cells as an estimator: log Z and expectations with error bars, from complete cells and exact weights.

For a cell C of m dense parities, every x is in C with probability 2^-m, so

    E[2^m sum_C w f] = sum_x w f    exactly,    Var[2^m sum_C w f] = (2^m - 1) sum (w f)^2,

because members are pairwise independent: a cell of K near-equal weights is worth K independent draws. With W_i and F_i
the sums of w and w f in the i-th of N cells, each from a fresh matrix,

    log Z = m log 2 + log mean W,        E[f] = sum F / sum W.

Both are smooth functions of means, biased by O(1/N). The jackknife over matrices takes out that order and gives the
standard error: with t_i the estimate without cell i,

    bias = (N - 1) (mean t_i - t),        std^2 = (N - 1) / N  sum (t_i - mean t_i)^2.

An empty cell counts as W = 0, F = 0, as it has to for unbiasedness. With every cell empty there is no estimate (an
error that says so); with one non-empty cell there is no error bar (it is infinite).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import betaincinv

from xmen.errors import EngineError, InfeasibleError
from xmen.oracles.formula import Bits, Parities
from xmen.sampling.jobs import UnfinishedError, run_jobs, spawn
from xmen.sampling.space import Floats, Info, Space, cantelli, growing_reads, read_cell, require_delta, require_failure

Function: TypeAlias = Callable[[Bits], Floats]


class CellSum(NamedTuple):
    """One complete cell: log W (-inf when it is empty), the mean of f under w in it (d,), and what it cost."""

    log_total: float
    mean: Floats
    info: Info


@dataclass(frozen=True)
class CellEstimate:
    """Jackknifed estimates from N independent cells of m parities.

    `log_partition` and `expectation` (d,) are corrected for the bias that is also given. Without parities (m = 0) the
    one cell is the whole space: all errors are 0.
    """

    log_partition: float
    log_partition_std: float
    log_partition_bias: float
    expectation: Floats
    expectation_std: Floats
    expectation_bias: Floats
    info: Info


def estimate(
    space: Space, m: int, n_cells: int, rng: np.random.Generator, function: Function | None = None
) -> CellEstimate:
    """Estimates from n_cells fresh matrices of m parities; `function` maps rows (k, n_hash) to (k, d).

    Choose m without looking at these cells (`choose_parities` does), or the estimate is no longer unbiased. It costs
    the enumeration of n_cells Z / (w_mean 2^m) solutions on average.
    """
    return combine(read_sums(space, m, n_cells, rng, function), m)


def read_sums(
    space: Space, m: int, n_cells: int, rng: np.random.Generator, function: Function | None = None
) -> list[CellSum]:
    """The sums of n_cells complete cells of m fresh parities each; of one when m = 0, where all are the same."""
    if m < 0 or n_cells < 2:
        raise EngineError(f"an estimate needs m >= 0 parities and at least 2 cells, not m = {m} and {n_cells} cells")

    def job(rng: np.random.Generator, attempt: int) -> CellSum:
        return sum_cell(space.patient(attempt), Parities.dense(m, space.n_hash, rng), function)

    try:
        return run_jobs(job, spawn(rng, n_cells if m > 0 else 1), waiting=space.waits)
    except UnfinishedError as error:
        sums = list(error.finished.values())
        if len(sums) >= 2 and any(one.log_total > -math.inf for one in sums):
            so_far = combine(sums, m)
            error.details = (
                f" So far: log Z = {so_far.log_partition:.4f} +- {so_far.log_partition_std:.4f} from {len(sums)} cells,"
                " without the hard ones, so biased."
            )
        raise


def combine(sums: Sequence[CellSum], m: int) -> CellEstimate:
    """The jackknife over independent cells of m parities. O(N d), free of under- and overflow and of cancellation."""
    info = sum((one.info for one in sums), Info())
    log_totals = np.array([one.log_total for one in sums])
    highest, n = float(log_totals.max()), len(sums)
    if highest == -math.inf:
        advice = "Use fewer parities: each one less doubles the cells (m = 0 reads the whole space)."
        raise EngineError(f"all {n} cells of m = {m} parities are empty: there is nothing to estimate from. {advice}")
    weights = np.exp(log_totals - highest)
    values = np.array([one.mean for one in sums]) * weights[:, np.newaxis]
    offset = highest + m * math.log(2.0)
    ratio = values.sum(axis=0) / weights.sum()
    if m == 0:
        zeros = np.zeros_like(ratio)
        return CellEstimate(offset, 0.0, 0.0, ratio, zeros, zeros, info)
    log_mean = offset + math.log(weights.mean())
    other_weights, other_values = _sums_of_others(weights), _sums_of_others(values)
    if np.any(other_weights <= 0.0):  # a single non-empty cell: nothing to compare it with
        unknown = np.full_like(ratio, np.inf)
        return CellEstimate(log_mean, math.inf, 0.0, ratio, unknown, np.zeros_like(ratio), info)
    log_bias, log_std = _jackknife(log_mean, offset + np.log(other_weights / (n - 1)))
    bias, std = _jackknife(ratio, other_values / other_weights[:, np.newaxis])
    return CellEstimate(float(log_mean - log_bias), float(log_std), float(log_bias), ratio - bias, std, bias, info)


def sum_cell(space: Space, parities: Parities, function: Function | None = None) -> CellSum:
    """Enumerates one cell completely."""
    queries = space.oracle.n_queries
    rows = read_cell(space.oracle, parities)
    log_weights = space.log_weights(rows)
    info = Info(1, len(rows), space.oracle.n_queries - queries)
    # f is asked about an empty cell too: its answer (0, d) says what d is.
    values = np.empty((len(rows), 0)) if function is None else np.asarray(function(rows), dtype=np.float64)
    if values.ndim != 2 or len(values) != len(rows):
        raise EngineError(f"the function has to map rows {rows.shape} to an array (k, d), not {values.shape}")
    if len(rows) == 0:
        return CellSum(-math.inf, np.zeros(values.shape[1]), info)
    highest = float(log_weights.max())
    weights = np.exp(log_weights - highest)
    total = float(weights.sum())
    return CellSum(highest + math.log(total), weights @ values / total, info)


def _sums_of_others(values: Floats) -> Floats:
    """sum_{j != i} values[j] along the first axis, by sums from both ends: a difference would cancel."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    np.cumsum(values[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(values[:0:-1], axis=0)[::-1]
    return before + after


def _jackknife(whole: Floats | float, without: Floats) -> tuple[Floats, Floats]:
    """Bias and standard error from the estimates without each cell (N, ...)."""
    n = len(without)
    middle = without.mean(axis=0)
    return (n - 1) * (middle - whole), np.sqrt((n - 1) / n * ((without - middle) ** 2).sum(axis=0))


# ---- How many parities cells of a given size need, and a confidence interval for Z that assumes nothing.
#
# The size of a cell is measured in weight-equivalents, mu / w_max with mu = Z / 2^m: how many solutions of the
# largest weight it would take to make up its mean total. The relative variance of a cell's total is at most w_max /
# mu.

MAX_POINTS = 50_000  # in one cell of the search; weights that need more are too unequal for plain cells
_PROBES = 5  # cells per number of parities
_LONGEST_STEP = 8  # parities from one probe to the next
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


def choose_parities(space: Space, cell_size: float, rng: np.random.Generator, *, start: int = 0) -> tuple[int, Info]:
    """An m whose cells have about `cell_size` weight-equivalents, and the cost of finding it.

    Probes 5 cells per m and follows their median, from `start` (a guess helps) in steps of up to 8. Reading stops at 4
    times the wanted size. The answer comes without a guarantee: estimates and bounds use fresh cells, at this m.
    """
    too_large, too_small = -1, space.n_hash + 2
    m, info = min(max(start, 0), space.n_hash + 1), Info()
    while True:
        probe = partial(_probe, space, m, _CEILING * cell_size)
        results = run_jobs(probe, spawn(rng, _PROBES if m > 0 else 1), waiting=space.waits)
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


@lru_cache(maxsize=64)
def best_grouping(failure: float) -> tuple[int, float]:
    """The odd number of groups G with the smallest s^2 G, which is the number of cells times squared precision; and s.

    Each group mean is s standard deviations or more to one side of its mean with probability at most 1 / (1 + s^2);
    s is chosen such that a majority of the G groups does so with probability at most `failure`.

    >>> best_grouping(0.001)[0]
    11
    """
    groups = np.arange(1, 200, 2)
    deviations = np.sqrt(1.0 / betaincinv((groups + 1) / 2, (groups + 1) / 2, failure) - 1.0)
    best = np.argmin(deviations**2 * groups)
    return int(groups[best]), float(deviations[best])


def interval_of_mean(totals: Floats, n_groups: int, deviation: float) -> tuple[float, float]:
    """Bounds on mu / w_max from totals W_i / w_max of independent cells, one side at a time with `failure` each.

    With G groups of K cells, a group mean has variance at most mu w_max / K. Unless a majority of groups lies low, the
    median M of the group means has M >= mu - s sqrt(mu w_max / K). In u = sqrt(mu / w_max) and a = s / sqrt(K) this is
    u^2 - a u - M / w_max <= 0, hence

        mu / w_max <= ((a + sqrt(a^2 + 4 M / w_max)) / 2)^2,

    and the mirror image bounds mu from below. No assumption on m or on the shape of the weights is made. Cells beyond
    G K are left out.
    """
    per_group = len(totals) // n_groups
    middle = float(np.median(totals[: per_group * n_groups].reshape(n_groups, per_group).mean(axis=1)))
    a = deviation / math.sqrt(per_group)
    root = math.sqrt(a * a + 4.0 * middle)
    return ((root - a) / 2.0) ** 2, ((root + a) / 2.0) ** 2


def bound_partition(
    space: Space, m: int, failure: float, rng: np.random.Generator, *, cell_size: float = 32.0, precision: float = 0.2
) -> PartitionBound:
    """Bounds on Z that hold with probability 1 - failure each, from fresh cells of m parities; see `interval_of_mean`.

    Cells of `cell_size` weight-equivalents give bounds within about `precision` of Z, relatively: this sets the number
    of cells, s^2 G / (precision^2 cell_size), 1,900 / cell_size for failure = 0.001 and precision = 0.2. If the cells
    turn out smaller the bounds are wider, and still hold. No m is wrong, but m has to be chosen beforehand.
    """
    require_failure(failure)
    (n_groups, deviation), log_max = best_grouping(failure), float(space.log_max)
    n_cells = max(2, math.ceil((deviation / precision) ** 2 / cell_size) * n_groups)
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
    found = (*interval_of_mean(totals, n_groups, deviation), total / n_cells)
    lower, upper, middle = (offset + math.log(x) if x > 0.0 else -math.inf for x in found)
    return PartitionBound(lower, middle, upper, log_max, failure, m, points, info)


def _probe(space: Space, m: int, ceiling: float, rng: np.random.Generator, attempt: int) -> tuple[float, Info]:
    """The size of one fresh cell in weight-equivalents, read up to a ceiling."""
    space = space.patient(attempt)
    queries, parities = space.oracle.n_queries, Parities.dense(m, space.n_hash, rng)
    # Equal weights reach the ceiling within the first read.
    for rows, complete in growing_reads(space.oracle, parities, first=math.ceil(ceiling) + 1):
        size = float(np.exp(space.log_weights(rows) - space.log_max).sum())
        if complete or size >= ceiling:
            return min(size, ceiling), Info(1, len(rows), space.oracle.n_queries - queries)
        if len(rows) >= MAX_POINTS:
            break
    raise EngineError(
        f"{len(rows)} solutions in one cell weigh only {size:.3g} times the largest possible weight: the weights "
        f"are too unequal for plain cells (or log_max = {space.log_max:g} is far above them). Embed them first: "
        "Embedding.residual has weights within a factor 2 of each other."
    )


# ---- Near-exact independent samples from hash cells with exact weights.
#
# One attempt: draw m fresh dense parities, enumerate the cell C, W = sum_C w. Reject if W > cap (reading stops
# there); otherwise return each x in C with probability w(x) / cap, so something with probability W / cap.
#
# **Guarantee.** x is returned with probability 2^-m (w(x) / cap) a_x with a_x = P[W <= cap | x in C]. Given x in C,
# the rest of the cell has mean (Z - w_x) / 2^m <= mu = Z / 2^m and variance at most V = (1 - 2^-m) mu w_max
# (`bounds`), and W > cap means that it is above cap - w_x >= cap - w_max. By Cantelli, where cap > w_max + mu,
#
#     1 - a_x <= eta = V / (V + (cap - w_max - mu)^2).
#
# So p'(x) / p(x) = a_x / sum_y p(y) a_y with all a in [1 - eta, 1], which lies in [1 - eta, 1 / (1 - eta)]: delta = 1
# / (1 - eta). eta grows with Z, so an upper bound on Z is enough; its failure probability is that of the guarantee.
# The cap has to be fixed before the draw, and every attempt needs its own matrix.
#
# **Cost.** An attempt succeeds with probability between (1 - eta) mu / cap and mu / cap, and reads mu / w_mean
# solutions. The plan minimises (solutions + overhead of a cell) per success over m. The larger the cells, the closer
# to mu is the cap that delta needs, w_max + mu + sqrt(V (1/eta - 1)); but all that is read beyond one sample is
# wasted, so small cells win where opening a cell is cheap.

# To a solver, opening a cell costs about as much as this many solutions, for the parities and the first solution:
# CryptoMiniSat on a 9x9 grid with 13 parities takes 25 ms and then 1 ms per solution.
CELL_OVERHEAD = 25.0
_SMALLEST_CELL, _LARGEST_CELL = 0.25, 65_536.0  # weight-equivalents worth a look: neither empty cells nor endless ones


@dataclass(frozen=True)
class CellPlan:
    """Settings of the cell sampler and what they guarantee: m parities, and a cap in weight-equivalents cap / w_max.

    Every probability is within a factor `delta` of the true one, unless Z is above its bound, which happens with
    probability at most that bound's `failure`.
    """

    m: int
    cap: float
    size: float  # the most that a cell can hold on average, in weight-equivalents
    points_per_weight: float
    acceptance: float  # expected share of cells that give a sample
    cost: float  # expected solutions read per sample, cell overheads included

    @property
    def eta(self) -> float:
        """The largest probability that a cell overflows, given any one of its members; 0 for the whole space."""
        return cantelli((1.0 - 2.0**-self.m) * self.size, self.cap - 1.0 - self.size) if self.m > 0 else 0.0

    @property
    def delta(self) -> float:
        """1 / (1 - eta)."""
        return 1.0 / (1.0 - self.eta)

    @classmethod
    def solve(
        cls, delta: float, bound: PartitionBound, *, cell_size: float | None = None, overhead: float = CELL_OVERHEAD
    ) -> "CellPlan":
        """The cheapest m and cap that guarantee delta; with a cell_size, the m that comes closest to it."""
        require_delta(delta)
        if cell_size is not None:
            log_size = bound.log_estimate - bound.log_max - math.log(cell_size)
            m = max(0, round(log_size / math.log(2.0))) if log_size > -math.inf else 0
            return cls._at(m, delta, bound, overhead)
        log2_size = (bound.log_upper - bound.log_max) / math.log(2.0)
        first = max(0, math.floor(log2_size - math.log2(_LARGEST_CELL)))
        last = max(first, math.ceil(log2_size - math.log2(_SMALLEST_CELL)))
        return min((cls._at(m, delta, bound, overhead) for m in range(first, last + 1)), key=lambda plan: plan.cost)

    @classmethod
    def _at(cls, m: int, delta: float, bound: PartitionBound, overhead: float) -> "CellPlan":
        """The smallest cap that guarantees delta at this m; the whole space, which never overflows, at m = 0."""
        # mu / w_max = Z / (w_max 2^m), at most and as estimated.
        size, mean = (math.exp(x - bound.log_max - m * math.log(2.0)) for x in (bound.log_upper, bound.log_estimate))
        eta = 1.0 - 1.0 / delta
        cap = 1.0 + size + math.sqrt((1.0 - 2.0**-m) * size * (1.0 / eta - 1.0)) if m > 0 else size
        acceptance = min(mean, size) / cap
        if acceptance == 0.0:
            raise EngineError(f"all cells of {bound.m} parities read to bound Z are empty: bound Z with fewer parities")
        cost = (mean * bound.points_per_weight + overhead) / acceptance
        return cls(m, cap, size, bound.points_per_weight, acceptance, cost)


def possible_draws(space: Space, parities: Parities, cap: float, first: int) -> tuple[Bits, Floats, Info]:
    """All that an attempt in this cell can return, with its probabilities, and what it cost.

    The probabilities add up to W / cap, or to 0 as soon as the weights read are above the cap; the rest is failure.
    The first read is of `first` solutions, and every further one twice as long.
    """
    queries = space.oracle.n_queries
    for rows, complete in growing_reads(space.oracle, parities, first):
        weights = np.exp(space.log_weights(rows) - space.log_max)
        if complete or weights.sum() > cap:
            break
    kept = weights / cap if weights.sum() <= cap else np.zeros(len(weights))
    return rows, kept, Info(1, len(rows), space.oracle.n_queries - queries)


def sample_cells(space: Space, plan: CellPlan, n: int, rng: np.random.Generator) -> tuple[Bits, Info]:
    """n independent samples (n, n_hash), each from fresh matrices, within plan.delta of their probability."""
    # Most cells are over the cap, or complete, within twice the number of solutions that make up a cap.
    first = math.ceil(2.0 * plan.cap * max(plan.points_per_weight, 1.0)) + 1
    most = most_attempts(min(plan.acceptance, 1.0) / 2.0)  # at half the acceptance that is expected
    advice = "the plan does not fit this space. Bound Z again with bound_partition and solve for a new plan."
    return draw(space, plan.m, plan.cap, first, most, advice, n, rng)


def most_attempts(success: float) -> int:
    """So many attempts, each with this probability of success, all fail once in 10^9 draws."""
    return math.ceil(math.log(1e-9) / math.log1p(-success))


def draw(
    space: Space, m: int, cap: float, first: int, most: int, advice: str, n: int, rng: np.random.Generator
) -> tuple[Bits, Info]:
    """n independent samples (n, n_hash), each by attempts with fresh matrices until one succeeds, and what they cost.

    See `possible_draws`; `advice`: what to do where none of `most` attempts does. Without parities the space is a list.
    """
    if m == 0:
        queries = space.oracle.n_queries
        rows = read_cell(space.oracle, Parities.dense(0, space.n_hash, rng))
        if len(rows) == 0:
            raise InfeasibleError("there is nothing to sample: the formula has no model")
        log_weights = space.log_weights(rows)
        weights = np.exp(log_weights - log_weights.max())
        drawn = rows[rng.choice(len(rows), size=n, p=weights / weights.sum())]
        return drawn, Info(1, len(rows), space.oracle.n_queries - queries)

    def job(rng: np.random.Generator, attempt: int) -> tuple[Bits, Info]:
        patient, info = space.patient(attempt), Info()
        for _ in range(most):
            parities = Parities.dense(m, patient.n_hash, rng)
            rows, probabilities, spent = possible_draws(patient, parities, cap, first)
            choice = int(np.searchsorted(np.cumsum(probabilities), rng.random(), side="right"))
            if choice < len(rows):  # which has the probability that they add up to
                return rows[choice], info + spent
            info += spent + Info(n_failures=1)
        raise EngineError(f"no sample in {most} cells of {m} parities, which happens once in 10^9 draws: {advice}")

    results = run_jobs(job, spawn(rng, n), waiting=space.waits)
    rows = np.array([row for row, _ in results], dtype=np.bool_).reshape(n, space.n_hash)
    return rows, sum((info for _, info in results), Info())
