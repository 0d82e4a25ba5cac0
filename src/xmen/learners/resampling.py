"""Use after training as in the paper: a pool drawn from the proposal, resampled by importance weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xmen.engines.choose import Chooser
from xmen.engines.distribution import Law, Seed
from xmen.errors import EngineError
from xmen.learners.base import Learner, Rules
from xmen.machines.tables import release
from xmen.methods.paper import DEFAULT_DELTA, DEFAULT_FAILURE
from xmen.methods.proposal import Proposal, effective_sample_size
from xmen.methods.runs import seed_sequence
from xmen.rewards import LinearReward
from xmen.rewards.linear import DenseFeatures
from xmen.worlds.trajectory import Trajectory


class Resampled(NamedTuple):
    """Trajectories of a pool, drawn by their weights, and how many independent draws the pool is worth."""

    trajectories: list[Trajectory]
    effective_sample_size: float


def resample(
    model: Learner,
    n: int,
    pool_size: int = 200,
    also: Rules = None,
    seed: Seed = None,
    delta: float = DEFAULT_DELTA,
    failure: float = DEFAULT_FAILURE,
) -> Resampled:
    """n trajectories from a pool of PAWS draws from exp(R) I_C, each picked in proportion to D: about P.

    All valid. With replacement, so trajectories repeat; `effective_sample_size` says how far to trust their
    frequencies. `model.sample` draws from P itself; this is what the paper does.
    """
    model._require_fitted()
    if not isinstance(model.reward_, LinearReward):
        raise EngineError("resampling needs a linear reward; model.sample works for every reward.")
    if n < 0 or pool_size < 1:
        raise EngineError(f"resample needs n of 0 or more and pool_size of 1 or more; got {n} and {pool_size}.")
    world, rule = model._asked_world(None, None), model._rule(also)
    if rule is not None:
        rule.check_world(world)
    base = Chooser(Law(world, rule, None, model.discount), model._engine_settings()).joint_xor()
    table = model.reward_.table()
    proposal = Proposal(base, DenseFeatures(table[:, :, None]))
    rng = np.random.default_rng(seed_sequence(seed))
    pool = proposal.draw(np.ones(1), np.zeros(1), 0.0, pool_size, delta, failure, rng)
    shares = np.exp(pool.log_weights - pool.log_weights.max())
    chosen = rng.choice(pool_size, size=n, p=shares / shares.sum())
    return Resampled(release(pool.walks[chosen], base._compiled), effective_sample_size(pool.log_weights))
