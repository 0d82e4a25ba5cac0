"""Weights turned into numbers of copies: each model gets extra bits, fewer settings of them the lighter it is.

With r = 2^b / (2^b - 1) and thresholds M_i = w_max r^-i, i = 1 .. l, every model x gets b extra bits per level, and
w(x) <= M_i forces the OR of the b bits of level i. Let j = #{i : w(x) <= M_i}, the *depth* of x. Its copies number

    (2^b - 1)^j (2^b)^(l - j) = 2^(b l) r^-j,

and M_{j+1} < w(x) <= M_j (for j = l the lower end needs w(x) > M_{l+1}). So w(x) over the number of copies is constant
up to a factor in (1/r, 1]. The threshold M_0 = w_max is not needed: every weight is below it. With l levels nothing is
left out as long as log w_max - log w_min < (l + 1) log r.

Two uses. PAWS samples copies uniformly and accepts the factor r as error. `Embedding.residual` gives each copy the
exact weight w(x) / copies(x) instead: the same Z, the same expectations, weights within a factor r of each other
(below the last threshold they may be smaller, and nothing is dropped), no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import EngineError
from xmen.oracles.formula import Bits, Formula, Oracle
from xmen.sampling.space import Floats, LogWeight, Space

# ---- Numbered copies: a few extra bits hold a number, and a model of larger weight may have more numbers.
#
# The levels of PAWS (`embedding`) spell a number of copies in unary, b bits per threshold: hundreds of hash bits
# where weights span several nats, and as many parities. What its proof needs is only *how many* copies there are. So
# here x gets one number y of B bits, and its copies are those with y < v_j, where j is the depth of x among
# thresholds a factor e^s apart and
#
#     v_j = 2^B e^(-s j), rounded to a whole number.
#
# Weight per copy is constant up to e^s and the rounding, at most a factor (2 v_l + 1) / (2 v_l - 1) in all for the
# least v_l. `NumberedLevels.covering` shares a given factor r between the two: B is log2(w_max / w_min) and about 8
# bits more.


ROUNDING_SHARE = 0.1  # of log r, for whole numbers of copies
_EXACT = 52  # bits of a float


@dataclass(frozen=True)
class NumberedLevels:
    """Thresholds log_max - i log_ratio for i = 1 .. n_levels, and numbers of n_bits bits."""

    log_max: float
    log_ratio: float
    n_levels: int
    n_bits: int

    @classmethod
    def covering(cls, log_max: float, log_min: float, log_ratio: float) -> NumberedLevels:
        """The fewest bits such that weight per copy is constant up to exp(log_ratio) in [log_min, log_max]."""
        if not log_min <= log_max or not log_ratio > 0.0:
            raise EngineError(
                f"numbers of copies need log_min <= log_max and log_ratio > 0, not {log_min!r}, {log_max!r} and "
                f"{log_ratio!r}"
            )
        span = log_max - log_min
        if span < log_ratio:
            return cls(log_max, log_ratio, 0, 0)
        step = (1.0 - ROUNDING_SHARE) * log_ratio
        n_levels = math.floor(span / step)
        # log((2 v + 1) / (2 v - 1)) = 2 artanh(1 / (2 v)) is the share of the rounding.
        least = 0.5 / math.tanh(0.5 * ROUNDING_SHARE * log_ratio)
        return cls(log_max, step, n_levels, math.ceil(n_levels * step / math.log(2.0) + math.log2(least)))

    @property
    def thresholds(self) -> Floats:
        """The logs of the thresholds, descending."""
        return self.log_max - self.log_ratio * np.arange(1, self.n_levels + 1, dtype=np.float64)

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """v_j for j = 0 .. n_levels."""
        logs = [self.n_bits - j * self.log_ratio / math.log(2.0) for j in range(self.n_levels + 1)]
        # Beyond what a float holds the last bits are 0, which no ratio notices.
        return tuple(round(2.0 ** min(x, x % 1 + _EXACT)) << max(0, math.floor(x) - _EXACT) for x in logs)

    @cached_property
    def last(self) -> Bits:
        """v_j - 1, the largest number of each depth, as bits (n_levels + 1, n_bits), highest first."""
        texts = [format(v - 1, f"0{self.n_bits}b")[: self.n_bits] if self.n_bits else "" for v in self.copies]
        rows = [[letter == "1" for letter in text] for text in texts]
        return np.array(rows, dtype=np.bool_).reshape(self.n_levels + 1, self.n_bits)

    @property
    def slack(self) -> float:
        """By how many nats a weight per copy may be above w_max / 2^B, for the rounding."""
        exact = self.n_bits * math.log(2.0) - self.log_ratio * np.arange(self.n_levels + 1)
        return float(np.max(exact - self.log_copies(np.arange(self.n_levels + 1))))

    def depth(self, log_weights: Floats) -> Integers:
        """How many thresholds each weight is at or below, (k,)."""
        return depth_among(self.thresholds, self.log_max, log_weights)

    def log_copies(self, depth: Integers) -> Floats:
        """log v_j at each depth."""
        logs: Floats = np.array([math.log(v) for v in self.copies])[depth]
        return logs


def embed_numbers(formula: Formula, below_literals: Sequence[int], levels: NumberedLevels) -> Formula:
    """The formula with n_bits fresh hash variables, a number below v_j where the first j literals hold.

    below_literals[i] is true exactly when w(x) <= M_{i+1}. One clause per level and 0 of v_j - 1: the bit there is
    not 1 unless a higher bit is 0 where v_j - 1 has a 1. Clauses of a lower level say less, and are only there for
    weights that are not below the next.
    """
    if len(below_literals) != levels.n_levels:
        raise EngineError(f"{levels.n_levels} levels need as many literals, not {len(below_literals)}")
    fresh = range(formula.n_variables + 1, formula.n_variables + levels.n_bits + 1)
    flat = list[int]()
    for literal, last in zip(below_literals, levels.last[1:].tolist(), strict=True):
        above = list[int]()
        for variable, one in zip(fresh, last, strict=True):
            if one:
                above.append(-variable)
            else:
                flat += [-literal, *above, -variable, 0]
    return Formula(
        formula.n_variables + levels.n_bits,
        np.concatenate([formula.clauses, np.array(flat, dtype=np.int32)]).astype(np.int32),
        (*formula.hash_variables, *fresh),
    )


# ---- Weights turned into numbers of copies: each model gets extra bits, fewer settings of them the lighter it is


Integers: TypeAlias = NDArray[np.int64]
Depth: TypeAlias = Callable[[Bits], Integers]

_TIE = 1e-10  # relative; far above rounding errors, far below anything a guarantee could notice


@dataclass(frozen=True)
class Levels:
    """The thresholds of an embedding: n_levels of them, each with b = bits_per_level extra bits."""

    log_max: float
    bits_per_level: int
    n_levels: int

    def __post_init__(self) -> None:
        if self.bits_per_level < 1 or self.n_levels < 0:
            raise EngineError(
                f"an embedding needs at least 1 bit per level and no negative number of levels, not "
                f"{self.bits_per_level} and {self.n_levels}"
            )

    @classmethod
    def covering(cls, log_max: float, log_min: float, bits_per_level: int = 1) -> Levels:
        """The fewest levels such that no weight in [exp(log_min), exp(log_max)] lies below the last bucket."""
        if not log_min <= log_max:
            raise EngineError(f"the lower bound log_min = {log_min!r} is above the upper bound log_max = {log_max!r}")
        # The smallest l with (l + 1) log r > log_max - log_min.
        return cls(log_max, bits_per_level, math.floor((log_max - log_min) / log_ratio(bits_per_level)))

    @property
    def log_ratio(self) -> float:
        """log r, the distance of thresholds in nats."""
        return log_ratio(self.bits_per_level)

    @property
    def n_bits(self) -> int:
        """The number of extra hash bits, b l."""
        return self.bits_per_level * self.n_levels

    @property
    def thresholds(self) -> Floats:
        """log M_i for i = 1 .. l, descending."""
        return self.log_max - self.log_ratio * np.arange(1, self.n_levels + 1, dtype=np.float64)

    def depth(self, log_weights: Floats) -> Integers:
        """How many thresholds each weight is at or below, (k,) in 0 .. l.

        Weights often lie exactly on thresholds, up to rounding that changes with the size of a batch; a small
        tolerance has them all below, so that an oracle's buckets and later looks at the same row agree.
        """
        return depth_among(self.thresholds, self.log_max, log_weights)

    @property
    def slack(self) -> float:
        """0: no weight per copy is above w_max / 2^(b l)."""
        return 0.0

    def buckets(self, log_weights: Floats) -> Integers:
        """The last level forced for each weight, -1 for none: what a listed oracle takes, levels counted from 0."""
        return self.depth(log_weights) - 1

    def log_copies(self, depth: Integers) -> Floats:
        """log of the number of copies at each depth: b l log 2 - j log r."""
        return self.n_bits * math.log(2.0) - depth.astype(np.float64) * self.log_ratio


def depth_among(thresholds: Floats, log_max: float, log_weights: Floats) -> Integers:
    """How many of the descending thresholds each weight is at or below, ties below."""
    # Ascending thresholds; those at or above w are the ones not strictly below it.
    limits = thresholds[::-1] + _TIE * (1.0 + abs(log_max))
    return (len(thresholds) - np.searchsorted(limits, log_weights)).astype(np.int64)


def log_ratio(bits_per_level: int) -> float:
    """log r = -log(1 - 2^-b).

    >>> round(math.exp(log_ratio(1)), 6), round(math.exp(log_ratio(4)), 6)
    (2.0, 1.066667)
    """
    return -math.log1p(-(2.0**-bits_per_level))


def embed(formula: Formula, below_literals: Sequence[int], bits_per_level: int) -> Formula:
    """The formula with b fresh hash variables per level, whose OR is forced where the level's literal holds.

    below_literals[i] is true exactly when w(x) <= M_{i+1}. The old hash variables come first and keep their order.
    """
    n_levels, b = len(below_literals), bits_per_level
    fresh = formula.n_variables + 1 + np.arange(n_levels * b, dtype=np.int32).reshape(n_levels, b)
    literals = np.asarray(below_literals, dtype=np.int32).reshape(n_levels, 1)
    clauses = np.hstack([-literals, fresh, np.zeros((n_levels, 1), dtype=np.int32)]).astype(np.int32)
    return Formula(
        formula.n_variables + n_levels * b,
        np.concatenate([formula.clauses, clauses.ravel()]).astype(np.int32),
        (*formula.hash_variables, *fresh.ravel().tolist()),
    )


AnyLevels: TypeAlias = "Levels | NumberedLevels"
"""Thresholds, and how many copies the weights between them have."""


@dataclass(frozen=True)
class WeightDepth:
    """The depth of rows by their exact weight: right for an oracle whose buckets were computed from that weight."""

    levels: AnyLevels
    log_weight: LogWeight

    def __call__(self, rows: Bits) -> Integers:
        """The depth (k,) of rows (k, n_hash)."""
        return self.levels.depth(np.asarray(self.log_weight(rows), dtype=np.float64))


@dataclass(frozen=True)
class ResidualWeight:
    """The log weight of one copy: log w(x) - log copies(x), from rows whose first n_hash bits are x."""

    log_weight: LogWeight
    depth: Depth
    levels: AnyLevels
    n_hash: int

    def __call__(self, rows: Bits) -> Floats:
        """The residual log weights (k,) of rows (k, n_hash + b l)."""
        models = rows[:, : self.n_hash]
        return np.asarray(self.log_weight(models), dtype=np.float64) - self.levels.log_copies(self.depth(models))


@dataclass(frozen=True)
class Embedding:
    """A space and an oracle for its copies: rows of the space's hash bits followed by b l extra bits.

    `oracle` answers for `embed(formula, below_literals, b)`, or lists the copies. `depth` says how many of the oracle's
    below-literals hold for a row of the space, *exactly as the oracle has it*. Where the literals test a weight rounded
    to integers, `depth` uses the rounded weight too, and `rounding` bounds its error |log w - log rounded w| in nats.
    """

    space: Space
    oracle: Oracle
    levels: AnyLevels
    depth: Depth
    rounding: float = 0.0

    def __post_init__(self) -> None:
        expected, found = self.space.n_hash + self.levels.n_bits, self.oracle.formula.n_hash
        if expected != found:
            raise EngineError(
                f"the oracle of the copies has {found} hash bits, but {self.space.n_hash} bits of the space and "
                f"{self.levels.n_bits} of {self.levels.n_levels} levels make {expected}"
            )

    def project(self, rows: Bits) -> Bits:
        """The models (k, n_hash) of copies (k, n_hash + n_bits)."""
        return rows[:, : self.space.n_hash]

    def residual(self) -> Space:
        """The copies as a space of their own, with weights that add up to those of the models.

        w(x) <= M_j e^rounding and copies = 2^(b l) r^-j, so a residual weight is at most w_max e^rounding / 2^(b l)
        (times the slack of numbers rounded to whole ones).
        """
        return Space(
            self.oracle,
            ResidualWeight(self.space.log_weight, self.depth, self.levels, self.space.n_hash),
            self.levels.log_max + self.rounding + self.levels.slack - self.levels.n_bits * math.log(2.0),
        )
