"""Rules from trips through a network: the same questions, every demonstration with its own start and goal."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm

GRID = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=8)
PAIRS = [((0, 0), (4, 4)), ((0, 4), (4, 0)), ((0, 1), (4, 3)), ((1, 0), (3, 4))]
STEPS = np.ones((25, 4, 1))
TOLL = GRID.at((1, 3), (2, 2), (3, 1), (2, 3))


def network(horizon):
    rows = [(s, a, t, 1.0) for s, a, t, _ in GRID.transitions if s != GRID.state((4, 4))]
    corner = GRID.state((4, 4))
    rows += [(corner, 2, GRID.state((4, 3)), 1.0), (corner, 3, GRID.state((3, 4)), 1.0)]
    return xm.Network(25, 4, rows, horizon=horizon)


def driven(world, rule, reward, n, pairs=PAIRS):
    """A task for each pair of places, and n trips of each."""
    tasks = [world.task(GRID.state(a), GRID.state(b)) for a, b in pairs]
    return tasks, [tau for i, task in enumerate(tasks) for tau in xm.distribution(task, rule, reward).sample(n, seed=i)]


@pytest.mark.parametrize("horizon", [None, 14])
def test_a_rule_of_trips_is_found_with_its_exact_gain(horizon):
    world = network(horizon)
    rule, reward = xm.count(TOLL) == 1, -1.6 * STEPS[:, :, 0]
    tasks, demos = driven(world, rule, reward, 30)
    names = ["never", "visit", "count at most", "count equal", "longest repeat"]
    model = xm.RuleInference(world, {"toll": TOLL}, features=STEPS, templates=names).fit(demos)
    assert model.texts_ == ["count(toll) == 1"]
    free = xm.XMEN(world, features=STEPS).fit(demos).reward_
    gains = [
        xm.distribution(task, None, free).log_partition() - xm.distribution(task, rule, free).log_partition()
        for task in tasks
    ]
    assert model.gains_[0] == pytest.approx(np.mean(gains), abs=1e-7)  # two fits agree up to their tolerance
    statuses = {one.rule: one.status for one in model.verdicts()}
    assert statuses["visit(toll)"] == "implied"
    assert statuses["never(toll)"] == "broken"
    assert all(model.constraint_.accepts(tau) for tau in model.model_.sample(20, seed=0, start=0, goal=24))
    assert "count(toll) == 1" in model.table()


def test_no_link_twice_is_estimated_where_it_does_not_fit():
    world = network(None)
    _, drawn = driven(world, None, -1.3 * STEPS[:, :, 0], 120)
    demos = [tau for tau in drawn if len(set(tau.states)) == len(tau.states)]
    model = xm.RuleInference(world, {}, features=STEPS, max_nodes=2_000, templates=["no revisit", "longest repeat"])
    model.fit(demos)
    assert model.texts_ == ["no_revisit()"]
    assert model.verdicts()[0].estimated
    assert model.gains_[0] > model.least_gain_


@pytest.mark.parametrize("horizon", [None, 14])
def test_a_rule_that_some_trips_break_is_one_that_is_usually_kept(horizon):
    """Its gain is the most that its weight gains by itself; trips to a toll gate have to break it."""
    gate = GRID.at((2, 2), (3, 1))
    world, rule, reward = network(horizon), xm.never(gate), -1.6 * STEPS[:, :, 0]
    pairs = [*PAIRS, ((0, 0), (3, 1))]
    tasks, demos = driven(world, xm.usually(rule, weight=3.0), reward, 20, pairs)
    asked = {"features": STEPS, "templates": ["never", "visit"], "tolerance": 0.5}
    found = xm.RuleInference(world, {"toll": gate}, **asked).fit(demos)
    assert (found.texts_, found.rules_) == (["usually(never(toll))"], [xm.usually(rule)])
    free = xm.XMEN(world, features=STEPS).fit(demos).reward_
    p = np.array([xm.distribution(task, None, free).probability(rule) for task in tasks])
    assert p[-1] == 0.0
    weights = np.linspace(0.0, 8.0, 8_001)
    share = np.mean([rule.accepts(tau) for tau in demos])
    gains = share * weights - np.log1p(p[:, None] * np.expm1(weights)).mean(axis=0)
    assert found.gains_[0] == pytest.approx(gains.max(), abs=1e-6)
    model = found.model_
    kept = [model.distribution(start=GRID.state(a), goal=GRID.state(b)).probability(rule) for a, b in pairs]
    assert np.mean(kept) == pytest.approx(share, abs=1e-6)
    assert found.table()
