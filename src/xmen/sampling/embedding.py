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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.oracles.formula import Bits, Formula, Oracle
from xmen.sampling.space import Floats, Space

Integers: TypeAlias = NDArray[np.int64]
Depth: TypeAlias = Callable[[Bits], Integers]

_TIE = 1e-10  # relative; far above rounding errors, far below anything a guarantee could notice


@dataclass(frozen=True)
class Levels:
    """The thresholds of an embedding: n_levels of them, each with b = bits_per_level extra bits."""

    log_max: float
    bits_per_level: int
    n_levels: int

    @classmethod
    def covering(cls, log_max: float, log_min: float, bits_per_level: int = 1) -> "Levels":
        """The fewest levels such that no weight in [exp(log_min), exp(log_max)] lies below the last bucket."""
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
        # Ascending thresholds; those at or above w are the ones not strictly below it.
        limits = self.thresholds[::-1] + _TIE * (1.0 + abs(self.log_max))
        return (self.n_levels - np.searchsorted(limits, log_weights)).astype(np.int64)

    def buckets(self, log_weights: Floats) -> Integers:
        """The last level forced for each weight, -1 for none: what a listed oracle takes, levels counted from 0."""
        return self.depth(log_weights) - 1

    def log_copies(self, depth: Integers) -> Floats:
        """log of the number of copies at each depth: b l log 2 - j log r."""
        return self.n_bits * math.log(2.0) - depth.astype(np.float64) * self.log_ratio


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
    hashed = (*formula.hash_variables, *fresh.ravel().tolist())
    return Formula(formula.n_variables + n_levels * b, np.concatenate([formula.clauses, clauses.ravel()]), hashed)


@dataclass(frozen=True)
class Embedding:
    """A space and an oracle for its copies: rows of the space's hash bits followed by b l extra bits.

    `oracle` answers for `embed(formula, below_literals, b)`, or lists the copies. `depth` says how many of the oracle's
    below-literals hold for a row of the space, *exactly as the oracle has it*; None: as its exact weight says. Where
    the literals test a weight rounded to integers, `depth` uses the rounded weight too, and `rounding` bounds its error
    |log w - log rounded w| in nats.
    """

    space: Space
    oracle: Oracle
    levels: Levels
    depth: Depth | None = None
    rounding: float = 0.0

    def project(self, rows: Bits) -> Bits:
        """The models (k, n_hash) of copies (k, n_hash + n_bits)."""
        return rows[:, : self.space.n_hash]

    def residual(self) -> Space:
        """The copies as a space of their own, with weights that add up to those of the models.

        w(x) <= M_j e^rounding and copies = 2^(b l) r^-j, so a residual weight is at most w_max e^rounding / 2^(b l).
        """
        log_max = self.levels.log_max + self.rounding - self.levels.n_bits * math.log(2.0)
        return Space(self.oracle, self.log_residual, log_max)

    def log_residual(self, rows: Bits) -> Floats:
        """log w(x) - log copies(x) of copies (k,), from rows (k, n_hash + b l)."""
        models = self.project(rows)
        log_weights = np.asarray(self.space.log_weight(models), dtype=np.float64)
        depth = self.levels.depth(log_weights) if self.depth is None else self.depth(models)
        return log_weights - self.levels.log_copies(depth)
