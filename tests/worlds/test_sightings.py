"""What was seen of a trajectory: what is accepted, what is refused, and the likelihoods it stands for."""

import pickle

import networkx as nx
import numpy as np
import pytest

import xmen as xm

GRID = xm.GridWorld(3, 2, start=(0, 0), goal=(2, 1), moves=("up", "right"))


def rows(sighting, world=GRID):
    return np.exp(sighting.log_rows(world))


def test_entries_are_states_in_any_form_the_world_reads():
    expected = np.ones((4, 6))
    expected[[0, 2]] = np.eye(6)[4]
    for entry in (4, (1, 1), [1, 1], "(1, 1)", "1 1", np.int64(4), np.array([1, 1])):
        for nothing in (None, "", float("nan")):
            np.testing.assert_array_equal(rows(xm.Sighting([entry, nothing, entry, None])), expected)
    roads = nx.DiGraph([("a", "b"), ("b", "c")])
    network = xm.Network.from_networkx(roads)
    found = rows(xm.Sighting([("a", "b"), None, "(b, c)"]), network)
    np.testing.assert_array_equal(found, [[1, 0], [1, 1], [0, 1]])


def test_noise_gives_the_likelihood_of_every_state():
    np.testing.assert_allclose(rows(xm.Sighting([(1, 0)], noise=xm.confusion(0.25))), [[0.05, 0.75, *4 * [0.05]]])
    np.testing.assert_allclose(rows(xm.Sighting([0], noise=xm.confusion(0.0))), np.eye(6)[:1])
    point, sigma = (0.7, 0.2), 0.4
    density = [
        np.exp(-((x - point[0]) ** 2 + (y - point[1]) ** 2) / (2 * sigma**2)) / (2 * np.pi * sigma**2)
        for y in range(2)
        for x in range(3)
    ]
    np.testing.assert_allclose(rows(xm.Sighting([point, None], noise=xm.gaussian(sigma))), [density, np.ones(6)])
    table = np.random.default_rng(0).random((6, 3))
    np.testing.assert_allclose(rows(xm.Sighting([2, None, 0], noise=table)), [table[:, 2], np.ones(6), table[:, 0]])
    given = np.random.default_rng(1).random((4, 6))
    np.testing.assert_allclose(rows(xm.Sighting.likelihood(given, more=True)), given)
    assert xm.Sighting.likelihood(given, more=True).more


def test_points_far_away_keep_their_logarithms():
    """exp of them is 0 in ordinary numbers, which would make what is unlikely impossible."""
    far = xm.Sighting([(1000.0, 0.0)], noise=xm.gaussian(0.1)).log_rows(GRID)[0]
    assert np.isfinite(far).all()
    assert far.argmax() == GRID.state((2, 0))


def test_sightings_are_values():
    one, other = (xm.Sighting([0, None, [1, 1]], noise=xm.confusion(0.1), more=True) for _ in range(2))
    table = np.full((6, 2), 0.5)
    assert one == other == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(other)
    assert one != xm.Sighting([0, None, [1, 1]], noise=xm.confusion(0.2), more=True)
    assert xm.Sighting([0], noise=table) == xm.Sighting([0], noise=table.tolist()) != xm.Sighting([1], noise=table)
    assert (len(one), one.n_seen, one.certain) == (3, 2, False)
    one = xm.Sighting([0], noise=table)
    assert one.noise is xm.Sighting([1], noise=table).noise  # one table for all, however many there are


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: xm.Sighting([]), "seen is empty"),
        (lambda: xm.Sighting("0 1"), "an entry for each position"),
        (lambda: xm.Sighting([0], more="yes"), "more is True"),
        (lambda: xm.Sighting([0], each=1.5), "each is a probability"),
        (lambda: xm.Sighting([0, None, 1], each=0.5), "entry 1 is None, but with each=0.5"),
        (lambda: xm.Sighting([0], noise="much"), "noise is None, xm.confusion"),
        (lambda: xm.Sighting([0], noise=[[0.5, -0.5]]), "symbol 1 in state 0 is -0.5"),
        (lambda: xm.Sighting.likelihood([0.5]), "rows is an array"),
        (lambda: xm.confusion(1.0), "error of confusion"),
        (lambda: xm.gaussian(0.0), "sigma of gaussian"),
        (lambda: rows(xm.Sighting([0, None, 6])), "position 2: state 6"),
        (lambda: rows(xm.Sighting([0, (3, 0)])), "position 1: cell (3, 0)"),
        (lambda: rows(xm.Sighting([0, "home"], each=0.1)), "entry 1: 'home'"),
        (lambda: rows(xm.Sighting([(0, 0)], noise=xm.gaussian(1.0)), xm.MDP(1, 1, [], 0, 0)), "places of states"),
        (lambda: rows(xm.Sighting([3], noise=xm.gaussian(1.0))), "is no point"),
        (lambda: rows(xm.Sighting([0], noise=np.ones((5, 2)))), "5 rows"),
        (lambda: rows(xm.Sighting([2], noise=np.ones((6, 2)))), "2 is no symbol"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(xm.XmenError) as raised:
        make()
    assert words in str(raised.value)
