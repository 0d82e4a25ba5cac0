"""Learning by rejection: against the exact fit where the rule does fit the product, with its noise."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from engines.test_horizon_free import random_network, random_reward
from learners.test_trips import city
from xmen.engines.reject_trips import RejectTrips
from xmen.engines.trips import TripEngine

RULE = xm.no_revisit().named("no state twice")


def both(seed, n_pairs=12):
    """The same pairs of a random network, exactly and by rejection, and a reward."""
    rng = np.random.default_rng([seed, 51])
    network = random_network(rng, 7)
    starts = rng.integers(0, 7, n_pairs)
    goals = (starts + rng.integers(1, 7, n_pairs)) % 7
    weights = rng.gamma(1.0, size=n_pairs)
    exact = TripEngine(network, RULE, starts, goals, weights, 10**6)
    reject = RejectTrips(network, RULE, starts, goals, weights, 7)  # nothing but the network fits 7 nodes
    return exact, reject, random_reward(rng, network, 0.6)[network.source, network.action], rng


def test_log_partitions_match_task_by_task():
    """z-scores of 400 or more estimates: their mean square is 1 within 5 deviations of what chance allows."""
    scores = []
    for seed in range(40):
        exact, reject, reward, rng = both(seed)
        assert (reject.multiplied, reject.rejecting) == ([], ["no state twice"])
        found = reject.value(reward, reject.draw(reward, 400, rng))
        truth = exact.value(reward).log_z
        seen = found.variance > 0
        np.testing.assert_allclose(found.log_z[~seen], truth[~seen], atol=0.05)
        scores += ((found.log_z - truth)[seen] / np.sqrt(found.variance[seen])).tolist()
    assert len(scores) > 300
    assert np.mean(np.square(scores)) == pytest.approx(1.0, abs=5 * np.sqrt(2 / len(scores)))


def test_draws_serve_rewards_near_theirs():
    exact, reject, reward, rng = both(3)
    draws = reject.draw(reward, 20_000, rng)
    near = reward + rng.normal(0, 0.1, len(reward))
    found, truth = reject.value(near, draws), exact.value(near)
    assert np.all(np.abs(found.log_z - truth.log_z) <= 5 * np.sqrt(found.variance) + 1e-9)
    np.testing.assert_allclose(found.visits, truth.visits, atol=0.15)
    direction = rng.normal(size=len(reward))
    values = [reject.engine.weight @ reject.value(near + h * direction, draws).log_z for h in (1e-5, -1e-5)]
    assert found.visits @ direction == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


def trips_under_the_rule(seed, n_trips=150):
    network, features, _ = city(seed)
    rng = np.random.default_rng([seed, 52])
    demos = []
    for _ in range(n_trips):
        start, goal = rng.choice(network.n_states, 2, replace=False)
        d = xm.distribution(network.task(start, goal), RULE, features @ [-0.6, -0.4, -0.5])
        demos += d.sample(1, seed=rng)
    return network, features, demos


def test_learns_what_the_exact_method_learns():
    """Within 4 deviations of the noise that its draws leave in the weights."""
    network, features, demos = trips_under_the_rule(21)
    exact = xm.XMEN(network, RULE, features=features, l2=0.01).fit(demos)
    model = xm.XMEN(network, RULE, features=features, l2=0.01, method=xm.Reject(n_draws=300), max_nodes=8, seed=0)
    model.fit(demos)
    assert (exact.method_, model.method_, model.converged_) == ("exact", "reject", True)
    assert model.history_[-1].loss_std > 0
    noise = np.sqrt(np.diag(model.gradient_noise_))
    hessian_errors = np.sqrt(np.diag(exact.summary().covariance) * len(demos))
    slack = 4 * hessian_errors**2 * noise.max() + 0.01
    assert np.all(np.abs(model.weights_ - exact.weights_) <= slack)
    assert model.score(demos) == pytest.approx(exact.score(demos), abs=0.02)
    ratio = model.standard_errors_ / exact.standard_errors_  # draws add noise to the weights, and to their errors
    assert np.all((ratio > 0.85) & (ratio < 1.5)), ratio
    assert "acceptance" in str(model.summary())
    start, goal, acceptance = model.acceptance_.T
    assert np.all((acceptance > 0.3) & (acceptance <= 1.0))
    assert len({*zip(start, goal, strict=True)}) == len(start)


def trips_of_few_pairs(seed):
    """A network and 100 trips each of three pairs, and the network with a horizon that no trip reaches."""
    network, features, _ = city(seed)
    rows = list(zip(network.source, network.action, network.target, network.probability, strict=True))
    layered = xm.Network(network.n_states, network.n_actions, rows, horizon=network.n_states)
    reward = features @ [-1.2, -0.9, -1.1]
    demos = [
        tau
        for start, goal in ((0, 4), (1, 6), (5, 2))
        for tau in xm.distribution(network.task(start, goal), RULE, reward).sample(100, seed=seed)
    ]
    return network, layered, features, demos


@pytest.mark.parametrize("seed", [44, 48, 50])
def test_the_likelihood_is_the_exact_one_within_its_stated_error(seed):
    network, layered, features, demos = trips_of_few_pairs(seed)
    model = xm.XMEN(network, RULE, features=features, method="reject", l2=0.01, max_nodes=8, seed=seed).fit(demos)
    summary, acceptance = model.summary(), model.acceptance_[:, 2]
    assert acceptance.min() < 0.98, acceptance
    exact = [
        xm.distribution(layered.task(tau.states[0], tau.states[-1]), RULE, model.reward_).log_prob(tau) for tau in demos
    ]
    assert 0.0 < summary.log_likelihood_error < 0.2
    assert summary.log_likelihood == pytest.approx(sum(exact), abs=4 * summary.log_likelihood_error)
    np.testing.assert_allclose(model.score_samples(demos), exact, atol=0.004)
    assert f"(standard error {summary.log_likelihood_error:.2g})" in str(summary)
    scored = np.array([model.score_samples([tau])[0] for tau in demos[::100]])
    np.testing.assert_allclose(scored, exact[::100], atol=0.01)


def test_the_likelihood_of_rules_that_fit_has_no_error():
    network, _, features, demos = trips_of_few_pairs(31)
    summary = xm.XMEN(network, RULE, features=features, l2=0.01).fit(demos).summary()
    assert summary.log_likelihood_error == 0.0
    assert "standard error" not in str(summary).splitlines()[0]


def test_auto_takes_it_where_the_rule_does_not_fit():
    network, features, demos = trips_under_the_rule(22, 60)
    model = xm.XMEN(network, RULE, features=features, l2=0.05, max_nodes=20, seed=1).fit(demos)
    assert model.method_ == "reject"
    assert {"acceptance", "least_acceptance", "round"} <= set(model.history_[-1].details)
    assert all(RULE.accepts(tau) for tau in model.sample(20, start=0, goal=3))
    with pytest.raises(xm.ProductTooLargeError):
        xm.XMEN(network, RULE, features=features, method="exact", max_nodes=20).fit(demos)


def test_goes_on_where_it_stopped(tmp_path):
    network, features, demos = trips_under_the_rule(23, 60)
    settings = {"features": features, "l2": 0.05, "method": "reject", "max_nodes": 20, "seed": 2}
    whole = xm.XMEN(network, RULE, **settings).fit(demos)
    file = tmp_path / "run"
    n = len(whole.history_) - 2
    stop = xm.XMEN(
        network, RULE, **settings, checkpoint=file, checkpoint_every=1, callback=lambda record: record.iteration == n
    )
    stop.fit(demos)
    again = xm.XMEN(network, RULE, **settings, checkpoint=file, checkpoint_every=1, resume=True).fit(demos)
    np.testing.assert_array_equal(again.weights_, whole.weights_)


def test_a_hopeless_task_is_named():
    """A clique in which one needs all other states before the goal: few walks do not repeat one."""
    n = 14
    rows = [(s, t, t, 1.0) for s in range(n) for t in range(n) if s != t]
    network = xm.Network(n, n, rows)
    rule = RULE & (xm.length() >= n).named("every state")
    trips = RejectTrips(network, rule, [0], [13], [1.0], 400)
    assert trips.multiplied == ["every state"]
    with pytest.raises(xm.EngineError, match=r"from state 0 to state 13.*'no state twice'"):
        trips.draw(np.full(len(network.source), -2.8), 64, np.random.default_rng(0))


@pytest.mark.parametrize("settings", [{"n_draws": 1}, {"n_draws": 2.5}, {"redraw_every": True}])
def test_settings_are_checked(settings):
    with pytest.raises(xm.EngineError, match="whole number"):
        xm.Reject(**settings)


def test_other_worlds_are_learned_by_rejection_too():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    demos = xm.distribution(grid, RULE, seed=0).sample(60)
    model = xm.XMEN(grid, RULE, method="reject", l2=0.1, seed=0).fit(demos)
    assert model.method_ == "reject"
    assert model.score(demos) > -10.0
