"""How far weights are from the optimum, in nats, as far as draws can tell that they were not fitted to.

Near the optimum L(theta) - L* = g^T H^+ g / 2, with g the gradient at theta and H the Hessian there (Newton's
decrement). Draws that theta was not fitted to give g-hat = g + noise with covariance V, so that q = g-hat^T H^+ g-hat
has the mean 2 (L - L*) + tr(H^+ V). With A = H^+ V, q is about s times a chi-square variable of nu degrees of freedom
and noncentrality 2 (L - L*) / s, where s = tr(A^2) / tr(A) and nu = tr(A)^2 / tr(A^2): that gives the bound.

Weights that minimise L-hat over draws with noise V have g of covariance V: they are tr(H^+ V) / 2 nats away on
average, which is what a fit expects of itself before it is judged.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, chndtrinc, chndtrix

from xmen.methods.loss import DrawnLoss, Spread, Table
from xmen.rewards import Floats

LEVEL = 0.95  # of the bound
SURE = -math.log(1.0 - LEVEL)  # about 3: a rate of which n trials show nothing is below 3 / n 19 times in 20
SURPRISE = 0.01  # a gradient that noise exceeds less often than this is above its noise
AGREED = 0.9  # share of judges that are to pass weights that are good enough
JUDGES = 2.0 ** np.arange(-6.0, 0.25, 0.25)  # times as many draws as weights were fitted to, from which to choose
ROUNDING = 1e-9  # nats: what an exact answer may be off
FLAT = 1e-10  # share of the largest curvature below which a direction has none


class Estimate(NamedTuple):
    """The loss and its gradient (d,) at some weights, as draws have them, with their standard errors."""

    loss: float
    loss_std: float
    gradient: Floats
    gradient_std: Floats


class Judgement(NamedTuple):
    """What fresh draws say of weights.

    distance: the estimated distance from the optimum in nats; bound: above the true one 95 times in 100. within_noise:
    no sign that the weights were fitted to their own draws' accidents more than draws of that number have to be.
    enough: these draws are enough to tell.
    """

    estimate: Estimate
    distance: float
    bound: float
    within_noise: bool
    enough: bool


class Metric:
    """H^+ of a Hessian: the inverse on the directions that have curvature, in units of the features' scale.

    Of a diagonal alone, (d,), features count as if each stood alone; so do covariances of these, which come as (d,).
    """

    def __init__(self, hessian: Floats, scale: Floats) -> None:
        self.scale = scale
        if hessian.ndim == 1:
            values = hessian / scale**2
            kept = values > FLAT * max(values.max(initial=0.0), 0.0)
            self.root: Floats = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
            return
        values, vectors = np.linalg.eigh(hessian / scale / scale[:, None])
        kept = values > FLAT * max(values[-1], 0.0)
        self.root = vectors[:, kept] / np.sqrt(values[kept])

    def vector(self, gradient: Floats) -> Floats:
        """y with y . y = g^T H^+ g; of one gradient (d,), or of several as rows (n, d)."""
        scaled = gradient / self.scale
        whitened: Floats = scaled * self.root if self.root.ndim == 1 else scaled @ self.root
        return whitened

    def matrix(self, noise: Floats) -> Floats:
        """The covariance of `vector` of a gradient with this covariance."""
        if self.root.ndim == 1:
            alone: Floats = noise / self.scale**2 * self.root**2
            return alone
        whitened: Floats = self.root.T @ (noise / self.scale / self.scale[:, None]) @ self.root
        return whitened

    def weights_std(self, noise: Floats) -> Floats:
        """The standard errors (d,) of weights that minimise a loss with this noise: sqrt diag H^+ V H^+."""
        middle, root = self.matrix(noise), self.root
        squares = middle * root**2 if root.ndim == 1 else np.sum((root @ middle) * root, axis=1)
        std: Floats = np.sqrt(np.maximum(squares, 0.0)) / self.scale
        return std


def trace(covariance: Floats) -> float:
    """The sum of the variances."""
    return float(variances(covariance).sum())


def estimate(loss: DrawnLoss, weights: Floats, spread: Spread) -> Estimate:
    """The loss and its gradient at weights where this is its spread."""
    value, std = loss(weights), np.sqrt(np.maximum(variances(spread.noise), 0.0))
    return Estimate(value.loss, spread.log_partition_std, value.gradient, std)


def judge(weights: Floats, fresh: DrawnLoss, metric: Metric, fitted_noise: Floats, least_seen: float) -> Judgement:
    """Look at weights with draws they were not fitted to; `fitted_noise` is that of the draws they were.

    At least `least_seen` of the fresh ones have to carry the weight.
    """
    fresh = fresh.shared(weights)
    spread = Spread(fresh, weights)
    seen = estimate(fresh, weights, spread)
    y = metric.vector(seen.gradient)
    here, there = metric.matrix(spread.noise), metric.matrix(fitted_noise)
    q, expected = float(y @ y), 0.5 * trace(there)
    distance = max(0.5 * (q - trace(here)), 0.0) + spread.unseen
    bound = max(0.5 * largest_decrement(q, here), expected, 0.5 * q if not here.any() else 0.0)
    bound += SURE * spread.unseen + ROUNDING
    scale, freedom = moments(here + there)
    quiet = freedom == 0.0 or float(chdtrc(freedom, q / scale)) > SURPRISE
    return Judgement(seen, distance, bound, quiet, freedom == 0.0 or fresh.seen(weights) >= least_seen)


def judges_needed(noise: Floats, distance: float, tol: float, bound: float) -> float:
    """The fewest draws that are expected to agree, in units of those that weights were fitted to, 1 or less.

    They agree 9 times in 10 that weights `distance` nats from the optimum are within `tol`, and surely within `bound`.
    `noise` is that of the draws fitted to, as `Metric.matrix` has it; that of others falls as one over their number.
    """
    scale, freedom = moments(noise)
    if freedom == 0.0:
        return float(JUDGES[0])
    scales = scale / JUDGES
    q = chndtrix(AGREED, freedom, 2.0 * distance / scales)
    near, sure = q - freedom <= 2.0 * tol / scales, chndtrinc(q, freedom, 1.0 - LEVEL) <= 2.0 * bound / scales
    enough = np.flatnonzero(near & sure)
    return float(JUDGES[enough[0]]) if len(enough) else 1.0


def variances(covariance: Floats) -> Floats:
    """The diagonal (d,)."""
    return covariance if covariance.ndim == 1 else covariance.diagonal()


def moments(covariance: Floats) -> tuple[float, float]:
    """s and nu of the chi-square that y . y is like, for y of this covariance: (0, 0) where there is no noise."""
    total, square = trace(covariance), float((covariance**2).sum())
    return (square / total, total**2 / square) if total > 0.0 and square > 0.0 else (0.0, 0.0)


def largest_decrement(q: float, noise: Floats) -> float:
    """The largest g^T H^+ g of which a q this small would be seen 5 times in 100."""
    scale, freedom = moments(noise)
    if freedom == 0.0:
        return q
    found = float(chndtrinc(q / scale, freedom, 1.0 - LEVEL))
    return scale * found if np.isfinite(found) else 0.0


# ---- The doubt of a known trajectory is its leverage, from 0 to 1: how little draws tell of others like it.
#
# With u = f(x) - mean f, the leverage of a known x is u^T (G + K)^+ u, where G adds up u u^T over the draws, each by
# the number of draws it is worth, and K over all that is known. For weights per state: of k demonstrations through a
# state that c draws pass, each has about 1 / (k + c). Together they stand for k / (k + c) of a draw, at most for one,
# so that what they add to log Z falls with the number of draws faster than its noise does.


def doubts(loss: DrawnLoss, weights: Floats) -> Floats:
    """The share of a draw (n,) that each known trajectory stands for at these weights, 0 of all others. O(n d^2)."""
    draws, share = loss.draws, np.zeros(len(loss.draws))
    known = np.flatnonzero(draws.known & (draws.noise[draws.batch] > 0.0))
    if len(known):
        batches = np.bincount(draws.part, minlength=len(loss.parts))[draws.part[draws.batch]]
        worth = loss.worth(weights) + draws.known / batches  # every batch of a part has all that is known of it
        table = Table(draws, loss.features, worth, dense=True)
        metric = Metric(table.squares(worth), loss.features.scale)
        for some, away in table.blocks(known):
            share[some] = np.minimum(np.square(metric.vector(away)).sum(axis=1), 1.0)
    return share
