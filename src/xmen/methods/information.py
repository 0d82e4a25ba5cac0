"""How well demonstrations determine linear weights: the curvature of the likelihood, and each demonstration's score.

With s_i = f(tau_i) - E[f | task of i] and the mean loss L, the Hessian of L is H = mean of Var[f | task of i]. It is
found here by central differences of the exact gradient, 2 d of them. The estimates of n demonstrations then have

    covariance from the Hessian      H_p^-1 H H_p^-1 / n          H_p = H + diag(l2)
    robust covariance                H_p^-1 (sum_g w_g w_g^T) H_p^-1,    w_g = sum over a group of weight_i s_i

where every demonstration is a group of its own, unless groups are given (errors clustered by traveller).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from xmen.engines.choose import Chooser
from xmen.engines.trips import TripEngine
from xmen.errors import DivergenceError, TrajectoryError
from xmen.methods.runs import FitSettings, Task
from xmen.rewards import Floats
from xmen.worlds.network import AnyTask, Network

STEP = 1e-4  # of a weight, in units of its feature's size: errors of 1e-8 from the third derivative and from rounding
SINGULAR = 1e-10  # curvature below this share of the largest is none


@dataclass(frozen=True)
class Information:
    """Curvature and scores at the learned weights, along the k weights that were learned."""

    free: np.ndarray  # (k,) their numbers
    hessian: Floats  # (k, k), without the penalty
    penalty: Floats  # (k,)
    scores: Floats  # (n, k)
    weights: Floats  # (n,) of the demonstrations, summing to 1

    @property
    def n(self) -> float:
        """The number of demonstrations; of weighted ones, the number of equal ones that would tell as much."""
        return float(1.0 / np.sum(self.weights**2))

    def covariance(self) -> Floats:
        """From the Hessian, (k, k); inf for weights that the demonstrations do not determine."""
        return self._sandwich(self.hessian / self.n)

    def robust_covariance(self, groups: ArrayLike | None = None) -> Floats:
        """From the scores, (k, k), clustered by `groups`, one label per demonstration."""
        centred = self.weights[:, None] * (self.scores - self.weights @ self.scores)
        if groups is not None:
            labels = np.asarray(groups)
            if labels.shape != (len(centred),):
                raise TrajectoryError(
                    f"groups has shape {labels.shape}, but there are {len(centred)} demonstrations: give one each."
                )
            number = np.unique(labels, return_inverse=True)[1]
            summed = np.zeros((int(number.max()) + 1, centred.shape[1]))
            np.add.at(summed, number, centred)
            centred = summed
        return self._sandwich(centred.T @ centred)

    def _sandwich(self, middle: Floats) -> Floats:
        scale = np.sqrt(np.diag(self.hessian) + self.penalty)
        scale = np.where(scale > 0, scale, 1.0)  # so that units do not decide what is singular
        values, vectors = np.linalg.eigh((self.hessian + np.diag(self.penalty)) / np.outer(scale, scale))
        flat = values <= SINGULAR * values.max(initial=0.0)
        inverse = (vectors[:, ~flat] / values[~flat]) @ vectors[:, ~flat].T / np.outer(scale, scale)
        out: Floats = inverse @ middle @ inverse
        lost = np.abs(vectors[:, flat]).max(axis=1, initial=0.0) > np.sqrt(SINGULAR)
        out[lost, lost] = np.inf
        return out


def information(task: Task, settings: FitSettings, weights: Floats) -> Information:
    """The information about linear weights (d,) in a task's demonstrations; needs the exact engine."""
    with threadpool_limits(1, user_api="blas"):
        world, coordinates = task.demos.walks.world, settings.coordinates(task.features.d)
        if isinstance(world, AnyTask):
            moments = _trip_moments(task, settings, world.network)
        else:
            moments = _world_moments(task, settings)
        free = coordinates.free
        rows = task.features.contract(task.demos.walks.visit_rows(task.discount))
        return Information(
            free=free,
            hessian=_hessian(moments[0], weights, task.features.scale, free),
            penalty=np.array(coordinates.l2[free]),
            scores=(rows - moments[1](weights))[:, free],
            weights=task.demos.weights,
        )


Moments = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]
"""E[f] in the mean over demonstrations (d,), and for each of them (n, d) or (d,), as functions of the weights."""


def _hessian(mean: Callable[[Floats], Floats], weights: Floats, scale: Floats, free: np.ndarray) -> Floats:
    """The derivative of E[f] along every weight that was learned."""
    out = np.empty((len(free), len(free)))
    for i, k in enumerate(free.tolist()):
        step, change = STEP / scale[k], np.zeros(len(weights))
        while True:
            change[k] = step
            try:
                out[i] = ((mean(weights + change) - mean(weights - change)) / (2.0 * step))[free]
                break
            except DivergenceError:  # the border of what adds up is nearer than a step
                step /= 4.0
    hessian: Floats = (out + out.T) / 2.0
    return hessian


def _trip_moments(task: Task, settings: FitSettings, network: Network) -> Moments:
    demos, budget = task.demos, settings.engine.node_budget
    engine = TripEngine(
        network, task.constraint, demos.walks.starts, demos.walks.last_states, demos.weights, budget, task.discount
    )
    rows = task.features.rows(network.source, network.action)
    columns = rows.T.tocsr()

    def mean(weights: Floats) -> Floats:
        found: Floats = columns @ engine.value(rows @ weights).visits
        return found

    def each(weights: Floats) -> Floats:
        return engine.each(rows @ weights, rows)[engine.pair_of]

    return mean, each


def _world_moments(task: Task, settings: FitSettings) -> Moments:
    demos, features = task.demos, task.features
    world = demos.seen_world(task.given)
    base = Chooser(world, task.constraint, None, task.discount, None, settings.engine, task.given).exact()

    def mean(weights: Floats) -> Floats:
        return features.contract(base.with_reward(features.table(weights)).visits())

    def each(weights: Floats) -> Floats:
        if task.given is None:
            return mean(weights)
        out = np.empty((len(demos), features.d))
        table = features.table(weights)
        for start in np.unique(demos.walks.starts).tolist():
            started = base.world.with_start(start)
            alone = Chooser(started, task.constraint, table, task.discount, None, settings.engine).exact()
            out[demos.walks.starts == start] = features.contract(alone.visits())
        return out

    return mean, each
