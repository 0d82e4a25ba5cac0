"""The nearest valid trajectories, against the distances of all valid ones."""

import numpy as np
import pytest

import xmen as xm
from reference import enumerate_trajectories, holds, positions
from strategies import cases, random_formula, random_trajectory, random_world


def distance(one, other):
    """Levenshtein's, by its recurrence."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        before, row = row, [i]
        for j, b in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))
    return row[-1]


@pytest.mark.parametrize("block", range(4))
def test_nearest_of_all_valid_trajectories(block):
    """Costs, states and their order, of all valid trajectories where these are few; tau knows no world."""
    feasible = 0
    for seed in range(block * cases(10), (block + 1) * cases(10)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        formula, rule = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        tau = random_trajectory(rng, world.n_states + int(rng.integers(2)), world.n_actions + 1)
        valid = [(s, a) for s, a, _ in enumerate_trajectories(world) if holds(formula, positions(s, a))]
        if not valid:
            with pytest.raises(xm.InfeasibleError):
                xm.repair(world, rule, tau)
            continue
        feasible += 1
        expected = sorted((distance(tau.states, states), states) for states, _ in valid)
        k = min(len(valid), 60)
        soft = rule & xm.usually(xm.never(xm.anytime), weight=1.0)
        found = xm.repair(world, soft, tau, best=k + (k == len(valid)))
        assert [(one.cost, one.trajectory.states) for one in found] == expected[:k], seed
        taus = [(one.trajectory.states, one.trajectory.actions) for one in found]
        assert len({*taus}) == k, seed
        assert {*taus} <= {*valid}, seed
        assert xm.repair(world, rule, tau) == found[0], seed
        assert all(len(one.edits) == one.cost for one in found), seed
        own = valid[int(rng.integers(len(valid)))]
        same = xm.repair(world, rule, xm.Trajectory(*own))
        assert (same.cost, same.edits, same.trajectory) == (0, (), xm.Trajectory(*own)), seed
    assert feasible >= cases(4)


def two_ways():
    """0 to 1 to 2 by either of two actions, and from 0 to 2 by the first."""
    rows = [(0, 0, 1, 1.0), (0, 1, 1, 1.0), (1, 0, 2, 1.0), (1, 1, 2, 1.0), (0, 2, 2, 1.0)]
    return xm.MDP(3, 3, rows, start=0, terminal=[2], horizon=4)


def test_a_kept_step_keeps_its_action_where_it_can():
    world = two_ways()
    found = xm.repair(world, xm.never(xm.doing(0)), xm.Trajectory([0, 1, 2], [1, 0]), best=2)
    assert found[0] == xm.Repair(xm.Trajectory([0, 1, 2], [1, 1]), 0, ())  # the first action stays, the second cannot
    assert found[1].trajectory.states == (0, 2)
    orders = [one.trajectory.actions for one in xm.repair(world, None, xm.Trajectory([0, 1, 2], [1, 0]), best=4)]
    assert orders == [(1, 0), (0, 0), (1, 1), (0, 1)]  # as many as can be, then by number


def test_edits_say_what_was_done():
    grid = xm.GridWorld(3, 1, start=(0, 0), goal=(2, 0), moves=("left", "right"), horizon=6)
    tau = xm.Trajectory([7, 0, 2], [0, 0])
    mended = xm.repair(grid, xm.length() >= 4, tau)
    assert mended.edits == (
        "before position 0: cell (0, 0) is put in",
        "position 0: state 7 becomes cell (1, 0)",
        "before position 2: cell (1, 0) is put in",
    )
    assert mended.trajectory.states == (0, 1, 0, 1, 2)


def test_few_actions_are_kept_to_in_large_searches():
    """A walk of 60 moves in 30, and in exactly 30 where nothing ends: as good as a product with the time in it."""
    rng = np.random.default_rng(1)
    for goal in ((3, 3), None):
        grid = xm.GridWorld(4, 4, start=(0, 0), goal=goal, moves=("up", "down", "left", "right"), horizon=14)
        states = [0]
        while len(states) < 26:
            states.append(int(rng.choice(grid.target[grid.source == states[-1]])) if states[-1] < 15 else 14)
        tau = xm.Trajectory(states, [0] * 25)
        rows, start = [], np.zeros(16 * 15)
        start[0] = 1.0
        for t in range(14):
            rows += [(16 * t + s, a, 16 * (t + 1) + n, p) for s, a, n, p in grid.transitions]
        ends = [16 * t + 15 for t in range(15)] if goal else [16 * 14 + s for s in range(16)]
        timed = xm.MDP(16 * 15, grid.n_actions, rows, start, terminal=ends)
        mended = xm.repair(grid, xm.visit(grid.at((0, 3))), tau)
        assert mended.cost == distance(states, mended.trajectory.states)
        assert mended.cost == least_in_time(timed, lambda s: s % 16, states, 12), goal


def least_in_time(world, state_of, given, must):
    """The least cost in an acyclic world, over (i, state, `must` visited), relaxed until nothing moves."""
    reached = {(0, None, False): 0}
    waiting = [(0, None, False)]
    best = 10**9
    while waiting:
        place = waiting.pop()
        i, here, seen = place
        spent = reached[place]
        following = world.target[world.source == here].tolist() if here is not None else [0]
        steps = [((i, s, seen or state_of(s) == must), 1) for s in following]
        if i < len(given):
            steps += [((i + 1, s, seen or state_of(s) == must), int(state_of(s) != given[i])) for s in following]
            steps.append(((i + 1, here, seen), 1))
        if here is not None and world.terminal[here] and seen and i == len(given):
            best = min(best, spent)
        for to, cost in steps:
            if spent + cost < reached.get(to, 10**9):
                reached[to] = spent + cost
                waiting.append(to)
    return best


def test_networks_go_between_the_ends_of_the_trip_or_others():
    rows = [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (2, 0, 3, 1.0), (3, 0, 0, 1.0), (1, 1, 0, 1.0)]
    network = xm.Network(4, 2, rows)
    tau = xm.Trajectory([0, 1, 3], [0, 0])
    mended = xm.repair(network, xm.never(xm.at(1)), tau)
    assert (mended.cost, mended.trajectory) == (1, xm.Trajectory([0, 2, 3], [1, 0]))
    assert [one.cost for one in xm.repair(network, None, tau, best=4)] == [0, 1, 2, 2]  # of any length: 0 1 0 1 3
    other = xm.repair(network, None, tau, start=3, goal=2)
    assert (other.cost, other.trajectory.states) == (3, (3, 0, 1, 0, 2))
    with pytest.raises(xm.InfeasibleError):
        xm.repair(network, xm.never(xm.at(1, 2)), tau)


def test_all_that_keep_the_rules_that_fit_have_been_looked_at():
    """Six ways, of which 4 pass the centre: the largest product allowed has no room for a rule."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    tau, centre = xm.Trajectory([0, 1, 2, 5, 8], [1, 1, 0, 0]), xm.visit(grid.at((1, 1)))
    assert [one.cost for one in xm.repair(grid, centre, tau, best=9, max_nodes=1)] == [1, 2, 2, 3]
    with pytest.raises(xm.InfeasibleError, match="all of them"):
        xm.repair(grid, centre & xm.never(grid.at((1, 1))), tau, max_nodes=1)


def test_narrow_worlds_are_not_gone_through_for_ever(monkeypatch):
    """To and fro without an end, every trip longer than the last: it is left when these have so many states."""
    monkeypatch.setattr("xmen.engines.repair.MOST_STATES", 2_000)
    network = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 0, 1.0), (1, 1, 2, 1.0), (2, 0, 0, 1.0)])
    with pytest.raises(xm.ProductTooLargeError):
        xm.repair(network, xm.share(xm.at(0)) >= 0.9, xm.Trajectory([0, 1, 2], [0, 1]), max_nodes=50)


def test_rules_that_do_not_fit_are_looked_at_afterwards():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "down", "left", "right"), horizon=14)
    tau = grid.along([0, 1, 0, 1, 2, 3, 2, 6, 10, 11, 15])
    found = [xm.repair(grid, xm.no_revisit(), tau, best=6, max_nodes=n) for n in (60, 10_000)]
    assert found[0] == found[1]
    assert found[0][0].cost == 3  # 0 1 is left out, and the second 2 becomes 7, between 3 and 6
