"""Learning from trips: against dense linear algebra written out again, with penalties, fixed weights and rules."""

from __future__ import annotations

from functools import partial

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

import xmen as xm
from engines.test_horizon_free import random_network
from learners.tasks import slopes
from strategies import cases
from xmen.engines.trips import RejectTrips


def city(seed, n_states=8, d=3, n_trips=60):
    """A random network, features that all cost something, and trips of a known taste."""
    rng = np.random.default_rng([seed, 41])
    network = random_network(rng, n_states, 3, stochastic=False)
    features = rng.uniform(0.2, 1.5, (n_states, 3, d))
    taste = -rng.uniform(0.4, 0.9, d)
    demos = []
    for _ in range(n_trips):
        start, goal = rng.choice(n_states, 2, replace=False)
        d_pair = xm.distribution(network.task(start, goal), None, features @ taste)
        demos += d_pair.sample(1, seed=rng)
    return network, features, demos


def mean_log_likelihood(network, features, demos, theta):
    """Mean log P(tau | start, goal), by one dense inverse per goal; -inf where it does not exist."""
    total = 0.0
    reward = features @ theta
    for goal in {tau.states[-1] for tau in demos}:
        matrix = np.zeros((network.n_states, network.n_states))
        np.add.at(matrix, (network.source, network.target), np.exp(reward[network.source, network.action]))
        matrix[goal] = 0.0
        if np.abs(np.linalg.eigvals(matrix)).max() >= 1:
            return -np.inf
        z = np.linalg.inv(np.eye(network.n_states) - matrix)[:, goal]
        for tau in demos:
            if tau.states[-1] == goal:
                total += sum(reward[s, a] for s, a in zip(tau.states, tau.actions, strict=False))
                total -= np.log(z[tau.states[0]])
    return total / len(demos)


@pytest.mark.parametrize("seed", range(cases(6)))
def test_finds_the_optimum_of_the_likelihood(seed):
    network, features, demos = city(seed)
    model = xm.XMEN(network, features=features, l2=0.01).fit(demos)

    def loss(theta):
        return -mean_log_likelihood(network, features, demos, theta) + 0.005 * theta @ theta

    start = np.full(3, -2.0)
    best = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 4000})
    np.testing.assert_allclose(model.weights_, best.x, atol=1e-4)
    assert model.converged_
    assert model.score(demos) == pytest.approx(mean_log_likelihood(network, features, demos, model.weights_), abs=1e-9)
    assert loss(model.weights_) <= best.fun + 1e-9
    np.testing.assert_allclose(slopes(loss, model.weights_, 1e-6), 0.0, atol=1e-5)


def test_what_there_is_after_the_fit():
    network, features, demos = city(1)
    model = xm.XMEN(network, features=features, seed=0).fit(demos)
    scores = model.score_samples(demos)
    d = model.distribution(start=demos[0].states[0], goal=demos[0].states[-1])
    assert scores[0] == pytest.approx(d.log_prob(demos[0]), abs=1e-9)
    assert model.score(demos) == pytest.approx(scores.mean())
    for tau in model.sample(5, start=2, goal=5):
        assert (tau.states[0], tau.states[-1]) == (2, 5)
    closed = model.sample(5, also=xm.never(xm.doing(1)), start=2, goal=5)
    assert all(1 not in tau.actions for tau in closed)
    assert model.score_samples([xm.Trajectory([0, 99], [0])])[0] == -np.inf
    with pytest.raises(xm.EngineError, match="start="):
        model.sample(3)
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    ordinary = xm.MaxEntIRL(grid).fit(xm.distribution(grid, seed=0).sample(20))
    with pytest.raises(xm.EngineError, match="Network"):
        ordinary.sample(1, start=0, goal=1)


def test_sparse_features_are_dense_ones():
    network, features, demos = city(2)
    dense = xm.XMEN(network, features=features).fit(demos)
    sparse = xm.XMEN(network, features=csr_matrix(features.reshape(-1, 3))).fit(demos)
    np.testing.assert_allclose(sparse.weights_, dense.weights_, atol=1e-8)
    np.testing.assert_allclose(sparse.reward_.table(), dense.reward_.table(), atol=1e-8)
    np.testing.assert_allclose(sparse.reward_.features, features)
    d = sparse.distribution(start=0, goal=3)
    np.testing.assert_allclose(d.expected_features(), np.einsum("sa,sad->d", d.visits(), features))


def test_penalties_per_feature_and_fixed_weights():
    network, features, demos = city(3)
    l2 = np.array([0.0, 0.5, 0.1])
    model = xm.XMEN(network, features=features, l2=l2).fit(demos)
    value = partial(mean_log_likelihood, network, features, demos)
    np.testing.assert_allclose(slopes(value, model.weights_, 1e-6), l2 * model.weights_, atol=1e-5)
    held = xm.XMEN(network, features=features, fixed={1: -1.7}).fit(demos)
    assert held.weights_[1] == -1.7
    np.testing.assert_allclose(slopes(value, held.weights_, 1e-6)[[0, 2]], 0.0, atol=1e-5)


def test_fixed_and_penalised_weights_of_an_ordinary_world():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "up-right"))
    features = np.random.default_rng(0).normal(size=(16, 3, 3))
    demos = xm.distribution(grid, None, features @ [1.0, -1.0, 0.5], seed=1).sample(200)
    model = xm.XMEN(grid, features=features, fixed={0: 0.25}, l2=[0.0, 0.1, 0.0]).fit(demos)
    assert model.weights_[0] == 0.25
    d = model.distribution()
    rest = d.expected_features() - xm.XMEN(grid, features=features).fit(demos).distribution().expected_features()
    np.testing.assert_allclose(rest[1:], [-0.1 * model.weights_[1], 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"l2": [0.1, 0.2]}, "l2 .*2 numbers for 3 features"),
        ({"l2": -1.0}, "l2 .* -1.0"),
        ({"fixed": {3: 1.0}}, "fixed.* 0 to 2"),
        ({"fixed": {0: np.nan}}, "fixed.* nan"),
        ({"method": "cells"}, "'cells'.* network"),
        ({"given": "start"}, "start.* already"),
        ({"discount": 0.9}, "discount.* horizon"),
    ],
)
def test_settings_that_make_no_sense_on_a_network(settings, named):
    network, features, demos = city(4, n_trips=5)
    with pytest.raises(xm.EngineError, match=named):
        xm.XMEN(network, features=features, **settings).fit(demos)


@pytest.mark.parametrize(
    ("states", "actions", "named"),
    [
        ([0, 5], [0], "demonstration 5 .*to state 5"),
        ([0, 1, 0], [0, 0], "demonstration 5 .*starts at its goal, state 0"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [0] * 9, "demonstration 5 .*goal, state 1, at position 1"),
        ([0, 99], [0], "demonstration 5 .*state 99"),
    ],
)
def test_bad_trips_are_named_with_their_row(states, actions, named):
    network, features, demos = city(4, n_trips=5)
    with pytest.raises(xm.InvalidDemonstrationError, match=named) as caught:
        xm.XMEN(network, features=features).fit([*demos, xm.Trajectory(states, actions)])
    assert caught.value.index == 5


def test_nan_in_sparse_features_is_named():
    network, features, demos = city(4, n_trips=5)
    matrix = csr_matrix(features.reshape(-1, 3))
    matrix[7, 1] = np.nan
    with pytest.raises(xm.RewardError, match=r"feature 1 is nan .*row 7"):
        xm.XMEN(network, features=matrix).fit(demos)
    with pytest.raises(xm.RewardError, match=r"\(24, d\)"):
        xm.XMEN(network, features=csr_matrix((23, 2))).fit(demos)


def test_rules_hold_and_their_likelihood_is_maximised():
    network, features, demos = city(5, n_trips=80)
    rule = xm.count(xm.doing(1)) <= 1
    kept = [tau for tau in demos if rule.accepts(tau)]
    model = xm.XMEN(network, rule, features=features).fit(kept)

    def loss(theta):
        values = [
            xm.distribution(network.task(t.states[0], t.states[-1]), rule, features @ theta).log_prob(t) for t in kept
        ]
        return -float(np.mean(values))

    assert model.score(kept) == pytest.approx(-loss(model.weights_), abs=1e-9)
    np.testing.assert_allclose(slopes(loss, model.weights_), 0.0, atol=1e-5)


def test_a_horizon_is_kept():
    network, features, demos = city(6)
    longest = max(len(tau) for tau in demos)
    short = xm.Network(network.n_states, network.n_actions, network.transitions, horizon=longest)
    model = xm.XMEN(short, features=features).fit(demos)
    assert all(len(tau) <= longest for tau in model.sample(50, start=0, goal=4))
    assert model.score(demos) > xm.XMEN(network, features=features).fit(demos).score(demos) - 1e-9


def test_weights_that_cannot_make_long_trips_costly_are_reported():
    network, _, demos = city(7, n_trips=20)
    blind = np.zeros((8, 3, 1))
    blind[0, 1] = 1.0
    with pytest.raises(xm.DivergenceError, match=r"state \d.*horizon"):
        xm.XMEN(network, features=blind).fit(demos)


def test_maxent_takes_networks():
    network, features, demos = city(10)
    np.testing.assert_allclose(
        xm.MaxEntIRL(network, features).fit(demos).weights_,
        xm.XMEN(network, features=features).fit(demos).weights_,
        atol=1e-9,
    )
    with pytest.raises(xm.EngineError, match="MDP or GridWorld"):
        xm.RelativeEntropyIRL(network, features).fit(demos)


# ---- A share of a road class: trips of any length go to rejection, trips with a horizon to the product


@pytest.fixture(scope="module")
def town():
    graph = nx.MultiDiGraph(nx.grid_2d_graph(4, 4))
    for x, y in graph:
        graph.nodes[x, y].update(x=x, y=y)
    for (x, y), (u, v), key in graph.edges(keys=True):
        avenue = y == v == 2 or x == u == 1
        graph.edges[(x, y), (u, v), key].update(length=1.0, highway="avenue" if avenue else "street")
    return graph


def rule_of(graph, network):
    avenues = [state for state, link in enumerate(network.names) if graph.edges[link]["highway"] == "avenue"]
    return (xm.share(xm.at(*avenues)) >= 0.2).named("a fifth on avenues")


@pytest.mark.slow
def test_a_distribution_and_a_fit(town):
    network, bounded = xm.Network.from_networkx(town), xm.Network.from_networkx(town, horizon=40)
    rule, features = rule_of(town, network), network.select("length", "u-turn")
    reward = (features @ [-1.4, -2.0]).reshape(network.n_states, network.n_actions)
    ends = network.state(((0, 0), (0, 1))), network.state(((3, 2), (3, 3)))
    d = xm.distribution(network.task(*ends), rule, reward, seed=0)
    assert d.engine == "reject"
    assert all(rule.accepts(tau) for tau in d.sample(50))
    exact = xm.distribution(bounded.task(*ends), rule, reward)  # longer trips weigh less than 1e-9
    assert exact.engine == "exact"
    value, std = d.log_partition(return_std=True)
    assert value == pytest.approx(exact.log_partition(), abs=4 * std)
    rng, demos = np.random.default_rng(1), []
    for _ in range(40):
        pair = rng.choice(network.n_states, 2, replace=False).tolist()
        demos += xm.distribution(network.task(*pair), rule, reward, seed=rng).sample(1)
    model = xm.XMEN(network, rule, features=features, seed=0).fit(demos)
    assert model.method_ == "reject"
    theirs = xm.XMEN(bounded, rule, features=features, tol=1e-3).fit(demos)
    assert theirs.method_ == "exact"
    np.testing.assert_allclose(model.weights_, theirs.weights_, atol=0.5 * theirs.standard_errors_.max())
    found = model.distribution(start=ends[0], goal=ends[1])
    assert all(rule.accepts(tau) for tau in found.sample(20, seed=0))


def test_what_is_hopeless_names_the_pair_and_the_horizon(town):
    network = xm.Network.from_networkx(town)
    start, goal = network.state(((0, 0), (0, 1))), network.state(((0, 2), (0, 3)))
    rule = (xm.share(xm.at(network.state(((3, 2), (3, 3))))) >= 0.2).named("a fifth far away")
    trips = RejectTrips(network, rule, [start], [goal], [1.0], 1000)
    dear = np.full(len(network.source), -9.0)  # nobody makes such a detour by chance
    with pytest.raises(xm.EngineError, match=r"hopeless .* a horizon \(a share"):
        trips.draw(dear, 64, np.random.default_rng(0))
