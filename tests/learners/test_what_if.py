"""Other scenarios of a fitted model, elasticities, models that only evaluate, and results as other tools take them."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm

import xmen as xm
from learners.tasks import grid_task
from learners.test_trips import city, mean_log_likelihood

DEMAND = [(0, 3, 10.0), (5, 3, 2.0), (2, 6, 4.0)]


@pytest.fixture(scope="module")
def fitted():
    network, features, demos = city(31, n_trips=80)
    return network, features, demos, xm.XMEN(network, features=features).fit(demos)


def dense_flows(network, rewards, demand):
    """Flows through states by one dense inverse per goal: P(passing) is a sum over all trajectories."""
    flow = np.zeros(network.n_states)
    for start, goal, amount in demand:
        matrix = np.zeros((network.n_states, network.n_states))
        np.add.at(matrix, (network.source, network.target), np.exp(rewards[network.source, network.action]))
        matrix[goal] = 0.0
        inverse = np.linalg.inv(np.eye(network.n_states) - matrix)
        flow += amount * inverse[start] * inverse[:, goal] / inverse[start, goal]
    return flow


def test_a_scenario_has_the_same_weights_on_other_features(fitted, tmp_path):
    network, features, demos, model = fitted
    before, slower = model.flows(DEMAND).states, features * [1.5, 1.0, 1.0]
    scenario = model.with_features(slower)
    np.testing.assert_array_equal(scenario.weights_, model.weights_)
    expected = mean_log_likelihood(network, slower, demos, model.weights_)
    assert scenario.score(demos) == pytest.approx(expected, abs=1e-9)
    flows = scenario.flows(DEMAND).states
    np.testing.assert_allclose(flows, dense_flows(network, slower @ model.weights_, DEMAND), atol=1e-9)
    np.testing.assert_allclose(scenario.closure(DEMAND, [4]).before.states, flows)
    task = scenario.distribution(start=0, goal=3)
    assert task.log_partition() == pytest.approx(
        xm.distribution(network.task(0, 3), None, slower @ model.weights_).log_partition()
    )
    np.testing.assert_array_equal(model.flows(DEMAND).states, before)  # the model stays as it was
    scenario.save(tmp_path / "scenario")
    np.testing.assert_allclose(xm.load(tmp_path / "scenario").flows(DEMAND).states, flows)
    with pytest.raises(xm.RewardError, match="these are 2 features, and the model has 3 weights"):
        model.with_features(features[:, :, :2])
    with pytest.raises(xm.NotFittedError):
        scenario.summary()  # it was fitted to nothing
    with pytest.raises(xm.NotFittedError):
        xm.XMEN(network, features=features).with_features(features)


def test_a_scenario_in_a_world_with_a_start_and_a_goal():
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features).fit(demos)
    other = np.random.default_rng(0).normal(size=features.shape)
    expected = xm.distribution(grid, rule, other @ model.weights_).visits()
    np.testing.assert_allclose(model.with_features(other).distribution().visits(), expected, atol=1e-9)
    causal = xm.CausalXMEN(grid, rule, features).fit(demos)
    expected = xm.plan(grid, rule, other @ causal.weights_).visits()
    np.testing.assert_allclose(causal.with_features(other).policy().visits(), expected, atol=1e-9)


@pytest.mark.parametrize("links", [None, [3, 6]])
def test_elasticities_are_derivatives_of_flows(fitted, links):
    network, features, _, model = fitted
    where = np.ones((network.n_states, network.n_actions))
    if links is not None:
        where[:] = 0.0
        entered = np.isin(network.target, links)
        where[network.source[entered], network.action[entered]] = 1.0

    def flows(scale):
        changed = features.copy()
        changed[:, :, 1] *= 1.0 + where * scale
        return dense_flows(network, changed @ model.weights_, DEMAND)

    slope = (flows(1e-5) - flows(-1e-5)) / 2e-5
    found = model.elasticities(DEMAND, 1, links)
    np.testing.assert_allclose(found, slope / flows(0.0), atol=1e-6)
    assert np.ptp(found) > 0.01
    np.testing.assert_array_equal(found, model.elasticities(DEMAND, "feature 1", links))
    for unknown in (3, -1, "length", 1.5, None, [0, 1]):
        with pytest.raises(xm.EngineError, match=r"is no feature: they are 'feature 0'.*numbered from 0"):
            model.elasticities(DEMAND, unknown)


def test_elasticities_without_a_flow_are_nan():
    line = xm.Network(3, 1, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0)])
    model = xm.XMEN(line, features=np.ones((3, 1, 1)), fixed={0: -1.0}).fit([line.along([0, 1])])
    np.testing.assert_allclose(model.elasticities([(0, 1, 2.0)], 0), [0.0, 0.0, np.nan], atol=1e-9)


WEIGHTS = {0: -0.5, 1: -0.7, 2: -0.6}


@pytest.mark.parametrize("choices", [{"fixed": WEIGHTS}, {"fixed": WEIGHTS, "max_iter": 0}])
def test_with_all_weights_fixed_a_model_only_evaluates(choices, tmp_path):
    network, features, demos = city(31, n_trips=20)
    model = xm.XMEN(network, features=features, **choices).fit(demos)
    theta = np.array(list(WEIGHTS.values()))
    np.testing.assert_array_equal(model.weights_, theta)
    assert (model.n_iter_, model.converged_) == (0, True)
    expected = mean_log_likelihood(network, features, demos, theta)
    assert model.score(demos) == pytest.approx(expected, abs=1e-9)
    summary = model.summary()
    assert summary.log_likelihood == pytest.approx(20 * expected) == summary.null_log_likelihood
    assert np.isnan(summary.standard_errors).all()
    assert summary.n_free == 0
    model.save(tmp_path / "model")
    assert xm.load(tmp_path / "model").score(demos) == pytest.approx(expected)


def test_without_iterations_weights_are_those_given_before():
    grid, rule, features, demos = grid_task(4)
    model = xm.XMEN(grid, rule, features, max_iter=0, fixed={0: 0.3}).fit(demos)
    assert model.weights_.tolist() == [0.3] + [0.0] * (features.shape[2] - 1)
    assert not model.converged_
    learned = xm.XMEN(grid, rule, features, warm_start=True).fit(demos)
    weights = learned.weights_.copy()
    learned.max_iter = 0
    assert learned.fit(demos[:3]).weights_.tolist() == weights.tolist()
    causal = xm.CausalXMEN(grid, rule, features, max_iter=0).fit(demos)
    assert causal.weights_.tolist() == [0.0] * features.shape[2]
    with pytest.raises(xm.EngineError, match="max_iter is a whole number, 0 or more"):
        xm.XMEN(grid, rule, features, max_iter=-1).fit(demos)


# ---- Results out


def test_a_summary_compares_models_and_is_a_frame(fitted):
    pandas = pytest.importorskip("pandas")
    network, features, demos, model = fitted
    summary = model.summary(names=["a", "b", "c"])
    total = 80 * mean_log_likelihood(network, features, demos, model.weights_)
    assert summary.log_likelihood == pytest.approx(total)
    assert (summary.aic, summary.bic) == pytest.approx((6 - 2 * total, 3 * np.log(80) - 2 * total))
    assert np.isnan(summary.null_log_likelihood)
    assert np.isnan(summary.rho_square)
    assert "rho" not in str(summary)
    frame = summary.to_frame(0.9)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.tolist() == ["a", "b", "c"]
    reach = norm.ppf(0.95) * summary.standard_errors
    np.testing.assert_allclose(frame["lower"], model.weights_ - reach)
    np.testing.assert_allclose(frame["upper"], model.weights_ + reach)
    np.testing.assert_allclose(frame["p_value"], 2 * norm.cdf(-np.abs(summary.t)))
    np.testing.assert_allclose(summary.confidence_intervals(0.9), frame[["lower", "upper"]])
    wide = summary.confidence_intervals(robust=True)
    np.testing.assert_allclose(wide[:, 1] - wide[:, 0], 2 * 1.959963984540054 * summary.robust_errors)
    for level in (95, "95", None):
        with pytest.raises(xm.EngineError, match=f"level is a finite number, above 0 and below 1; got {level!r}"):
            summary.confidence_intervals(level)


def test_the_null_log_likelihood_is_that_without_what_was_learned(tmp_path):
    """Two ways, 30 and 20 times: the null model tosses a coin, and 50 log 1/2 is its log-likelihood."""
    fork = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
    demos = 30 * [xm.Trajectory([0, 1], [0])] + 20 * [xm.Trajectory([0, 2], [1])]
    features = np.zeros((3, 2, 2))
    features[0, 0, 0] = features[0, 1, 1] = 1.0
    model = xm.XMEN(fork, None, features, fixed={1: 0.0}).fit(demos)
    summary, total = model.summary(), 30 * np.log(0.6) + 20 * np.log(0.4)
    assert summary.null_log_likelihood == pytest.approx(50 * np.log(0.5))
    assert summary.rho_square == pytest.approx(1 - total / (50 * np.log(0.5)))
    assert f"null log-likelihood -34.6574, rho-square {summary.rho_square:.4f}, AIC" in str(summary)
    assert np.isnan(summary.confidence_intervals()[1]).all()
    model.save(tmp_path / "model")
    assert xm.load(tmp_path / "model").summary().null_log_likelihood == summary.null_log_likelihood
    held = xm.XMEN(fork, None, features, fixed={1: np.log(4.0)}).fit(
        demos
    )  # what is fixed is no part of what is learned
    assert held.summary().null_log_likelihood == pytest.approx(30 * np.log(0.2) + 20 * np.log(0.8))


@pytest.fixture(scope="module")
def square():
    graph = nx.MultiDiGraph()
    for node, (x, y) in {"a": (0, 0), "b": (1, 0), "c": (1, 1), "d": (0, 1)}.items():
        graph.add_node(node, x=x, y=y)
    for u, v in ("ab", "bc", "cd", "da", "ad", "dc", "ab"):
        graph.add_edge(u, v, length=1.0)
    return graph


@pytest.mark.parametrize("states", ["links", "nodes"])
def test_flows_and_closures_go_out_by_name(square, states, tmp_path):
    pandas = pytest.importorskip("pandas")
    network = xm.Network.from_networkx(square, states=states)
    route = {"links": [("a", "b", 0), ("b", "c", 0), ("c", "d", 0)], "nodes": ["d", "c"]}[states]
    model = xm.XMEN(network, features=network.select("length"), fixed={0: -1.5}).fit([network.trip(route)])
    demand = [(route[0], route[-1], 10.0)]
    flows, closed = model.flows(demand), model.closure(demand, [network.names[1]])
    frame = flows.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == [states[:-1], "flow"]
    assert frame[states[:-1]].tolist() == list(network.names)
    np.testing.assert_array_equal(frame["flow"], flows.states)
    table = closed.to_frame()
    assert table.columns.tolist() == [states[:-1], "before", "after", "change"]
    np.testing.assert_array_equal(table["change"], closed.after.states - closed.before.states)

    document = json.loads(json.dumps(flows.to_geojson()))
    assert document["type"] == "FeatureCollection"
    assert len(document["features"]) == network.n_states
    first = document["features"][0]
    place = {"type": "LineString", "coordinates": [[0, 0], [1, 0]]}
    place = place if states == "links" else {"type": "Point", "coordinates": [0, 0]}
    assert first == {
        "type": "Feature",
        "geometry": place,
        "properties": {states[:-1]: str(network.names[0]), "flow": flows.states[0]},
    }
    assert set(closed.to_geojson()["features"][0]["properties"]) == {states[:-1], "before", "after", "change"}


def test_a_frame_of_demand_is_read_by_its_names(fitted):
    pandas = pytest.importorskip("pandas")
    model = fitted[3]
    frame = pandas.DataFrame(DEMAND, columns=["start", "goal", "trips"])
    expected = model.flows(DEMAND).states
    for order in (["start", "goal", "trips"], ["goal", "start", "trips"], ["trips", "start", "goal"]):
        np.testing.assert_array_equal(model.flows(frame[order]).states, expected)
    others = frame.rename(columns={"start": "from", "goal": "to"})
    np.testing.assert_array_equal(model.flows(others).states, expected)


def test_links_whose_names_a_file_confuses_are_lines_on_a_map():
    graph = nx.DiGraph([(1, "1", {"length": 1.0}), ("1", 2, {"length": 1.0}), (1, 2, {"length": 3.0})])
    graph.add_edge(2, 1, length=1.0)
    nx.set_node_attributes(graph, {node: {"x": float(k), "y": 0.0} for k, node in enumerate(graph)})
    network = xm.Network.from_networkx(graph)
    model = xm.XMEN(network, features=network.select("length"), max_iter=0, fixed={0: -1.0}).fit(
        [network.trip([(1, "1"), ("1", 2)])]
    )
    shapes = model.flows([((1, "1"), ("1", 2), 1.0)]).to_geojson()["features"]
    assert {shape["geometry"]["type"] for shape in shapes} == {"LineString"}


def test_without_places_there_is_no_geojson(fitted):
    model = fitted[3]
    assert model.flows(DEMAND).to_frame().columns.tolist() == ["state", "flow"]
    with pytest.raises(xm.EngineError, match=r'GeoJSON takes the places of nodes: .*"x" and "y"'):
        model.flows(DEMAND).to_geojson()
