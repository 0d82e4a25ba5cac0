"""A level certified at one theta-hat, carried to others: the bound against copies counted one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task, small_task
from xmen.learners.xmen import XMEN
from xmen.methods.paper import PATIENCE, Certificate, Proposal, certify
from xmen.rewards.linear import DenseFeatures
from xmen.sampling import PawsPlan
from xmen.sampling.paws import largest_mean

DELTA, FAILURE = 1.18, 0.01


def copies(proposal: Proposal, theta: np.ndarray, beta: float) -> tuple[float, PawsPlan, float]:
    """The size of all copies at theta, from the list of trajectories, and the log weight that counts for 1."""
    values = proposal.listed_features @ theta + beta * proposal.log_dynamics(proposal.hashed.walks)
    span = 0.25 * math.ceil(np.ptp(values) / 0.25)
    plan = PawsPlan.solve(DELTA, FAILURE, log_span=span, n_hash=proposal.hashed.decoder.width, thinned=True)
    levels = plan.levels(float(values.max()))
    log_unit = levels.log_max - levels.n_bits * math.log(2.0)
    per_copy = values - levels.log_copies(levels.depth(values))
    assert per_copy.max() <= log_unit + 1e-9
    return float(np.exp(values - log_unit).sum()), plan, log_unit


@pytest.mark.parametrize("seed", range(4))
def test_a_carried_bound_is_above_the_copies_counted(seed):
    """From the smallest level that could have passed, to other theta-hat and beta, whatever the drift."""
    task = small_task(seed, spellable=True, least_valid=20)
    features = DenseFeatures(task.features)
    base = xm.distribution(task.world, task.constraint, None, discount=task.discount, engine="xor", oracle="listed")
    proposal, rng = Proposal(base, features), np.random.default_rng(seed)
    for _ in range(10):
        place, moved = rng.normal(size=features.d + 1), 0.2 * rng.normal(size=features.d + 1)
        place[-1] = abs(place[-1]) % 1.0
        size, plan, log_unit = copies(proposal, place[:-1], place[-1])
        k = max(0, math.ceil(math.log2(size / largest_mean(plan.pivot, plan.faithful))))
        log_mass = certify(plan, log_unit, k)
        assert k == 0 or log_mass < math.log(2.0 * size) + log_unit + 1e-9  # as one level less would not have passed
        exact = proposal.listed_features @ place[:-1] + place[-1] * proposal.log_dynamics(base.hashed.walks)
        assert np.logaddexp.reduce(exact) <= log_mass + 1e-9
        drift = proposal.range_of(features.table(moved[:-1]), moved[-1])[1]
        size, plan, log_unit = copies(proposal, (place + moved)[:-1], (place + moved)[-1])
        assert math.log(size) + log_unit <= log_mass + drift + 1e-9


def test_what_a_drift_costs():
    certificate = Certificate(1.5, np.array([1.0, 2.0]), np.array([0.5, 0.25]))
    assert certificate.paid(np.array([2.0, 2.0]), 0.5 + math.log(2.0)) == pytest.approx(1.0)
    assert PATIENCE >= 1.0


def test_most_iterations_need_no_search():
    """The first searches; later ones only where the weights have moved far. Without, every iteration would."""
    grid, rule, features, demos = grid_task(6)
    settings = {"method": "paper", "oracle": "listed", "engine": "exact", "seed": 0, "max_iter": 30}
    model = XMEN(grid, rule, features, **settings)
    with pytest.warns(xm.LearningWarning):
        model.fit(demos)
    searched = np.flatnonzero([record.details["search_cells"] for record in model.history_])
    assert searched[0] == 0
    assert len(searched) < 12
