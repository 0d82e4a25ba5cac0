"""The roads experiment: its data, its scores and its baseline on a small city made up here."""

from __future__ import annotations

import json

import numpy as np
import pytest

import xmen as xm
from xmen.experiments import reproduce, roads


def write_city(folder, n_links, routes):
    """A ring of links with short cuts, in the format of the data set; every route is driven twenty times."""
    folder.mkdir(exist_ok=True)
    ring = range(n_links)
    moves = [(k, 0, (k + 1) % n_links) for k in ring] + [(k, 2, (k + 2) % n_links) for k in ring]
    np.save(folder / "transit.npy", np.array(moves))
    kinds = ["primary", "['residential', 'unclassified']", "secondary"]
    lines = [f'{k},{(k + 1) % n_links},x,"{kinds[k % 3]}",{100 + k},{k}' for k in ring]
    (folder / "edge.txt").write_text("\n".join(["u,v,name,highway,length,n_id", *lines]))
    (folder / "node.txt").write_text("\n".join(["osmid,y,x", *(f"{k},{k % 2},{k}" for k in ring)]))
    rows = [f"{route[0]},{route[-1]},{'_'.join(map(str, route))},{len(route)}\n" for route in routes]
    for name in ("train_CV0_size1000", "train_CV0_size10000", "test_CV0"):
        (folder / f"{name}.csv").write_text("ori,des,path,len\n" + "".join(rows) * 20)
    (folder / "path.csv").write_text("ori,des,path,len\n" + "".join(rows) * 20 + rows[0] * 3 + rows[1])
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_city(tmp_path, 6, [(0, 1, 2, 3), (1, 3, 5)])


def test_the_city_is_read(folder):
    city = roads.read_city(folder)
    assert (city.network.n_states, city.lengths[2], city.classes[1][:11]) == (6, 102.0, "residential")
    assert city.trips("test_CV0", 2)[1].states == (1, 3, 5)
    features = city.features()
    assert features.shape == (6 * 8, len(roads.FEATURES))
    assert features[0 * 8 + 2].toarray()[0, :4].tolist() == [1.02, 1.0, 0.0, 1.0]
    assert city.features("link").shape[1] == len(roads.FEATURES) + 6
    assert city.features("transition").shape[1] == len(roads.FEATURES) + 12


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(xm.XmenError, match="--data FOLDER"):
        reproduce("roads", tmp_path / "out")
    (folder / "node.txt").unlink()
    with pytest.raises(xm.FileFormatError, match=r"node\.txt"):
        reproduce("roads", tmp_path / "out", data=folder)
    assert "node.txt" in roads.FILES


def test_all_training_trips_are_those_that_are_not_tested(folder):
    trips = roads.read_city(folder).all_training_trips()
    assert [tau.states for tau in trips] == [(0, 1, 2, 3)] * 3 + [(1, 3, 5)]


def test_edit_distance_and_bleu():
    assert roads.edit_distance([1, 2, 3], [1, 2, 3]) == 0
    assert roads.edit_distance([1, 2, 3], []) == 3
    assert roads.edit_distance([1, 2, 3, 4], [2, 3, 4, 5]) == 2
    assert roads.bleu([[1, 2, 3, 4, 5]], [1, 2, 3, 4, 5]) == pytest.approx(1.0)
    # 3 of 4 single links, 2 of 3 pairs, 1 of 2 triples, 0 of 1: smoothed to 0.1; as long as the reference.
    assert roads.bleu([[1, 2, 3, 4]], [1, 2, 3, 9]) == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25)
    assert roads.bleu([[1, 2, 3, 4, 5, 6]], [1, 2, 3, 4, 5]) == pytest.approx(np.exp(1 - 6 / 5))
    assert roads.bleu([[1, 2, 3, 4]], [5, 6]) == 0.0
    # Several references: each n-gram counts as often as the one that has it most; of two lengths as near, the shorter.
    assert roads.bleu([[1, 2], [3, 4, 3, 3]], [1, 3, 3]) == pytest.approx((1 * 1 / 2 * 0.1 * 0.1) ** 0.25)


def test_a_route_is_compared_with_all_routes_of_its_pair():
    observed = [(1, 2, 3, 4), (1, 5, 4), (1, 2, 3, 4), (6, 7)]
    distance, similar, exact = roads.score_routes(observed, [(1, 2, 3, 4)] * 3 + [(6, 8, 9, 7, 7)])
    assert distance == pytest.approx(1.0 / 4)  # of the last 3 / 2, which counts as 1
    assert similar == pytest.approx((3 + roads.bleu([[6, 7]], [6, 8, 9, 7, 7])) / 4)
    assert exact == 0.5


@pytest.mark.system
def test_cloning_learns_frequencies(folder):
    city = roads.read_city(folder)
    train = city.trips("train_CV0_size1000")
    cloning = roads.Cloning(city, seed=0).fit(train, train, epochs=60)
    assert cloning.score(train) > -0.2
    for start, goal, route in ((0, 3, [0, 1, 2, 3]), (1, 5, [1, 3, 5])):
        assert roads.follow([cloning.after(goal)], start, goal) == route


def likeliest_route(d, start, goal):
    """At every step the likeliest next link, by enumeration."""
    left, states = d.best(10_000), (start,)
    while states[-1] != goal:
        weights = {}
        for tau in left:
            if tau.states[: len(states)] == states:
                after = tau.states[len(states)]
                weights[after] = weights.get(after, 0.0) + np.exp(d.log_prob(tau))
        states += (max(weights, key=weights.__getitem__),)
    return list(states)


@pytest.mark.parametrize(("rule", "horizon"), [(None, 14), (roads.TWICE, 6), (roads.LONG, 9)], ids=str)
def test_greedy_routes_follow_the_likeliest_move(folder, rule, horizon, monkeypatch):
    """Rewards so low that ways longer than the horizon, which enumeration leaves out, weigh nothing."""
    monkeypatch.setattr(roads, "GREEDY_DRAWS", 4000)
    monkeypatch.setattr(roads, "LEAST", 5)
    network = roads.read_city(folder).network
    table = np.random.default_rng(4).normal(-1.0, 0.8, (6, 8)) - (2.0 if rule is not roads.TWICE else 0.0)
    ends = [(0, 3, 1.0), (1, 0, 1.0), (0, 3, 1.0)]
    asked = xm.length() >= 5 if rule is roads.LONG else rule
    found = roads.greedy_routes(network, table, rule, ends, seed=0)
    assert found[0] == found[2]
    for route, (start, goal, _) in zip(found, ends, strict=True):
        d = xm.distribution(network.task(start, goal, horizon=horizon), asked, table)
        assert route == likeliest_route(d, start, goal)


@pytest.mark.system
def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch):
    """The whole experiment on a small ring, stopped after its second fit; what it had found is not found again."""
    routes = [(k, *range(k + 1, k + 10), *range(k + 11, k + 17), (k + 17) % 30) for k in range(8)]
    routes += [(*range(k, k + 9), *range(k + 10, k + 18)) for k in range(8)]
    data, greedy = write_city(tmp_path / "data", 30, routes), roads.greedy_routes

    def stopped(network, reward, rule, *others):
        if rule is not None:
            raise KeyboardInterrupt
        return greedy(network, reward, rule, *others)

    with monkeypatch.context() as patched:
        patched.setattr(roads, "greedy_routes", stopped)
        with pytest.raises(KeyboardInterrupt):
            reproduce("roads", tmp_path / "out", quick=True, data=data)
    first = json.loads((tmp_path / "out" / "roads.stages.json").read_text())["found"]
    record = reproduce("roads", tmp_path / "out", quick=True, data=data, resume=True)
    assert record.times["14 features"] == first["14 features"][1]
    assert not (tmp_path / "out" / "roads.stages.json").exists()
    table = record.tables[-1]
    assert [row[:2] for row in table.rows[:2]] == [["14 features", ""], ["14 features", "no link twice"]]
    assert table.rows[0] == first["14 features"][0][:7]
    assert {row[0] for row in table.rows} >= {"behaviour cloning", "shortest path"}
    assert all(row[2] < 0 for row in table.rows if row[0] != "shortest path")
    assert {picture.file for picture in record.pictures} == {"roads_flows.png", "roads_curve.png"}
