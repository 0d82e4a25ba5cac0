"""What a distribution over trajectories is made of, in one record that every engine takes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint
from xmen.rewards import Floats, Reward, reward_table
from xmen.sharing import once
from xmen.worlds import MDP, EdgeWeights


@dataclass(frozen=True, eq=False)
class Law:
    """P(tau) in proportion to exp(R(tau)) D(tau) over the trajectories of a world that keep a constraint.

    With `given="start"`, of each start by itself. With a `policy` pi(a | s), shape (n_states, n_actions), D also has
    the probabilities of the actions in it: P is then exp(R) times what following the policy gives.
    """

    world: MDP
    constraint: Constraint | None = None
    reward: Reward | ArrayLike | None = None
    discount: float = 1.0
    given: str | None = None
    policy: Floats | None = None

    def __eq__(self, other: object) -> bool:
        """Whether both have equal rules and numbers, and the same world, reward and policy."""
        if not isinstance(other, Law):
            return NotImplemented
        pairs = [(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)]
        return all(a is b or (isinstance(a, Constraint | float | str) and a == b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    @once
    def weights(self) -> EdgeWeights:
        """The log-weights of edges and starts; RewardError where the reward does not fit the world."""
        world = self.world
        weights = EdgeWeights.of(world, reward_table(self.reward, world), self.discount, self.given == "start")
        return weights if self.policy is None else weights.under(world, self.policy)

    def under(self, constraint: Constraint | None) -> Law:
        """The same under another constraint; weights are not worked out again."""
        other = replace(self, constraint=constraint)
        vars(other)["weights"] = self.weights
        return other

    def with_reward(self, reward: Reward | ArrayLike | None) -> Law:
        """The same under another reward."""
        return replace(self, reward=reward)
