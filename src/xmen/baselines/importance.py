"""The dual of relative entropy on drawn trajectories: self-normalised importance weights, and its optimum."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from xmen.progress.monitor import Monitor
from xmen.rewards import Floats

LARGEST = 100.0  # weights, in standard deviations of their feature, stay below this: beyond, one rollout has it all
MEMORY = 20  # past gradients that L-BFGS keeps
ALONE: Floats = np.ones(1)  # the share of rollouts that are one group


def hoeffding(span: Floats, confidence: float, n: float) -> Floats:
    """epsilon_i = span_i sqrt(-log(1 - confidence) / (2 n)): by how much a mean of n may be off."""
    return span * math.sqrt(-math.log1p(-confidence) / (2.0 * n))


class _Look(NamedTuple):
    """The smooth part of the loss at a point: its value and gradient, and the effective sample size there."""

    scaled: Floats
    value: float
    gradient: Floats
    effective: float


class SampledDual:
    """Maximise theta . mean - log sum_k w_k exp(theta . f_k) - sum_i epsilon_i |theta_i| over theta.

    `rows` are the features f_k of the rollouts, shape (n, d); `log_weight` their log w_k, shape (n,). The absolute
    value is split as theta = up - down with both non-negative, which leaves a smooth convex problem with bounds;
    features are scaled to unit variance. Features that are the same in every rollout keep the weight 0.

    Rollouts may come in groups (n,), numbered from 0, with shares (G,): the logarithm is then a mean of one per group.
    """

    def __init__(
        self,
        rows: Floats,
        log_weight: Floats,
        mean: Floats,
        epsilon: Floats,
        group: NDArray[np.int64] | None = None,
        shares: Floats = ALONE,
    ) -> None:
        self._group, self._shares = np.zeros(len(rows), dtype=np.int64) if group is None else group, shares
        self._centre = rows.mean(axis=0)
        scale = rows.std(axis=0)
        self._known = scale > 1e-12 * np.maximum(1.0, np.abs(rows).max(axis=0))
        self._scale = np.where(self._known, scale, 1.0)
        self._rows = np.where(self._known, (rows - self._centre) / self._scale, 0.0)
        self._log_weight, self._mean, self._epsilon = log_weight, (mean - self._centre) / self._scale, epsilon
        self._threshold = epsilon / self._scale
        self._scaled = np.zeros(rows.shape[1])
        self._last = _Look(np.empty(0), np.nan, np.empty(0), np.nan)  # asked for again by the optimiser's callback

    @property
    def weights(self) -> Floats:
        """theta, shape (d,)."""
        return self._scaled / self._scale

    def solve(self, max_iter: int, tolerance: float, monitor: Monitor) -> None:
        """Move to the optimum, or as near as max_iter iterations come."""

        d = len(self._scaled)

        def loss(split: Floats) -> tuple[float, Floats]:
            look = self._look(split[:d] - split[d:])
            penalty = float(self._threshold @ (split[:d] + split[d:]))
            up, down = self._threshold + look.gradient, self._threshold - look.gradient
            return look.value + penalty, np.concatenate([up, down])

        def note(intermediate_result: Any) -> None:
            self._scaled = intermediate_result.x[:d] - intermediate_result.x[d:]
            effective = self.effective_sample_size()
            if monitor.record(
                intermediate_result.fun,
                self._residual_norm(),
                effective_sample_size=effective,
                answer=lambda: self.weights,
            ):
                raise StopIteration

        bounds = [(0.0, LARGEST if known else 0.0) for known in self._known] * 2
        options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "maxcor": MEMORY, "ftol": 0.0}
        options["gtol"] = tolerance / max(1.0, float(self._scale.max()))
        result = minimize(
            loss, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=bounds, callback=note, options=options
        )
        if not monitor.stopped:
            self._scaled = result.x[:d] - result.x[d:]
        if not monitor.history:
            value, _ = loss(np.zeros(2 * d))
            monitor.record(value, self._residual_norm(), effective_sample_size=self.effective_sample_size())

    def _probabilities(self, scaled: Floats) -> tuple[float, Floats]:
        """log sum_k w_k exp(theta . f_k) up to a constant, and the normalised weights of the rollouts."""
        log_p = self._rows @ scaled + self._log_weight
        largest = np.full(len(self._shares), -np.inf)
        np.maximum.at(largest, self._group, log_p)
        p = np.exp(log_p - largest[self._group])
        total = np.bincount(self._group, weights=p, minlength=len(self._shares))
        log_z = float(self._shares @ (largest + np.log(total))) - math.log(len(p))
        return log_z, p * (self._shares / total)[self._group]

    def _look(self, scaled: Floats) -> _Look:
        if not np.array_equal(self._last.scaled, scaled):
            log_z, p = self._probabilities(scaled)
            effective = float(1.0 / np.sum(p**2))
            gradient = p @ self._rows - self._mean
            self._last = _Look(scaled.copy(), log_z - float(self._mean @ scaled), gradient, effective)
        return self._last

    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2: how many independent draws of P the rollouts are worth."""
        return self._look(self._scaled).effective

    def _subgradient(self) -> Floats:
        """The smallest subgradient of the loss in the features' own units; 0 at the optimum."""
        gradient = self._look(self._scaled).gradient * self._scale
        shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - self._epsilon, 0.0)
        moved = np.where(self._scaled != 0.0, gradient + np.sign(self._scaled) * self._epsilon, shrunk)
        return np.where(self._known, moved, 0.0)

    def residual(self) -> float:
        """By how much the conditions of the optimum are missed, in the worst feature."""
        return float(np.abs(self._subgradient()).max(initial=0.0))

    def _residual_norm(self) -> float:
        return float(np.linalg.norm(self._subgradient()))

    def uncovered(self) -> NDArray[np.int64]:
        """Features in which no mixture of the rollouts comes within epsilon of the demonstrations."""
        constant = ~self._known & (np.abs(self._mean) > self._threshold + 1e-9)
        return np.flatnonzero(constant | (np.abs(self._scaled) >= 0.99 * LARGEST))
