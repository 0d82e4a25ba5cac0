"""Networks and their tasks: construction, messages, and what a trip may be."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import xmen as xm

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


def test_the_networks_horizon_is_the_tasks(ring):
    short = xm.Network(3, 2, ROWS, horizon=2)
    assert short.task(0, 2).horizon == 2
    assert short.task(0, 2, horizon=7).horizon == 7
    position, sentence = short.problem(xm.Trajectory([0, 1, 0, 2], [0, 1, 1]))
    assert position == 2
    assert "horizon" in sentence


def test_problems_of_trips(ring):
    assert ring.problem(xm.Trajectory([0, 1, 2], [0, 0])) is None
    assert ring.problem(xm.Trajectory([1], [])) is None
    assert "starts at its goal, state 0" in ring.problem(xm.Trajectory([0, 1, 0], [0, 1]))[1]
    position, sentence = ring.problem(xm.Trajectory([0, 2, 0, 2], [1, 0, 1]))
    assert (position, "position 1, before its end at position 3" in sentence) == (1, True)
    assert "never leads to state 2" in ring.problem(xm.Trajectory([0, 2], [0]))[1]
    assert ring.problem(xm.Trajectory([0, 9], [0])) == (
        1,
        "state 9 does not exist: the world has states 0 to 2",
    )


def test_repeated_rows_are_named():
    with pytest.raises(xm.WorldError, match=r"rows 1 and 5 are the same: action 0 leads from state 1 to state 2 twice"):
        xm.Network(3, 2, [*ROWS, (1, 0, 2, 1.0)])


@pytest.mark.parametrize(("start", "goal"), [(0, 3), (3, 0), (-1, 0), (0.5, 1)])
def test_tasks_need_states_of_the_network(ring, start, goal):
    with pytest.raises(xm.WorldError, match=r"start|goal|is no state"):
        ring.task(start, goal)


def test_a_goal_that_cannot_be_reached_is_legal_until_a_distribution_is_asked_for():
    network = xm.Network(3, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0)])
    task = network.task(0, 2)
    with pytest.raises(xm.InfeasibleError, match="no terminal state can be reached"):
        xm.distribution(task)


def test_networks_travel_between_processes(ring):
    assert ring.any_task.unbounded
    again = pickle.loads(pickle.dumps(ring))
    assert np.array_equal(again.transitions, ring.transitions)
    assert not again.source.flags.writeable
    assert again.any_task.n_states == 3
