"""The log-likelihood of each demonstration under what a learner has learned, or under any reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from xmen.engines.choose import answering
from xmen.engines.distribution import Distribution
from xmen.engines.law import Law
from xmen.engines.reject_trips import TripPartitions
from xmen.methods.demonstrations import Demonstrations
from xmen.rewards import Floats
from xmen.worlds import Network, Walks

if TYPE_CHECKING:
    from xmen.learners.base import Learner


def log_likelihoods(model: Learner, found: Demonstrations) -> Floats:
    """log P of each (n,), of its start and goal where these are given; -inf where it is not valid."""
    out = np.full(len(found), -np.inf)
    if found.valid.any():
        walks = found.walks[found.valid]
        if isinstance(model.world, Network):
            out[found.valid] = _of_trips(model, walks)(model.reward_.table())
        else:
            out[found.valid] = world_likelihoods(model.distribution(), walks, model.given)
    return out


def likelihoods_under(model: Learner, found: Demonstrations) -> Callable[[Floats], Floats]:
    """log P of each of these valid demonstrations as a function of the reward table: products are made only once."""
    if isinstance(model.world, Network):
        return _of_trips(model, found.walks)
    law = Law(model.world, model._rule(), None, model.discount, model.given)
    base = answering(law, model._engine_settings(), model.seed)
    return lambda table: world_likelihoods(base.with_reward(table), found.walks, model.given)


def world_likelihoods(d: Distribution, walks: Walks, given: str | None = None) -> Floats:
    """log P of walks that are in the support (n,); given the start, without the probability of the start."""
    values = walks.scores(d.weights)
    if given is None:
        return values - d.log_partition()
    for start in np.unique(walks.starts).tolist():
        values[walks.starts == start] -= d.weights.log_start[start] + d._log_normaliser(start)
    return values


def _of_trips(model: Learner, trips: Walks) -> Callable[[Floats], Floats]:
    """log P(tau | start, goal) of each trip: one solve for all goals, and draws where rules have to reject."""
    network = model.world
    assert isinstance(network, Network)
    max_nodes = model._engine_settings().max_nodes
    partitions = TripPartitions(network, model._rule(), trips.starts, trips.last_states, max_nodes, model.discount)
    dynamics = trips.totals(np.log(network.probability))

    def under(table: Floats) -> Floats:
        reward = table[network.source, network.action]
        return dynamics + trips.totals(reward, model.discount) - partitions(reward)[0]

    return under
