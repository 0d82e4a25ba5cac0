"""What makes two fits the same run: what a checkpoint has to agree on before a fit goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from xmen.methods.demonstrations import Demonstrations
from xmen.methods.network_training import Training
from xmen.methods.validation import Validation
from xmen.rewards.neural import NeuralReward

PROGRESS: tuple[str, ...] = ("callback", "checkpoint", "checkpoint_every", "resume", "validation", "patience")
"""Settings that say how a run is watched and stored, and not what it does."""


def run_identity(
    settings: Mapping[str, Any], demos: Demonstrations, validation: Validation | None = None
) -> dict[str, Any]:
    """The settings of a run and its demonstrations, in forms that can be compared."""
    identity = {**settings, "demonstrations": _content(demos)}
    if validation is not None:
        identity["validation"] = _content(validation.demos)
    features, fixed = identity.get("features"), identity.get("fixed")
    if issparse(features):
        matrix = features.tocsr()  # type: ignore[union-attr]
        identity["features"] = [matrix.data, matrix.indices, matrix.indptr]
    elif features is not None:
        identity["features"] = np.asarray(features, dtype=np.float64)
    if fixed:
        identity["fixed"] = {str(feature): float(value) for feature, value in sorted(fixed.items())}
    training, reward = identity.pop("training", None), identity.pop("reward", None)
    if isinstance(reward, NeuralReward):
        # The numbers in the network are not part of it: the checkpoint has them.
        identity |= {"reward": reward.structure(), "optimiser": (training or Training()).identity()}
    return identity


def _content(demos: Demonstrations) -> list[Any]:
    return [demos.walks.starts, demos.walks.edges, demos.walks.lengths, demos.weights]
