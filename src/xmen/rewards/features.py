"""Features of a linear reward as learners use them: contracted with visits, and turned into reward tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse

from xmen.errors import RewardError
from xmen.limits import MEMORY
from xmen.rewards import Floats, LinearReward, real_array
from xmen.rewards.sparse import SparseFeatures, read_sparse
from xmen.worlds.transitions import Transitions

SMALLEST = 1e-150  # of the largest value of a feature


class Features(Protocol):
    """f(s, a) in R^d for every state and action."""

    @property
    def d(self) -> int:
        """The number of features."""

    @property
    def scale(self) -> Floats:
        """The largest |f_k(s, a)| of each feature (d,); 1 where that is 0."""

    def contract(self, visits: Any) -> Floats:
        """sum over (s, a) of visits times features, (d,).

        Visits are (n_states, n_actions), or n of them as sparse rows (n, n_states * n_actions), which gives (n, d).
        """

    def table(self, weights: Floats) -> Floats:
        """The reward table (n_states, n_actions) of weights (d,)."""

    def rows(self, states: NDArray[Any], actions: NDArray[Any]) -> csr_matrix:
        """f(s, a) of each pair, as sparse rows (n, d)."""

    def reward(self, weights: Floats) -> LinearReward:
        """The reward with these weights."""


class DenseFeatures:
    """Features given as an array (n_states, n_actions, d)."""

    def __init__(self, features: Floats) -> None:
        self.array = features
        self.d = features.shape[2]
        largest = np.abs(features).max(axis=(0, 1))
        self.scale: Floats = np.where(largest > 0, largest, 1.0)
        self._matrix = features.reshape(-1, self.d)

    def contract(self, visits: Any) -> Floats:
        contracted: Floats = (visits if issparse(visits) else visits.reshape(-1)) @ self._matrix
        return contracted

    def table(self, weights: Floats) -> Floats:
        table: Floats = self.array @ weights
        return table

    def rows(self, states: NDArray[Any], actions: NDArray[Any]) -> csr_matrix:
        return csr_matrix(self.array[states, actions])

    def reward(self, weights: Floats) -> LinearReward:
        return LinearReward(self.array, weights)


class StateFeatures(SparseFeatures):
    """One-hot states, f(s, a)[k] = 1 where k = s: what there is where nobody chose features."""

    def __init__(self, world: Transitions) -> None:
        pairs = np.arange(world.n_states * world.n_actions)
        rows = (np.ones(len(pairs)), pairs // world.n_actions, np.arange(len(pairs) + 1))
        super().__init__(csr_matrix(rows, shape=(len(pairs), world.n_states)), world.n_states, world.n_actions)

    def reward(self, weights: Floats) -> LinearReward:
        return StateReward(weights, self._shape[1])


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
