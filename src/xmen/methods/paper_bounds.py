"""The constants of the theorems, computed: the range of f(tau), sigma1 and sigma2, smoothness, and the largest step.

Everything is in units in which each feature spans 1 over the valid trajectories: f_k(tau) / (max f_k - min f_k). That
is Algorithm 1 on rescaled features; theta is multiplied by the same spans. A basis (d, r) goes further: the features
are then the columns of (f / span) @ basis, and no theorem minds. Where features nearly depend on each other, no step
that is safe for their sum moves their difference; in a basis in which all directions vary alike it does. Leaving the
basis out costs 1.6 to 2 times the iterations to 0.05 nats, and up to five times where features are nearly equal
(benchmarks/ablation_paper.py).

Theorem 4 asks for a loss whose gradient is L-smooth, and Theorem 3 gives it sigma2^2, a sum of variances. The largest
eigenvalue of the Hessian is enough, and much smaller where there are many features.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from xmen.errors import GuaranteeWarning, notify
from xmen.methods.proposal import Proposal
from xmen.rewards import Floats

LARGEST_FACTOR = math.sqrt(2.0)  # Theorem 4: the gradient within a factor c <= sqrt 2
MOST_FEATURES = 500  # in a basis of their own, a dense matrix (d, d)
MOST_PAIRED = 5_000  # points of which all pairs are compared
FLAT = 1e-9  # variances below this share of the largest are rounding errors
SAME = 1e-9  # spans below this share of a feature's size are rounding errors


@dataclass(frozen=True)
class Bounds:
    """What is known of a task whatever theta is.

    low, high: the range of f_k(tau) over valid trajectories (d,), in the user's units. span: high - low, 1 where that
    is 0. sigma1_squared: sum of the variances of f / span over the demonstrations. sigma2_squared: a bound on the
    same sum under P for *every* theta. smoothness: a bound on the largest eigenvalue of Cov_P(f / span) for every
    theta, the Hessian of log Z. All are of (f / span) @ basis where there is one.
    """

    low: Floats
    high: Floats
    span: Floats
    sigma1_squared: float
    sigma2_squared: float
    smoothness: float
    basis: Floats | None = None

    @property
    def metric(self) -> Floats | None:
        """B B^T: a gradient step in the basis moves theta by this times the gradient; None where there is no basis."""
        return None if self.basis is None else self.basis @ self.basis.T

    def penalty_smoothness(self, l2: Floats) -> float:
        """The largest curvature that l2/2 theta^2 of each feature has in these units."""
        root = np.sqrt(l2) / self.span
        if self.basis is None:
            return float(root.max()) ** 2
        return float(np.linalg.norm(root[:, None] * self.basis, 2)) ** 2


def letter_bounds(proposal: Proposal, demo_rows: Floats, demo_weights: Floats) -> Bounds:
    """In units of the spans, with Theorem 3's sigma2^2 in the place of smoothness.

    Ranges come from the list of trajectories, or from two dynamic programs per feature over the relaxation. For any
    distribution, the variances of f add up to E|f - E f|^2 <= E|f - m|^2 for every point m. With m in the middle of
    the ranges this is at most the largest |f(tau) - m|^2 in the list, or d/4 from the ranges alone.
    """
    listed = proposal.listed_features
    if listed is not None:
        low, high = listed.min(axis=0), listed.max(axis=0)
    else:
        d = proposal.features.d
        pairs = [proposal.range_of(proposal.features.table(unit), 0.0) for unit in np.eye(d)]
        low, high = (np.array(side) for side in zip(*pairs, strict=True))
    varies = high - low > SAME * np.maximum(np.abs(low), np.abs(high))
    span = np.where(varies, high - low, 1.0)
    sigma2_squared = float(np.count_nonzero(varies)) / 4.0
    if listed is not None:
        sigma2_squared = radius_squared((listed / span)[:, varies])
    sigma1_squared = _total_variance(demo_rows / span, demo_weights)
    return Bounds(low, high, span, sigma1_squared, sigma2_squared, sigma2_squared)


def compute_bounds(proposal: Proposal, demo_rows: Floats, demo_weights: Floats, l2: Floats) -> Bounds:
    """In the units that serve a run best, with the smoothness that is certain there.

    Where the trajectories, or those of the relaxation, are few enough to be listed: in units in which they vary alike
    in all directions, with half of their largest distance, squared. Elsewhere in units of the spans.
    """
    plain = letter_bounds(proposal, demo_rows, demo_weights)
    points, span = proposal.points, plain.span
    if points is None:
        return replace(plain, smoothness=_smoothness_by_sums(plain, proposal))
    points = points / span
    if len(span) > MOST_FEATURES:
        return replace(plain, smoothness=min(plain.smoothness, largest_variance(points)))
    away = points - points.mean(axis=0)
    shape = away.T @ away / len(points)
    # A penalty curves the loss everywhere: counted in, no direction is so long that its curvature sets the step.
    shape += np.diag(l2 / span**2) / max(np.linalg.matrix_rank(shape), 1)
    if not shape.any():
        return plain
    spread, vectors = np.linalg.eigh(shape)
    some = spread > FLAT * spread[-1]
    basis = vectors[:, some] / np.sqrt(spread[some])
    ball = points @ basis
    return replace(
        plain,
        sigma1_squared=_total_variance(demo_rows / span @ basis, demo_weights),
        sigma2_squared=radius_squared(ball),
        smoothness=largest_variance(ball),
        basis=basis,
    )


def radius_squared(points: Floats) -> float:
    """The largest squared distance from the middle of the points' ranges."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2.0
    return float(((points - middle) ** 2).sum(axis=1).max(initial=0.0))


def largest_variance(points: Floats) -> float:
    """A bound on the variance, in any direction, of any distribution over these points.

    A quarter of the largest squared distance of two of them; of many points, that from a middle.
    """
    if len(points) > MOST_PAIRED:
        return radius_squared(points)
    away = points - points.mean(axis=0)
    squares = (away**2).sum(axis=1)
    furthest = squares[:, None] + squares - 2.0 * (away @ away.T)
    return float(furthest.max(initial=0.0)) / 4.0


def _total_variance(rows: Floats, weights: Floats) -> float:
    return float(weights @ ((rows - weights @ rows) ** 2).sum(axis=1))


def _smoothness_by_sums(plain: Bounds, proposal: Proposal) -> float:
    """A bound on any direction's variance, where trajectories are not listed; one dynamic program.

    It is at most a quarter of the largest |f - f'|^2. With every f_k in units of its span, counted from its least
    value, (f_k - f'_k)^2 <= |f_k - f'_k| <= f_k + f'_k: half of the largest sum of f_k over a trajectory is enough. So
    is half of the largest sum of 1 - f_k, and the sum of squared spans over 4.
    """
    varies = plain.high > plain.low
    unit = np.where(varies, 1.0 / plain.span, 0.0)
    least, most = proposal.range_of(proposal.features.table(unit), 0.0)
    lows = float(unit @ plain.low)
    return min(plain.smoothness, (most - lows) / 2.0, (np.count_nonzero(varies) - (least - lows)) / 2.0)


def gradient_factor(delta: float, weighted: bool) -> float:
    """c, the factor within which E_P[f] is known: delta^2 with importance weights, delta without."""
    return delta**2 if weighted else delta


def largest_step(factor: float, smoothness: float) -> float:
    """eta <= (2 - c^2) / (sigma2^2 c), Theorem 4; 0 where c > sqrt 2. Anything goes where the loss is constant.

    >>> round(largest_step(1.1**2, 1.0), 4)
    0.4429
    """
    return max(0.0, 2.0 - factor**2) / (factor * smoothness) if smoothness > 0.0 else 1.0


def warn_outside(delta: float, factor: float, step: float, largest: float, weighted: bool) -> None:
    """Say where settings leave the conditions of the theorems."""
    if factor > LARGEST_FACTOR or largest == 0.0:
        most = math.sqrt(LARGEST_FACTOR) if weighted else LARGEST_FACTOR
        why = "with importance weights the gradient is known within delta^2" if weighted else "c = delta"
        notify(
            f"delta = {delta:g} is not below {most:.4g}, as Theorem 4 needs ({why}, and c must be below sqrt 2): "
            "the run has no guarantee. Choose a smaller delta.",
            GuaranteeWarning,
        )
    elif step > largest * (1.0 + SAME):
        notify(
            f"learning_rate = {step:g} is above {largest:.4g} = (2 - c^2) / (sigma2^2 c), the largest step of "
            f"Theorem 4 here (c = {factor:.4g}): the run has no guarantee. Leave learning_rate out to have that step.",
            GuaranteeWarning,
        )


def theorem_bound(
    distance_squared: float, step: float, factor: float, n_steps: int, bounds: Bounds, m1: int, m2: int
) -> float:
    """Theorem 3's bound on E[L(average of K iterates)] - L*: c |theta*|^2 / (2 eta K) + eta (s1^2/M1 + s2^2/M2) / c.

    Holds as far as its premise does, a gradient within a factor c; see `bias_term` for what is missing.
    """
    noise = bounds.sigma1_squared / m1 + bounds.sigma2_squared / m2
    return factor * distance_squared / (2.0 * step * n_steps) + step * noise / factor


def bias_term(factor: float, absolute_features: Floats, radius: float) -> float:
    """What a gradient off by (c - 1) E|f_k| per component costs while iterates stay within `radius` of theta*."""
    return (factor - 1.0) * float(np.linalg.norm(absolute_features)) * radius
