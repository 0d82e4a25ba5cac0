"""Rewards r(s, a): plain tables, and linear rewards r = theta . f(s, a)."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import RewardError
from xmen.worlds.mdp import MDP

Floats: TypeAlias = NDArray[np.float64]

LARGEST_RETURN = 1e10  # sums of rewards above this leave fewer than six digits for their differences


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
            raise RewardError(
                "LinearReward needs features of shape (n_states, n_actions, d) and weights of shape (d,); "
                f"got features of shape {self.features.shape} and weights of shape {self.weights.shape}."
            )

    def table(self) -> Floats:
        """The reward of every state and action.

        Returns
        -------
        NDArray
            Shape (n_states, n_actions).
        """
        return self.features @ self.weights

    def __repr__(self) -> str:
        states, actions, d = self.features.shape
        return f"LinearReward({states} states, {actions} actions, {d} features)"


def reward_table(reward: Reward | ArrayLike | None, world: MDP) -> Floats:
    """The (n_states, n_actions) table of a reward, checked against the world; None is zero everywhere."""
    shape = (world.n_states, world.n_actions)
    if reward is None:
        return np.zeros(shape)
    table = real_array(reward.table() if isinstance(reward, Reward) else reward, "the reward")
    if table.shape != shape:
        raise RewardError(
            f"the reward has shape {table.shape}, but the world has {world.n_states} states and "
            f"{world.n_actions} actions: give an array of shape {shape}, or LinearReward(features, weights)."
            + (f" For one per state: np.tile(reward, ({world.n_actions}, 1)).T." if table.shape == shape[:1] else "")
        )
    longest = world.n_states if world.unbounded else max(world.max_length, 1)
    largest = float(np.abs(table).max(initial=0.0)) * longest
    if largest > LARGEST_RETURN:
        raise RewardError(
            f"rewards of up to {np.abs(table).max():g} over {longest} actions add up to {largest:g}: beyond "
            f"{LARGEST_RETURN:g} a double can no longer tell trajectories apart. Scale the rewards down, or take out "
            "what all actions have in common."
        )
    return table


def real_array(values: ArrayLike, what: str) -> Floats:
    """The values as finite floats, or a RewardError that says where they are not."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise RewardError(f"{what} must be an array of numbers; got {type(values).__name__}: {values!r:.80}.") from None
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise RewardError(
            f"{what} must be finite, but is {array[where]} at {where}. To forbid something write a constraint, "
            "such as never(at(state) & doing(action))."
        )
    return array
