"""What a sampler works on: an oracle, a weight and its upper bound; and how the cells of a hash are read.

A cell is C = {x : A x = b over GF(2)} for a dense random matrix A (m, n_hash) and right-hand side b. Its members are
*three-wise independent*: for distinct x, y, z the vectors x + y and x + z are linearly independent over GF(2), so
P[x in C] = 2^-m and, given x in C, the other members are pairwise independent with probability 2^-m each. All bounds
in this package rest on that and on nothing else.

Cells are put into one canonical order before anything random happens to them. So the same seed gives the same sample
from every oracle that answers correctly, in whatever order its solver finds the solutions.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from xmen.errors import EngineError
from xmen.oracles.formula import Bits, Oracle, Parities
from xmen.oracles.killable import KillableOracle

Floats: TypeAlias = NDArray[np.float64]
LogWeight: TypeAlias = Callable[[Bits], Floats]

# Rounding errors of a sum of logs; a weight above its bound by more than this is an error of the caller.
LOG_TOLERANCE = 1e-9


def uniform(rows: Bits) -> Floats:
    """The log of the weight 1 of every row."""
    return np.zeros(len(rows))


@dataclass(frozen=True)
class Space:
    """Weighted models of a formula, of weight 1 if not said otherwise: what every sampler takes.

    log_weight maps rows of hash bits (k, n_hash) to (k,) finite log weights; it has to be picklable to travel to other
    processes. log_max is an upper bound on the log weight: the closer it is, the cheaper the samplers.
    """

    oracle: Oracle
    log_weight: LogWeight = uniform
    log_max: float = 0.0

    @property
    def n_hash(self) -> int:
        """The number of bits that determine a model."""
        return self.oracle.formula.n_hash

    def log_weights(self, rows: Bits) -> Floats:
        """The log weights (k,) of rows (k, n_hash); a weight above the stated bound would void every guarantee."""
        if len(rows) == 0:
            return np.empty(0)
        values = np.asarray(self.log_weight(rows), dtype=np.float64)
        highest = float(values.max())
        if not highest <= self.log_max + LOG_TOLERANCE * (1.0 + abs(self.log_max)):
            raise EngineError(
                f"a log weight of {highest!r} is above the upper bound log_max = {self.log_max!r}: the sampler's "
                "guarantee would not hold. Give a log_max that no weight exceeds (that of the mode)."
            )
        return values

    @property
    def waits(self) -> bool:
        """Whether this process only waits while the oracle thinks, in a process of its own."""
        return isinstance(self.oracle, KillableOracle)

    def patient(self, attempt: int) -> Space:
        """The space behind a copy of its oracle, with its own count of queries and its time limit doubled so often."""
        oracle = copy.copy(self.oracle)
        if oracle.time_limit is not None:
            oracle.time_limit *= 2.0**attempt
        return replace(self, oracle=oracle)


@dataclass(frozen=True)
class Info:
    """What a computation cost; records add up."""

    n_cells: int = 0  # cells opened, each with a fresh matrix
    n_points: int = 0  # solutions read from them
    n_queries: int = 0  # solver calls, as counted by the oracle
    n_failures: int = 0  # cells that gave no sample

    def __add__(self, other: Info) -> Info:
        return Info(*map(operator.add, astuple(self), astuple(other)))


def canonical(rows: Bits) -> Bits:
    """The rows (k, n) sorted as binary numbers, first column highest. O(k log k) on 64-bit words."""
    if len(rows) < 2:
        return rows
    packed = np.packbits(rows, axis=1)
    words = np.zeros((len(rows), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    order: NDArray[np.intp] = np.lexsort(words.view(">u8").T[::-1])
    return rows[order]


def read_cell(oracle: Oracle, parities: Parities, limit: int | None = None) -> Bits:
    """The solutions in a cell (k, n_hash) in canonical order; with a limit, up to that many of them."""
    return canonical(_reader(oracle, parities)(limit))


def growing_reads(oracle: Oracle, parities: Parities, first: int) -> Iterator[tuple[Bits, bool]]:
    """A cell in reads that double in size: all rows so far, and whether they are the complete cell."""
    read, limit, complete = _reader(oracle, parities), first, False
    while not complete:
        rows = read(limit)
        complete = len(rows) < limit
        yield canonical(rows), complete
        limit *= 2


def _reader(oracle: Oracle, parities: Parities) -> Callable[[int | None], Bits]:
    """Gives the first so many solutions in a cell; by whole cells where the oracle has them, else one by one."""
    batch = getattr(oracle, "cell", None)
    if batch is not None:
        return lambda limit: batch(parities, limit)
    solutions, found = oracle.solutions(parities), list[Bits]()

    def read(limit: int | None) -> Bits:
        found.extend(islice(solutions, None if limit is None else limit - len(found)))
        return np.array(found, dtype=np.bool_).reshape(len(found), oracle.formula.n_hash)

    return read


# ---- The few inequalities that all guarantees rest on, with their proofs.
#
# **Cantelli.** A variable with mean mu and variance at most V lies t or more below (above) its mean with probability
# at most V / (V + t^2), for t > 0.
#
# **Cells.** For weights 0 < w <= w_max with sum Z, a cell of m parities has W = sum_C w with mean mu = Z / 2^m and
# variance 2^-m (1 - 2^-m) sum w^2 <= mu w_max (members are pairwise independent). Given x in C, the rest of the cell
# has mean (Z - w_x) / 2^m <= mu and variance at most (1 - 2^-m) mu w_max (three-wise independence; see `space`).
#
# **Majority.** If each of T independent votes is wrong with probability at most p, a majority is wrong with
# probability at most P[Bin(T, p) >= (T + 1) / 2], T odd. This is computed, not bounded.


def cantelli(variance: float, distance: float) -> float:
    """V / (V + t^2): the probability to be t or more on one side of the mean; 1 when t <= 0 says nothing."""
    return variance / (variance + distance**2) if distance > 0.0 else 1.0


def wrong_majority(vote: float, n_votes: int) -> float:
    """P[Bin(n_votes, vote) >= (n_votes + 1) / 2] for odd n_votes."""
    return float(bdtrc((n_votes - 1) // 2, n_votes, vote))


def require_failure(failure: float) -> None:
    """Refuses a failure probability outside (0, 1)."""
    if not 0.0 < failure < 1.0:
        raise EngineError(f"failure is a probability strictly between 0 and 1, not {failure!r}: try failure=0.001")


def require_delta(delta: float) -> None:
    """Refuses a factor that no sampler of this kind can promise."""
    if not delta > 1.0 or math.isinf(delta):
        why = "samples from hash cells are within a factor delta > 1 of the true probabilities"
        advice = "Try delta=1.1, or an exact engine, whose delta is 1."
        raise EngineError(f"delta = {delta!r} cannot be promised: {why}. {advice}")
