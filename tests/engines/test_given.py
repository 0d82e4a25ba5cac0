"""Given the start: P(tau) = d0(s_0) P(tau | s_0), against enumeration, for every engine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

import xmen as xm
from engines.truth import assert_agrees, follows, share_of, summed
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.machines.tables import CompiledConstraint


def several_starts(seed):
    """A random world, rule and reward, with two starts or more that all have a valid trajectory; and the truth."""
    rng = np.random.default_rng([seed, 77])
    while True:
        world = random_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        discount = 1.0 if rng.random() < 0.5 else 0.9
        reward = rng.normal(0, 1.5, (world.n_states, world.n_actions))
        alone = {}
        for start in range(world.n_states):
            truth = exact_distribution(world.with_start(start), description, reward, discount)
            if truth.log_weights:
                alone[start] = truth
        if len(alone) >= 2 and sum(len(t.log_weights) for t in alone.values()) <= 2000:
            break
    shares = np.zeros(world.n_states)
    shares[list(alone)] = rng.dirichlet(np.ones(len(alone)))
    return world.with_start(shares), constraint, reward, discount, alone


def mixture(world, alone):
    """log P of every trajectory: log d0 + log P(tau | s_0)."""
    return {
        tau: math.log(world.start[start]) + weight - truth.log_partition
        for start, truth in alone.items()
        for tau, weight in truth.log_weights.items()
    }


@pytest.mark.parametrize("seed", range(cases(60)))
def test_exact_agrees_with_enumeration(seed):
    world, constraint, reward, discount, alone = several_starts(seed)
    truth = mixture(world, alone)
    d = xm.distribution(world, constraint, reward, discount, given="start", seed=seed)
    assert math.fsum(map(math.exp, truth.values())) == pytest.approx(1.0)
    log_z = sum(world.start[start] * alone[start].log_partition for start in alone)
    truth = summed(world, truth, discount)
    assert_agrees(d, truth, log_z=log_z)
    rng = np.random.default_rng([seed, 79])
    description, rule = random_formula(rng, world.n_states, world.n_actions, depth=1)
    share = pytest.approx(share_of(description, truth), abs=1e-9)
    assert d.probability(rule) == share
    assert math.exp(d.log_probability(CompiledConstraint(rule, world), max_nodes=10**5)) == share
    assert d.with_reward(np.zeros_like(reward)).given == "start"


def fork():
    """Two starts, .5 each: one with a single way to the goal, one with three; jointly they start at 1/4 and 3/4."""
    rows = [(0, 0, 3, 1.0), (1, 0, 3, 1.0), (1, 1, 3, 1.0), (1, 2, 2, 1.0), (2, 0, 3, 1.0)]
    return xm.MDP(4, 3, rows, start=[0.5, 0.5, 0.0, 0.0], terminal=[3])


@pytest.mark.parametrize("engine", ["exact", "reject", "xor"])
def test_every_engine_starts_as_the_world_says(engine):
    """Chi-square over all four trajectories: a joint sampler (.25 each) would be off by 0.67 n > 200."""
    d = xm.distribution(fork(), None, None, engine=engine, given="start", seed=3)
    expected = {((0,), 0): 0.5, ((0,), 1): 1 / 6, ((1,), 1): 1 / 6, ((2, 0), 1): 1 / 6}
    assert follows(((tau.actions, tau.states[0]) for tau in d.sample(600, seed=4)), expected)
    value, std = d.log_partition(return_std=True)
    assert value == pytest.approx(0.5 * math.log(3), abs=4 * std + 1e-9)
    visits, error = d.visits(return_std=True)
    np.testing.assert_allclose(visits[0, 0], 0.5, atol=4 * error[0, 0] + 1e-9)
    assert d.log_prob(xm.Trajectory([0, 3], [0])) == pytest.approx(math.log(0.5), abs=4 * std + 1e-9)


def test_a_start_without_a_valid_trajectory_is_named():
    rule = xm.visit(xm.at(2)).named("over the bridge")
    for engine in ("exact", "reject"):
        with pytest.raises(xm.InfeasibleError, match="state 0") as caught:
            xm.distribution(fork(), rule, given="start", engine=engine)
        assert caught.value.conflict == ("over the bridge",)
    assert xm.distribution(fork(), rule).log_prob(xm.Trajectory([1, 2, 3], [2, 0])) == pytest.approx(0.0)


@pytest.mark.parametrize("settings", [{"given": "goal"}, {"given": "start", "method": "paper"}])
def test_what_learners_cannot_be_given_is_refused(settings):
    with pytest.raises(xm.EngineError, match="given"):
        xm.XMEN(fork(), **settings).fit([xm.Trajectory([0, 3], [0])])


@pytest.mark.parametrize("seed", range(cases(12)))
def test_learning_maximises_the_likelihood_given_the_start(seed):
    world, constraint, _, discount, alone = several_starts(seed)
    rng = np.random.default_rng([seed, 78])
    features = rng.normal(size=(world.n_states, world.n_actions, 2))
    listed = [(start, tau) for start, truth in alone.items() for tau in truth.log_weights]
    weights = rng.gamma(0.7, size=len(listed)) + 0.01

    def row(tau):
        return sum((discount**t * features[s, a] for t, (s, a) in enumerate(zip(*tau, strict=False))), np.zeros(2))

    rows = np.array([row(tau) for _, tau in listed])
    dynamics = np.array([world.with_start(start).log_dynamics(xm.Trajectory(*tau)) for start, tau in listed])
    starts = np.array([start for start, _ in listed])

    def log_likelihoods(theta):
        logs = rows @ theta + dynamics
        for start in alone:
            logs[starts == start] -= logsumexp(logs[starts == start])
        return logs

    def loss(theta):
        return -float(weights @ log_likelihoods(theta)) / weights.sum() + 0.005 * float(theta @ theta)

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-7})
    demos = [xm.Trajectory(*tau) for _, tau in listed]
    model = xm.XMEN(world, constraint, features=features, discount=discount, given="start", l2=0.01)
    model.fit(demos, sample_weight=weights)
    np.testing.assert_allclose(model.weights_, best.x, atol=2e-4)
    assert loss(model.weights_) <= best.fun + 1e-9
    np.testing.assert_allclose(model.score_samples(demos), log_likelihoods(model.weights_), atol=1e-9)
    assert model.score(demos, weights) == pytest.approx(weights @ log_likelihoods(model.weights_) / weights.sum())
    assert model.distribution().given == "start"
