"""Draws of a relaxation that is known exactly: the loss over all of it, its noise, and algebra for many parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

import xmen as xm
from engines.test_horizon_free import random_network, random_reward
from learners.exact_loss import assert_derivatives, assert_noise, exact_loss
from learners.tasks import grid_task, slopes, small_task
from reference import enumerate_trajectories
from xmen.engines.trips import RejectTrips, TripEngine
from xmen.methods import loss as spreading
from xmen.methods.loss import DrawnLoss, Draws, Spread, best_control
from xmen.methods.reject import RejectSource, TripSource
from xmen.methods.runs import Coordinates
from xmen.rewards.linear import DenseFeatures, Features

RULE = xm.no_revisit().named("no state twice")


@pytest.mark.parametrize("b", [1.0, 0.6])
@pytest.mark.parametrize("seed", [4, 18, 37])
def test_all_of_a_relaxation_gives_the_loss(seed, b):
    """Every trajectory of the world as a draw, the valid ones marked: nothing is left to chance."""
    task = small_task(seed, spellable=True)
    features, every = DenseFeatures(task.features), list(enumerate_trajectories(task.world))
    rows, log_dynamics = task.rows([one[:2] for one in every]), np.log([one[2] for one in every])
    valid = np.array([task.constraint.accepts(xm.Trajectory(*one[:2])) for one in every])
    assert 0 < valid.sum() < len(valid)
    steps = [
        (i, s * task.world.n_actions + a, task.discount**t)
        for i, (states, actions, _) in enumerate(every)
        for t, (s, a) in enumerate(zip(states, actions, strict=False))
    ]
    shape = (len(every), task.world.n_states * task.world.n_actions)
    number, column, amount = zip(*steps, strict=True)
    visits = csr_matrix((amount, (number, column)), shape=shape)

    def relaxed(theta, shares):
        logs = rows @ theta + log_dynamics
        p = np.exp(logs - logsumexp(logs))
        return np.array([logsumexp(logs)]), shares[0] * (p @ rows)

    nothing, one = np.zeros(len(every)), np.zeros(len(every), dtype=np.int64)
    draws = Draws.of_parts(visits, nothing, log_dynamics, valid, one, np.array([b]))
    draws = replace(draws, noise=np.zeros(1))
    loss = DrawnLoss(draws, features, task.demo_features, 0.3, relaxation=relaxed)
    theta = np.random.default_rng(seed).normal(size=features.d)
    assert_derivatives(loss, theta, lambda at: task.loss(at, 0.3))


def trips_of(seed, n_pairs=12, rule=RULE):
    """Pairs of a random network exactly and by rejection, with three features and weights that add up."""
    rng = np.random.default_rng([seed, 51])
    network = random_network(rng, 7)
    starts = rng.integers(0, 7, n_pairs)
    goals = (starts + rng.integers(1, 7, n_pairs)) % 7
    weights = rng.dirichlet(np.ones(n_pairs))
    exact = TripEngine(network, rule, starts, goals, weights, 10**6)
    reject = RejectTrips(network, rule, starts, goals, weights, 7)  # nothing but the network fits 7 nodes
    assert (reject.multiplied, reject.rejecting) == ([], ["no state twice"])
    table = np.stack([random_reward(rng, network, 0.6), *rng.normal(size=(2, 7, network.n_actions))], axis=2)
    return exact, reject, DenseFeatures(table), rng


def source_of(reject, features, least):
    return TripSource(reject, features, least, Coordinates(features.d, None, np.zeros(features.d)))


def loss_of(source, weights, rng, l2=0.0):
    draws = source.read({"draws": 0.0}, weights, rng).draws
    return DrawnLoss(draws, source.features, np.zeros(source.features.d), l2, source.parts, source.relaxation)


def exact_value(exact, features, theta):
    """The mean of log Z over pairs, and its gradient."""
    network = exact.network
    rows = features.rows(network.source, network.action)
    found = exact.value(rows @ theta)
    return exact.weight @ found.log_z, rows.T @ found.visits


HERE, NEAR = np.array([1.0, 0.0, 0.0]), np.array([1.05, 0.1, -0.1])


def test_log_partitions_match_pair_by_pair():
    """z-scores of 300 or more estimates: their mean square is 1 within 5 deviations of what chance allows."""
    scores = []
    for seed in range(40):
        exact, reject, features, rng = trips_of(seed)
        loss = loss_of(source_of(reject, features, 400), HERE, rng)
        acceptance = loss.acceptance(HERE)
        log_a, known = np.log(acceptance), loss.relaxation(HERE, np.zeros(exact.n_pairs))[0]
        rows = features.rows(exact.network.source, exact.network.action)
        n_valid = np.bincount(loss.draws.batch, weights=loss.draws.valid)
        truth, error = exact.value(rows @ HERE).log_z, np.sqrt((1 - acceptance) / n_valid)
        seen = acceptance < 1 - 1e-9
        np.testing.assert_allclose((known + log_a)[~seen], truth[~seen], atol=0.05)
        scores += ((known + log_a - truth)[seen] / error[seen]).tolist()
    assert len(scores) > 300
    assert np.mean(np.square(scores)) == pytest.approx(1.0, abs=5 * np.sqrt(2 / len(scores)) + 0.1)


def test_what_a_round_says_of_its_draws():
    """The number of valid ones, and shares of these that are the exact ones within 4 deviations of 2,000 draws."""
    exact, reject, features, rng = trips_of(4)
    source = source_of(reject, features, 2000)
    batch = source.read({"draws": 0.0}, HERE, rng)
    rows = features.rows(exact.network.source, exact.network.action)
    truth = np.exp(exact.value(rows @ HERE).log_z - source.relaxation(HERE, np.zeros(exact.n_pairs))[0])
    assert batch.info.n_points == np.count_nonzero(batch.draws.valid)
    assert batch.details["acceptance"] == pytest.approx(exact.weight @ truth, abs=4 * 0.5 / np.sqrt(2000))
    assert batch.details["least_acceptance"] == pytest.approx(truth.min(), abs=4 * 0.5 / np.sqrt(2000))


def noise_of(draws, source, theta):
    return Spread(DrawnLoss(draws, source.features, np.zeros(3), 0.0, source.parts, source.relaxation), theta).noise


@pytest.mark.parametrize(("seed", "theta"), [(3, HERE), (3, NEAR), (8, NEAR)])
@pytest.mark.slow
def test_noise_is_what_it_is_said_to_be(seed, theta):
    """150 rounds of draws at other weights: unbiased within 4 standard errors, variances within a third.

    The mean of 450 squared ratios has a standard deviation of at most 0.12, were the three components one: a variance
    that is wrong by a factor 2 is caught.
    """
    exact, reject, features, rng = trips_of(seed)
    value, slope = exact_value(exact, features, theta)
    source, ratios, losses = source_of(reject, features, 100), [], []
    for _ in range(150):
        loss = loss_of(source, HERE, rng)
        found, seen = loss(theta), Spread(loss, theta)
        ratios.append((found.gradient - slope) / np.sqrt(seen.noise.diagonal()))
        losses.append((found.loss - value) / seen.log_partition_std)
    assert_noise(ratios, losses)


def test_the_best_share_of_the_relaxation_is_less_noisy_than_none_or_all():
    """In units of the curvature, where the draws were made, on networks where the others go astray and where not."""
    for seed in range(12):
        _, reject, features, rng = trips_of(seed)
        source = source_of(reject, features, 400)
        network = reject.network
        acceptance, found = reject.draw(features.table(HERE)[network.source, network.action], 400, rng)
        draws = Draws.of_parts(*found, np.ones(reject.engine.n_pairs))
        best = best_control(draws, features, source.parts)
        plain = DrawnLoss(draws.valid_alone(), features, np.zeros(3), 0.0, source.parts)
        curvature = Spread(plain, HERE).hessian.diagonal()
        noise = [
            float(np.sum(noise_of(replace(draws, control=b * draws.control), source, HERE).diagonal() / curvature))
            for b in (best, 0.0, 1.0)
        ]
        assert 0.0 < best <= 1.0
        assert noise[0] <= min(noise[1:]) * 1.001, (seed, best, noise)
        assert acceptance.mean() < 0.8 or noise[0] < 0.8 * noise[1]


def test_the_gradient_is_that_of_the_loss():
    _, reject, features, rng = trips_of(4)
    loss = loss_of(source_of(reject, features, 50), HERE, rng, l2=0.2)
    np.testing.assert_allclose(loss(NEAR).gradient, slopes(lambda at: loss(at).loss, NEAR), atol=1e-6)


def one_by_one(loss, weights):
    """Hessian and noise by a loop over batches and draws."""
    draws = loss.draws
    rows = np.asarray(loss.features.contract(draws.visits))
    hessian, noise = np.diag(np.broadcast_to(loss.l2, loss.features.d)), 0.0
    for k in range(draws.n_batches):
        own = draws.batch == k
        w = np.exp(rows[own] @ weights + draws.log_measure[own] + draws.log_dynamics[own])
        f, p, q = rows[own], w * draws.valid[own] / w[draws.valid[own]].sum(), w / w.sum()
        away, others = f - p @ f, f - q @ f
        hessian = hessian + loss.shares[k] * (away.T * p) @ away
        moved = loss.shares[k] * (p[:, None] * away - draws.control[k] * q[:, None] * others)
        noise = noise + moved.T @ moved
    return hessian, noise


@pytest.mark.parametrize("sparse", [False, True])
def test_many_batches_at_once_are_what_they_are_one_by_one(sparse, monkeypatch):
    """Some batches relaxed and others not, in several rounds; and the diagonal alone, where features are many."""
    _, reject, features, rng = trips_of(5)
    if sparse:
        features = Features(csr_matrix(features.matrix), 7, features._shape[1])
        monkeypatch.setattr(spreading, "MANY", 2)
        monkeypatch.setattr(spreading, "FEW", 2)
    source = source_of(reject, features, 30)
    draws = [source.read({"draws": 0.0}, HERE, rng).draws for _ in range(2)]
    plain = Draws.of_parts(
        *(getattr(draws[1], name) for name in ("visits", "log_measure", "log_dynamics", "valid", "batch")),
        np.arange(reject.engine.n_pairs) % 3 / 2.0,
    )
    loss = DrawnLoss(draws[0].joined(plain), features, np.zeros(3), 0.1, source.parts, source.relaxation)
    loss = loss.shared(NEAR)
    hessian, noise = one_by_one(loss, NEAR)
    found = Spread(loss, NEAR)
    np.testing.assert_allclose(found.hessian, hessian, atol=1e-10)
    np.testing.assert_allclose(found.noise, noise, atol=1e-12)
    monkeypatch.setattr(spreading, "MOST_FEATURES", 2)
    alone = Spread(loss, NEAR)
    np.testing.assert_allclose(alone.hessian, hessian.diagonal(), atol=1e-10)
    np.testing.assert_allclose(alone.noise, noise.diagonal(), atol=1e-12)


def test_where_every_draw_is_valid_nothing_is_left_to_chance():
    """All rules fit: at the weights of the draws each has the weight Z / n, and the sum of n is Z."""
    grid, rule, array, _ = grid_task(4)
    features, theta = DenseFeatures(array), np.array([0.3, -0.2, 0.1, 0.4])
    source = RejectSource(xm.distribution(grid, rule, None, engine="reject"), features)
    batch = source.read({"draws": 100.0}, theta, np.random.default_rng(0))
    assert batch.details["acceptance"] == 1.0
    assert batch.info.n_points == len(batch.draws) >= 100
    loss = DrawnLoss(batch.draws.valid_alone(), features, np.zeros(4), 0.0)
    assert loss(theta).loss == pytest.approx(xm.distribution(grid, rule, array @ theta).log_partition(), abs=1e-9)


def test_a_world_keeps_all_draws_where_most_are_valid_and_only_these_where_few_are():
    """The gradient over 100 rounds of draws is unbiased within 4 standard errors in both forms, as noisy as it says."""
    grid, rule, array, _ = grid_task(6)
    features, theta = DenseFeatures(array), np.array([0.3, -0.2, 0.1, 0.4])
    exact = exact_loss(xm.distribution(grid, rule, None), features, np.zeros(4))(theta)
    traces = []
    for share, keeps in ((0.0, True), (1.0, False)):
        base = xm.distribution(grid, rule, None, engine="reject", max_nodes=800)
        source, rng, ratios, trace = RejectSource(base, features), np.random.default_rng(0), [], []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("xmen.methods.reject.ENOUGH_VALID", share)
            for _ in range(100):
                draws = source.read({"draws": 100.0}, np.zeros(4), rng).draws
                loss = DrawnLoss(draws, features, np.zeros(4), 0.0, relaxation=source.relaxation)
                assert (draws.control[0] > 0.0, not draws.valid.all()) == (keeps, keeps)
                noise = Spread(loss, theta).noise
                ratios.append((loss(theta).gradient - exact.gradient) / np.sqrt(noise.diagonal()))
                trace.append(noise.trace())
        assert_noise(ratios)
        traces.append(np.mean(trace))
    assert traces[0] < 0.8 * traces[1], traces
