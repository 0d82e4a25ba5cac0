"""Rewards r(s, a): plain tables, and linear rewards r = theta . f(s, a)."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import block_diag, csr_matrix, identity, issparse, kron

from xmen.errors import MEMORY, RewardError
from xmen.worlds.mdp import MDP
from xmen.worlds.transitions import Transitions

Floats: TypeAlias = NDArray[np.float64]

LARGEST_RETURN = 1e10  # sums of rewards above this leave fewer than six digits for their differences
WRITE_A_RULE = "To forbid something write a constraint, such as never(at(state) & doing(action))."


@runtime_checkable
class Reward(Protocol):
    """Anything with a table of rewards."""

    def table(self) -> Floats:
        """The reward of every state and action, shape (n_states, n_actions)."""


class LinearReward:
    """A reward that is linear in features: r(s, a) = weights . features[s, a].

    Parameters
    ----------
    features
        Shape (n_states, n_actions, d).
    weights
        Shape (d,); larger means more valued.

    Raises
    ------
    RewardError
        When the shapes do not fit or a number is not finite.

    Examples
    --------
    >>> reward = LinearReward(np.ones((3, 2, 1)), [0.5])
    >>> reward.table()[2]
    array([0.5, 0.5])
    """

    def __init__(self, features: ArrayLike, weights: ArrayLike) -> None:
        self.features = real_array(features, "features")
        self.weights = real_array(weights, "weights")
        if self.features.ndim != 3 or self.weights.shape != self.features.shape[2:]:
            needed = "features of shape (n_states, n_actions, d) and weights of shape (d,)"
            got = f"features of shape {self.features.shape} and weights of shape {self.weights.shape}"
            repeat = "Features of states are np.repeat(features[:, None, :], n_actions, axis=1)"
            raise RewardError(f"LinearReward needs {needed}; got {got}. {repeat}.")

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.features.shape[:2]

    def table(self) -> Floats:
        """The reward of every state and action, shape (n_states, n_actions)."""
        return self.features @ self.weights

    def __repr__(self) -> str:
        n_states, n_actions = self._shape
        return f"{type(self).__name__}({n_states} states, {n_actions} actions, {len(self.weights)} features)"


def reward_table(reward: Reward | ArrayLike | None, world: MDP) -> Floats:
    """The (n_states, n_actions) table of a reward, checked against the world; None is zero everywhere."""
    shape = (world.n_states, world.n_actions)
    if reward is None:
        return np.zeros(shape)
    table = _numbers(reward.table() if isinstance(reward, Reward) else reward, "the reward")
    if table.shape != shape:
        hint = f" For one per state: np.tile(reward, ({world.n_actions}, 1)).T." if table.shape == shape[:1] else ""
        advice = f"give an array of shape {shape}, or LinearReward(features, weights).{hint}"
        raise RewardError(f"the reward has shape {table.shape}, but {_sizes(world)}: {advice}")
    longest = world.n_states if world.unbounded else max(world.max_length, 1)
    largest = float(np.abs(table).max(initial=0.0)) * longest
    if not largest <= LARGEST_RETURN:  # nor is nan
        real_array(table, "the reward")
        many = f"rewards of up to {largest / longest:g} over {longest} actions add up to {largest:g}"
        why = f"beyond {LARGEST_RETURN:g} a double can no longer tell trajectories apart"
        advice = "Scale the rewards down, or take out what all actions have in common"
        raise RewardError(f"{many}: {why}. {advice}.")
    return table


def _sizes(world: Transitions) -> str:
    return f"the world has {world.n_states} states and {world.n_actions} actions"


def real_array(values: ArrayLike, what: str) -> Floats:
    """The values as finite floats, or a RewardError that says where they are not."""
    array = _numbers(values, what)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise RewardError(f"{what} must be finite, but is {array[where]} at {where}. {WRITE_A_RULE}")
    return array


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise RewardError(f"{what} must be an array of numbers; got {type(values).__name__}: {values!r:.80}.") from None


# ---- Linear rewards whose features are not held as an array: sparse ones, and the states themselves


def one_hot(n_states: int, n_actions: int) -> csr_matrix:
    """The states as features (n_states * n_actions, n_states)."""
    return csr_matrix(kron(identity(n_states), np.ones((n_actions, 1))))


class SparseReward(LinearReward):
    """r(s, a) = weights . features[s * n_actions + a], with sparse features."""

    def __init__(self, matrix: Any, weights: ArrayLike, n_actions: int) -> None:
        self.matrix, self.n_actions = csr_matrix(matrix), n_actions
        self.weights = real_array(weights, "weights")

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.matrix.shape[0] // self.n_actions, self.n_actions

    @cached_property
    def features(self) -> Floats:  # type: ignore[override]
        """The features as an array (n_states, n_actions, d), made only when looked at."""
        pairs, d = self.matrix.shape
        what = f"an array of {d:,} features for each of {pairs // self.n_actions:,} states"
        MEMORY.require(8 * pairs * d, what, RewardError)
        return np.asarray(self.matrix.toarray().reshape(-1, self.n_actions, d))

    def table(self) -> Floats:
        return np.asarray((self.matrix @ self.weights).reshape(-1, self.n_actions))


class StateReward(SparseReward):
    """r(s, a) = weights[s]: a linear reward whose features are the states themselves."""

    def __init__(self, weights: ArrayLike, n_actions: int) -> None:
        super().__init__(one_hot(np.size(weights), n_actions), weights, n_actions)


# ---- Features of a linear reward as learners use them: contracted with visits, and turned into reward tables

SMALLEST = 1e-150  # of the largest value of a feature: the squares of weights that go with smaller ones are no numbers


class Features:
    """f(s, a) in R^d for every state and action: a matrix (n_states * n_actions, d), row s * n_actions + a."""

    def __init__(self, matrix: Any, n_states: int, n_actions: int) -> None:
        self.matrix, self.d = matrix, int(matrix.shape[1])
        self._shape = (n_states, n_actions)
        largest = _dense(abs(matrix).max(axis=0)).ravel()
        self.scale: Floats = np.where(largest > 0, largest, 1.0)  # the largest |f_k(s, a)| (d,), 1 where that is 0

    def contract(self, visits: Any) -> Floats:
        """sum over (s, a) of visits (n_states, n_actions), flat or not, times features: (d,); (n, d) of sparse rows."""
        return _dense(visits @ self.matrix if issparse(visits) else self.matrix.T @ visits.reshape(-1))

    def table(self, weights: Floats) -> Floats:
        """The reward table (n_states, n_actions) of weights (d,)."""
        return np.asarray((self.matrix @ weights).reshape(self._shape))

    def reach(self, direction: Floats) -> float:
        """The largest change of a reward along a direction of the weights."""
        return float(np.abs(self.matrix @ direction).max(initial=0.0))

    def rows(self, states: NDArray[Any], actions: NDArray[Any]) -> csr_matrix:
        """f(s, a) of each pair, as sparse rows (n, d)."""
        return csr_matrix(self.matrix[states.astype(np.int64) * self._shape[1] + actions])

    def reward(self, weights: Floats) -> LinearReward:
        if issparse(self.matrix):
            return SparseReward(self.matrix, weights, self._shape[1])
        return LinearReward(self.matrix.reshape(*self._shape, self.d), weights)


def _dense(values: Any) -> Floats:
    return np.asarray(values.toarray() if issparse(values) else values)


class DenseFeatures(Features):
    """Features given as an array (n_states, n_actions, d)."""

    def __init__(self, features: Floats) -> None:
        super().__init__(features.reshape(-1, features.shape[2]), *features.shape[:2])


class StateFeatures(Features):
    """One-hot states, f(s, a)[k] = 1 where k = s: what there is where nobody chose features."""

    def __init__(self, world: Transitions) -> None:
        super().__init__(one_hot(world.n_states, world.n_actions), world.n_states, world.n_actions)

    def reward(self, weights: Floats) -> LinearReward:
        return StateReward(weights, self._shape[1])


class LearnedFeatures(Features):
    """Some columns of other features, beside the reward that fixed weights give to the others."""

    def __init__(self, whole: Features, learned: NDArray[np.int64], fixed: Floats) -> None:
        super().__init__(whole.matrix[:, learned], *whole._shape)
        self.fixed = whole.table(fixed)  # (n_states, n_actions), or flat with weights of rules

    def table(self, weights: Floats) -> Floats:
        return np.asarray(self.matrix @ weights).reshape(self.fixed.shape) + self.fixed


class RuleFeatures(Features):
    """Other features, and after them one for each of k rules that are usually kept: 1 where a trajectory keeps it.

    Visits and tables are flat, with how often rules are kept and their weights after the pairs of states and actions.
    """

    def __init__(self, bare: Features, k: int) -> None:
        self.bare = bare
        super().__init__(block_diag([bare.matrix, identity(k)], format="csr"), *bare._shape)

    def table(self, weights: Floats) -> Floats:
        return np.asarray(self.matrix @ weights)

    def rows(self, states: NDArray[Any], actions: NDArray[Any]) -> csr_matrix:
        """f(s, a) of each pair and, after them, of each rule."""
        return csr_matrix(block_diag([self.bare.rows(states, actions), identity(self.d - self.bare.d)]))


def read_features(features: Any, world: Transitions) -> Features:
    """Features (n_states, n_actions, d) or of states (n_states, d), or sparse ones, checked; None is one-hot states."""
    if features is None:
        return StateFeatures(world)
    if isinstance(features, Mapping):
        advice = "of features by name make np.stack([...], axis=2) of their tables (n_states, n_actions)"
        raise RewardError(f"features are one array: {advice}, and give the names to summary(names=[...]).")
    found = _read_sparse(features, world) if issparse(features) else _read_dense(features, world)
    smallest = int(np.argmin(found.scale))
    if found.scale[smallest] < SMALLEST:
        small = f"feature {smallest} is at most {found.scale[smallest]:.2g} anywhere, too small to be learned from"
        advice = f"Give features of size 1 or so, and {SMALLEST:g} or more"
        raise RewardError(f"{small}: its weight would have to be that large. {advice}.")
    return found


def _read_dense(features: Any, world: Transitions) -> Features:
    array, shape = real_array(features, "features"), (world.n_states, world.n_actions)
    if array.ndim == 3 and array.shape[:2] == shape and array.shape[2]:
        return DenseFeatures(array)
    hint = ""
    if array.shape == shape:
        of_states = f"np.repeat(features[:, None, :], {world.n_actions}, axis=1)"
        hint = f" If they are of one feature write features[:, :, None], if of states {of_states}."
    elif array.ndim == 2 and array.shape[0] == world.n_states and array.shape[1]:
        return DenseFeatures(np.repeat(array[:, None, :], world.n_actions, axis=1))
    wanted = f"({world.n_states}, {world.n_actions}, d) with d of 1 or more, or of states ({world.n_states}, d)"
    raise RewardError(f"features have shape {array.shape}, but {_sizes(world)}: give an array of shape {wanted}.{hint}")


def _read_sparse(features: Any, world: Transitions) -> Features:
    rows = world.n_states * world.n_actions
    if features.ndim != 2 or features.shape[0] != rows or not features.shape[1]:
        wanted = f"a matrix of shape ({rows}, d), row s * {world.n_actions} + a, with d of 1 or more"
        raise RewardError(f"sparse features have shape {features.shape}, but {_sizes(world)}: give {wanted}.")
    matrix = csr_matrix(features, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        state, action = divmod(row, world.n_actions)
        place = f"{world.describe_action(action)} in {world.describe_state(state)} (row {row})"
        found = f"feature {matrix.indices[wrong[0]]} is {matrix.data[wrong[0]]} for {place}"
        raise RewardError(f"features must be finite, but {found}. {WRITE_A_RULE}")
    return Features(matrix, world.n_states, world.n_actions)
