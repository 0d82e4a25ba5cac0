"""`accepts` means what the documentation says: random formulas against the independent definition.

At the end, worked by hand, what Python's own numbers, texts and functions add to these.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xmen as xm
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
            trajectory = xm.Trajectory(states, actions)
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
            trajectory = xm.Trajectory(states, actions)
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


WALK = xm.Trajectory([0, 1, 1, 2, 4], [0, 0, 0, 1])
#       position    0  1  2  3  4

EXAMPLES = [
    (xm.visit(xm.at(4) & xm.doing(1)), False),  # no action is taken in the last state
    (xm.always(xm.when(lambda s, a: (a is None) == (s == 4), name="last")), True),
    (2 * xm.count(xm.at(1)) >= xm.length(), False),
    (3 * xm.count(xm.at(1)) > xm.length(), True),
    (5 <= xm.length(), True),  # noqa: SIM300 - the number on the left is the point
    (xm.length() - xm.count(xm.at(1)) - 3 == 0, True),
    (xm.count(xm.at(1)) - xm.count(xm.at(1)) >= 0, True),
    (xm.count(xm.at(1)) - xm.count(xm.at(1)) > 0, False),
    (xm.share(xm.at(1)) == 0.4, True),
    (xm.share(xm.at(1)) > Fraction(2, 5), False),
    (xm.share(xm.at(0, 1)) <= 0.6, True),  # 3/5, although 0.6 as a float is a little less than 3/5
    (xm.share(xm.anytime) >= 1, True),
    (xm.total([5, 1, 10, 0, 100]) == 117, True),
    (xm.total([[5, 0], [1, 0], [0, 10], [0, 0], [7, 7]]) == 17, True),
    (xm.total(np.array([1, -1, 0, 0, 2])) <= 1, True),
    (xm.longest_run(xm.at(1)) == 2, True),
    (xm.longest_repeat() == 3, True),
    (3 >= xm.longest_repeat(), True),  # noqa: SIM300
    (xm.ltlf("F(a) & (!b U c)", a=xm.at(4), b=xm.at(4), c=xm.at(2)), True),
    (xm.ltlf("X X X X N false"), True),
    (xm.monitor("", lambda q, row: "x" if row[1] else q, lambda q: q == "x", (xm.at(1), xm.doing(1))), True),
]


@pytest.mark.parametrize(("constraint", "expected"), EXAMPLES, ids=lambda value: str(value)[:60])
def test_worked_by_hand(constraint, expected):
    assert constraint.accepts(WALK) is expected


def test_the_paper_s_rules_on_one_grid_path():
    """The triangle (2) before the squares (3, 4), exactly one square, at least half of the way in an area."""
    rules = (
        xm.first(xm.at(2), among=xm.at(3, 4)).named("triangle first")
        & xm.exactly(1, xm.visit(xm.at(3)), xm.visit(xm.at(4))).named("one square")
        & (xm.share(xm.at(1, 2, 3)) >= 0.5).named("area")
        & (xm.longest_repeat() <= 3).named("no long runs")
    )
    assert rules.accepts(xm.Trajectory([0, 1, 2, 3], [0, 0, 0]))
    assert rules.explain(xm.Trajectory([0, 1, 3, 2], [0, 0, 0])).name == "triangle first"
    assert rules.explain(xm.Trajectory([0, 2, 3, 4], [0, 0, 0]))[:2] == ("one square", 3)
    assert rules.explain(xm.Trajectory([0, 2, 3, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1]))[:2] == ("area", 6)
    assert rules.explain(xm.Trajectory([0, 1, 2, 3, 1], [0, 0, 0, 0]))[:2] == ("no long runs", 3)
