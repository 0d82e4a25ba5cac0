"""Log-weights of the moves of a world: what every engine sums over trajectories.

A trajectory weighs exp(log_start[s_0] + sum_t log_dynamics[e_t] + gamma^t reward[e_t]) over the edges e_t it takes.
Rewards are discounted and probabilities are not, so the two stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.worlds.mdp import MDP

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class EdgeWeights:
    """log T and r of each edge, log d0 of each state, and the discount of r."""

    log_dynamics: Floats  # (E,)
    reward: Floats  # (E,)
    log_start: Floats  # (n_states,), -inf where nothing starts
    discount: float = 1.0
    given_start: bool = False  # starts are drawn as log_start says, whatever follows from them

    @classmethod
    def of(
        cls, world: MDP, table: Floats | None = None, discount: float = 1.0, given_start: bool = False
    ) -> EdgeWeights:
        """R + log D under a table of rewards (n_states, n_actions); None is no reward, which leaves log D."""
        with np.errstate(divide="ignore"):
            log_start = np.log(world.start)
        dynamics = np.log(world.probability)
        nothing = cls(dynamics, np.zeros(len(dynamics)), log_start, discount, given_start)
        return nothing if table is None else nothing.with_table(world, table)

    @classmethod
    def counting(cls, world: MDP, discount: float = 1.0) -> EdgeWeights:
        """Weight 1 for every trajectory: their total weight is their number."""
        nothing = np.zeros(len(world.source))
        return cls(nothing, nothing, np.where(world.start > 0, 0.0, -np.inf), discount)

    def with_table(self, world: MDP, table: Floats) -> EdgeWeights:
        """Another reward (n_states, n_actions)."""
        return replace(self, reward=table[world.source, world.action])

    def under(self, world: MDP, policy: Floats) -> EdgeWeights:
        """With actions drawn from pi(a | s), shape (n_states, n_actions): log pi joins the dynamics."""
        with np.errstate(divide="ignore"):
            return replace(self, log_dynamics=self.log_dynamics + np.log(policy[world.source, world.action]))

    def tempered(self, power: float) -> EdgeWeights:
        """The dynamics raised to a power; with 0 they are left out."""
        start = self.log_start.copy()
        start[start > -np.inf] *= power
        return replace(self, log_dynamics=power * self.log_dynamics, log_start=start)

    def negated(self) -> EdgeWeights:
        """The opposite sign: what is best under these is worst under the others."""
        return replace(self, log_dynamics=-self.log_dynamics, reward=-self.reward, log_start=-self.log_start)

    def at(self, t: int) -> Floats:
        """The log-weight of each edge as action number t, shape (E,)."""
        return self.log_dynamics + self.discount**t * self.reward
