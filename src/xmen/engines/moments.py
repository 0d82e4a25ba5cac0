"""Averages over batches of walks: expected visits and scores, with the spread that standard errors need."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from xmen.machines.walks import Walks
from xmen.rewards import Floats
from xmen.worlds.mdp import MDP


def visit_rows(walks: Walks, world: MDP, discount: float) -> scipy.sparse.csr_matrix:
    """Discounted visits of each walk, as sparse rows of shape (n, n_states * n_actions)."""
    row, t = np.nonzero(walks.inside)
    edges = walks.edges[row, t]
    pair = world.source[edges].astype(np.int64) * world.n_actions + world.action[edges]
    shape = (len(walks), world.n_states * world.n_actions)
    return scipy.sparse.csr_matrix((discount ** t.astype(np.float64), (row, pair)), shape=shape)


def state_rows(walks: Walks, world: MDP) -> scipy.sparse.csr_matrix:
    """How often each walk is in each state, as sparse rows of shape (n, n_states)."""
    row, t = np.nonzero(walks.inside)
    states = np.concatenate([walks.starts, world.target[walks.edges[row, t]]])
    rows = np.concatenate([np.arange(len(walks)), row])
    return scipy.sparse.csr_matrix((np.ones(len(states)), (rows, states)), shape=(len(walks), world.n_states))


def scores(walks: Walks, world: MDP, reward: Floats, discount: float) -> Floats:
    """R + log D of each walk, given the (n_states, n_actions) table of rewards."""
    inside = walks.inside
    step = reward[world.source, world.action][walks.edges]
    log_step = np.log(world.probability)[walks.edges]
    total = (step * discount ** np.arange(step.shape[1]) + log_step).sum(axis=1, where=inside)
    out: NDArray[np.float64] = total + np.log(world.start[walks.starts])
    return out


class WalkMoments:
    """Running sums over accepted walks, among a number drawn."""

    def __init__(self, world: MDP, reward: Floats, discount: float) -> None:
        self._world, self._reward, self._discount = world, reward, discount
        self.n_drawn = 0
        self.n_accepted = 0
        self._visits = np.zeros(world.n_states * world.n_actions)
        self._squares = np.zeros(world.n_states * world.n_actions)
        self._states = np.zeros(world.n_states)
        self._score = 0.0

    def add(self, n_drawn: int, accepted: Walks) -> None:
        """One batch more."""
        self.n_drawn += n_drawn
        self.n_accepted += len(accepted)
        rows = visit_rows(accepted, self._world, self._discount)
        self._visits += np.asarray(rows.sum(axis=0)).ravel()
        self._squares += np.asarray(rows.power(2).sum(axis=0)).ravel()
        self._states += np.asarray(state_rows(accepted, self._world).sum(axis=0)).ravel()
        self._score += float(scores(accepted, self._world, self._reward, self._discount).sum())

    @property
    def acceptance(self) -> float:
        """The share of drawn walks that were accepted."""
        return self.n_accepted / self.n_drawn

    def visits(self) -> tuple[Floats, Floats]:
        """Mean discounted visits and their standard errors, shape (n_states, n_actions)."""
        n = self.n_accepted
        mean = self._visits / n
        variance = np.maximum(self._squares / n - mean**2, 0.0) * n / max(n - 1, 1)
        shape = (self._world.n_states, self._world.n_actions)
        return mean.reshape(shape), np.sqrt(variance / n).reshape(shape)

    def state_visits(self) -> Floats:
        """Mean number of positions at each state."""
        return self._states / self.n_accepted

    def score(self) -> float:
        """Mean of R + log D."""
        return self._score / self.n_accepted
