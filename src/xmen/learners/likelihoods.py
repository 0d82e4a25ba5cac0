"""The log-likelihood of each demonstration under what a learner has learned, or under any reward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

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


TOTAL_ERROR, MEAN_ERROR = 0.1, 0.002  # standard errors in nats of a log-likelihood that takes draws: both at the most
HELD_OUT_ERROR = 0.005  # of the mean over held-out trips, which are asked at every step


class Likelihoods(NamedTuple):
    """log P of each demonstration, and the standard error of each; trips of one pair share theirs."""

    values: Floats  # (n,)
    errors: Floats  # (n,) 0 where exact

    def total_error(self, found: Demonstrations) -> float:
        """The standard error of the sum over demonstrations, with their weights."""
        ends = np.stack([found.walks.starts, found.walks.last_states], axis=1)
        pair = np.unique(ends, axis=0, return_inverse=True)[1].ravel()
        return float(np.linalg.norm(np.bincount(pair, weights=found.weights * self.errors)) * len(found))


def log_likelihoods(model: Learner, found: Demonstrations) -> Likelihoods:
    """log P of each (n,), of its start and goal where these are given; -inf where it is not valid."""
    out, errors = np.full(len(found), -np.inf), np.zeros(len(found))
    if found.valid.any():
        walks = found.walks[found.valid]
        if isinstance(model.world, Network):
            error = min(TOTAL_ERROR, MEAN_ERROR * len(walks))
            out[found.valid], errors[found.valid] = _of_trips(model, walks, error)(model.reward_.table())
        else:
            out[found.valid] = world_likelihoods(model.distribution(), walks, model.given)
    return Likelihoods(out, errors)


def likelihoods_under(model: Learner, found: Demonstrations) -> Callable[[Floats], Floats]:
    """log P of each of these valid demonstrations as a function of the reward table: products are made only once."""
    if isinstance(model.world, Network):
        of_trips = _of_trips(model, found.walks, HELD_OUT_ERROR * len(found))
        return lambda table: of_trips(table).values
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


def _of_trips(model: Learner, trips: Walks, error: float) -> Callable[[Floats], Likelihoods]:
    """log P(tau | start, goal) of each trip: one solve for all goals, and draws where rules have to reject.

    So many draws that the sum has about this standard error.
    """
    network = model.world
    assert isinstance(network, Network)
    max_nodes, ends = model._engine_settings().max_nodes, (trips.starts, trips.last_states)
    partitions = TripPartitions(network, model._rule(), *ends, max_nodes, model.discount, error)
    dynamics = trips.totals(np.log(network.probability))

    def under(table: Floats) -> Likelihoods:
        reward = table[network.source, network.action]
        log_z, errors = partitions(reward)
        return Likelihoods(dynamics + trips.totals(reward, model.discount) - log_z, errors)

    return under
