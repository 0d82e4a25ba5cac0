"""From a fitted linear learner and its demonstrations to a `Summary`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import And, Constraint
from xmen.errors import NotFittedError
from xmen.learners.summary import Summary, feature_names
from xmen.methods.demonstrations import Demonstrations
from xmen.rewards import Floats
from xmen.rewards.features import read_features
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
    errors = [np.sqrt(np.diag(covariance)) for covariance in (found.covariance, found.robust_covariance)]
    return Summary(
        names=feature_names(names, len(weights)),
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
    added = 0.0 if noise is None else found.spread(noise[at])
    covariances[0][at] = found.covariance() + added
    covariances[1][at] = found.robust_covariance(groups) + added
    likelihoods = model._log_likelihoods(demos)
    total, error = demos.mean(likelihoods.values) * len(demos), likelihoods.total_error(demos)
    return _Estimates(covariances[0], covariances[1], total, len(demos), error)
