"""Flows of many trips and closed links, against one distribution per pair."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import xmen as xm
from learners.test_trips import city

DEMAND = [(0, 3, 10.0), (5, 3, 2.0), (2, 6, 4.0), (1, 1, 3.0)]


@pytest.fixture(scope="module")
def model():
    network, features, demos = city(31, n_trips=80)
    return xm.XMEN(network, features=features, l2=0.01).fit(demos)


def test_flows_add_up_over_pairs(model):
    found = model.flows(DEMAND)
    states = np.zeros(8)
    for start, goal, amount in DEMAND:
        states += amount * model.distribution(start=start, goal=goal).state_visits()
    np.testing.assert_allclose(found.states, states, atol=1e-8)
    assert found.transitions.shape == model.world.source.shape


def test_a_closed_state_is_avoided(model):
    closed = 4
    found = model.closure(DEMAND, [closed])
    assert found.after.states[closed] == pytest.approx(0.0, abs=1e-12)
    for row, (start, goal, _) in enumerate(DEMAND):
        if found.lost[row]:
            continue
        tau = model.distribution(start=start, goal=goal).sample(4000, seed=row)
        share = np.mean([closed in t.states for t in tau])
        assert found.rerouted[row] == pytest.approx(share, abs=5 * np.sqrt(0.25 / 4000))
    np.testing.assert_allclose(found.before.states, model.flows(DEMAND).states)


def test_pairs_without_a_way_are_lost(model):
    found = model.closure([(0, 3, 1.0), (2, 5, 1.0)], [3])
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


def test_demand_is_checked(model):
    with pytest.raises(xm.EngineError, match="row 1 is"):
        model.flows([(0, 1, 1.0), (0, 99, 1.0)])
    with pytest.raises(xm.EngineError, match="no rows"):
        model.flows([])


def test_under_a_rule_that_rejects(model):
    network, features, demos = city(31, n_trips=80)
    rule = xm.no_revisit()
    strict = xm.XMEN(network, rule, features=features, l2=0.01, max_nodes=20, seed=0)
    strict.fit([tau for tau in demos if rule.accepts(tau)])
    found = strict.flows([(0, 3, 1.0)])
    exact = xm.distribution(network.task(0, 3), rule, strict.reward_, max_nodes=10**6)
    np.testing.assert_allclose(found.states, exact.state_visits(), atol=0.1)


def test_a_picture(model):
    matplotlib.use("Agg")
    angle = np.linspace(0, 2 * np.pi, 9)
    corners = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lines = np.stack([corners[:-1], corners[1:]], axis=1)
    best = model.distribution(start=0, goal=3).best(2)
    ax = xm.plot_network(lines, model.flows(DEMAND).states, best)
    assert len(ax.lines) == 3 * len(best)
    matplotlib.pyplot.close(ax.figure)
    with pytest.raises(xm.WorldError, match="8 links"):
        xm.plot_network(lines, np.ones(3))


def test_a_picture_of_differences():
    """More is on one side of 0 and less on the other, as strong a colour and as thick a line for as much."""
    matplotlib.use("Agg")
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
    with pytest.raises(xm.WorldError, match="finite; got nan"):
        xm.plot_network(lines, [1.0, np.nan, 0.0, 0.0])
