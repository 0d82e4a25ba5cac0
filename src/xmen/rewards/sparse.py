"""Sparse features: one row per (state, action), of which most entries are 0, as in a weight per turn of a city."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from xmen.errors import RewardError
from xmen.rewards.linear import Floats, LinearReward, real_array
from xmen.worlds.transitions import Transitions


class SparseFeatures:
    """Features given as a scipy.sparse matrix (n_states * n_actions, d), row s * n_actions + a."""

    def __init__(self, matrix: csr_matrix, n_states: int, n_actions: int) -> None:
        self.matrix = matrix
        self.d = matrix.shape[1]
        self._shape = (n_states, n_actions)
        largest = np.asarray(abs(matrix).max(axis=0).todense()).ravel()
        self.scale: Floats = np.where(largest > 0, largest, 1.0)

    def contract(self, visits: Any) -> Floats:
        """sum over (s, a) of visits times features; see `Features`."""
        if isinstance(visits, np.ndarray):
            contracted: Floats = self.matrix.T @ visits.reshape(-1)
            return contracted
        rows: Floats = (visits @ self.matrix).toarray()
        return rows

    def table(self, weights: Floats) -> Floats:
        """The reward table (n_states, n_actions) of weights (d,)."""
        table: Floats = (self.matrix @ weights).reshape(self._shape)
        return table

    def rows(self, states: NDArray[Any], actions: NDArray[Any]) -> csr_matrix:
        """f(s, a) of each pair, as sparse rows."""
        return self.matrix[states.astype(np.int64) * self._shape[1] + actions]

    def reward(self, weights: Floats) -> LinearReward:
        """The reward with these weights."""
        return SparseReward(self.matrix, weights, self._shape[1])


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


def read_sparse(features: Any, world: Transitions) -> SparseFeatures:
    """A scipy.sparse matrix of features, checked against the world."""
    rows = world.n_states * world.n_actions
    if features.ndim != 2 or features.shape[0] != rows or not features.shape[1]:
        raise RewardError(
            f"sparse features have shape {features.shape}, but the world has {world.n_states} states and "
            f"{world.n_actions} actions: give a matrix of shape ({rows}, d), row s * {world.n_actions} + a, with d "
            "of 1 or more."
        )
    matrix = csr_matrix(features, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        state, action = divmod(row, world.n_actions)
        raise RewardError(
            f"features must be finite, but feature {matrix.indices[wrong[0]]} is {matrix.data[wrong[0]]} for "
            f"{world.describe_action(action)} in {world.describe_state(state)} (row {row}). To forbid something write "
            "a constraint, such as never(at(state) & doing(action))."
        )
    return SparseFeatures(matrix, world.n_states, world.n_actions)
