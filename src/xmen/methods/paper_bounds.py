"""The constants of the theorems, computed: the range of f(tau), sigma1 and sigma2, and the largest step.

Everything is in units in which each feature spans 1 over the valid trajectories: f_k(tau) / (max f_k - min f_k). That
is Algorithm 1 on rescaled features; theta is multiplied by the same spans. A basis (d, d) goes further: the features
are then the columns of (f / span) @ basis. Where features nearly depend on each other, no step that is safe for their
sum moves their difference; in the basis of the demonstrations' covariance all directions take about as many steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from xmen.methods.proposal import Proposal
from xmen.notices import GuaranteeWarning, notify
from xmen.rewards import Floats

LARGEST_FACTOR = math.sqrt(2.0)  # Theorem 4: the gradient within a factor c <= sqrt 2
MOST_FEATURES = 500  # in a basis of their own, a dense matrix (d, d)
FLAT = 10.0 ** -np.arange(7)  # shares of the largest variance below which variances are not told apart
SAME = 1e-9  # spans below this share of a feature's size are rounding errors


@dataclass(frozen=True)
class Bounds:
    """What is known of a task whatever theta is.

    low, high: the range of f_k(tau) over valid trajectories (d,), in the user's units. span: high - low, 1 where that
    is 0. sigma1_squared: sum of the variances of f / span over the demonstrations. sigma2_squared: a bound on the
    same sum under P for *every* theta, and so on the largest eigenvalue of the Hessian Cov_P(f / span). Both are of
    (f / span) @ basis where there is one.
    """

    low: Floats
    high: Floats
    span: Floats
    sigma1_squared: float
    sigma2_squared: float
    basis: Floats | None = None


def compute_bounds(proposal: Proposal, demo_rows: Floats, demo_weights: Floats, n_steps: int | None = None) -> Bounds:
    """Ranges from the list of trajectories, or two dynamic programs per feature over the relaxation.

    For any distribution, the variances of f add up to E|f - E f|^2 <= E|f - m|^2 for every point m. With m in the
    middle of the ranges this is at most the largest |f(tau) - m|^2 in the list, or d/4 from the ranges alone.

    With `n_steps`, in the basis that serves a run of so many steps best; see `_with_basis`.
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
    plain = Bounds(low, high, span, sigma1_squared, sigma2_squared)
    if n_steps is None or len(span) > MOST_FEATURES:
        return plain
    return _with_basis(plain, proposal, scaled, demo_weights, n_steps)


def _with_basis(plain: Bounds, proposal: Proposal, scaled: Floats, demo_weights: Floats, n_steps: int) -> Bounds:
    """The bounds in the basis V / sqrt(max(e, flat e_max)) of the demonstrations' covariance V e V^T.

    Near the optimum the Hessian is about that covariance. A direction in which it is l takes about sigma2^2 / l steps,
    and one that takes more than the run has takes all of them; `flat` is the one with the fewest steps in all. The
    spans' own units, without a basis, are one of the candidates.
    """
    away = scaled - demo_weights @ scaled
    spread, vectors = np.linalg.eigh(away.T @ (away * demo_weights[:, None]))
    spread = np.maximum(spread, 0.0)
    if spread[-1] <= 0.0:
        return plain
    listed = proposal.listed_features
    if listed is not None:
        rows = listed / plain.span @ vectors
        squares = (rows - (rows.min(axis=0) + rows.max(axis=0)) / 2.0) ** 2
    else:
        pairs = [proposal.range_of(proposal.features.table(v / plain.span), 0.0) for v in vectors.T]
        squares = np.array([[(high - low) ** 2 / 4.0 for low, high in pairs]])

    def steps(sigma2_squared: float, curvature: Floats) -> float:
        return float(np.minimum(sigma2_squared / np.maximum(curvature, 1e-300), n_steps).sum())

    best, fewest = plain, steps(plain.sigma2_squared, spread)
    for flat in FLAT:
        size = np.maximum(spread, flat * spread[-1])
        sigma2_squared = float((squares / size).sum(axis=1).max(initial=0.0))
        needed = steps(sigma2_squared, spread / size)
        if needed < fewest:
            sigma1_squared = float((spread / size).sum())
            basis = vectors / np.sqrt(size)
            best = replace(plain, sigma1_squared=sigma1_squared, sigma2_squared=sigma2_squared, basis=basis)
            fewest = needed
    return best


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
