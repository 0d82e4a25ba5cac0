import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import enumerate_trajectories
from xmen import MDP, MissingExtraError, Trajectory, TrajectoryError, WorldError


@given(st.integers(0, 10_000), st.booleans())
def test_trajectories_are_the_paths_that_networkx_lists(seed: int, multi: bool) -> None:
    """In an acyclic orientation every path to the goal is simple, so `all_simple_edge_paths` is the truth."""
    rng = np.random.default_rng(seed)
    graph = (nx.MultiDiGraph if multi else nx.DiGraph)()
    graph.add_nodes_from("abcde")
    for _ in range(8):
        tail, head = sorted(rng.choice(5, size=2, replace=False).tolist())
        graph.add_edge("abcde"[tail], "abcde"[head])
    world = MDP.from_networkx(graph, "a", "e", horizon=4)
    found = {Trajectory(states, actions) for states, actions, _ in enumerate_trajectories(world)}
    assert all(world.problem(tau) is None for tau in found)
    simple = list(nx.all_simple_edge_paths(graph, "a", "e"))
    edges = {tuple(world.edge(s, a) for s, a in zip(tau.states, tau.actions, strict=False)) for tau in found}
    assert edges == {tuple(tuple(edge) for edge in path) for path in simple if len(path) <= 4}
    assert len(edges) == len(found)


def test_nodes_and_edges_keep_the_order_of_the_graph() -> None:
    graph = nx.DiGraph([("c", "b"), ("c", "a"), ("b", "a")])
    world = MDP.from_networkx(graph, "c", "a")
    assert [world.node(s) for s in range(3)] == ["c", "b", "a"]
    assert [world.state(node) for node in "cba"] == [0, 1, 2]
    assert world.edge(0, 0) == ("c", "b")
    assert world.edge(0, 1) == ("c", "a")
    assert world.n_actions == 2
    assert world.describe_state(0) == "node 'c'"
    position, sentence = world.problem(Trajectory([0, 1, 1], [0, 0])) or (None, "")
    assert position == 1
    assert all(words in sentence for words in ("out-edge 0 in node 'b'", "to node 'b'", "to node 'a'"))


def test_undirected_edges_go_both_ways_and_parallel_edges_are_different_actions() -> None:
    world = MDP.from_networkx(nx.path_graph(3), 0, 2, horizon=4)
    assert world.problem(world.trajectory([0, 1, 0, 1, 2])) is None
    graph = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    world = MDP.from_networkx(graph, 0, 2, horizon=2)
    assert len(list(enumerate_trajectories(world))) == 2
    assert world.edge(0, 1) == (0, 1, 1)
    with pytest.raises(TrajectoryError, match=r"2 edges .*node 0 to node 1 \(out-edge 0, out-edge 1\)"):
        world.trajectory([0, 1, 2])


def test_numeric_attributes_become_features() -> None:
    graph = nx.DiGraph()
    graph.add_edge("a", "b", length=2, toll=True, street="High")
    graph.add_edge("a", "c", length=np.float64(0.5), toll=False, street="Low")
    graph.add_edge("b", "c", length=1.5, toll=False)
    graph.add_edge("c", "a", length=9.0, toll=False)
    world = MDP.from_networkx(graph, "a", "c")
    assert world.feature_names == ("length", "toll")
    assert world.ignored_attributes == ("street",)
    expected = np.zeros((3, 2, 2))
    expected[0, 0], expected[0, 1], expected[1, 0] = (2.0, 1.0), (0.5, 0.0), (1.5, 0.0)
    np.testing.assert_array_equal(world.features, expected)  # nothing leaves the target, so no feature there
    with pytest.raises(ValueError, match="read-only"):
        world.features[0, 0, 0] = 1.0


def test_without_attributes_there_are_no_features() -> None:
    world = MDP.from_networkx(nx.DiGraph([(0, 1)]), 0, 1)
    assert world.features.shape == (2, 1, 0)
    assert world.feature_names == ()


def test_source_can_be_the_target() -> None:
    graph = nx.Graph()
    graph.add_node("home")
    world = MDP.from_networkx(graph, "home", "home")
    assert world.problem(Trajectory([0], [])) is None
    assert world.trajectory(["home"]) == Trajectory([0], [])


def weighted(*edges: tuple[object, object, dict[str, object]]) -> nx.DiGraph:
    return nx.DiGraph(list(edges))


@pytest.mark.parametrize(
    ("graph", "source", "target", "message"),
    [
        (nx.DiGraph([(0, 1)]), 7, 1, r"source 7 .*\(nodes: 0, 1\)"),
        (nx.DiGraph([(0, 1)]), 0, "x", "target 'x'"),
        (nx.DiGraph([(0, 1)]), [0], 1, r"source \[0\]"),
        (nx.DiGraph(), 0, 1, "the graph is empty"),
        ({0: [1]}, 0, 1, "takes a networkx graph, got dict"),
        (nx.path_graph(3), 0, 2, "node 0 -> node 1 -> node 0.*horizon"),
        (weighted((0, 1, {"w": 1}), (1, 2, {})), 0, 2, r"edge \(1, 2\) has no attribute 'w'"),
        (weighted((0, 1, {"w": 1}), (1, 2, {"w": "2"})), 0, 2, r"edge \(1, 2\): attribute 'w' .* got '2'"),
        (weighted((0, 1, {"w": float("nan")})), 0, 1, r"edge \(0, 1\): attribute 'w' .*got nan"),
    ],
)
def test_refuses(graph: object, source: object, target: object, message: str) -> None:
    with pytest.raises(WorldError, match=message):
        MDP.from_networkx(graph, source, target)  # type: ignore[arg-type]


def test_questions_that_have_no_answer() -> None:
    world = MDP.from_networkx(nx.DiGraph([("a", "b"), ("b", "c")]), "a", "c")
    for ask, error, words in (
        (lambda: world.node(3), WorldError, "state 3 .*0 to 2"),
        (lambda: world.state("z"), WorldError, "node 'z'"),
        (lambda: world.edge(0, 1), WorldError, "node 'a' has 1 .*action 1"),
        (lambda: world.trajectory(["a", "c"]), TrajectoryError, "no edge .*node 'a' to node 'c'.*to node 'b'"),
    ):
        with pytest.raises(error, match=words):
            ask()


def test_without_networkx_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r"xmen-irl\[networkx\]"):
        MDP.from_networkx(object(), 0, 1)
