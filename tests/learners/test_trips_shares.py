"""A share of a road class on a network: trips of any length go to rejection, trips with a horizon to the product."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import xmen as xm
from xmen.engines.trips import RejectTrips


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
    with pytest.raises(xm.EngineError, match=r"hopeless for trips from .* a horizon \(a share"):
        trips.draw(dear, 64, np.random.default_rng(0))
