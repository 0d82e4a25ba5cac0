"""Trips as cities have them: by nodes or links, a row each or a row per position, and all that is wrong at once."""

from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest

import xmen as xm


def town(name=str, lengths=True):
    """a -> b twice (5 and 2 long), b -> c, c -> a, c -> d, d -> b: nodes are called by `name`."""
    graph = nx.MultiDiGraph()
    for number, (u, v) in enumerate(["ab", "ab", "bc", "ca", "cd", "db"]):
        graph.add_edge(name(u), name(v), **({"length": [5.0, 2.0, 1.0, 1.0, 1.0, 1.0][number]} if lengths else {}))
    return graph


@pytest.fixture(scope="module")
def network():
    return xm.Network.from_networkx(town())


def named(network, trips):
    return [[network.names[state] for state in tau.states] for tau in trips]


SHORT, LONG = [("a", "b", 1), ("b", "c", 0), ("c", "d", 0)], [("a", "b", 0), ("b", "c", 0), ("c", "d", 0)]


def test_paths_by_nodes_take_the_shortest_of_parallel_links(network, tmp_path):
    pandas = pytest.importorskip("pandas")
    table, lines = tmp_path / "trips.csv", tmp_path / "trips.jsonl"
    table.write_text("start,goal,path,who\na,d,a_b_c_d,ann\na,d,a b c d,ben\n")
    trips = xm.read_trips(table, network)
    assert named(network, trips) == [SHORT, SHORT]
    assert trips.metadata == [{"who": "ann"}, {"who": "ben"}]
    assert trips.left_out == []
    lines.write_text(json.dumps({"nodes": ["a", "b", "c", "d"]}))
    frame = pandas.DataFrame({"nodes": [["a", "b", "c", "d"]], "goal": ["d"]})
    lists = ([list("abcd")], [[("a", "b"), ("b", "c"), ("c", "d")]], ["(a, b) (b, c) (c, d)"])
    for source in (lines, frame, *lists):
        assert named(network, xm.read_trips(source, network)) == [SHORT]
    assert xm.XMEN(network, features=network.select("length"), l2=0.1).fit(trips).score(trips) < 0


def test_a_key_or_another_feature_chooses_among_parallel_links(tmp_path):
    graph = town()
    for number, (*_, data) in enumerate(graph.edges(data=True)):
        data["minutes"] = float(number + 1)
    network = xm.Network.from_networkx(graph)
    rows = {"trip": [1, 1, 1, 1], "node": list("abcd"), "key": [0, None, None, None]}
    assert named(network, xm.read_trips(rows, network)) == [LONG]
    del rows["key"]
    assert named(network, xm.read_trips(rows, network)) == [SHORT]
    assert named(network, xm.read_trips(rows, network, parallel="minutes")) == [LONG]
    with pytest.raises(xm.XmenError, match=r"2 parallel links: .*\('a', 'b', 0\), \('a', 'b', 1\)"):
        xm.read_trips(rows, network, parallel=None)
    with pytest.raises(xm.WorldError, match="'minuts'"):
        xm.read_trips(rows, network, parallel="minuts")
    xm.XMEN(network, features=network.select("length"), l2=0.1).fit(xm.read_trips(rows, network)).save(tmp_path / "m")
    assert named(network, xm.read_trips(rows, xm.load(tmp_path / "m").world)) == [SHORT]


@pytest.mark.parametrize("missing", ["everywhere", "on one"])
def test_without_lengths_parallel_links_ask_for_a_key(missing):
    graph = town(lengths=missing == "on one")
    if missing == "on one":
        del graph.edges["a", "b", 0]["length"]
    with pytest.raises(xm.XmenError, match=r"row 0: .* 2 parallel links"):
        xm.read_trips([["a", "b", "c"]], xm.Network.from_networkx(graph))


@pytest.mark.parametrize("order", [[1, 2, 3, 1, 2], [3, 4, 5, 0, 1]])
def test_a_row_per_position_in_any_order_of_rows(network, tmp_path, order):
    """Rows of two trips, shuffled: trip 7 is a b c, trip x is c d; each trip's `order` goes up by one."""
    pandas = pytest.importorskip("pandas")
    rows = list(zip(["7", "7", "7", "x", "x"], order, "abccd", ["am"] * 3 + ["pm"] * 2, strict=True))
    np.random.default_rng(0).shuffle(rows)
    expected = {"7": SHORT[:2], "x": SHORT[2:]}
    frame = pandas.DataFrame([list(row) for row in rows], columns=["Trip", "Order", "Node", "when"])
    frame["Order"] = frame["Order"].astype(int)
    frame.to_csv(tmp_path / "long.csv", index=False)
    for source in (tmp_path / "long.csv", frame, frame.to_dict("list")):
        trips = xm.read_trips(source, network)
        assert dict(zip((m["trip"] for m in trips.metadata), named(network, trips), strict=True)) == expected
        assert [m["when"] for m in trips.metadata] == ["am" if m["trip"] == "7" else "pm" for m in trips.metadata]


@pytest.mark.parametrize("states", ["links", "nodes"])
@pytest.mark.parametrize("ids", [str, lambda letter: "abcd".index(letter) + 2, lambda letter: "abcd".index(letter)])
def test_what_write_demos_writes_by_name_read_trips_reads(states, ids, tmp_path):
    network = xm.Network.from_networkx(town(ids), states=states)
    by_nodes = [[ids(node) for node in path] for path in ("bcd", "dbca")]
    routes = [[0, 2, 4], [5, 2], [1, 2]] if states == "links" else [[*map(network.state, path)] for path in by_nodes]
    trips = [network.along(route) for route in routes]
    xm.write_demos(trips, tmp_path / "out.csv", network)
    header, first = (tmp_path / "out.csv").read_text().splitlines()[:2]
    assert header.split(",")[2] == states[:-1]
    assert str(network.names[routes[0][0]]) in first
    assert xm.read_trips(tmp_path / "out.csv", network) == trips
    assert xm.read_demos(tmp_path / "out.csv", network) == trips
    pandas = pytest.importorskip("pandas")
    assert xm.read_trips(pandas.DataFrame(xm.convert_demos(trips, "columns", network)), network) == trips


def test_between_nodes_that_are_states_the_action_says_which_link():
    network = xm.Network.from_networkx(town(), states="nodes")
    a, b, c = map(network.state, "abc")
    trips = [xm.Trajectory([a, b, c], [action, 0]) for action in (0, 1)]
    assert xm.read_trips(xm.convert_demos(trips, "columns", network), network) == trips


def test_integers_are_nodes_wherever_nodes_are_called_by_them():
    """Nodes 0 to 3 and links 0 to 5: a path of integers goes by nodes, a column `links` by numbers of links."""
    network = xm.Network.from_networkx(town("abcd".index))
    assert [tau.states for tau in xm.read_trips([[0, 1, 2, 3]], network)] == [(1, 2, 4)]
    for column in ({"links": ["0 2 4"]}, {"trip": [1, 1, 1], "link": [0, 2, 4]}):
        assert [tau.states for tau in xm.read_trips(column, network)] == [(0, 2, 4)]
    floats = {"trip": [1.0, 1.0], "u": [0.0, 1.0], "v": [1.0, 2.0], "key": [0.0, float("nan")]}
    assert [tau.states for tau in xm.read_trips(floats, network)] == [(0, 2)]
    cells = xm.Network.from_networkx(nx.grid_2d_graph(3, 3), states="nodes")  # nodes that look like links
    assert xm.read_trips([[(0, 0), (0, 1)]], cells)[0].states == (0, 1)


BAD = """trip,order,node
1,0,a
1,1,b
2,0,a
2,1,z
3,0,a
3,2,b
4,0,a
4,1,c
5,0,b,oops
,0,a
6,x,a
7,0,b
7,1,
8,0,b
8,1,c
8,2,y
9,0,d
"""


def test_all_bad_rows_are_listed_with_their_lines(network, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text(BAD)
    with pytest.raises(xm.XmenError) as caught:
        xm.read_trips(file, network)
    said = str(caught.value).split("\n  ")
    assert said[0].startswith("9 rows ")
    expected = {
        5: "'z'",
        7: "trip '3': order 2 follows 0",
        8: "('a', 'c')",
        10: "expected 3 fields",
        11: "column trip",
        12: "trip '6': order",
        14: "column node",
        17: "'y'",
        18: "['d']",
    }
    found = {int(line.split("line ")[1].split(":")[0].split(",")[0]): line for line in said}
    assert set(found) == set(expected)
    for line, what in expected.items():
        assert what in found[line]
    trips = xm.read_trips(file, network, errors="skip")
    assert named(network, trips) == [[("a", "b", 1)]]
    assert trips.metadata == [{"trip": "1"}]
    assert len(trips.left_out) == 9


def test_of_many_bad_rows_ten_are_listed(network):
    with pytest.raises(xm.InvalidDemonstrationError, match=r"(?s)^25 rows .*row 9: .*and 15 more$"):
        xm.read_trips([["a", "z"]] * 25, network)
    with pytest.raises(xm.XmenError, match=r"errors 'ignore'.*'raise', 'skip'"):
        xm.read_trips([["a", "b", "c"]], network, errors="ignore")


def test_trips_are_called_as_their_rows_call_them(network, tmp_path):
    rows = {"trip": ["x7", "x7", "bad", "a9", "a9", "a9"], "node": list("abzbcd")}
    trips = xm.read_trips(rows, network, errors="skip")
    assert trips.names == ["x7", "a9"]
    xm.write_demos(trips, tmp_path / "out.csv", network)
    again = xm.read_trips(tmp_path / "out.csv", network)
    assert (again, again.names) == (trips, trips.names)
    xm.write_demos(trips, tmp_path / "out.jsonl")
    with pytest.raises(xm.FileFormatError, match=r"line 1: .* 'path', .*read_demos"):
        xm.read_trips(tmp_path / "out.jsonl", network)
    assert xm.read_demos(tmp_path / "out.jsonl", network) == trips


def test_trips_lead_through_a_network(network):
    with pytest.raises(xm.WorldError, match="Network; got 'town'"):
        xm.read_trips([["a", "b", "c"]], "town")


def test_a_missing_path_is_not_a_missing_column(network, tmp_path):
    file = tmp_path / "trips.csv"
    for text, errors, words in (
        ("who,path\nann,a b c\nben,\n", "raise", "line 3: the path .*empty"),
        ("who,way\nann,a b c\n", "raise", r"line 1: .* who, way"),
        ("who,path\nben,\n", "skip", r"^\S+trips.csv has no trips .*line 2: the path .*empty"),
    ):
        file.write_text(text)
        with pytest.raises(xm.FileFormatError, match=words):
            xm.read_trips(file, network, errors=errors)
    file.write_text("who,path\nann,a b c\nben,\n")
    assert len(xm.read_trips(file, network, errors="skip").left_out) == 1


def test_a_row_that_cannot_be_missed_is_never_skipped(network, tmp_path):
    """Without order, the trip c a b without its row a would be another one, c b, were there such a link."""
    file = tmp_path / "trips.csv"
    for rows, errors, words in (
        ("1,c\n1,a,oops\n1,b\n", "skip", "line 3: expected 2 fields"),
        ("1,a\n2,b\n1,b\n2,c\n", "raise", "trip '1': .*together, .*column order"),
    ):
        file.write_text(f"trip,node\n{rows}")
        with pytest.raises(xm.FileFormatError, match=words):
            xm.read_trips(file, network, errors=errors)
