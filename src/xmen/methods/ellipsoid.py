"""The smallest ellipsoid around points, which says in what units of theta a step may be as long one way as another.

Where P is a distribution over points f, the Hessian of log Z in a direction v is the variance of f . v, which is at
most a quarter of (the largest difference of f . v)^2, whatever theta is. In units in which the points fill a ball,
these bounds are equal in all directions: no step that is safe for one of them is needlessly short for another.
"""

from __future__ import annotations

import numpy as np

from xmen.rewards import Floats

DESIGN_STEPS = 10  # towards the smallest ellipsoid; more hardly change how long a step may be
MOST_DESIGNED = 20_000  # points that the ellipsoid is fitted to
MOST_PAIRED = 5_000  # points of which all pairs are compared
FLAT = 1e-9  # variances below this share of the largest are rounding errors


def enclosing_shape(points: Floats) -> Floats:
    """The matrix C (d, d) of the ellipsoid (f - m)^T C^-1 (f - m) <= d that fits points (n, d) nearly best.

    C is the covariance of the weights that make its determinant largest, a D-optimal design; the weight of a point is
    multiplied by how far out it lies until none lies further out than others (Titterington, 1978). A step costs n d^2.
    """
    if len(points) > MOST_DESIGNED:
        points = points[np.linspace(0, len(points) - 1, MOST_DESIGNED).astype(np.int64)]
    away = points - points.mean(axis=0)
    spread, vectors = np.linalg.eigh(away.T @ away / len(away))
    some = spread > FLAT * spread[-1]
    size = np.sqrt(spread[some])
    ball = away @ (vectors[:, some] / size)
    shares = np.full(len(ball), 1.0 / len(ball))
    shape = np.eye(ball.shape[1])
    for _ in range(DESIGN_STEPS):
        around = ball - shares @ ball
        shape = (around * shares[:, None]).T @ around
        outness = 1.0 + np.einsum("ij,ji->i", around, np.linalg.solve(shape, around.T))
        shares = shares * outness**2  # squared: fewer steps, to the same place
        shares /= shares.sum()
    back = vectors[:, some] * size
    found: Floats = back @ shape @ back.T
    return found


def inverse_root(shape: Floats) -> Floats:
    """B (d, r) with B B^T the inverse of a covariance where it is not flat: points @ B has variance 1 every way."""
    spread, vectors = np.linalg.eigh(shape)
    some = spread > FLAT * spread[-1]
    root: Floats = vectors[:, some] / np.sqrt(spread[some])
    return root


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
