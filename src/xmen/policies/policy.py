"""A policy with memory: acting in a real environment by the exact conditional distribution of the next action.

At a node n of the product (world state and machine states) after t actions,

    P(a_t = a | history) = exp(gamma^t r(s, a)) beta_{t+1}(n') / beta_t(n)

where n' is the node that action a leads to and beta is the total weight of all ways to complete a trajectory. An
action that leads to a dead end has beta = 0, so it is never chosen.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.engines.distribution import Distribution, Seed
from xmen.engines.exact import ExactDistribution
from xmen.errors import EngineError, InfeasibleError, TrajectoryError
from xmen.rewards import Floats


class Policy:
    """Acts so that whole episodes are distributed as P(tau | s_0): every one of them keeps the constraint.

    Needs an exact distribution over a deterministic world. `act` is called once per step of the environment; the
    policy remembers the rest, and checks that the environment does what the world says. With `greedy`, the most likely
    next action is taken instead of a random one (step by step, which is not always the most likely trajectory).

    In a world with chance no policy can promise this: P conditions on lucky transitions, which an agent cannot choose.

    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    >>> policy = Policy(xm.distribution(grid, xm.visit(grid.at((0, 2)))))
    >>> policy.reset(grid.state((0, 0)))
    >>> grid.moves[policy.act(grid.state((0, 0)))]
    'up'
    """

    def __init__(self, distribution: Distribution, greedy: bool = False, seed: Seed = None) -> None:

        world = distribution.world
        if not world.deterministic:
            chance = int(np.flatnonzero(world.probability < 1.0)[0])
            raise EngineError(
                "a policy that always keeps its constraint exists only in deterministic worlds, and here "
                f"{world.describe_action(int(world.action[chance]))} in "
                f"{world.describe_state(int(world.source[chance]))} has more than one outcome. The distribution "
                "conditions on lucky transitions, so it describes trajectories and cannot be acted out with the same "
                "validity: use sample(n) for trajectories, or a world without chance."
            )
        if not isinstance(distribution, ExactDistribution):
            raise EngineError(
                f"a policy needs engine='exact'; this distribution comes from engine={distribution.engine!r}."
            )
        self.distribution = distribution
        self.greedy = greedy
        self._rng = np.random.default_rng(seed)
        self._product = distribution.product
        # Gymnasium shows the same observation for a state and its terminal twin.
        self._shown: NDArray[np.int64] = getattr(world, "observations", np.arange(world.n_states))
        self._node: int | None = None
        self._taken: int | None = None  # the product edge of the last action, until the next observation
        self._time = 0

    @property
    def time(self) -> int:
        """The number of actions taken since `reset`."""
        return self._time + (self._taken is not None)

    @property
    def done(self) -> bool:
        """Whether the trajectory is complete, so that there is nothing left to do."""
        node = self._here()
        return self.time == self._product.horizon or self._product.indptr[node] == self._product.indptr[node + 1]

    def reset(self, observation: Any) -> None:
        """Begin an episode in this state; an error when no valid trajectory starts there."""
        world, product = self.distribution.world, self._product
        state = self._read(observation)
        found = product.starts[product.state[product.starts] == state]
        # With all trajectories of one length, a node may be left whose trajectories have the wrong length.
        if not len(found) or self.distribution.log_completions(0, found)[0] == -np.inf:
            known = 0 <= state < world.n_states
            where = world.describe_state(state) if known else f"state {state}"
            why = (
                "no trajectory from there keeps the constraint"
                if known and world.start[state] > 0
                else "the world never starts there"
            )
            raise InfeasibleError(f"an episode cannot begin in {where}: {why}.")
        self._node, self._taken, self._time = int(found[0]), None, 0

    def probabilities(self, observation: Any) -> Floats:
        """P(a | history) of each action, now that the environment shows `observation`; shape (n_actions,)."""
        edges, weights = self._choices(self._arrive(observation), self.time)
        world = self.distribution.world
        out = np.zeros(world.n_actions)
        out[world.action[self._product.edge[edges]]] = weights
        return out

    def act(self, observation: Any) -> int:
        """The next action, now that the environment shows `observation`."""
        node, time = self._arrive(observation), self.time
        edges, weights = self._choices(node, time)
        if self.greedy:
            choice = int(np.argmax(weights))
        else:
            # Only actions of positive probability can be drawn, whatever is rounded.
            able = np.flatnonzero(weights)
            place = np.searchsorted(np.cumsum(weights[able]), self._rng.random() * weights.sum(), side="right")
            choice = int(able[min(int(place), len(able) - 1)])
        self._node, self._time, self._taken = node, time, int(edges[choice])
        return int(self.distribution.world.action[self._product.edge[self._taken]])

    def _here(self) -> int:
        """The node in which the policy is, if the environment did what the world says."""
        if self._node is None:
            raise EngineError("the policy does not know where it is: call reset(observation) first.")
        return self._node if self._taken is None else int(self._product.target[self._taken])

    def _arrive(self, observation: Any) -> int:
        """The node in which the policy is, now that the environment shows `observation`."""
        world, node, state = self.distribution.world, self._here(), self._read(observation)
        expected = int(self._product.state[node])
        if state != self._shown[expected]:
            after = "reset" if self.time == 0 else f"action number {self.time}"
            raise TrajectoryError(
                f"after {after} the environment shows {state}, but in this world it is in "
                f"{world.describe_state(expected)}: call reset(observation) at the start of every episode and "
                "act(observation) once per step, and make the world from the same environment."
            )
        if self.done:
            raise EngineError(
                f"the episode is over after {self.time} actions: call reset(observation) to begin another one."
            )
        return node

    def _choices(self, node: int, time: int) -> tuple[NDArray[np.int64], Floats]:
        """The product edges that leave a node, and their probabilities."""
        product, weights = self._product, self.distribution._weights
        edges = np.arange(int(product.indptr[node]), int(product.indptr[node + 1]))
        rewards = weights.discount**time * weights.reward[product.edge[edges]]
        logits = rewards + self.distribution.log_completions(time + 1, product.target[edges])
        probabilities = np.exp(logits - logits.max())
        return edges, probabilities / probabilities.sum()

    @staticmethod
    def _read(observation: Any) -> int:
        try:
            return operator.index(observation.item() if isinstance(observation, np.ndarray) else observation)
        except (TypeError, ValueError):
            raise TrajectoryError(f"an observation is the number of a state; got {observation!r:.60}.") from None
