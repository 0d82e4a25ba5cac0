"""Fitting a model under the rules so far, as many of them as fit the product."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from xmen.constraints.constraint import Constraint, conjunction
from xmen.errors import ProductTooLargeError
from xmen.learners.xmen import XMEN
from xmen.notices import LearningWarning
from xmen.rewards import Floats
from xmen.rules.model import Model, SearchSettings, Shared
from xmen.rules.trip_model import TripModel
from xmen.rules.world_model import WorldModel
from xmen.worlds import Network, Trajectory


def fit_model(
    setting: SearchSettings,
    rules: Sequence[Constraint],
    demos: Sequence[Trajectory],
    weights: Floats,
    shared: Shared,
) -> Model:
    """The reward fitted under the rules, in their order; what was found last is left out where they do not all fit."""
    multiplied, rejecting = list(rules), list[Constraint]()
    while True:
        try:
            fitted = _fit(setting, multiplied, demos, weights)
        except ProductTooLargeError:
            if not multiplied:
                raise
            rejecting.insert(0, multiplied.pop())
            continue
        if isinstance(setting.world, Network):
            return TripModel(setting, fitted, multiplied, rejecting, shared).with_trips(demos, weights)
        return WorldModel(setting, fitted, multiplied, rejecting, shared)


def _fit(setting: SearchSettings, rules: list[Constraint], demos: Sequence[Trajectory], weights: Any) -> XMEN:
    """X-MEN to the optimum; that weights run to infinity, or mean nothing, is no news to a search for rules."""
    learner = XMEN(
        setting.world,
        conjunction(rules),
        features=setting.features,
        discount=setting.discount,
        method="exact",
        l2=setting.l2,
        max_nodes=setting.max_nodes,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        return learner.fit(demos, sample_weight=weights)
