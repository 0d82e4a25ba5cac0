"""Where an episode is: the node that a policy or a shield is in, followed by what the environment shows."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import EngineError, InfeasibleError, TrajectoryError
from xmen.policies.behaviour import Behaviour


class Tracker:
    """Follows one episode through a game, and checks that the environment does what the world says."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self._game, self._product = behaviour.game, behaviour.game.product
        self.world, self.constraint = self._product.world, self._product.compiled.constraint
        # Gymnasium shows the same observation for a state and its terminal twin.
        self._shown: NDArray[np.int64] = getattr(self.world, "observations", np.arange(self.world.n_states))
        self._node: int | None = None
        self._taken: int | None = None  # the last choice, until the next observation
        self._time = 0

    @property
    def _task(self) -> str:
        """The world and the rules, as they are shown."""
        rule = "no rule" if self.constraint is None else str(self.constraint)
        return f"{type(self.world).__name__}: {rule if len(rule) <= 60 else rule[:57] + '...'}"

    @property
    def time(self) -> int:
        """The number of actions taken since `reset`."""
        return self._time + (self._taken is not None)

    @property
    def done(self) -> bool:
        """Whether the episode is over as far as is known: in an end, on its way to nothing else, or out of time.

        Nothing is promised of what an environment does after the horizon of the world: end the episode there.
        """
        return all(self._ended(node) for node in self._possible())

    def observe(self, observation: Any) -> None:
        """Note where the last action led: for asking `done` when there may be nothing left to do."""
        node, time = self._find(observation), self.time
        self._node, self._taken, self._time = node, None, time

    def reset(self, observation: Any) -> None:
        """Begin an episode in this state; an error when it is no start, or nothing can be promised from there."""
        state, product, world = read_observation(observation), self._product, self.world
        found = np.flatnonzero(product.state[product.starts] == state)
        if not len(found) or self.behaviour.start_values[found[0]] == -np.inf:
            known = 0 <= state < world.n_states
            where = world.describe_state(state) if known else f"state {state}"
            possible = known and world.start[state] > 0
            why = "no trajectory from there keeps the constraint" if possible else "the world never starts there"
            raise InfeasibleError(f"an episode cannot begin in {where}: {why}.")
        self._node, self._taken, self._time = int(product.starts[found[0]]), None, 0

    def _due(self) -> int:
        """The node in which somebody has to act now."""
        here = self._possible()
        if len(here) > 1 or self._ended(here[0]):
            raise self._over()
        return here[0]

    def _over(self) -> EngineError:
        late = " and that is the horizon of this world" if self.time == self._game.horizon else ""
        return EngineError(
            f"the episode is over after {self.time} actions{late}: ask `done` before every action, and call "
            "reset(observation) to begin another one."
        )

    def _follow(self, choice: int, observation: Any) -> None:
        """Note a choice that was made, and what the environment showed then; neither where that cannot be."""
        memory = self._node, self._taken, self._time
        try:
            self._node, self._taken, self._time = self._due(), choice, self.time
            self.observe(observation)
        except BaseException:
            self._node, self._taken, self._time = memory
            raise

    def _ended(self, node: int) -> bool:
        return self.time == self._game.horizon or not self._game.choices_of(node)

    def _possible(self) -> list[int]:
        """The nodes in which the episode may be, if the environment did what the world says."""
        if self._node is None:
            raise EngineError("the policy does not know where it is: call reset(observation) first.")
        if self._taken is None:
            return [self._node]
        begin, end = self._game.first_edge[[self._taken, self._taken + 1]].tolist()
        return [int(node) for node in self._product.target[begin:end]]

    def _find(self, observation: Any) -> int:
        """The node in which the episode is, now that the environment shows `observation`."""
        possible, state = self._possible(), read_observation(observation)
        found = [node for node in possible if self._shown[self._product.state[node]] == state]
        if not found:
            after = "reset" if self.time == 0 else f"action number {self.time}"
            expected = " or ".join(self.world.describe_state(int(self._product.state[node])) for node in possible)
            raise TrajectoryError(
                f"after {after} the environment shows {state}, but in this world it is in {expected}: call "
                "reset(observation) at the start of every episode and act(observation) once per step, and make the "
                "world from the same environment."
            )
        # Of a state and its terminal twin it is the state: who asks for an action has seen no end.
        return next((node for node in found if not self._ended(node)), found[0])


def read_observation(observation: Any) -> int:
    """The number of a state, or an error that says so."""
    try:
        return operator.index(observation.item() if isinstance(observation, np.ndarray) else observation)
    except (TypeError, ValueError):
        raise TrajectoryError(f"an observation is the number of a state; got {observation!r:.60}.") from None
