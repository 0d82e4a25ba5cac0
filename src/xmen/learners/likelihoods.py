"""The log-likelihood of each demonstration under what a learner has learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmen.engines.reject_trips import trip_partitions
from xmen.methods.demonstrations import Demonstrations
from xmen.rewards import Floats
from xmen.worlds.network import Network
from xmen.worlds.walks import Walks

if TYPE_CHECKING:
    from xmen.learners.base import Learner


def log_likelihoods(model: Learner, found: Demonstrations) -> Floats:
    """log P of each (n,), of its start and goal where these are given; -inf where it is not valid."""
    out = np.full(len(found), -np.inf)
    if found.valid.any():
        walks = found.walks[found.valid]
        is_trip = isinstance(model.world, Network)
        out[found.valid] = _of_trips(model, walks) if is_trip else _of_one_world(model, walks)
    return out


def _of_one_world(model: Learner, walks: Walks) -> Floats:
    d = model.distribution()
    values = walks.scores(d.weights)
    if model.given is None:
        return values - d.log_partition()
    for start in np.unique(walks.starts).tolist():
        values[walks.starts == start] -= d.weights.log_start[start] + d._log_normaliser(start)
    return values


def _of_trips(model: Learner, trips: Walks) -> Floats:
    """log P(tau | start, goal) of each trip: one solve for all goals, and draws where rules have to reject."""
    network = model.world
    assert isinstance(network, Network)
    reward = model.reward_.table()[network.source, network.action]
    log_z, _ = trip_partitions(
        network,
        model._rule(),
        trips.starts,
        trips.last_states,
        reward,
        model._engine_settings().max_nodes,
        model.discount,
    )
    return trips.totals(np.log(network.probability)) + trips.totals(reward, model.discount) - log_z
