"""Worlds without chance: the policy of an exact distribution, with the product that it has compiled already.

Without chance a choice has one outcome, so that V_t(n) is the log of the weight of all ways to complete a trajectory
from n, and the shares of choices are the conditional probabilities of P. What the product has pruned is what "sure"
would never choose.
"""

from __future__ import annotations

import numpy as np

from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.errors import EngineError
from xmen.policies.behaviour import SURE, Behaviour
from xmen.policies.game import game_of
from xmen.policies.planning import NEEDS_HORIZON
from xmen.rewards import reward_table


def behaviour_of(distribution: Distribution) -> Behaviour:
    """P(a | history) at every node and time; for an exact distribution over a deterministic world."""
    world = distribution.world
    if not world.deterministic:
        chance = int(np.flatnonzero(world.probability < 1.0)[0])
        raise EngineError(
            "a distribution over trajectories can be acted out only in deterministic worlds, and here "
            f"{world.describe_action(int(world.action[chance]))} in "
            f"{world.describe_state(int(world.source[chance]))} has more than one outcome. The distribution "
            "conditions on lucky transitions, so it describes trajectories and cannot be acted out with the same "
            "validity: use sample(n) for trajectories, xm.plan(world, constraint, reward) for a policy with a promise, "
            "or CausalXMEN to learn one."
        )
    if not isinstance(distribution, ExactDistribution):
        raise EngineError(
            f"a policy needs engine='exact'; this distribution comes from engine={distribution.engine!r}."
        )
    if world.unbounded:
        raise EngineError(NEEDS_HORIZON)
    place = distribution.place
    game = game_of(distribution.product, None if place is None else place.device)
    return Behaviour(game, reward_table(distribution.reward, world), distribution.discount, SURE)
