"""Many fits of linear weights over one product, all of them in the same passes: the bootstrap and cross-validation.

Other weights of the demonstrations ask for other mean features f_b, and another penalty is another l2_b; nothing else
changes. Fit b has the loss log Z(theta) - theta . f_b + l2_b/2 |theta|^2 over the same product. All begin at the
weights that were learned, with the curvature there, and take Newton's steps by it; a step that does not lower the loss
is halved. One pass answers for all that are on their way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.engines.choose import Chooser
from xmen.methods.coordinates import read_l2
from xmen.methods.information import SINGULAR, curvature, world_means
from xmen.methods.runs import FitSettings, Task
from xmen.notices import ConvergenceWarning, notify
from xmen.rewards import Floats

MOST_STEPS = 200
ENOUGH = 1e-4  # of the fall of the loss that a straight line promises (Armijo)


def bootstrap(task: Task, settings: FitSettings, weights: Floats, n: int, rng: np.random.Generator) -> Floats:
    """The weights (n, d) of n resamples, of as many demonstrations as there are."""
    counts = rng.multinomial(len(task.demos), task.demos.weights, size=n)
    return _Refits(task, settings, weights)(counts / len(task.demos), [settings.l2] * n)[0]


def cross_validation(
    task: Task, settings: FitSettings, weights: Floats, l2: Sequence[ArrayLike], fold: NDArray[np.int64]
) -> Floats:
    """The mean log P of each fold (penalties, folds) under the weights that the others give with each penalty."""
    parts = fold == np.arange(fold.max() + 1)[:, None]
    held_out, others = (_shares(rows * task.demos.weights) for rows in (parts, ~parts))
    refits = _Refits(task, settings, weights)
    theta, log_z = refits(np.tile(others, (len(l2), 1)), [one for one in l2 for _ in held_out])
    scores = refits.rows @ theta.T + task.demos.walks.scores(task.law().weights)[:, None] - log_z
    of_folds = np.tile(held_out, (len(l2), 1))
    found: Floats = np.sum(of_folds * scores.T, axis=1).reshape(len(l2), len(held_out))
    return found


def _shares(weights: Floats) -> Floats:
    """Rows that sum to 1."""
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


class _Refits:
    """Fits of one task to other weights of its demonstrations, under other penalties; needs the exact engine."""

    def __init__(self, task: Task, settings: FitSettings, weights: Floats) -> None:
        self.settings, self.weights, self.features = settings, weights, task.features
        self.base = Chooser(task.law(), settings.engine).exact()
        self.coordinates = settings.coordinates(task.features.d)
        self.rows = task.features.contract(task.demos.walks.visit_rows(task.discount))  # (demonstrations, d)

    def __call__(self, shares: Floats, l2: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
        """Weights (n, d) that fit each row of shares (n, demonstrations) under its penalty, and log Z there (n,)."""
        n, features, free = len(shares), self.features, self.coordinates.free
        scale, wanted = features.scale[free], shares @ self.rows[:, free]
        hessian = curvature(world_means(self.base, features), self.weights, features.scale, self.coordinates)[
            np.ix_(free, free)
        ]
        penalty = np.stack([np.broadcast_to(read_l2(one, features.d), features.d)[free] for one in l2])
        inverses = {row.tobytes(): _inverse(hessian + np.diag(row)) for row in penalty}
        inverse = np.stack([inverses[row.tobytes()] for row in penalty])

        def at(points: Floats, which: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
            """The loss (m,) of some of the fits at points (m, k), its gradient (m, k), and log Z (m,)."""
            under = self.base.under_each([features.table(self.coordinates.full(point)) for point in points])
            found = [(p.log_partition(), features.contract(p.visits())[free]) for p in under]  # a batch at a time
            log_z, means = np.array([first for first, _ in found]), np.stack([second for _, second in found])
            away, pull = means - wanted[which], penalty[which] * points
            return log_z - np.sum(points * (wanted[which] - pull / 2), axis=1), away + pull, log_z

        now = np.tile(self.weights[free], (n, 1))
        loss, gradient, log_z = at(now, np.arange(n))
        step = np.ones(n)
        for _ in range(MOST_STEPS):
            left = np.flatnonzero(np.abs(gradient / scale).max(axis=1) > self.settings.tolerance())
            if not len(left):
                break
            move = -step[left, None] * np.einsum("mk,mkj->mj", gradient[left], inverse[left])
            tried = now[left] + move
            new, slope, new_log_z = at(tried, left)
            # Near the optimum the loss is the same to the last digit, and its gradient still tells.
            lower = new <= loss[left] + ENOUGH * np.sum(move * gradient[left], axis=1)
            flatter = np.linalg.norm(slope / scale, axis=1) < np.linalg.norm(gradient[left] / scale, axis=1)
            good = lower | flatter
            which = left[good]
            now[which], loss[which], gradient[which] = tried[good], new[good], slope[good]
            log_z[which] = new_log_z[good]
            step[left] = np.where(good, np.minimum(1.0, 2.0 * step[left]), step[left] / 2.0)
        else:
            notify(
                f"{len(left)} of {n} fits did not come to an optimum in {MOST_STEPS} steps: their demonstrations may "
                "have the least or the most of a feature that there is. Set l2 > 0 for finite weights.",
                ConvergenceWarning,
            )
        return np.stack([self.coordinates.full(moved) for moved in now]), log_z


def _inverse(matrix: Floats) -> Floats:
    """The inverse, whatever the units of features; 0 along what the demonstrations do not determine."""
    unit = np.sqrt(np.diag(matrix))
    unit = np.where(unit > 0, unit, 1.0)
    units = np.outer(unit, unit)
    found: Floats = np.linalg.pinv(matrix / units, rcond=SINGULAR, hermitian=True) / units
    return found
