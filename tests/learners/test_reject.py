"""Learning by rejection: against the exact fit where the rule does fit the product, with its noise."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from learners.test_trips import city
from xmen.engines.trips import RejectTrips

RULE = xm.no_revisit().named("no state twice")


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
    assert np.all(np.abs(model.weights_ - exact.weights_) <= 5 * model.weights_std_ + 0.01)
    assert model.score(demos) == pytest.approx(exact.score(demos), abs=0.02)
    ratio = model.standard_errors_ / exact.standard_errors_  # draws add noise to the weights, and to their errors
    assert np.all((ratio > 0.85) & (ratio < 1.5)), ratio
    assert "acceptance" in str(model.summary())
    start, goal, acceptance = model.acceptance_.T
    assert np.all((acceptance > 0.3) & (acceptance <= 1.0))
    assert len({*zip(start, goal, strict=True)}) == len(start)


def loss_of(model, demos, l2=0.01):
    """The loss of weights that anything has learned, by the exact engine: the rule fits 10,000 nodes."""
    exact = xm.XMEN(model.world, RULE, features=model.features, l2=l2)
    exact.reward_, exact.weights_ = model.reward_, model.weights_
    return -exact.score(demos) + 0.5 * l2 * float(model.weights_ @ model.weights_)


def test_fixed_weights_stay_and_the_others_are_those_of_the_exact_method():
    network, features, demos = trips_under_the_rule(25)
    settings = {"features": features, "l2": 0.01, "fixed": {1: -0.4}}
    exact = xm.XMEN(network, RULE, **settings).fit(demos)
    model = xm.XMEN(network, RULE, **settings, method="reject", max_nodes=8, seed=0, tol=1e-4).fit(demos)
    assert model.weights_[1] == -0.4
    assert model.weights_std_[1] == 0.0
    np.testing.assert_allclose(model.weights_, exact.weights_, atol=0.05)
    assert model.history_[-1].loss == pytest.approx(loss_of(exact, demos), abs=0.02)
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=10)
    rows = np.random.default_rng(0).normal(size=(16, 4, 3))
    taken = xm.distribution(grid, RULE, rows @ [0.5, -0.3, 0.2], seed=0).sample(80)
    found = [
        xm.XMEN(grid, RULE, features=rows, fixed={2: 0.2}, l2=0.01, **how).fit(taken)
        for how in ({"method": "exact"}, {"method": "reject", "seed": 0, "max_nodes": 40, "tol": 5e-4})
    ]
    np.testing.assert_allclose(found[1].weights_, found[0].weights_, atol=0.1)


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


@pytest.mark.parametrize("seed", [48, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (44, 50))])
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
