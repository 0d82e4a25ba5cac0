"""Worlds from Gymnasium environments that publish their transition table (the toy-text family).

The table `env.unwrapped.P[state][action]` lists (probability, next_state, reward, terminated). The
flag `terminated` belongs to the transition, while an `MDP` has terminal *states*; the two agree
unless a state that an episode can reach is entered both with and without the flag. Such a state is
split: entering it with the flag leads to an extra terminal state of its own.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import WorldError
from xmen.worlds.mdp import MDP, reachable
from xmen.worlds.transitions import read_start, require_index


class GymnasiumWorld(MDP):
    """The world of a Gymnasium environment, state by state and action by action; made by `MDP.from_gymnasium`.

    Episodes that are cut off by a limit on the number of steps are not complete trajectories: see `MDP`.

    Attributes
    ----------
    rewards
        The environment's expected reward of each action, 0 where it is not available; shape (n_states, n_actions).
        Handy as a feature.
    observations
        What the environment calls each state, shape (n_states,). State s is observation s. A state that an episode can
        enter both with and without ending there is split in two; the extra terminal states are numbered after all
        others.
    """

    rewards: NDArray[np.float64]
    observations: NDArray[np.int64]

    def __init__(self, env: Any, *, horizon: int | None = None) -> None:
        if isinstance(env, str):
            raise WorldError(f"from_gymnasium takes an environment, got a name: pass gymnasium.make({env!r})")
        inner = getattr(env, "unwrapped", env)
        name = type(inner).__name__
        if getattr(inner, "P", None) is None:
            which = "which toy-text environments such as FrozenLake, CliffWalking and Taxi have"
            reads = f"from_gymnasium reads env.unwrapped.P, {which}; write other worlds as xmen.MDP(...)"
            raise WorldError(f"{name} has no transition table: {reads}")
        if getattr(inner, "fickle_passenger", False):
            why = "changes the destination outside its transition table, so the table does not describe its episodes"
            raise WorldError(f"{name} with fickle_passenger=True {why}: use fickle_passenger=False")
        n_observations, n_actions = _size(inner, "observation_space"), _size(inner, "action_space")
        rows = _read_table(inner.P, n_observations, n_actions)
        if getattr(inner, "initial_state_distrib", None) is None:
            missing = f"{name} has no initial_state_distrib, so nothing says where episodes start"
            raise WorldError(f"{missing}: set it to a probability vector over states")
        start = read_start(np.asarray(inner.initial_state_distrib), n_observations)

        # A state needs a terminal twin when an episode can start in it, or enter it without the flag, and can also end
        # in it. What happens in states that no episode reaches does not count: in Taxi, the state after a drop-off is
        # entered without the flag only from states where the passenger never is.
        state, action, target = rows[:, :3].T.astype(np.int32)
        ends = rows[:, 5] > 0
        alive = reachable(state[~ends], target[~ends], start > 0)
        endings = np.unique(target[ends])
        ended, extra = endings[~alive[endings]], endings[alive[endings]]
        self.observations = np.append(np.arange(n_observations), extra)
        self.rewards = np.zeros((len(self.observations), n_actions))
        np.add.at(self.rewards, (state, action), rows[:, 3] * rows[:, 4])
        self.rewards[ended] = 0.0
        if horizon is None:
            horizon = getattr(getattr(env, "spec", None), "max_episode_steps", None)
        split = ends & np.isin(target, extra)
        rows[split, 2] = n_observations + np.searchsorted(extra, target[split])
        start = np.append(start, np.zeros(len(extra)))
        terminal = np.append(ended, np.arange(n_observations, len(start)))
        super().__init__(len(start), n_actions, rows[:, :4], start, terminal, horizon)


def _size(inner: Any, which: str) -> int:
    space = getattr(inner, which, None)
    size = getattr(space, "n", None)
    if not isinstance(size, int | np.integer) or getattr(space, "start", 0) != 0:
        raise WorldError(f"{type(inner).__name__}: {which} must be Discrete(n) starting at 0, got {space}")
    number: int = require_index(f"the size of {which}", size, least=1)
    return number


def _read_table(table: Any, n_observations: int, n_actions: int) -> NDArray[np.float64]:
    """The rows (state, action, next_state, probability, reward, terminated) that can happen, shape (n, 6)."""
    rows = []
    for state, action in product(range(n_observations), range(n_actions)):
        try:
            outcomes = table[state][action]
        except (KeyError, IndexError):
            continue  # not listed: not available
        where = f"P[{state}][{action}]"
        try:
            found = [(state, action, int(t), float(p), float(r), bool(end)) for p, t, r, end in outcomes]
        except (TypeError, ValueError):
            expected = "must list (probability, next_state, reward, terminated)"
            raise WorldError(f"{where} {expected}, got {outcomes!r:.80}") from None
        for _, _, target, *_ in found:
            if not 0 <= target < n_observations:
                known = f"the observations are 0 to {n_observations - 1}"
                raise WorldError(f"{where} leads to state {target}, but {known}")
        rows += [row for row in found if row[3] != 0.0]
    return np.array(rows, dtype=np.float64).reshape(-1, 6)
