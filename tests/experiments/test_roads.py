"""The roads experiment: its data, its scores and its baseline on a small city made up here."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import xmen as xm
from xmen.experiments import reproduce
from xmen.experiments.roads_cloning import Cloning
from xmen.experiments.roads_data import FEATURES, FILES, read_city
from xmen.experiments.roads_scores import bleu, edit_distance, score_routes


@pytest.fixture
def folder(tmp_path):
    """A ring of six links with a short cut, in the format of the data set."""
    moves = [(k, 0, (k + 1) % 6) for k in range(6)] + [(k, 2, (k + 2) % 6) for k in range(6)]
    np.save(tmp_path / "transit.npy", np.array(moves))
    kinds = ["primary", "['residential', 'unclassified']", "secondary"]
    lines = ["u,v,name,highway,length,n_id", *(f'{k},{(k + 1) % 6},x,"{kinds[k % 3]}",{100 + k},{k}' for k in range(6))]
    (tmp_path / "edge.txt").write_text("\n".join(lines))
    (tmp_path / "node.txt").write_text("\n".join(["osmid,y,x", *(f"{k},{k % 2},{k}" for k in range(6))]))
    for name in ("train_CV0_size1000", "train_CV0_size10000", "test_CV0"):
        (tmp_path / f"{name}.csv").write_text("ori,des,path,len\n" + "0,3,0_1_2_3,4\n1,5,1_3_5,3\n" * 20)
    return tmp_path


def test_the_city_is_read(folder):
    city = read_city(folder)
    assert (city.network.n_states, city.lengths[2], city.classes[1][:11]) == (6, 1.02, "residential")
    assert city.trips("test_CV0", 2)[1].states == (1, 3, 5)
    features = city.features()
    assert features.shape == (6 * 8, len(FEATURES))
    assert features[0 * 8 + 2].toarray()[0, :4].tolist() == [1.02, 1.0, 0.0, 1.0]
    assert city.features(per_link=True).shape[1] == len(FEATURES) + 6
    assert city.features(per_transition=True).shape[1] == len(FEATURES) + 12


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(xm.XmenError, match="--data FOLDER"):
        reproduce("roads", tmp_path / "out")
    (folder / "node.txt").unlink()
    with pytest.raises(xm.FileFormatError, match=r"no node\.txt"):
        reproduce("roads", tmp_path / "out", data=folder)
    assert "node.txt" in FILES


def test_scores_of_routes():
    assert edit_distance([1, 2, 3], [1, 2, 3]) == 0
    assert edit_distance([1, 2, 3], []) == 3
    assert edit_distance([1, 2, 3, 4], [2, 3, 4, 5]) == 2
    assert bleu([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) == pytest.approx(1.0)
    # 3 of 4 single links, 2 of 3 pairs, 1 of 2 triples, 0 of 1: smoothed to 0.1; as long as the reference.
    assert bleu([1, 2, 3, 4], [1, 2, 3, 9]) == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25)
    assert bleu([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]) == pytest.approx(np.exp(1 - 6 / 5))
    scores = score_routes([[1, 2], [1, 2, 3, 4]], [[1, 2], [1, 3, 4]])
    assert scores[:1] + scores[2:] == (pytest.approx(0.125), 0.5)


def test_cloning_learns_frequencies(folder):
    city = read_city(folder)
    train = city.trips("train_CV0_size1000")
    cloning = Cloning(city.network, epochs=60, seed=0).fit(train, train)
    assert cloning.score_samples(train).mean() > -0.2
    assert cloning.routes(train[:2], 10) == [[0, 1, 2, 3], [1, 3, 5]]


def test_greedy_routes_follow_the_likeliest_move(folder):
    from xmen.engines.trips import TripEngine

    city = read_city(folder)
    network = city.network
    reward = -city.lengths[network.target]
    engine = TripEngine(network, None, [0, 1], [3, 0], [1.0, 1.0], 1000)
    routes = engine.shared.greedy(reward, 20)
    for pair, edges in enumerate(routes):
        start, goal = int(engine.start[pair]), int(engine.goal[pair])
        states = [start, *network.target[edges].tolist()]
        table = np.zeros((6, 8))
        table[network.source, network.action] = reward
        assert states[-1] == goal
        for here, after in pairwise(states):  # of all next links, the one that the rest of the way is heaviest from
            rest = {
                int(network.target[e]): reward[e]
                + xm.distribution(network.task(int(network.target[e]), goal), None, table).log_partition()
                for e in np.flatnonzero(network.source == here)
            }
            assert rest[after] == pytest.approx(max(rest.values()))
