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

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from xmen.errors import EngineError
from xmen.oracles.formula import Bits, Parities
from xmen.sampling.jobs import UnfinishedError, run_jobs, spawn
from xmen.sampling.space import Floats, Info, Space, read_cell, waits

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
    m: int
    n_cells: int
    n_empty: int
    info: Info


def estimate(
    space: Space,
    m: int,
    n_cells: int,
    rng: np.random.Generator,
    function: Function | None = None,
) -> CellEstimate:
    """Estimates from n_cells fresh matrices of m parities; `function` maps rows (k, n_hash) to (k, d).

    Choose m without looking at these cells (`choose_parities` does), or the estimate is no longer unbiased. It costs
    the enumeration of n_cells Z / (w_mean 2^m) solutions on average.
    """
    return combine(read_sums(space, m, n_cells, rng, function), m)


def read_sums(
    space: Space,
    m: int,
    n_cells: int,
    rng: np.random.Generator,
    function: Function | None = None,
) -> list[CellSum]:
    """The sums of n_cells complete cells of m fresh parities each; of one when m = 0, where all are the same."""
    if m < 0 or n_cells < 2:
        raise EngineError(f"an estimate needs m >= 0 parities and at least 2 cells, not m = {m} and {n_cells} cells")
    job, seeds = _SumCell(space, m, function), spawn(rng, n_cells if m > 0 else 1)
    try:
        return run_jobs(job, seeds, waiting=waits(space.oracle))
    except UnfinishedError as error:
        message = f"{error}{_so_far(list(error.finished.values()), m)}"
        raise UnfinishedError(message, error.finished, error.n_asked) from error


def combine(sums: Sequence[CellSum], m: int) -> CellEstimate:
    """The jackknife over independent cells of m parities. O(N d), free of under- and overflow and of cancellation."""
    info = sum((one.info for one in sums), Info())
    log_totals = np.array([one.log_total for one in sums])
    highest, n, n_empty = float(log_totals.max()), len(sums), int(np.isneginf(log_totals).sum())
    if n_empty == n:
        raise EngineError(
            f"all {n} cells of m = {m} parities are empty, so there is nothing to estimate from. Use fewer parities: "
            "each one less doubles the cells (m = 0 reads the whole space)."
        )
    weights = np.exp(log_totals - highest)
    values = np.array([one.mean for one in sums]) * weights[:, np.newaxis]
    offset = highest + m * math.log(2.0)
    ratio = values.sum(axis=0) / weights.sum()
    if m == 0:
        zeros = np.zeros_like(ratio)
        return CellEstimate(offset, 0.0, 0.0, ratio, zeros, zeros, m, n, n_empty, info)
    log_mean = offset + math.log(weights.mean())
    other_weights, other_values = _sums_of_others(weights), _sums_of_others(values)
    if np.any(other_weights <= 0.0):  # a single non-empty cell: nothing to compare it with
        unknown = np.full_like(ratio, np.inf)
        return CellEstimate(log_mean, math.inf, 0.0, ratio, unknown, np.zeros_like(ratio), m, n, n_empty, info)
    log_bias, log_std = _jackknife(log_mean, offset + np.log(other_weights / (n - 1)))
    bias, std = _jackknife(ratio, other_values / other_weights[:, np.newaxis])
    return CellEstimate(
        float(log_mean - log_bias), float(log_std), float(log_bias), ratio - bias, std, bias, m, n, n_empty, info
    )


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


@dataclass(frozen=True)
class _SumCell:
    space: Space
    m: int
    function: Function | None

    def __call__(self, rng: np.random.Generator, attempt: int) -> CellSum:
        parities = Parities.dense(self.m, self.space.n_hash, rng)
        return sum_cell(self.space.patient(attempt), parities, self.function)


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


def _so_far(sums: list[CellSum], m: int) -> str:
    if len(sums) < 2 or all(one.log_total == -math.inf for one in sums):
        return ""
    learned = combine(sums, m)
    return (
        f" So far: log Z = {learned.log_partition:.4f} +- {learned.log_partition_std:.4f} from {len(sums)} cells, "
        "without the hard ones, so biased."
    )
