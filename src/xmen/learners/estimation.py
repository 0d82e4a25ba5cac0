"""From a fitted linear learner and its demonstrations to a `Summary`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from xmen.errors import NotFittedError
from xmen.learners.summary import Summary, feature_names
from xmen.methods.demonstrations import Demonstrations
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
    """See `Learner.summary`. What was found is kept in the model, and saved with it."""
    kept: Demonstrations | None = vars(model).get("_fitted_on")
    known = "covariance_" in vars(model) and groups is None and demos is None
    if not known:
        if demos is None and kept is None:
            raise NotFittedError(
                "the demonstrations of this model are not at hand: give summary(demos), or ask for it before saving."
            )
        _estimate(model, kept if demos is None else demos, sample_weight, groups)
    weights = model.weights_
    fixed = np.isin(np.arange(len(weights)), list(getattr(model, "fixed", None) or ()))
    errors = [np.sqrt(np.diag(covariance)) for covariance in (model.covariance_, model.robust_covariance_)]
    return Summary(
        names=feature_names(names, len(weights)),
        weights=weights,
        standard_errors=np.where(fixed, np.nan, errors[0]),
        robust_errors=np.where(fixed, np.nan, errors[1]),
        log_likelihood=model.log_likelihood_["sum"],
        n_demonstrations=int(model.log_likelihood_["n"]),
        covariance=model.covariance_,
        robust_covariance=model.robust_covariance_,
        notes=model._summary_notes(),
    )


def _estimate(
    model: Learner,
    demos: Demonstrations | Iterable[Trajectory] | None,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
) -> None:
    """Set the model's covariances and log-likelihood."""
    if not isinstance(demos, Demonstrations):
        assert demos is not None
        demos = model._gather(demos, sample_weight)
    features = read_features(vars(model).get("features"), model.world)
    found = model._information(demos, features, model.weights_)
    at = np.ix_(found.free, found.free)
    covariances = np.zeros((2, len(model.weights_), len(model.weights_)))
    noise = vars(model).get("gradient_noise_")
    added = 0.0 if noise is None else found.spread(noise[at])
    covariances[0][at] = found.covariance() + added
    covariances[1][at] = found.robust_covariance(groups) + added
    model.covariance_, model.robust_covariance_ = covariances[0], covariances[1]
    total = demos.mean(model._log_likelihoods(demos)) * len(demos)
    model.log_likelihood_ = {"sum": total, "n": len(demos)}
