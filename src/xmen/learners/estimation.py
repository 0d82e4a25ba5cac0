"""From a fitted linear learner and its demonstrations to a `Summary`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_matrix

from xmen.constraints.constraint import And, Constraint
from xmen.errors import NotFittedError
from xmen.learners.summary import Summary, feature_names
from xmen.methods.demonstrations import Demonstrations
from xmen.rewards import Floats
from xmen.rewards.features import Features, StateFeatures, read_features
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from xmen.learners.base import Learner


def summarise(
    model: Learner,
    demos: Iterable[Trajectory] | None,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    names: Sequence[str] | None,
) -> Summary:
    """See `Learner.summary`. What was found for the fit's own demonstrations is kept in the model, and saved with it.

    What was asked of groups or of other demonstrations is not: the next plain question is about the fit again.
    """
    fitted_on: Demonstrations | None = vars(model).get("_fitted_on")
    known = "covariance_" in vars(model)
    asked = fitted_on if demos is None else model._gather(demos, sample_weight)
    if known and groups is None and demos is None:
        found = _Estimates(model.covariance_, model.robust_covariance_, **model.log_likelihood_)
    elif asked is None:
        raise NotFittedError(
            "the demonstrations of this model are not at hand: give summary(demos), or ask for it before saving."
        )
    else:
        found = _estimate(model, asked, groups)
        if groups is None and not known and (demos is None or fitted_on is None):
            model.covariance_, model.robust_covariance_ = found.covariance, found.robust_covariance
            model.log_likelihood_ = {"sum": found.sum, "n": found.n, "error": found.error}
    weights = model.weights_
    fixed = np.isin(np.arange(len(weights)), list(getattr(model, "fixed", None) or ()))
    # What demonstrations determine exactly has variance 0, which rounding may leave just below it.
    variances = [np.maximum(np.diag(covariance), 0.0) for covariance in (found.covariance, found.robust_covariance)]
    errors = [np.sqrt(variance) for variance in variances]
    return Summary(
        names=feature_names(_known_names(model) if names is None else names, len(weights)),
        weights=weights,
        standard_errors=np.where(fixed, np.nan, errors[0]),
        robust_errors=np.where(fixed, np.nan, errors[1]),
        log_likelihood=found.sum,
        n_demonstrations=int(found.n),
        covariance=found.covariance,
        robust_covariance=found.robust_covariance,
        log_likelihood_error=found.error,
        notes=model._summary_notes(),
        clustered=groups is not None,
        rules=_spelled(model._rule()),
        mean_uses=None if asked is None else _mean_uses(asked),
    )


def _known_names(model: Learner) -> list[str] | None:
    """What the world calls the model's features: its own columns by their names, weights of states by these.

    None where it has no names for features; a column that is not one of the world's goes by its number.
    """
    world: Any = model.world
    own = read_features(vars(model).get("features"), world)
    if isinstance(own, StateFeatures):
        return [world.describe_state(state) for state in range(own.d)]
    if not hasattr(world, "feature_names"):
        return None
    columns = _columns(read_features(world.features, world))
    named = {
        column: name for column, name in zip(columns, world.feature_names, strict=True) if columns.count(column) == 1
    }
    return [named.get(column, f"feature {k}") for k, column in enumerate(_columns(own))]


def _columns(features: Features) -> list[tuple[bytes, bytes]]:
    """Each column in a form that can be compared: the places where it is not 0, and what it is there."""
    matrix = csc_matrix(features.matrix, dtype=np.float64, copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    ends = list(pairwise(matrix.indptr.tolist()))
    return [(matrix.indices[i:j].astype(np.int64).tobytes(), matrix.data[i:j].tobytes()) for i, j in ends]


def _spelled(rule: Constraint | None) -> frozenset[str]:
    """The rules of a conjunction, whatever they are called and in whatever order they stand."""
    if isinstance(rule, And):
        return frozenset().union(*map(_spelled, rule.children))
    return frozenset() if rule is None else frozenset([str(replace(rule, name=None))])


def _mean_uses(demos: Demonstrations) -> Floats:
    walks = demos.walks
    seen = walks.edges >= 0  # demonstrations of weight 0 may do what the world cannot
    weights = demos.weights[walks.owner[seen]]
    return np.bincount(walks.edges[seen], weights=weights, minlength=len(walks.world.source)).astype(np.float64)


class _Estimates(NamedTuple):
    """Covariances (d, d) of the weights, and the sum of n log-likelihoods with its standard error."""

    covariance: Floats
    robust_covariance: Floats
    sum: float
    n: float
    error: float = 0.0  # which models saved earlier do not have


def _estimate(model: Learner, demos: Demonstrations, groups: ArrayLike | None) -> _Estimates:
    features = read_features(vars(model).get("features"), model.world)
    found = model._information(demos, features, model.weights_)
    at = np.ix_(found.free, found.free)
    covariances = np.zeros((2, len(model.weights_), len(model.weights_)))
    noise = vars(model).get("gradient_noise_")
    # Of many features only the variances were kept.
    added = 0.0 if noise is None else found.spread(noise[at] if noise.ndim == 2 else np.diag(noise[found.free]))
    covariances[0][at] = found.covariance() + added
    covariances[1][at] = found.robust_covariance(groups) + added
    likelihoods = model._log_likelihoods(demos)
    total, error = demos.mean(likelihoods.values) * len(demos), likelihoods.total_error(demos)
    return _Estimates(covariances[0], covariances[1], total, len(demos), error)
