"""The curvature of a loss over draws, and the noise of its gradient.

With p the probabilities of the valid draws of a batch and mu their mean of f, the Hessian of log Z-hat is
sum p (f - mu)(f - mu)^T; of a relaxed batch it stands for what would be left of three such sums. One draw more or less
moves the gradient by x = p (f - mu) - b q (f - nu), where q and nu are p and mu of all draws of a relaxed batch. The
noise is the sum of x x^T: in parts with thousands of batches by sparse products, without a loop.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from xmen.methods.drawn_loss import DrawnLoss
from xmen.methods.draws import Draws
from xmen.rewards import Floats
from xmen.rewards.features import Features

CHUNK = 4_000_000  # numbers in a dense block of features
MOST_FEATURES = 1500  # whose covariances are kept; beyond, each stands alone
MANY, FEW = 64, 64  # batches and features from which these stay sparse where they are


class Spread:
    """Curvature and noise of a loss at some weights, each found when it is asked for.

    O(n d^2) each, or with sparse features n times the square of those of a draw. Of more than `MOST_FEATURES` features
    both are diagonals alone, (d,).
    """

    def __init__(self, loss: DrawnLoss, weights: Floats) -> None:
        self._loss, self._look = loss, loss.look(weights)
        self._share = loss.shares[loss.draws.batch]
        self._table = _Table(loss.draws, loss.features, self._look.valid * self._share)
        self._mean = self._table.sums(self._look.valid)
        self._chance = self._share**2 * loss.draws.noise[loss.draws.batch] * loss.by_chance**2
        self._change = self._look.valid - self._look.every

    @cached_property
    def hessian(self) -> Floats:
        """The curvature of the loss (d, d)."""
        loss = self._loss
        found = self._table.squares(self._share * self._look.valid) - gram(self._mean, self._mean, loss.shares)
        found[(np.arange(loss.features.d),) * found.ndim] += loss.l2
        return found

    @cached_property
    def noise(self) -> Floats:
        """The covariance of the gradient (d, d)."""
        draws, table, mean, every = self._loss.draws, self._table, self._mean, self._look.every
        # x = change (f - mu) + b q (nu - mu), and its square term by term; terms of two are half of one and its mirror.
        moved = self._chance * self._change**2
        half = gram(table.sums(moved) - _scaled(mean, 0.5 * table.total(moved)), mean)
        found = table.squares(moved) - half - half.T
        if not draws.relaxed.any():
            return found
        both, alone = self._chance * self._change * every, self._chance * every**2
        inverse = np.divide(1.0, draws.relaxed, out=np.zeros(draws.n_batches), where=draws.relaxed > 0.0)
        apart = table.sums(every * inverse[draws.batch]) - _scaled(mean, np.where(draws.relaxed > 0.0, 1.0, 0.0))
        half = gram(
            table.sums(both) - _scaled(mean, table.total(both)) + _scaled(apart, 0.5 * table.total(alone)), apart
        )
        return found + half + half.T

    @property
    def unseen(self) -> float:
        """How many nats breaks of rules are worth that no draw has shown, on average.

        Where few draws break a rule they look less noisy than they are, and exact where none does. But if none of n
        does, the share that would is about 1 / n, and up to 3 / n 19 times in 20; and a share p that is not left out
        costs -log(1 - p) nats at most. With k breaks at hand most others are like these: 1 / (1 + k) of that is left.
        """
        n_broken = np.count_nonzero(~self._loss.draws.valid)
        return float(np.max(self._share * self._look.every)) / (1 + n_broken)

    @property
    def error(self) -> Floats:
        """The noise, and what was not seen as if it could lie in any direction, so that it is worth as many nats."""
        return self.noise + 2.0 * self.unseen / self._loss.features.d * self.hessian if self.unseen else self.noise

    @cached_property
    def log_partition_std(self) -> float:
        """The standard error of log Z-hat."""
        draws = self._loss.draws
        # Of x the mean is 0; of a change of log Z-hat it is 1 - b over the number of draws, where all are there.
        mean = np.where(draws.relaxed > 0.0, (1.0 - draws.relaxed) / self._table.total(np.ones(len(draws))), 0.0)
        variance = np.sum(self._chance * (self._change**2 - mean[draws.batch] ** 2))
        return float(np.sqrt(max(variance, 0.0) + self.unseen**2))


def best_relaxed(draws: Draws, features: Features, parts: Floats) -> float:
    """The b of least noise, Var_valid / Var_all, for draws with one batch per part where they were drawn.

    One number for all parts, in which each has its share of the noise, and each feature counts by its own curvature.
    """
    table = _Table(draws, features, np.ones(len(draws)))
    n, n_valid = table.total(np.ones(len(draws))), table.total(draws.valid.astype(np.float64))
    curvature = _variances(table, draws.valid / n_valid[draws.batch], parts)
    valid = _variances(table, draws.valid / n_valid[draws.batch], parts**2 / n)
    every = _variances(table, 1.0 / n[draws.batch], parts**2 / n)
    some = curvature > 0.0
    total = float(np.sum(every[some] / curvature[some]))
    return min(float(np.sum(valid[some] / curvature[some])) / total, 1.0) if total > 0.0 else 1.0


def _variances(table: _Table, p: Floats, weights: Floats) -> Floats:
    """The variance of each feature (d,) in each batch, summed with weights (B,)."""
    mean = table.sums(p)
    return table.squares(p * weights[table.draws.batch], alone=True) - gram(mean, mean, weights, alone=True)


class _Table:
    """f of every draw: sparse where that pays, else dense in blocks and less a common mean, against rounding."""

    def __init__(self, draws: Draws, features: Features, weights: Floats) -> None:
        self.draws, self.features, self._bounds = draws, features, np.append(draws.begins, len(draws))
        many = draws.n_batches > MANY and features.d > FEW
        self.sparse = issparse(features.matrix) and (many or features.d > MOST_FEATURES)
        if self.sparse:
            self._rows = csr_matrix(draws.visits @ features.matrix)
        else:
            self._centre = features.contract(np.asarray(weights @ draws.visits)) / max(float(weights.sum()), 1e-300)

    def total(self, weights: Floats) -> Floats:
        """The sum of these weights (n,) over each batch (B,)."""
        found: Floats = np.add.reduceat(weights, self.draws.begins)
        return found

    def sums(self, weights: Floats) -> Any:
        """The sum of f with these weights (n,) over each batch (B, d)."""
        shape = (self.draws.n_batches, len(self.draws))
        chosen = csr_matrix((weights, np.arange(len(weights)), self._bounds), shape=shape)
        if self.sparse:  # sums of many draws are not sparse any more
            found = chosen @ self._rows
            return found if self.features.d > MOST_FEATURES else found.toarray()
        return self.features.contract(csr_matrix(chosen @ self.draws.visits)) - np.outer(
            self.total(weights), self._centre
        )

    def squares(self, weights: Floats, alone: bool = False) -> Floats:
        """The sum of f f^T with these weights (n,) over all draws; `alone`: only of each feature by itself."""
        if self.sparse and alone:
            each: Floats = self._rows.power(2).T @ weights
            return each
        if self.sparse:
            return gram(self._rows, self._rows, weights)
        total, step = np.zeros(1), max(1, CHUNK // self.features.d)
        for first in range(0, len(self.draws), step):
            rows = slice(first, first + step)
            away = self.features.contract(self.draws.visits[rows]) - self._centre
            total = total + gram(away, away, weights[rows], alone)
        return total


def _scaled(rows: Any, weights: Floats) -> Any:
    if not issparse(rows):
        return rows * weights[:, None]
    data = rows.data * np.repeat(weights, np.diff(rows.indptr))
    return csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)


def gram(left: Any, right: Any, weights: Floats | None = None, alone: bool = False) -> Floats:
    """left^T diag(weights) right, (d, d); `alone`, or of many features, its diagonal (d,)."""
    if weights is not None:
        left = _scaled(left, weights)
    if alone or left.shape[1] > MOST_FEATURES:
        found = left.multiply(right) if issparse(left) else left * right
        diagonal: Floats = np.asarray(found.sum(axis=0)).ravel()
        return diagonal
    whole: Floats = (left.T @ right).toarray() if issparse(left) else left.T @ right
    return whole
