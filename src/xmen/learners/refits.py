"""What many fits over one product are asked of: a model that was fitted, its demonstrations, and their parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import EngineError, NotFittedError
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.runs import Task
from xmen.options import require_whole
from xmen.rewards import LinearReward
from xmen.rewards.features import read_features
from xmen.worlds import Network, Trajectory

if TYPE_CHECKING:
    from xmen.learners.xmen import XMEN


def refit_task(model: XMEN, call: str, demos: Iterable[Trajectory] | None, sample_weight: ArrayLike | None) -> Task:
    """What a fitted model is fitted to again; `call` is how its user gives demonstrations that are not at hand."""
    model._require_fitted()
    name = call.split("(")[0]
    if not isinstance(model.reward_, LinearReward):
        raise EngineError(f"{name} is of linear weights; this reward is a {type(model.reward_).__name__}.")
    if isinstance(model.world, Network) or model.given is not None:
        raise EngineError(
            f"{name} shares one product among its fits, and here each of them has other tasks: fit(demos, "
            "sample_weight=counts) fits one of them, and summary() has robust standard errors."
        )
    found = vars(model).get("_fitted_on") if demos is None else model._gather(demos, sample_weight)
    if found is None:
        raise NotFittedError(f"the demonstrations of this model are not at hand: give {call}.")
    return Task(found, read_features(model.features, model.world), model._rule(), model.discount)


def read_folds(folds: int | ArrayLike, demos: Demonstrations) -> NDArray[np.int64]:
    """The number of the part of each demonstration (n,); parts that are only counted follow each other."""
    n = len(demos)
    if np.ndim(folds) == 0:
        require_whole("folds", folds, least=2)
        parts = int(np.asarray(folds))
        fold = np.sort(np.arange(n) % parts)
    else:
        labels = np.asarray(folds)
        if labels.shape != (n,):
            raise EngineError(f"folds has shape {labels.shape}, but there are {n} demonstrations: give one part each.")
        fold = np.unique(labels, return_inverse=True)[1].ravel()
        parts = int(fold.max()) + 1
    weight = np.bincount(fold, weights=demos.weights, minlength=parts)
    if parts < 2 or not np.all(weight > 0):
        raise EngineError(
            f"folds makes {parts} of {n} demonstrations, {int(np.sum(weight > 0))} of them with any weight: "
            "cross-validation takes two or more, each with a demonstration in it."
        )
    return fold
