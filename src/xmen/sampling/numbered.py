"""Numbered copies: a few extra bits hold a number, and a model of larger weight may have more numbers.

The levels of PAWS (`embedding`) spell a number of copies in unary, b bits per threshold: hundreds of hash bits where
weights span several nats, and as many parities. What its proof needs is only *how many* copies there are. So here x
gets one number y of B bits, and its copies are those with y < v_j, where j is the depth of x among thresholds a factor
e^s apart and

    v_j = 2^B e^(-s j), rounded to a whole number.

Weight per copy is constant up to e^s and the rounding, at most a factor (2 v_l + 1) / (2 v_l - 1) in all for the least
v_l. `NumberedLevels.covering` shares a given factor r between the two: B is log2(w_max / w_min) and about 8 bits more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xmen.errors import EngineError
from xmen.oracles.formula import Bits, Formula
from xmen.sampling.embedding import Integers, depth_among
from xmen.sampling.space import Floats

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
