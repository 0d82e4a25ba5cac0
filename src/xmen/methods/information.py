"""How well demonstrations determine linear weights: the curvature of the likelihood, and each demonstration's score.

With s_i = f(tau_i) - E[f | task of i] and the mean loss L, the Hessian of L is H = mean of Var[f | task of i]. It is
found here by central differences of the exact gradient, 2 d of them. The estimates of n demonstrations then have

    covariance from the Hessian      H_p^-1 H H_p^-1 / n          H_p = H + diag(l2)
    robust covariance                H_p^-1 (sum_g w_g w_g^T) H_p^-1,    w_g = sum over a group of weight_i s_i

where every demonstration is a group of its own, unless groups are given (errors clustered by traveller).

Of a sighting y, s_i = E[f | y] - E[f], and Var[f | y] is what was not seen of the curvature: H is the observed one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from xmen.engines.choose import Chooser
from xmen.engines.exact import ExactDistribution
from xmen.engines.trips import RejectTrips, SeenTrips, TripEngine
from xmen.errors import DivergenceError, ProductTooLargeError, TrajectoryError
from xmen.methods.runs import Coordinates, FitSettings, Task, read_l2, warn_of_end
from xmen.rewards.linear import Features, Floats
from xmen.worlds.network import AnyTask, Network

STEP = 1e-4  # of a weight, in units of its feature's size: errors of 1e-8 from the third derivative and from rounding
SINGULAR = 1e-10  # curvature below this share of the largest is none, as is this much of a feature of size 1
MEAN_ROUNDING = 64 * float(np.finfo(np.float64).eps)  # by which means may differ that are the same


class Information(NamedTuple):
    """Curvature and scores at the learned weights, of which `coordinates` says which were learned."""

    coordinates: Coordinates
    hessian: Floats  # (d, d), without the penalty
    scores: Floats  # (n, d)
    weights: Floats  # (n,) of the demonstrations, summing to 1
    settled: Sequence[int] = ()  # weights that follow from the others: demonstrations do not tell them
    by_scores: bool = False  # the curvature is not the variance of the scores: only these tell the covariance
    complete: Floats | None = None  # (d, d), the Hessian of as many demonstrations seen in full, where some were not

    @property
    def lost(self) -> Floats | None:
        """Standard errors (d,) over those of complete demonstrations; None where all are complete."""
        if self.complete is None:
            return None
        free, out = self.coordinates.free, np.full(len(self.hessian), np.nan)
        at, penalty = np.ix_(free, free), np.diag(self.coordinates.l2[free])
        (seen, flat), (whole, _) = (_inverse(one[at] + penalty) for one in (self.hessian, self.complete))
        with np.errstate(divide="ignore", invalid="ignore"):
            out[free] = np.where(flat, np.inf, np.sqrt(np.diag(seen) / np.diag(whole)))
        return out

    def covariances(self, groups: ArrayLike | None, noise: Floats | None) -> tuple[Floats, Floats]:
        """From the Hessian, and from the scores clustered by `groups`, one label per demonstration; each (d, d).

        0 for weights that were not learned, inf for those that the demonstrations do not determine. `noise` is the
        covariance (d, d) or the variances (d,) that draws leave in the gradient. Of weighted demonstrations there are
        as many as equal ones that would tell as much.
        """
        free, d = self.coordinates.free, len(self.coordinates.values)
        at, scores = np.ix_(free, free), self.scores[:, free]
        inverse, lost = _inverse(self.hessian[at] + np.diag(self.coordinates.l2[free]))
        told = ~np.isin(free, list(self.settled))
        alone = self.weights[:, None] * (scores - self.weights @ scores) * told
        by_group = alone if groups is None else _summed(alone, np.asarray(groups))
        plain = alone.T @ alone if self.by_scores else np.outer(told, told) * self.hessian[at] * np.sum(self.weights**2)
        out = np.zeros((2, d, d))
        for whole, middle in zip(out, (plain, by_group.T @ by_group), strict=True):
            whole[at] = inverse @ middle @ inverse
            if noise is not None:  # of many features only the variances were kept
                whole[at] += inverse @ (noise[at] if noise.ndim == 2 else np.diag(noise[free])) @ inverse
            whole[free[lost], free[lost]] = np.inf
        return out[0], out[1]


def _summed(rows: Floats, labels: NDArray[Any]) -> Floats:
    """The sum of the rows (n, k) of each label."""
    if labels.shape != (len(rows),):
        raise TrajectoryError(f"groups has shape {labels.shape} for {len(rows)} demonstrations: give one each.")
    number = np.unique(labels, return_inverse=True)[1]
    summed = np.zeros((int(number.max()) + 1, rows.shape[1]))
    np.add.at(summed, number, rows)
    return summed


def _inverse(matrix: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The inverse of a curvature, whatever the units of features, 0 where it is flat; and which weights are so."""
    unit = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    unit = np.where(unit > 0, unit, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(unit, unit))
    flat = values <= SINGULAR * values.max(initial=0.0)
    inverse = (vectors[:, ~flat] / values[~flat]) @ vectors[:, ~flat].T / np.outer(unit, unit)
    return inverse, np.abs(vectors[:, flat]).max(axis=1, initial=0.0) > np.sqrt(SINGULAR)


def information(task: Task, settings: FitSettings, weights: Floats, settled: Sequence[int] = ()) -> Information:
    """The information about linear weights (d,) in a task's demonstrations; needs the exact engine, or rejection."""
    with threadpool_limits(1, user_api="blas"):
        world, coordinates = task.demos.walks.world, settings.coordinates(task.features.d)
        rows, complete = task.features.contract(task.demos.rows(task.discount)), None
        if isinstance(world, AnyTask):
            expected, hessian = _trip_moments(task, settings, world.network, weights)
        else:
            expected, hessian = _world_moments(task, settings, weights)
        if task.demos.sightings:
            seen, complete = _seen_moments(task, settings, weights), hessian
            rows, hessian = np.concatenate([rows, seen[0]]), hessian - seen[1]
        own = np.argsort(task.demos.numbers)  # in the order in which they were given
        told = (rows - expected)[own], task.demos.all_weights[own]
        return Information(coordinates, hessian, *told, settled, False, complete)


Means = Callable[[list[Floats]], Iterable[Floats]]
"""The mean of E[f] (d,) at each of several weights (d,)."""


def _world_means(base: ExactDistribution, features: Features) -> Means:
    """The means of weights over one product, many in a pass."""
    return lambda points: (features.contract(d.moments()) for d in base.under_each(map(features.table, points)))


def curvature(means: Means, weights: Floats, scale: Floats, coordinates: Coordinates) -> Floats:
    """The derivative of the mean of E[f] along every weight that was learned, by central differences."""
    free, step = coordinates.free.tolist(), STEP / scale

    def around(k: int) -> list[Floats]:
        change = np.zeros(len(weights))
        change[k] = step[k]
        return [weights + change, weights - change]

    try:
        found = list(means([point for k in free for point in around(k)]))
    except DivergenceError:  # the border of what adds up is nearer than a step of some weight
        found = []
        while len(found) < 2 * len(free):
            k = free[len(found) // 2]
            try:
                found += list(means(around(k)))
            except DivergenceError:
                step[k] /= 4.0
    out = np.zeros((len(weights), len(weights)))
    for i, k in enumerate(free):
        out[k] = (found[2 * i] - found[2 * i + 1]) / (2.0 * step[k])
    noise = MEAN_ROUNDING * np.abs(found).max(axis=0, initial=0.0) / step
    flat = np.diag(out) <= np.maximum(SINGULAR * scale**2, noise)
    return np.where(flat | flat[:, None], 0.0, (out + out.T) / 2.0)


def _trip_moments(task: Task, settings: FitSettings, network: Network, weights: Floats) -> tuple[Floats, Floats]:
    """E[f] of each trip's start and goal (n, d), and the Hessian (d, d)."""
    demos, asked = task.demos, settings.engine
    problem = (network, task.constraint, demos.ends[0], demos.ends[1], demos.all_weights, asked.max_nodes)
    rows = task.features.rows(network.source, network.action)
    columns = rows.T.tocsr()
    try:
        engine = TripEngine(*problem, task.discount, asked.device)
    except ProductTooLargeError:
        # One by one the draws' own variances: what differences of an estimate would say is mostly its noise.
        trips, rng = RejectTrips(*problem), np.random.default_rng(0)
        n_draws = max(200, 20_000 // trips.engine.n_pairs)  # of every pair
        means, variance = trips.valid_moments(rows @ weights, rows, n_draws, rng)
        return means[trips.engine.pair_of], variance

    def of_each(points: list[Floats]) -> Iterable[Floats]:
        return (columns @ engine.value(rows @ at).visits for at in points)

    hessian = curvature(of_each, weights, task.features.scale, settings.coordinates(task.features.d))
    return engine.each(rows @ weights, rows)[engine.pair_of], hessian


def _world_moments(task: Task, settings: FitSettings, weights: Floats) -> tuple[Floats, Floats]:
    """E[f] of all demonstrations (d,), or of each given its start (n, d), and the Hessian (d, d)."""
    demos, features = task.demos, task.features
    base = Chooser(task.law(), settings.engine).exact()
    means = _world_means(base, features)
    hessian = curvature(means, weights, features.scale, settings.coordinates(features.d))
    if task.given is None:
        return next(iter(means([weights]))), hessian
    expected, law = np.empty((len(demos), features.d)), base.law.with_reward(features.table(weights))
    for start in np.unique(demos.starts).tolist():
        alone = Chooser(replace(law, world=law.world.with_start(start), given=None), settings.engine).exact()
        expected[demos.starts == start] = features.contract(alone.moments())
    return expected, hessian


def _seen_moments(task: Task, settings: FitSettings, weights: Floats) -> tuple[Floats, Floats]:
    """E[f | y] of each sighting (n, d), and the mean of Var[f | y] over all demonstrations (d, d)."""
    demos, features = task.demos, task.features
    coordinates = settings.coordinates(features.d)
    if isinstance(world := demos.walks.world, AnyTask):
        network, (starts, goals) = world.network, demos.ends[:, len(demos.walks) :]
        table, asked = features.rows(network.source, network.action), settings.engine.max_nodes
        engine = TripEngine(network, task.constraint, starts, goals, demos.seen_weights, asked)
        trips = SeenTrips(engine, engine.pair_of, demos.sightings)

        def of_each(points: list[Floats]) -> Iterable[Floats]:
            return (table.T @ trips.value(table @ at, demos.seen_weights).visits for at in points)

        found = trips.value(table @ weights, features=table)
        trips.require_explained(found, demos.numbers[len(demos.walks) :])
        return found.each, curvature(of_each, weights, features.scale, coordinates)
    base = Chooser(task.law(), settings.engine).exact()
    together = demos.together(base)

    def means(points: list[Floats]) -> Iterable[Floats]:
        given_seen = (together(d)[1](demos.seen_weights) for d in base.under_each(map(features.table, points)))
        return (features.contract(moments) for moments in given_seen)

    moments = together(base.with_reward(features.table(weights)))[1]
    rows = np.stack([features.contract(moments(alone)) for alone in np.eye(len(demos.sightings))])
    return rows, curvature(means, weights, features.scale, coordinates)


# ---- Many fits of linear weights over one product, in the same passes: the bootstrap and cross-validation.
#
# Fit b has mean features f_b, a penalty l2_b, and the loss log Z(theta) - theta . f_b + l2_b/2 |theta|^2. All begin at
# the weights that were learned and take Newton's steps by the curvature there; a step that does not lower the loss is
# halved. One pass answers for all that are on their way.

MOST_STEPS = 200


def refit(
    task: Task, settings: FitSettings, weights: Floats, shares: Floats, l2: Sequence[ArrayLike]
) -> tuple[Floats, Floats, Floats]:
    """Weights (n, d) that fit each row of shares (n, m) of m demonstrations, log Z there (n,), and f(tau) (m, d)."""
    n, features, coordinates = len(shares), task.features, settings.coordinates(task.features.d)
    base, free = Chooser(task.law(), settings.engine).exact(), coordinates.free
    rows = features.contract(task.demos.walks.visit_rows(task.discount))
    scale, wanted = features.scale[free], shares @ rows[:, free]
    hessian = curvature(_world_means(base, features), weights, features.scale, coordinates)[np.ix_(free, free)]
    penalty = np.stack([np.broadcast_to(read_l2(one, features.d), features.d)[free] for one in l2])
    inverses = {row.tobytes(): _inverse(hessian + np.diag(row))[0] for row in penalty}
    inverse = np.stack([inverses[row.tobytes()] for row in penalty])

    def at(points: Floats, which: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """The loss (m,) of some of the fits at points (m, k), its gradient (m, k), and log Z (m,)."""
        under = base.under_each([features.table(coordinates.full(point)) for point in points])
        found = [(p.log_partition(), features.contract(p.visits())[free]) for p in under]  # a batch at a time
        log_z, means = np.array([first for first, _ in found]), np.stack([second for _, second in found])
        away, pull = means - wanted[which], penalty[which] * points
        return log_z - np.sum(points * (wanted[which] - pull / 2), axis=1), away + pull, log_z

    now = np.tile(weights[free], (n, 1))
    loss, gradient, log_z = at(now, np.arange(n))
    step = np.ones(n)
    for _ in range(MOST_STEPS):
        left = np.flatnonzero(np.abs(gradient / scale).max(axis=1) > settings.tolerance())
        if not len(left):
            break
        move = -step[left, None] * np.einsum("mk,mkj->mj", gradient[left], inverse[left])
        tried = now[left] + move
        new, slope, new_log_z = at(tried, left)
        # Near the optimum the loss is the same to the last digit, and its gradient still tells.
        lower = new <= loss[left] + 1e-4 * np.sum(move * gradient[left], axis=1)  # Armijo's condition
        flatter = np.linalg.norm(slope / scale, axis=1) < np.linalg.norm(gradient[left] / scale, axis=1)
        good = lower | flatter
        which = left[good]
        now[which], loss[which], gradient[which] = tried[good], new[good], slope[good]
        log_z[which] = new_log_z[good]
        step[left] = np.where(good, np.minimum(1.0, 2.0 * step[left]), step[left] / 2.0)
    else:
        edge = "their demonstrations may have the least or the most of a feature that there is"
        warn_of_end(f"{len(left)} of {n} fits did not come to an optimum in {MOST_STEPS} steps: {edge}")
    return np.stack([coordinates.full(moved) for moved in now]), log_z, rows
