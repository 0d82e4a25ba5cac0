"""Graphs as osmnx has them: shapes of links for plots, what osmnx adds, and networks that come back from a file."""

from __future__ import annotations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest

import xmen as xm

ox = pytest.importorskip("osmnx", reason="needs osmnx, and shapely with it")


@pytest.fixture
def streets():
    """Four crossings in degrees, with a curved street, lists and missing values, as osmnx downloads them."""
    from shapely.geometry import LineString

    graph = nx.MultiDiGraph(crs="epsg:4326")
    places = {101: (4.350, 50.840), 102: (4.353, 50.840), 103: (4.353, 50.842), 104: (4.350, 50.842)}
    for node, (x, y) in places.items():
        graph.add_node(node, x=x, y=y, street_count=3)
    curve = LineString([places[101], (4.3515, 50.8405), places[102]])
    for key, (u, v) in enumerate([(101, 102), (102, 103), (103, 104), (104, 101)]):
        both = {"osmid": [key, key + 10] if key == 1 else key, "highway": ["tertiary", "residential"][key % 2]}
        both |= {"length": 210.0 + key, "oneway": False, "maxspeed": ["30", "50"] if key == 2 else "30"}
        shape = {"geometry": curve} if key == 0 else {}
        graph.add_edge(u, v, **both, **shape, reversed=False)
        back = {"geometry": LineString(curve.coords[::-1])} if key == 0 else {}
        graph.add_edge(v, u, **both, **back, reversed=True, lanes="2")
    return ox.routing.add_edge_travel_times(ox.routing.add_edge_speeds(graph))


def test_what_osmnx_knows_becomes_features(streets):
    network = xm.Network.from_networkx(streets)
    assert {"length", "speed_kph", "travel_time", "maxspeed", "highway=tertiary", "u-turn"} <= {*network.feature_names}
    for name, words in (("geometry", "shape"), ("lanes", "0 for 4 links"), ("maxspeed", "of 2 lists")):
        assert words in network.attributes[name]
    tau = network.trip([(101, 102, 0), (102, 103, 0)])
    model = xm.XMEN(network, features=network.select("travel_time", "u-turn"), l2=1e-3).fit([tau] * 3)
    assert model.score([tau]) > np.log(0.5)


def test_shapes_follow_the_geometry(streets):
    network = xm.Network.from_networkx(streets)
    there, back = (network.shapes[network.state(link)] for link in ((101, 102), (102, 101)))
    np.testing.assert_allclose(there, [(4.350, 50.840), (4.3515, 50.8405), (4.353, 50.840)])
    np.testing.assert_allclose(back, there[::-1])
    straight = network.state((102, 103))
    np.testing.assert_allclose(network.shapes[straight], network.lines[straight])
    ax = xm.plot_network(network, np.arange(network.n_states, dtype=float), [network.trip([(101, 102), (102, 103)])])
    drawn = ax.collections[0].get_segments()
    assert [len(points) for points in drawn] == [len(shape) for shape in network.shapes]
    assert len(ax.lines[0].get_xdata()) == 5  # three points of the curve, two of the straight street
    plt.close(ax.figure)
    with pytest.raises(xm.WorldError, match="no places"):
        xm.plot_network(xm.Network.from_networkx(nx.MultiDiGraph([("a", "b"), ("b", "a")])))


def test_one_geometry_for_both_directions_is_turned_round():
    graph = nx.Graph()
    graph.add_node("a", x=0, y=0)
    graph.add_node("b", x=2, y=0)
    graph.add_edge("a", "b", geometry=[(0, 0), (1, 1), (2, 0)])
    network = xm.Network.from_networkx(graph)
    np.testing.assert_allclose(network.shapes[network.state(("b", "a"))], [(2, 0), (1, 1), (0, 0)])


def test_a_graph_from_a_file_is_the_same_network(streets, tmp_path):
    ox.save_graphml(streets, tmp_path / "streets.graphml")
    again = xm.Network.from_networkx(ox.load_graphml(tmp_path / "streets.graphml"))
    network = xm.Network.from_networkx(streets)
    assert again.names == network.names
    assert again.feature_names == network.feature_names
    np.testing.assert_allclose(again.features.toarray(), network.features.toarray())


@pytest.mark.parametrize("states", ["links", "nodes"])
def test_a_saved_model_has_its_network_back(streets, tmp_path, states):
    network = xm.Network.from_networkx(streets, states=states)
    name = (101, 102, 0) if states == "links" else 101
    trips = [network.trip([(101, 102), (102, 103)] if states == "links" else [101, 102, 103])]
    model = xm.XMEN(network, features=network.select("length"), l2=0.1).fit(trips)
    model.save(tmp_path / "model")
    loaded = xm.load(tmp_path / "model")
    again = loaded.world
    assert type(again) is type(network)
    for part in ("names", "feature_names", "attributes"):
        assert getattr(again, part) == getattr(network, part)
    assert again.state(name) == network.state(name)
    assert again.describe_state(0) == network.describe_state(0)
    np.testing.assert_array_equal(again.lines, network.lines)
    for one, other in zip(again.shapes, network.shapes, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(again.features.toarray(), network.features.toarray())
    np.testing.assert_array_equal(again.source, network.source)
    if states == "links":
        assert str(again.turning("u-turn")) == str(network.turning("u-turn"))
    assert loaded.score(trips) == model.score(trips)


def test_names_of_tuples_come_back_as_tuples(tmp_path):
    town = nx.grid_2d_graph(3, 3)
    for x, y in town:
        town.nodes[x, y].update(x=x, y=y)
    network = xm.Network.from_networkx(town)
    demos = [network.trip([((0, 0), (0, 1)), ((0, 1), (1, 1))])]
    xm.XMEN(network, features=network.select("moves"), l2=0.1).fit(demos).save(tmp_path / "model")
    assert xm.load(tmp_path / "model").world.state(((0, 1), (1, 1))) == network.state(((0, 1), (1, 1)))
