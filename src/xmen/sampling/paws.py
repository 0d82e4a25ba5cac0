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

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmen.errors import EngineError, InfeasibleError
from xmen.oracles.formula import Bits, Parities
from xmen.sampling.cell_sampler import Attempts, possible_draws
from xmen.sampling.embedding import Embedding
from xmen.sampling.jobs import run_jobs, spawn
from xmen.sampling.paws_plan import PawsPlan
from xmen.sampling.space import Info, Space, UniformWeight, read_cell, waits

_LONGEST_STEP = 4  # further jumps could land on far too many parities, where solvers suffer


@dataclass(frozen=True)
class FoundLevel:
    """The number of parities k that passed its test while k - 1 did not, and what the search cost."""

    k: int
    levels_tried: int
    info: Info


def find_level(
    embedding: Embedding,
    plan: PawsPlan,
    rng: np.random.Generator,
    *,
    start: int | None = None,
) -> FoundLevel:
    """The smallest k that passes next to a k - 1 that does not, from a warm `start` or from 0.

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
    low, high = -1, top
    k = min(max(0 if start is None else start, 0), top - 1)
    step = 1
    while high - low > 1:
        if passes(k):
            high = k
            k = max(0, k - step) if low == -1 else (low + high) // 2
        else:
            low = k
            k = min(high - 1, k + step) if high == top else (low + high) // 2
        step = 1 if plan.faithful else min(2 * step, _LONGEST_STEP)
    if high == top and not passes(top):
        raise EngineError(
            f"cells of {top} parities over {n_hash} bits still hold {plan.pivot} points or more: the oracle answers "
            "with models that its hash bits do not tell apart, or it ignores parities"
        )
    return FoundLevel(high, len(passed), info)


def sample_paws(
    embedding: Embedding,
    plan: PawsPlan,
    k: int,
    n: int,
    rng: np.random.Generator,
    *,
    spared: float = 0.0,
) -> tuple[Bits, Info]:
    """n independent samples (n, n_hash of the space), each from fresh matrices, within plan.delta of their probability.

    The probability that the guarantee does not hold, plan.failure, is spent by the level search that gave k. A larger k
    is as good; where it may be up to `spared` bits larger, draws are given as many more attempts.
    """
    if k == 0:  # all copies were counted, and there are fewer than P: draw from their list
        oracle, queries = embedding.oracle, embedding.oracle.n_queries
        rows = read_cell(oracle, Parities.dense(0, oracle.formula.n_hash, rng))
        if len(rows) == 0:
            raise InfeasibleError("there is nothing to sample: the formula has no model")
        log_sizes = copies_of(embedding, plan)[0].log_weights(rows)
        sizes = np.exp(log_sizes - log_sizes.max())
        drawn = rows[rng.choice(len(rows), size=n, p=sizes / sizes.sum())]
        return embedding.project(drawn), Info(1, len(rows), oracle.n_queries - queries)
    # A cell above the cap is given up: of P copies that count for 1, or of more that are thinned.
    copies, first = copies_of(embedding, plan)
    most = round(plan.max_attempts * 2.0**spared)
    advice = "the number of parities does not fit this space. Search for it again with find_level."
    attempts = Attempts(copies, k + plan.extra, plan.pivot - 1.0, first, most, plan.success, advice)
    rows, info = attempts.draw(n, rng)
    return embedding.project(rows), info


def copies_of(embedding: Embedding, plan: PawsPlan) -> tuple[Space, int]:
    """The copies, each counting for 1 or by its exact weight, and how many are read at first: mostly above P - 1."""
    if plan.thinned:
        return embedding.residual(), 2 * plan.pivot
    return Space(embedding.oracle, UniformWeight(), 0.0), plan.pivot


@dataclass(frozen=True)
class _Count:
    """Whether one cell of k parities is not above P - 1."""

    copies: Space
    first: int
    k: int
    pivot: int

    def __call__(self, rng: np.random.Generator, attempt: int) -> tuple[bool, Info]:
        copies = self.copies.patient(attempt)
        queries = copies.oracle.n_queries
        parities = Parities.dense(self.k, copies.n_hash, rng)
        rows, kept, _ = possible_draws(copies, parities, self.pivot - 1.0, self.first)
        return len(rows) == 0 or bool(kept.any()), Info(1, len(rows), copies.oracle.n_queries - queries)


def _test_level(
    embedding: Embedding,
    plan: PawsPlan,
    k: int,
    rng: np.random.Generator,
) -> tuple[bool, Info]:
    """Whether the median of T cells has fewer than P points; a unanimous first half decides it."""
    job, waiting = _Count(*copies_of(embedding, plan), k, plan.pivot), waits(embedding.oracle)
    seeds = spawn(rng, plan.n_repeats if k > 0 else 1)  # without parities all cells are the same
    majority = len(seeds) // 2 + 1
    votes = run_jobs(job, seeds[:majority], waiting=waiting)
    if len({small for small, _ in votes}) > 1:
        votes += run_jobs(job, seeds[majority:], waiting=waiting)
    small = sum(vote for vote, _ in votes) >= majority
    return small, sum((info for _, info in votes), Info())
