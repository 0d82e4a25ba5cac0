"""The bootstrap of linear weights: fits to many resamples of the demonstrations, all of them in the same passes.

A resample asks for other mean features f_b, and changes nothing else: its loss is log Z(theta) - theta . f_b +
l2/2 |theta|^2 over the same product. All begin at the weights that were learned, with the curvature there, and take
Newton's steps by it; a step that does not lower the loss is halved. One pass answers for all that are on their way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmen.engines.choose import Chooser
from xmen.methods.information import SINGULAR, curvature, world_means
from xmen.methods.runs import FitSettings, Task
from xmen.notices import ConvergenceWarning, notify
from xmen.rewards import Floats

MOST_STEPS = 200
ENOUGH = 1e-4  # of the fall of the loss that a straight line promises (Armijo)


def bootstrap(task: Task, settings: FitSettings, weights: Floats, n: int, rng: np.random.Generator) -> Floats:
    """The weights (n, d) of n resamples, of as many demonstrations as there are; needs the exact engine."""
    base, features = Chooser(task.law(), settings.engine).exact(), task.features
    coordinates = settings.coordinates(features.d)
    free, l2, scale = coordinates.free, coordinates.l2[coordinates.free], features.scale[coordinates.free]
    hessian = curvature(world_means(base, features), weights, features.scale, coordinates)[np.ix_(free, free)]
    inverse = _inverse(hessian + np.diag(l2))
    rows = features.contract(task.demos.walks.visit_rows(task.discount))[:, free]
    wanted: Floats = rng.multinomial(len(task.demos), task.demos.weights, size=n) @ rows / len(task.demos)

    def at(points: Floats, which: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The loss (m,) of some of the resamples at points (m, k), and its gradient (m, k)."""
        tables = [features.table(coordinates.full(point)) for point in points]
        found = [(d.log_partition(), features.contract(d.visits())[free]) for d in base.under_each(tables)]
        loss = np.array([log_z for log_z, _ in found]) - np.sum(points * wanted[which] - l2 * points**2 / 2, axis=1)
        return loss, np.stack([expected for _, expected in found]) - wanted[which] + l2 * points

    now = np.tile(weights[free], (n, 1))
    loss, gradient = at(now, np.arange(n))
    step = np.ones(n)
    for _ in range(MOST_STEPS):
        left = np.flatnonzero(np.abs(gradient / scale).max(axis=1) > settings.tolerance())
        if not len(left):
            break
        move = -step[left, None] * (gradient[left] @ inverse)
        tried, (new, slope) = now[left] + move, at(now[left] + move, left)
        # Near the optimum the loss is the same to the last digit, and its gradient still tells.
        lower = new <= loss[left] + ENOUGH * np.sum(move * gradient[left], axis=1)
        flatter = np.linalg.norm(slope / scale, axis=1) < np.linalg.norm(gradient[left] / scale, axis=1)
        good = lower | flatter
        now[left[good]], loss[left[good]], gradient[left[good]] = tried[good], new[good], slope[good]
        step[left] = np.where(good, np.minimum(1.0, 2.0 * step[left]), step[left] / 2.0)
    else:
        notify(
            f"{len(left)} of {n} resamples did not come to an optimum in {MOST_STEPS} steps: their demonstrations may "
            "have the least or the most of a feature that there is. Set l2 > 0 for finite weights.",
            ConvergenceWarning,
        )
    return np.stack([coordinates.full(moved) for moved in now])


def _inverse(matrix: Floats) -> Floats:
    """The inverse, whatever the units of features; 0 along what the demonstrations do not determine."""
    unit = np.sqrt(np.diag(matrix))
    unit = np.where(unit > 0, unit, 1.0)
    units = np.outer(unit, unit)
    found: Floats = np.linalg.pinv(matrix / units, rcond=SINGULAR, hermitian=True) / units
    return found
