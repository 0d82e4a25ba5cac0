"""`accepts` means what the documentation says: random formulas against the independent definition."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import enumerate_trajectories, holds, positions
from strategies import (
    LEAVES,
    FormulaRules,
    NumpyChoices,
    build,
    cases,
    formulas,
    random_formula,
    random_trajectory,
    random_world,
    trajectories,
)
from xmen.worlds import Trajectory

N_STATES, N_ACTIONS = 4, 3


def check(description, constraint, trajectory):
    expected = holds(description, positions(trajectory.states, trajectory.actions))
    assert constraint.accepts(trajectory) == expected, (description, trajectory)
    assert (constraint.explain(trajectory) is None) == expected
    return expected


def test_every_primitive_on_random_trajectories():
    rng = np.random.default_rng(1)
    answers = Counter()
    for _ in range(cases(3000)):
        description = FormulaRules(NumpyChoices(rng), N_STATES, N_ACTIONS).leaf()
        constraint = build(description)
        for _ in range(4):
            answer = check(description, constraint, random_trajectory(rng, N_STATES, N_ACTIONS))
            answers[description[0], answer] += 1
    # Power: each primitive was seen to hold and to fail, many times.
    assert all(answers[word, answer] > 50 for word in LEAVES for answer in (True, False)), answers


def test_every_primitive_implies_its_relaxations_the_stronger_the_weaker():
    """On whatever worlds can do: relaxations are made for one, and a local memory for its neighbourhoods."""
    rng = np.random.default_rng(4)
    told_apart = Counter()
    for seed in range(cases(150)):
        world = random_world(rng)
        leaves = FormulaRules(NumpyChoices(rng), world.n_states, world.n_actions)
        constraint = build(("no_revisit", leaves.event()) if seed % 2 else leaves.leaf())
        for states, actions, _ in list(enumerate_trajectories(world))[:50]:
            trajectory = Trajectory(states, actions)
            for ladder in constraint.relaxations(world):
                chain = [constraint, *reversed([*ladder])]
                answers = [part.accepts(trajectory) for part in chain]
                assert answers == sorted(answers), chain  # false, then true: where a weaker one fails, all stronger do
                told_apart[type(chain[-1]).__name__] += answers[0] != answers[-1]
    assert told_apart["NoNearRevisit"] > 5
    assert told_apart["NoRecentRevisit"] > 5


def test_trees_on_random_trajectories():
    rng = np.random.default_rng(2)
    for _ in range(cases(1500)):
        description, constraint = random_formula(rng, N_STATES, N_ACTIONS, depth=3)
        for _ in range(2):
            check(description, constraint, random_trajectory(rng, N_STATES, N_ACTIONS))


def test_trees_on_the_trajectories_of_random_worlds():
    rng = np.random.default_rng(3)
    n_checked = 0
    for _ in range(cases(150)):
        world = random_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions)
        for states, actions, probability in list(enumerate_trajectories(world))[:50]:
            trajectory = Trajectory(states, actions)
            assert world.problem(trajectory) is None
            assert np.isclose(np.exp(world.log_dynamics(trajectory)), probability)
            check(description, constraint, trajectory)
            n_checked += 1
    assert n_checked > 1500


@settings(max_examples=cases(150), deadline=None)
@given(st.data())
def test_trees_with_shrinking(data):
    description, constraint = data.draw(formulas(3, 2))
    check(description, constraint, data.draw(trajectories(3, 2, longest=5)))
