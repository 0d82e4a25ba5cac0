"""PAWS, the paper's sampler (Ermon et al., 2013): uniform draws from the copies of an embedding.

Let N be the number of copies, so that k parities leave cells of mean mu_k = N / 2^k. For a *pivot* P and *extra*
parities alpha:

1. Level search. k is a number of parities at which the median of T cells has fewer than P points.
2. Draw k + alpha fresh dense parities. If the cell has P points or more: fail. Otherwise return each of its points with
   probability 1 / (P - 1), so something with probability |C| / (P - 1), and fail else.

**Why the draw is nearly uniform.** A copy x is returned with probability 2^-(k+alpha) / (P - 1) times
a_x = P[|C| < P | x in C]. Given x in C the rest R of the cell has mean and variance below mu = mu_k / 2^alpha, so

    1 - a_x = P[R >= P - 1] <= 1 - c,    c = 1 - mu / (P - 1 - mu)^2   (Chebyshev; needs mu < P - 1),

and with c <= a_x <= 1 the probability of x given success is within [c, 1/c] of 1 / N. With mu_k <= P 2^g this reads
c = 1 - 2^(g-alpha) / (P (1 - 1/P - 2^(g-alpha))^2), as published. Cantelli gives the sharper
c = 1 - mu / (mu + (P - 1 - mu)^2), which is never void but useless where Chebyshev is.

**Why mu_k <= P 2^g.** Where mu_k >= P + 2 sqrt(P + 1) + 2, Chebyshev gives P[|C| < P] <= mu_k / (mu_k - P)^2 <= 1/4
(equality solves sqrt(mu)^2 - 2 sqrt(mu) - P = 0), so the median of T cells is below P with probability at most
exp(-T/8) by Hoeffding. A k with such a mu_k is *bad*. With T = ceil(24 ln(n' / failure)) as published (the next odd
number), n' = n_hash + 1 the number of values 0 .. n_hash that k can take, a union bound gives `failure` for *any bad
level to pass its test*. That event does not depend on the order in which levels are tried, as long as each is tested
once: a warm start is free.

The sharper form, used unless `faithful`: |C| <= P - 1 and Cantelli allow mu_k = ((sqrt 3 + sqrt(4 P - 1)) / 2)^2; mu
doubles from one bad level to the next, so the chances that bad levels pass form a quickly falling series, bounded by
its own sum instead of n' times its largest term; and its terms are binomial tails, computed exactly. The search is
about ten times cheaper and its failure probability does not grow with n_hash.

**How weights enter.** Copies number v(x) with w / v within a factor rho = r e^(2 rounding), and p'(x) / p(x) lies in
[c / rho, rho / c]: the ratio is (v / w) / E_p[v / w] up to c. Nothing is left out (eps = 0): the levels reach below a
lower bound on w, which is required. Weights that span less than r have no need of levels, and rho is their span.

**Thinning** (ours). Let every copy count by its exact weight w / v over the largest possible one, a number in
(1 / rho, 1], in the place of 1: a cell's size is the sum of these, it is given up above P - 1, and a copy is returned
with its number over P - 1. Sizes have a variance of at most their mean, as counts do, so all of the above holds, with
P - 2 - mu in the place of P - 1 - mu. A model is then returned in proportion to its exact weight times a_x: neither r
nor rounding counts, and delta = 1 / c. Thresholds may be a factor 2 apart: in place of a hundred comparisons in the
formula there are five, and solutions come five to ten times as fast.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

import numpy as np

from xmen.errors import EngineError
from xmen.oracles.formula import Bits, Parities
from xmen.oracles.gf2 import Indices
from xmen.sampling.cells import draw, most_attempts, possible_draws
from xmen.sampling.embedding import Embedding, Levels, log_ratio
from xmen.sampling.jobs import run_jobs, spawn
from xmen.sampling.space import Floats, Info, Space, cantelli, require_delta, require_failure, wrong_majority

_MOST_BITS_PER_LEVEL = 12  # r = 1.0002
_PIVOTS = tuple(int(p) for p in np.unique(np.geomspace(2, 8192, 60).round().astype(int)))
_MOST_EXTRA = 12  # parities: each more halves the cells that a draw may come from
# To a solver, opening a cell of copies costs about as much as this many solutions: CryptoMiniSat on the 9x9 memory map
# takes 4.5 ms and then 0.9 ms per solution with 5 thresholds, 30 and 6 ms with 139.
OPENING = 5.0
THRESHOLD = 0.25  # of what a hash bit costs a solver, for one more comparison of weights


@dataclass(frozen=True)
class PawsPlan:
    """Settings of PAWS and what they guarantee; `solve` chooses those that are left out."""

    bits_per_level: int  # b
    pivot: int  # P
    extra: int  # alpha
    log_span: float  # log w_max - log w_min: the levels are the fewest that reach below w_min
    failure: float
    n_hash: int  # before the embedding
    rounding: float = 0.0
    faithful: bool = False  # the published constants, looser but the paper's
    thinned: bool = False  # copies count by their exact weights
    void: bool = False  # to be run although nothing is guaranteed

    def __post_init__(self) -> None:
        require_failure(self.failure)
        if self.bits_per_level < 1 or self.pivot < 2 or self.extra < 0 or not self.log_span >= 0.0 <= self.rounding:
            needs = "bits_per_level >= 1, pivot >= 2, extra >= 0, log_span >= 0 and rounding >= 0"
            given = f"{self.bits_per_level}, {self.pivot}, {self.extra}, {self.log_span} and {self.rounding}"
            raise EngineError(f"PAWS needs {needs}, not {given}")
        if self.uniformity <= 0.0 and not self.void:
            mean = largest_mean(self.pivot, self.faithful) / 2.0**self.extra
            enough = next((a for a in range(64) if uniformity(self.pivot, a, self.faithful) > 0.0), None)
            advice = "a larger pivot has one" if enough is None else f"the fewest extra parities with one are {enough}"
            raise EngineError(
                f"PAWS with pivot {self.pivot} and {self.extra} extra parities has no guarantee: its cells may hold "
                f"{mean:.1f} points on average and are given up at {self.pivot}, so the bound is void; {advice}."
            )

    @classmethod
    def xor_cd(cls, failure: float, n_hash: int) -> "PawsPlan":
        """What we take for the parameters of XOR-CD (Ding, Ma, Xu and Xue, 2021): P = 8, alpha = 1, b = 1, l = 10.

        Weights below w_max / 2^11 count as if they were that large; delta is infinite.
        """
        return cls(1, 8, 1, 10.5 * math.log(2.0), failure, n_hash, faithful=True, void=True)

    @classmethod
    def solve(
        cls,
        delta: float,
        failure: float,
        *,
        log_span: float,
        n_hash: int,
        rounding: float = 0.0,
        bits_per_level: int | None = None,
        pivot: int | None = None,
        extra: int | None = None,
        faithful: bool = False,
        thinned: bool = False,
    ) -> "PawsPlan":
        """The cheapest settings with rho / c <= delta, among those that agree with the settings given.

        Thinned ones have rho = 1, and thresholds a factor 2 apart unless bits_per_level says otherwise.

        >>> plan = PawsPlan.solve(1.19, 0.01, log_span=3.0, n_hash=40)
        >>> plan.delta <= 1.19
        True
        """
        require_delta(delta)
        require_failure(failure)
        most = 1 if thinned else _MOST_BITS_PER_LEVEL
        all_bits = range(1, most + 1) if bits_per_level is None else (bits_per_level,)
        spans = {b: 0.0 if thinned else log_density_span(b, log_span, rounding) for b in all_bits}
        if min(spans.values()) >= math.log(delta):
            finer = range(all_bits[-1], _MOST_BITS_PER_LEVEL + 1)
            enough = next((b for b in finer if log_density_span(b, log_span, rounding) < math.log(delta)), None)
            advice = f"use at least {enough} bits per level" if enough else "round the weights less, or use cells"
            raise EngineError(
                f"PAWS with {all_bits[-1]} bit{'s' * (all_bits[-1] > 1)} per level cannot guarantee better than "
                f"delta = {math.exp(min(spans.values())):.6g}, because weights are only told apart up to that factor; "
                f"delta = {delta:g} was asked for: {advice}"
            )
        pairs, uniform, cost = _settings(pivot, extra, faithful, thinned)
        rest, found = (log_span, failure, n_hash, rounding, faithful, thinned), list[PawsPlan]()
        if pivot is not None and extra is not None:
            cls(all_bits[0], pivot, extra, *rest)  # refuses void ones
        for b in all_bits:
            fair = np.flatnonzero(uniform >= math.exp(spans[b] - math.log(delta)))
            if spans[b] < math.log(delta) and len(fair):
                p, a = pairs[fair[np.argmin(cost[fair])]].tolist()
                found.append(cls(b, p, a, *rest))
        if not found:
            asked = {"bits_per_level": bits_per_level, "pivot": pivot, "extra": extra}
            given = ", ".join(f"{name} = {value}" for name, value in asked.items() if value is not None)
            none = f"no PAWS settings with {given or 'a pivot up to 8192'} guarantee delta = {delta:g}"
            what = "a larger pivot, more extra parities or more bits per level would"
            raise EngineError(f"{none}: {what}; leave them out to have them chosen")
        return min(found, key=lambda plan: plan.cost)

    def levels(self, log_max: float) -> Levels:
        """The thresholds below exp(log_max) to embed with."""
        return Levels.covering(log_max, log_max - self.log_span, self.bits_per_level)

    @cached_property
    def n_levels(self) -> int:
        """l, the number of thresholds."""
        return self.levels(0.0).n_levels

    @cached_property
    def uniformity(self) -> float:
        """c: copies are returned with probabilities within [c, 1/c] of uniform."""
        return uniformity(self.pivot, self.extra, self.faithful, self.thinned)

    @cached_property
    def delta(self) -> float:
        """rho / c: every probability is within this factor of the true one; 1 / c where copies are thinned."""
        log_rho = 0.0 if self.thinned else log_density_span(self.bits_per_level, self.log_span, self.rounding)
        return math.inf if self.void else math.exp(log_rho) / self.uniformity

    @cached_property
    def n_repeats(self) -> int:
        """T, the (odd) number of cells per level of the search."""
        if self.faithful:
            n_values = self.n_hash + self.bits_per_level * self.n_levels + 1
            return math.ceil(24.0 * math.log(n_values / self.failure)) | 1
        return fewest_repeats(self.pivot, self.failure)

    @cached_property
    def success(self) -> float:
        """A lower bound on the probability that a cell gives a sample, once the level is found.

        k - 1 failed its test. Where mu + sqrt(3 mu) <= P (P - 1 for thinned copies), one cell is too large with
        probability at most 1/4 (Cantelli), so a level with such a mu fails as rarely as a bad level passes. But for
        that, mu_{k-1} is larger, the cells of k + alpha parities have mean mu_{k-1} / 2^(alpha + 1), and
        c mean / (P - 1) bounds the success.
        """
        largest = self.pivot - self.thinned
        smallest = ((math.sqrt(3.0 + 4.0 * largest) - math.sqrt(3.0)) / 2.0) ** 2
        return (0.01 if self.void else self.uniformity) * smallest / 2.0 ** (self.extra + 1) / (self.pivot - 1)

    @cached_property
    def cost(self) -> float:
        """The solutions to read per sample, cell overheads included, times the growth of the number of hash bits."""
        levels = self.levels(0.0)
        growth = 1.0 + (levels.n_bits + THRESHOLD * levels.n_levels) / max(self.n_hash, 1)
        return float(_cost_of_draw(self.pivot, self.extra)) * growth


def _cost_of_draw(pivot: Any, extra: Any) -> Any:
    """The solutions to read per sample, cell overheads included, for numbers or arrays."""
    mean = 0.7 * pivot / 2.0**extra  # the median test ends where mu_k is between P/2 and P
    return (pivot - 1) / mean * (mean + 1.0 + OPENING)


@lru_cache(maxsize=64)
def _settings(pivot: int | None, extra: int | None, faithful: bool, thinned: bool) -> tuple[Indices, Floats, Floats]:
    """Pairs (P, alpha) (n, 2) that agree with those given, their c (n,) and what a draw costs without weights (n,)."""
    pivots = _PIVOTS if pivot is None else (pivot,)
    extras = range(_MOST_EXTRA + 1) if extra is None else (extra,)
    pairs = np.array([(p, a) for p in pivots for a in extras], dtype=np.int64)
    uniform = np.array([uniformity(int(p), int(a), faithful, thinned) if p > 1 else 0.0 for p, a in pairs])
    return pairs, uniform, _cost_of_draw(pairs[:, 0], pairs[:, 1].astype(np.float64))


def log_density_span(bits_per_level: int, log_span: float, rounding: float) -> float:
    """log rho: how far the copies per weight of two models can differ, r e^(2 rounding), or the span of the weights."""
    ratio = log_ratio(bits_per_level)
    return log_span if log_span < ratio else ratio + 2.0 * rounding


def largest_mean(pivot: int, faithful: bool) -> float:
    """P 2^g: the mean of a cell from which on it has fewer than P points with probability at most 1/4."""
    if faithful:
        return pivot + 2.0 * math.sqrt(pivot + 1.0) + 2.0
    return ((math.sqrt(3.0) + math.sqrt(4.0 * pivot - 1.0)) / 2.0) ** 2


def uniformity(pivot: int, extra: int, faithful: bool, thinned: bool = False) -> float:
    """c, or 0 where the bound is void.

    >>> round(1 / uniformity(32, 2, faithful=True), 4), uniformity(8, 1, faithful=True)
    (1.0304, 0.0)
    """
    mean = largest_mean(pivot, faithful) / 2.0**extra
    distance = pivot - (2.0 if thinned else 1.0) - mean
    if distance <= 0.0:
        return 0.0
    return max(0.0, 1.0 - mean / distance**2) if faithful else 1.0 - cantelli(mean, distance)


@lru_cache(maxsize=256)
def fewest_repeats(pivot: int, failure: float) -> int:
    """The smallest odd T with which all bad levels together pass with probability at most `failure`.

    The j-th bad level from the best has a mean of at least 2^j P 2^g. A cell of mean mu has at most P - 1 points with
    probability at most mu / (mu + (mu - P + 1)^2), which falls with mu.
    """
    first = largest_mean(pivot, faithful=False)
    votes = [cantelli(2.0**j * first, 2.0**j * first - pivot + 1.0) for j in range(60)]
    for n in count(1, 2):
        if sum(wrong_majority(vote, n) for vote in votes) <= failure:
            return n
    raise AssertionError("unreachable: every term falls geometrically in T")


_LONGEST_STEP = 4  # further jumps could land on far too many parities, where solvers suffer


def find_level(embedding: Embedding, plan: PawsPlan, rng: np.random.Generator, *, start: int = 0) -> tuple[int, Info]:
    """A number of parities k that passed its test while k - 1 did not, from a warm `start`, and what the search cost.

    Steps grow to 4 away from the start and are then bisected (they stay at 1 when the plan is faithful): about
    |k - start| / 4 + 3 levels of at most T cells each, and at most P solutions are read from a cell (2 P if thinned).
    """
    n_hash = embedding.oracle.formula.n_hash
    passed: dict[int, bool] = {}
    info = Info()

    def passes(k: int) -> bool:
        nonlocal info
        if k not in passed:
            passed[k], spent = _test_level(embedding, plan, k, rng)
            info += spent
        return passed[k]

    # Invariant: `low` failed (or is -1), `high` passed. n_hash + 1 parities leave half a point: it has to pass.
    top = n_hash + 1
    low, high, k, step = -1, top, min(max(start, 0), n_hash), 1
    while high - low > 1:
        if passes(k):
            high = k
            k = max(0, k - step) if low == -1 else (low + high) // 2
        else:
            low = k
            k = min(high - 1, k + step) if high == top else (low + high) // 2
        step = 1 if plan.faithful else min(2 * step, _LONGEST_STEP)
    if high == top and not passes(top):
        why = "the oracle answers with models that its hash bits do not tell apart, or it ignores parities"
        raise EngineError(f"cells of {top} parities over {n_hash} bits still hold {plan.pivot} points or more: {why}")
    return high, info


def sample_paws(embedding: Embedding, plan: PawsPlan, k: int, n: int, rng: np.random.Generator) -> tuple[Bits, Info]:
    """n independent samples (n, n_hash of the space), each from fresh matrices, within plan.delta of their probability.

    The probability that the guarantee does not hold, plan.failure, is spent by the level search that gave k. A larger k
    is as good.
    """
    copies, first = copies_of(embedding, plan)
    m = k + plan.extra if k > 0 else 0  # at k = 0 all copies were counted, and there are fewer than P
    most = most_attempts(min(plan.success, 0.5))
    advice = "the number of parities does not fit this space. Search for it again with find_level."
    # A cell above the cap is given up: of P copies that count for 1, or of more that are thinned.
    rows, info = draw(copies, m, plan.pivot - 1.0, first, most, advice, n, rng)
    return embedding.project(rows), info


def copies_of(embedding: Embedding, plan: PawsPlan) -> tuple[Space, int]:
    """The copies, each counting for 1 or by its exact weight, and how many are read at first: mostly above P - 1."""
    if plan.thinned:
        return embedding.residual(), 2 * plan.pivot
    return Space(embedding.oracle), plan.pivot


def _test_level(embedding: Embedding, plan: PawsPlan, k: int, rng: np.random.Generator) -> tuple[bool, Info]:
    """Whether the median of T cells has fewer than P points; a unanimous first half decides it."""
    copies, first = copies_of(embedding, plan)

    def is_small(rng: np.random.Generator, attempt: int) -> tuple[bool, Info]:
        parities = Parities.dense(k, copies.n_hash, rng)
        rows, kept, info = possible_draws(copies.patient(attempt), parities, plan.pivot - 1.0, first)
        return len(rows) == 0 or bool(kept.any()), info

    seeds = spawn(rng, plan.n_repeats if k > 0 else 1)  # without parities all cells are the same
    majority = len(seeds) // 2 + 1
    votes = run_jobs(is_small, seeds[:majority], waiting=copies.waits)
    if len({small for small, _ in votes}) > 1:
        votes += run_jobs(is_small, seeds[majority:], waiting=copies.waits)
    small = sum(vote for vote, _ in votes) >= majority
    return small, sum((info for _, info in votes), Info())
