"""The constants of the theorems, computed: the range of f(tau), sigma1 and sigma2, and the largest step.

Everything is in units in which each feature spans 1 over the valid trajectories: f_k(tau) / (max f_k - min f_k). That
is Algorithm 1 on rescaled features; theta is multiplied by the same spans.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from xmen.learners.notices import GuaranteeWarning
from xmen.learners.proposal import Proposal
from xmen.rewards import Floats

LARGEST_FACTOR = math.sqrt(2.0)  # Theorem 4: the gradient within a factor c <= sqrt 2
SAME = 1e-9  # spans below this share of a feature's size are rounding errors


@dataclass(frozen=True)
class Bounds:
    """What is known of a task whatever theta is.

    low, high: the range of f_k(tau) over valid trajectories (d,), in the user's units. span: high - low, 1 where that
    is 0. sigma1_squared: sum of the variances of f / span over the demonstrations. sigma2_squared: a bound on the
    same sum under P for *every* theta, and so on the largest eigenvalue of the Hessian Cov_P(f / span).
    """

    low: Floats
    high: Floats
    span: Floats
    sigma1_squared: float
    sigma2_squared: float


def compute_bounds(proposal: Proposal, demo_rows: Floats, demo_weights: Floats) -> Bounds:
    """Ranges from the list of trajectories, or two dynamic programs per feature over the relaxation.

    For any distribution, the variances of f add up to E|f - E f|^2 <= E|f - m|^2 for every point m. With m in the
    middle of the ranges this is at most the largest |f(tau) - m|^2 in the list, or d/4 from the ranges alone.
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
        away = ((listed - (low + high) / 2.0) / span)[:, varies]
        sigma2_squared = float((away**2).sum(axis=1).max(initial=0.0))
    scaled = demo_rows / span
    sigma1_squared = float(demo_weights @ ((scaled - demo_weights @ scaled) ** 2).sum(axis=1))
    return Bounds(low, high, span, sigma1_squared, sigma2_squared)


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
        warnings.warn(
            f"delta = {delta:g} is not below {most:.4g}, as Theorem 4 needs ({why}, and c must be below sqrt 2): "
            "the run has no guarantee. Choose a smaller delta.",
            GuaranteeWarning,
            stacklevel=7,
        )
    elif step > largest * (1.0 + SAME):
        warnings.warn(
            f"learning_rate = {step:g} is above {largest:.4g} = (2 - c^2) / (sigma2^2 c), the largest step of "
            f"Theorem 4 here (c = {factor:.4g}): the run has no guarantee. Leave learning_rate out to have that step.",
            GuaranteeWarning,
            stacklevel=7,
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
