"""Linear rewards whose features are not held as an array: sparse ones, and the states themselves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix

from xmen.errors import RewardError
from xmen.limits import MEMORY
from xmen.rewards.linear import Floats, LinearReward, real_array


class SparseReward(LinearReward):
    """r(s, a) = weights . features[s * n_actions + a], with sparse features."""

    def __init__(self, matrix: Any, weights: ArrayLike, n_actions: int) -> None:
        self.matrix = csr_matrix(matrix)
        self.weights = real_array(weights, "weights")
        self.n_actions = n_actions

    @cached_property
    def features(self) -> Floats:  # type: ignore[override]
        """The features as an array (n_states, n_actions, d), made only when looked at."""
        dense: Floats = self.matrix.toarray().reshape(-1, self.n_actions, len(self.weights))
        return dense

    def table(self) -> Floats:
        table: Floats = (self.matrix @ self.weights).reshape(-1, self.n_actions)
        return table

    def __repr__(self) -> str:
        states = self.matrix.shape[0] // self.n_actions
        return f"SparseReward({states} states, {self.n_actions} actions, {len(self.weights)} features)"


class StateReward(LinearReward):
    """r(s, a) = weights[s]: a linear reward whose features are the states themselves, made only when looked at."""

    def __init__(self, weights: ArrayLike, n_actions: int) -> None:
        self.weights = real_array(weights, "weights")
        self.n_actions = n_actions

    @cached_property
    def features(self) -> Floats:  # type: ignore[override]
        """One-hot states (n_states, n_actions, n_states)."""
        n = len(self.weights)
        MEMORY.require(8 * n * n * self.n_actions, f"an array of one feature for each of {n:,} states", RewardError)
        return np.repeat(np.eye(len(self.weights))[:, None, :], self.n_actions, axis=1)

    def table(self) -> Floats:
        return np.repeat(self.weights[:, None], self.n_actions, axis=1)

    def __repr__(self) -> str:
        return f"StateReward({len(self.weights)} states, {self.n_actions} actions)"
