"""Road networks from graphs, trips from files, and the tasks of a network."""

from __future__ import annotations

import json
import pickle
import re
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

import xmen as xm


@pytest.fixture(scope="module")
def town():
    """A square of two-way streets with a one-way diagonal, as OpenStreetMap tools write it."""
    graph = nx.MultiDiGraph()
    for node, place in {"a": (0, 0), "b": (1, 0), "c": (1, 1), "d": (0, 1)}.items():
        graph.add_node(node, x=place[0], y=place[1])
    for u, v in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]:
        for one, other in ((u, v), (v, u)):
            graph.add_edge(one, other, length=100.0, highway="residential", lanes="2", name="Main", osmid=[1, 2])
    graph.add_edge("a", "c", length=141.0, highway=["primary", "residential"], lanes=None, oneway=True)
    return graph


@pytest.fixture(scope="module")
def network(town):
    return xm.Network.from_networkx(town)


@pytest.fixture(scope="module")
def nodes(town):
    return xm.Network.from_networkx(town, states="nodes")


def test_links_are_states(network):
    assert network.n_states == 9
    tau = network.trip([("a", "b"), ("b", "c"), ("c", "d")])
    assert [network.names[s] for s in tau.states] == [("a", "b", 0), ("b", "c", 0), ("c", "d", 0)]
    assert xm.never(network.turning("u-turn")).accepts(tau)
    assert not xm.never(network.turning("left")).accepts(tau)
    back = network.trip([("a", "b"), ("b", "a")])
    assert not xm.never(network.turning("u-turn")).accepts(back)
    forbidden = xm.never(network.moving(("a", "b"), ("b", "c"))).named("no left at b")
    assert not forbidden.accepts(tau)
    assert str(xm.parse_constraint(str(forbidden))) == str(forbidden)


def test_features_are_of_what_a_move_enters(network):
    assert ", ".join(network.feature_names) == (
        "length, highway=primary, highway=residential, lanes, lanes missing, oneway, oneway missing, "
        "left, right, u-turn, moves"
    )
    diagonal = network.state(("a", "c"))
    before = network.state(("b", "a"))
    action = int(network.along([before, diagonal]).actions[0])
    numbers = network.features[before * network.n_actions + action].toarray()[0]
    row = dict(zip(network.feature_names, numbers, strict=True))
    assert (row["length"], row["highway=primary"]) == (141.0, 1.0)
    assert network.select("u-turn", "length").shape == (network.n_states * network.n_actions, 2)
    assert "of 1 lists" in network.attributes["highway"]
    assert all(words in network.attributes["lanes"] for words in ("0 for 1 links", "'lanes missing' is 1"))
    lacking = network.select("lanes", "lanes missing").toarray()[network.available.ravel()]
    assert np.unique(lacking, axis=0).tolist() == [[0.0, 1.0], [2.0, 0.0]]
    with pytest.raises(xm.WorldError, match=r"'lanes' .*'lanes missing'"):
        network.select("length", "lanes")
    assert network.attributes["name"] == network.attributes["osmid"] == "not used"
    with pytest.raises(xm.WorldError, match="no feature 'tolls'"):
        network.select("tolls")


def test_parallel_links_are_told_apart_by_their_keys():
    graph = nx.MultiDiGraph([("a", "b"), ("a", "b"), ("c", "a")])
    graph.add_edge("b", "c", key="bridge")
    network = xm.Network.from_networkx(graph)
    assert network.names[network.state(("b", "c"))] == ("b", "c", "bridge")
    assert network.names[network.state(("a", "b", 1))] == ("a", "b", 1)
    for name in (("a", "b"), "(a, b)"):
        with pytest.raises(xm.WorldError, match=r"2 parallel links: .*\('a', 'b', 0\), \('a', 'b', 1\)"):
            network.state(name)


def test_links_as_files_have_them(network, tmp_path):
    expected = [network.trip([("a", "b"), ("b", "c"), ("c", "d")])]
    file = tmp_path / "trips.csv"
    for path in (
        "(a, b) (b, c) (c, d)",
        "('a', 'b', 0)_('b','c',0)_(c,d)",
        "[('a', 'b', 0), ('b', 'c', 0), ('c', 'd')]",
    ):
        file.write_text(f'start,goal,path\n"(a, b)","(c, d, 0)","{path}"\n')
        assert xm.read_trips(file, network) == expected
    cells = xm.Network.from_networkx(nx.grid_2d_graph(2, 3))
    tau = cells.trip([((0, 0), (0, 1)), ((0, 1), (0, 2)), ((0, 2), (1, 2))])
    file.write_text('path\n"' + " ".join(str(cells.names[state]) for state in tau.states) + '"\n')
    assert xm.read_trips(file, cells) == [tau]


def test_names_with_spaces_and_underscores_come_in_lists(tmp_path):
    network = xm.Network.from_networkx(nx.DiGraph([("Main St", "Elm_St"), ("Elm_St", "Oak")]), states="nodes")
    file = tmp_path / "trips.csv"
    file.write_text("path\n\"['Main St', 'Elm_St', 'Oak']\"\n")
    assert xm.read_trips(file, network)[0].states == (0, 1, 2)


def test_a_file_that_is_not_there(network):
    for read in (lambda: xm.read_trips("nofile.csv", network), lambda: xm.read_demos("nofile.csv")):
        with pytest.raises(xm.MissingFileError, match=r"nofile\.csv: .* in /"):
            read()


def test_nodes_are_states(town):
    network = xm.Network.from_networkx(town, states="nodes", horizon=5)
    assert (network.n_states, network.horizon) == (4, 5)
    assert network.trip(["a", "c", "d"]).states == (0, 2, 3)
    assert "moves" in network.feature_names
    with pytest.raises(xm.WorldError, match="links are states"):
        network.turning("left")


def test_undirected_graphs_go_both_ways():
    network = xm.Network.from_networkx(nx.path_graph(4), states="nodes")
    assert network.trip([3, 2, 1, 0]).states == (3, 2, 1, 0)


@pytest.mark.parametrize(
    ("graph", "states", "words"),
    [
        ([(0, 1)], "links", "networkx graph"),
        (nx.empty_graph(3), "links", "no edges"),
        (nx.DiGraph([(0, 1, {"length": np.nan}), (1, 0, {"length": 1.0})]), "links", "finite"),
        (nx.path_graph(3), "streets", '"links" or "nodes"'),
    ],
)
def test_what_cannot_be_a_network(graph, states, words):
    with pytest.raises(xm.WorldError, match=words):
        xm.Network.from_networkx(graph, states=states)


def test_learning_on_a_town(network):
    features = network.select("length", "left", "u-turn")
    taste = features @ np.array([-0.01, -0.3, -1.0])
    reward = taste.reshape(network.n_states, network.n_actions)
    start, goal = network.state(("d", "a")), network.state(("b", "c"))
    demos = xm.distribution(network.task(start, goal), None, reward, seed=0).sample(400)
    demos += xm.distribution(network.task(goal, start), None, reward, seed=1).sample(400)
    model = xm.XMEN(network, features=features).fit(demos)
    np.testing.assert_allclose(model.weights_, [-0.01, -0.3, -1.0], atol=4 * model.standard_errors_.max())


def test_trips_from_files_and_tables(nodes, tmp_path):
    pandas, network = pytest.importorskip("pandas"), nodes
    expected = [network.trip(["a", "c", "d"]), network.trip(["b", "a"])]
    table = tmp_path / "trips.csv"
    table.write_text("start,goal,path,weather\na,d,a_c_d,rain\nb,a,b a,sun\n")
    assert xm.read_trips(table, network) == expected
    lines = tmp_path / "trips.jsonl"
    lines.write_text("\n".join(json.dumps({"path": p}) for p in (["a", "c", "d"], ["b", "a"])))
    assert xm.read_trips(lines, network) == expected
    frame = pandas.DataFrame({"start": ["a", "b"], "goal": ["d", "a"], "path": ["a_c_d", "b_a"]})
    assert xm.read_trips(frame, network) == expected
    numbers = xm.Network(network.n_states, network.n_actions, network.transitions)
    table.write_text("start,goal,path\n0,3,0_2_3\n1,0,1_0\n")
    assert xm.read_trips(table, numbers) == expected


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ("a,d,a_b_d", xm.InvalidDemonstrationError, "position 1: no move .*'b' to 'd'"),
        ("a,c,a_c_d", xm.FileFormatError, "goal is 'c', .*'d'"),
        ("a,z,a_z", xm.InvalidDemonstrationError, "'z' is not"),
        ("a,a,a_b_a", xm.InvalidDemonstrationError, "starts at its goal"),
        ("a,b,a_b_c_b", xm.InvalidDemonstrationError, "passes its goal"),
    ],
)
def test_bad_trips_are_named_with_their_line(nodes, tmp_path, row, error, words):
    file = tmp_path / "trips.csv"
    file.write_text(f"start,goal,path\na,c,a_c\n{row}\n")
    with pytest.raises(error, match=f"line 3: .*{words}"):
        xm.read_trips(file, nodes)


def test_names_are_taken_wherever_states_are(network):
    ends = ("a", "b"), ("c", "d")
    start, goal = map(network.state, ends)
    task = network.task(*ends)
    assert (task.origin, task.goal) == (start, goal)
    names, numbers = [("a", "b"), ("b", "c"), ("c", "d")], [start, network.state(("b", "c")), goal]
    trips = xm.read_trips([names, {"path": numbers}], network)
    assert trips[0] == trips[1]
    with pytest.raises(xm.WorldError, match=r"\('a', 'z'\)"):
        network.task(("a", "z"), goal)
    with pytest.raises(xm.XmenError, match="read_trips"):
        xm.read_trips(3, network)
    model = xm.XMEN(network, features=network.select("length"), l2=0.1).fit(trips)
    by_number = model.flows([(start, goal, 2.0)]).states
    np.testing.assert_array_equal(model.flows([(*ends, 2.0)]).states, by_number)
    frame = pytest.importorskip("pandas").DataFrame({"from": [start], "to": [goal], "trips": [2.0]})
    np.testing.assert_array_equal(model.flows(frame).states, by_number)
    by_name = model.closure([(*ends, 2.0)], [("b", "c")])
    assert by_name.rerouted == model.closure([(start, goal, 2.0)], [trips[0].states[1]]).rerouted
    assert model.sample(1, start=ends[0], goal=ends[1], seed=0) == model.sample(1, start=start, goal=goal, seed=0)


@pytest.fixture(params=[int, str], ids=["integers", "texts of integers"])
def backwards(request):
    """A path whose nodes are called 15 to 0 (or "15" to "0"), so that every small number is also another state."""
    name = request.param
    graph = nx.DiGraph()
    graph.add_nodes_from(name(n) for n in range(15, -1, -1))
    for n in range(15):
        graph.add_edge(name(n + 1), name(n), length=1.0)
        graph.add_edge(name(n), name(n + 1), length=2.0)
    return xm.Network.from_networkx(graph, states="nodes"), name


def test_integers_are_names_wherever_nodes_are_called_by_integers(backwards, tmp_path):
    pandas = pytest.importorskip("pandas")
    network, name = backwards
    expected = [xm.Trajectory((0, 1, 2), network.along([0, 1, 2]).actions)]
    table, lines = tmp_path / "trips.csv", tmp_path / "trips.jsonl"
    table.write_text("start,goal,path\n15,13,15 14 13\n")
    lines.write_text(json.dumps({"path": [15, 14, 13], "start": name(15)}))
    frame = pandas.DataFrame({"start": [15.0], "goal": [13], "path": ["15_14_13"]})
    for source in (table, lines, frame, [[15, 14, 13]], [[name(15), name(14), name(13)]], ["15 14 13"]):
        assert xm.read_trips(source, network) == expected
    assert network.trip([15, 14, 13]) == expected[0]
    assert network.state(15) == network.read_state(np.int64(15)) == 0
    task = network.task(15, 13)
    assert (task.origin, task.goal) == (0, 2)
    with pytest.raises(xm.WorldError, match=r"16 .*always a name"):
        network.task(16, 13)


def test_models_take_integer_names_and_compute_with_states(backwards):
    network, _ = backwards
    demos = [network.trip([15, 14, 13]), network.trip([2, 1, 0])] * 4
    model = xm.XMEN(network, features=network.select("length")).fit(demos)
    assert {(tau.states[0], tau.states[-1]) for tau in model.sample(5, start=15, goal=13, seed=0)} == {(0, 2)}
    flows = model.flows([(15, 13, 2.0)]).states
    assert (flows[0] >= 2.0, flows[2], flows[15]) == (True, pytest.approx(2.0), 0.0)
    assert model.closure([(15, 13, 1.0)], [14]).lost.all()
    with pytest.raises(xm.WorldError, match="'somewhere'"):
        model.flows([(15, "somewhere", 1.0)])
    numbers = xm.Network(network.n_states, network.n_actions, network.transitions)
    settings = {
        "events": {"back": xm.doing(1)},
        "features": network.select("length"),
        "templates": ["never"],
        "seed": 0,
    }
    named, numbered = (xm.RuleInference(world, **settings).fit(demos) for world in (network, numbers))
    assert named.texts_ == numbered.texts_
    np.testing.assert_allclose(named.gains_, numbered.gains_)
    assert [one.gain for one in named.verdicts()] == pytest.approx([one.gain for one in numbered.verdicts()])


def test_large_identifiers_and_numbers_of_links(tmp_path):
    ids = [42400015, 42400014, 42400016]
    graph = nx.DiGraph([(ids[0], ids[1], {"length": 1.0}), (ids[1], ids[2], {"length": 1.0})])
    nodes, table = xm.Network.from_networkx(graph, states="nodes"), tmp_path / "trips.csv"
    table.write_text("path\n" + " ".join(map(str, ids)) + "\n")
    assert xm.read_trips(table, nodes)[0].states == (0, 1, 2)
    assert nodes.task(ids[0], ids[2]).goal == 2
    with pytest.raises(xm.InvalidDemonstrationError, match=r"0 .*network\.names\[i\]"):
        xm.read_trips([[0, 1]], nodes)
    links = xm.Network.from_networkx(graph)  # no link is called by an integer, so that numbers are states
    assert xm.read_trips([[0, 1]], links) == xm.read_trips(["0 1"], links) == [links.trip(links.names)]
    with pytest.raises(xm.WorldError, match="0 to 1"):
        links.task(0, 2)


def test_one_path_is_no_list_of_paths(nodes):
    for one in (["a", "c", "d"], [0, 2, 3]):
        with pytest.raises(xm.PathError, match=r"row 0 .*\[\[\.\.\.\]\]"):
            xm.read_trips(one, nodes)
    assert xm.read_trips([["a", "c", "d"], "a c d"], nodes) == [nodes.trip(["a", "c", "d"])] * 2


def test_distances_are_those_to_shapes():
    """A link that bends at (1, 1), one without length, and nodes."""
    graph = nx.MultiDiGraph()
    for name, place in {"a": (0, 0), "b": (2, 0), "c": (2, 0)}.items():
        graph.add_node(name, x=place[0], y=place[1])
    bent = [(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)]
    graph.add_edges_from([("a", "b", {"geometry": bent}), ("b", "c", {}), ("c", "a", {})])
    network = xm.Network.from_networkx(graph)
    for point in ((1.0, 0.5), (-3.0, 4.0), (2.0, 0.0)):
        along = np.linspace(0.0, 1.0, 20_001)[:, None]
        pieces = [(bent[0], bent[1], bent[2]), ((2.0, 0.0), (2.0, 0.0)), ((2.0, 0.0), (0.0, 0.0))]
        nearest = [
            min(np.sum((np.add(u, along * np.subtract(v, u)) - point) ** 2, axis=1).min() for u, v in pairwise(piece))
            for piece in pieces
        ]
        np.testing.assert_allclose(network.squared_distances(np.array(point)), nearest, atol=1e-7)
    nodes = xm.Network.from_networkx(graph, states="nodes")
    np.testing.assert_allclose(nodes.squared_distances(np.array([0.0, 1.0])), [1.0, 5.0, 5.0])
    rows = xm.Sighting([(1.0, 0.5), None], noise=xm.gaussian(0.5)).log_rows(network.task(0, 1))
    found = -network.squared_distances(np.array([1.0, 0.5])) / 0.5 - np.log(2 * np.pi * 0.25)
    np.testing.assert_allclose(rows[0], found)


# --- networks by their rows, and their tasks ------------------------------------------------------------------------

ROWS = [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0), (1, 1, 0, 1.0)]


@pytest.fixture
def ring():
    return xm.Network(3, 2, ROWS)


def test_a_task_is_an_mdp_that_ends_at_its_goal(ring):
    task = ring.task(0, 2)
    assert isinstance(task, xm.MDP)
    assert (task.horizon, task.unbounded) == (None, True)
    assert task.problem(xm.Trajectory([0, 1, 0, 2], [0, 1, 1])) is None
    assert task.problem(xm.Trajectory([0, 2, 0, 2], [1, 0, 1]))[0] == 1
    assert not np.any(task.source == 2)
    assert ring.task(0, 2, horizon=4).max_length == 4


def test_the_networks_horizon_is_the_tasks():
    short = xm.Network(3, 2, ROWS, horizon=2)
    assert short.task(0, 2).horizon == 2
    assert short.task(0, 2, horizon=7).horizon == 7
    position, sentence = short.problem(xm.Trajectory([0, 1, 0, 2], [0, 1, 1]))
    assert position == 2
    assert "horizon" in sentence


def test_problems_of_trips(ring):
    assert ring.problem(xm.Trajectory([0, 1, 2], [0, 0])) is None
    assert ring.problem(xm.Trajectory([1], [])) is None
    for states, actions, position, words in (
        ([0, 1, 0], [0, 1], 0, "goal, state 0"),
        ([0, 2, 0, 2], [1, 0, 1], 1, "position 1, before .* position 3"),
        ([0, 2], [0], 0, "to state 2"),
        ([0, 9], [0], 1, "state 9 .*0 to 2"),
    ):
        found, sentence = ring.problem(xm.Trajectory(states, actions))
        assert found == position
        assert re.search(words, sentence)


def test_repeated_rows_are_named():
    with pytest.raises(xm.WorldError, match=r"rows 1 and 5 .*action 0 .*state 1 to state 2"):
        xm.Network(3, 2, [*ROWS, (1, 0, 2, 1.0)])


@pytest.mark.parametrize(("start", "goal"), [(0, 3), (3, 0), (-1, 0), (0.5, 1)])
def test_tasks_need_states_of_the_network(ring, start, goal):
    with pytest.raises(xm.WorldError, match=r"start|goal|is no state"):
        ring.task(start, goal)


def test_a_goal_that_cannot_be_reached_is_legal_until_a_distribution_is_asked_for():
    task = xm.Network(3, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0)]).task(0, 2)
    with pytest.raises(xm.InfeasibleError, match="no terminal state"):
        xm.distribution(task)


def test_networks_travel_between_processes(ring):
    assert ring.any_task.unbounded
    again = pickle.loads(pickle.dumps(ring))
    assert np.array_equal(again.transitions, ring.transitions)
    assert not again.source.flags.writeable
    assert again.any_task.n_states == 3
