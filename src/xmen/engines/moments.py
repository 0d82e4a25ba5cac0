"""Averages over batches of walks: expected visits and scores, with the spread that standard errors need."""

from __future__ import annotations

import numpy as np

from xmen.rewards import Floats
from xmen.worlds import MDP, EdgeWeights, Walks


class WalkMoments:
    """Running sums over accepted walks, among a number drawn."""

    def __init__(self, world: MDP, weights: EdgeWeights) -> None:
        self._world, self._weights = world, weights
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
        rows = accepted.visit_rows(self._weights.discount)
        self._visits += np.asarray(rows.sum(axis=0)).ravel()
        self._squares += np.asarray(rows.power(2).sum(axis=0)).ravel()
        self._states += np.asarray(accepted.state_rows().sum(axis=0)).ravel()
        self._score += float(accepted.scores(self._weights).sum())

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
