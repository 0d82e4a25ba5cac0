"""Flows, closures and other scenarios of a fitted model, elasticities, and results as other tools take them."""

from __future__ import annotations

import json

import matplotlib
import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm

import xmen as xm
from learners.tasks import grid_task
from learners.test_trips import city, mean_log_likelihood

DEMAND = [(0, 3, 10.0), (5, 3, 2.0), (2, 6, 4.0), (1, 1, 3.0)]


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
    with pytest.raises(xm.RewardError, match=r"2 features.* 3 weights"):
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
        with pytest.raises(xm.EngineError, match=r"no feature.*'feature 0'"):
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
        with pytest.raises(xm.EngineError, match=f"level .* {level!r}"):
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
    with pytest.raises(xm.EngineError, match=r'GeoJSON .*"x" and "y"'):
        model.flows(DEMAND).to_geojson()


# ---- Flows and closed links


def test_flows_add_up_over_pairs(fitted):
    model = fitted[3]
    found = model.flows(DEMAND)
    states = np.zeros(8)
    for start, goal, amount in DEMAND:
        states += amount * model.distribution(start=start, goal=goal).state_visits()
    np.testing.assert_allclose(found.states, states, atol=1e-8)
    assert found.transitions.shape == model.world.source.shape


def test_a_closed_state_is_avoided(fitted):
    model, closed = fitted[3], 4
    found = model.closure(DEMAND, [closed])
    assert found.after.states[closed] == pytest.approx(0.0, abs=1e-12)
    for row, (start, goal, _) in enumerate(DEMAND):
        if found.lost[row]:
            continue
        tau = model.distribution(start=start, goal=goal).sample(4000, seed=row)
        share = np.mean([closed in t.states for t in tau])
        assert found.rerouted[row] == pytest.approx(share, abs=5 * np.sqrt(0.25 / 4000))
    np.testing.assert_allclose(found.before.states, model.flows(DEMAND).states)


def test_pairs_without_a_way_are_lost(fitted):
    found = fitted[3].closure([(0, 3, 1.0), (2, 5, 1.0)], [3])
    assert found.lost.tolist() == [True, False]
    assert found.rerouted[0] == 1.0


@pytest.mark.parametrize(("horizon", "max_nodes"), [(None, None), (8, None), (None, 8)])
def test_a_way_that_only_breaks_the_rules_is_no_way(horizon, max_nodes):
    """With state 1 closed a row gets through by action 1 alone, which a rule forbids; the other row is not touched.

    With 8 nodes the counter does not fit the product, and rejects.
    """
    rows = [(0, 0, 1, 1.0), (1, 0, 3, 1.0), (0, 1, 3, 1.0), (2, 0, 3, 1.0), (3, 0, 0, 1.0)]
    network = xm.Network(4, 2, rows, horizon=horizon)
    model = xm.XMEN(network, features=np.ones((4, 2, 1)), l2=0.1, max_nodes=max_nodes)
    model.fit([xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([2, 3], [0])])
    rules = [xm.never(xm.doing(1)), xm.count(xm.doing(0)) <= 6]
    found = model.closure([(0, 3, 2.0), (2, 3, 1.0)], [1], also=rules)
    assert found.lost.tolist() == [True, False]
    assert found.after.log_z[0] == -np.inf
    assert found.rerouted.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(found.after.states, [0.0, 0.0, 1.0, 1.0])
    found = model.closure([(0, 3, 2.0)], [1], also=rules)
    assert found.lost.all()
    assert not found.after.states.any()
    assert not model.closure([(0, 3, 2.0)], [1]).lost.any()


def test_demand_is_checked(fitted):
    with pytest.raises(xm.EngineError, match="row 1"):
        fitted[3].flows([(0, 1, 1.0), (0, 99, 1.0)])
    with pytest.raises(xm.EngineError, match="no rows"):
        fitted[3].flows([])


def test_under_a_rule_that_rejects(fitted):
    network, features, demos, _ = fitted
    rule = xm.no_revisit()
    strict = xm.XMEN(network, rule, features=features, l2=0.01, max_nodes=20, seed=0)
    strict.fit([tau for tau in demos if rule.accepts(tau)])
    found = strict.flows([(0, 3, 1.0)])
    exact = xm.distribution(network.task(0, 3), rule, strict.reward_, max_nodes=10**6)
    np.testing.assert_allclose(found.states, exact.state_visits(), atol=0.1)


def test_a_picture(fitted):
    angle = np.linspace(0, 2 * np.pi, 9)
    corners = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lines = np.stack([corners[:-1], corners[1:]], axis=1)
    model = fitted[3]
    best = model.distribution(start=0, goal=3).best(2)
    ax = xm.plot_network(lines, model.flows(DEMAND).states, best)
    assert len(ax.lines) == 3 * len(best)
    matplotlib.pyplot.close(ax.figure)
    with pytest.raises(xm.WorldError, match="8 links"):
        xm.plot_network(lines, np.ones(3))


def test_a_picture_of_differences():
    """More is on one side of 0 and less on the other, as strong a colour and as thick a line for as much."""
    lines = np.array([[(k, 0.0), (k + 1, 0.0)] for k in range(4)])
    ax = xm.plot_network(lines, [2.0, -4.0, 0.0, -2.0])
    drawn, bar = ax.collections[1], ax.figure.axes[1]
    assert drawn.get_clim() == (-4.0, 4.0)
    widths = dict(zip(drawn.get_array().tolist(), np.asarray(drawn.get_linewidths()), strict=True))
    assert widths[2.0] == widths[-2.0] < widths[-4.0]
    ax.figure.draw_without_rendering()
    colours = dict(zip(drawn.get_array().tolist(), drawn.to_rgba(drawn.get_array()).tolist(), strict=True))
    assert colours[2.0][0] > colours[2.0][2]  # red above
    assert colours[-2.0][2] > colours[-2.0][0]  # blue below
    assert bar.get_ylabel() == "difference"
    matplotlib.pyplot.close(ax.figure)
    with pytest.raises(xm.WorldError, match="nan"):
        xm.plot_network(lines, [1.0, np.nan, 0.0, 0.0])
