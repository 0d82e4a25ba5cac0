"""Features of a linear reward as learners use them: contracted with visits, and turned into reward tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from xmen.errors import RewardError
from xmen.rewards import Floats, LinearReward, real_array
from xmen.rewards.sparse import SparseReward, StateReward
from xmen.worlds.transitions import Transitions

SMALLEST = 1e-150  # of the largest value of a feature


class Features(ABC):
    """f(s, a) in R^d for every state and action: a matrix (n_states * n_actions, d), row s * n_actions + a."""

    def __init__(self, matrix: Any, n_states: int, n_actions: int) -> None:
        self.matrix, self.d = matrix, int(matrix.shape[1])
        self._shape = (n_states, n_actions)
        largest = _dense(abs(matrix).max(axis=0)).ravel()
        self.scale: Floats = np.where(largest > 0, largest, 1.0)  # the largest |f_k(s, a)| (d,), 1 where that is 0

    def contract(self, visits: Any) -> Floats:
        """sum over (s, a) of visits times features, (d,).

        Visits are (n_states, n_actions), flat or not; or n of them as sparse rows, which gives (n, d).
        """
        return _dense(visits @ self.matrix if issparse(visits) else self.matrix.T @ visits.reshape(-1))

    def table(self, weights: Floats) -> Floats:
        """The reward table (n_states, n_actions) of weights (d,)."""
        table: Floats = (self.matrix @ weights).reshape(self._shape)
        return table

    def reach(self, direction: Floats) -> float:
        """The largest change of a reward along a direction of the weights."""
        return float(np.abs(self.matrix @ direction).max(initial=0.0))

    def rows(self, states: NDArray[Any], actions: NDArray[Any]) -> csr_matrix:
        """f(s, a) of each pair, as sparse rows (n, d)."""
        return csr_matrix(self.matrix[states.astype(np.int64) * self._shape[1] + actions])

    @abstractmethod
    def reward(self, weights: Floats) -> LinearReward:
        """The reward with these weights."""


def _dense(values: Any) -> Floats:
    found: Floats = values.toarray() if issparse(values) else values
    return found


class DenseFeatures(Features):
    """Features given as an array (n_states, n_actions, d)."""

    def __init__(self, features: Floats) -> None:
        super().__init__(features.reshape(-1, features.shape[2]), *features.shape[:2])

    def reward(self, weights: Floats) -> LinearReward:
        return LinearReward(self.matrix.reshape(*self._shape, self.d), weights)


class SparseFeatures(Features):
    """Features given as a scipy.sparse matrix: most entries are 0, as in a weight per turn of a city."""

    def reward(self, weights: Floats) -> LinearReward:
        return SparseReward(self.matrix, weights, self._shape[1])


class StateFeatures(Features):
    """One-hot states, f(s, a)[k] = 1 where k = s: what there is where nobody chose features."""

    def __init__(self, world: Transitions) -> None:
        pairs = np.arange(world.n_states * world.n_actions)
        rows = (np.ones(len(pairs)), pairs // world.n_actions, np.arange(len(pairs) + 1))
        super().__init__(csr_matrix(rows, shape=(len(pairs), world.n_states)), world.n_states, world.n_actions)

    def reward(self, weights: Floats) -> LinearReward:
        return StateReward(weights, self._shape[1])


class LearnedFeatures(Features):
    """Some columns of other features, beside the reward that fixed weights give to the others."""

    def __init__(self, whole: Features, learned: NDArray[np.int64], fixed: Floats) -> None:
        super().__init__(whole.matrix[:, learned], *whole._shape)
        self.fixed = whole.table(fixed)  # (n_states, n_actions)

    def table(self, weights: Floats) -> Floats:
        return super().table(weights) + self.fixed

    def reward(self, weights: Floats) -> LinearReward:
        raise NotImplementedError


def _hint(shape: tuple[int, ...], world: Transitions) -> str:
    """What to do with features of a likely shape."""
    if shape == (world.n_states, world.n_actions):
        return " These are those of one feature: write features[:, :, None]."
    if len(shape) == 2 and shape[0] == world.n_states:
        return f" These are those of states: write np.repeat(features[:, None, :], {world.n_actions}, axis=1)."
    return ""


def read_features(features: Any, world: Transitions) -> Features:
    """Features (n_states, n_actions, d), or sparse ones, checked against the world; None is one-hot states."""
    if features is None:
        return StateFeatures(world)
    if issparse(features):
        return _not_too_small(read_sparse(features, world))
    if isinstance(features, Mapping):
        raise RewardError(
            "features are one array: of features by name make np.stack([...], axis=2) of their tables (n_states, "
            "n_actions), and give the names to summary(names=[...])."
        )
    array = real_array(features, "features")
    if array.ndim != 3 or array.shape[:2] != (world.n_states, world.n_actions) or not array.shape[2]:
        raise RewardError(
            f"features have shape {array.shape}, but the world has {world.n_states} states and {world.n_actions} "
            f"actions: give an array of shape ({world.n_states}, {world.n_actions}, d) with d of 1 or more."
            + _hint(array.shape, world)
        )
    return _not_too_small(DenseFeatures(array))


def _not_too_small(features: Features) -> Features:
    """The features, if the squares of the weights that go with them are numbers."""
    smallest = int(np.argmin(features.scale))
    if features.scale[smallest] < SMALLEST:
        raise RewardError(
            f"feature {smallest} is at most {features.scale[smallest]:.2g} anywhere, too small to be learned from: its "
            f"weight would have to be that large. Give features of size 1 or so, and {SMALLEST:g} or more."
        )
    return features


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
