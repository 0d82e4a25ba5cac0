"""Rules that nothing in a world can break, and rules that everything breaks: said where they are written."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import strategies
import xmen as xm
from reference import enumerate_trajectories
from xmen.engines.diagnosis import remark, same_answer
from xmen.errors import RuleWarning

GRID = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right"), walls=[(2, 2)])
CROSSING = GRID.at((1, 2), (3, 3))


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        (xm.share(CROSSING) <= 15, True),
        (xm.share(CROSSING) >= 15, False),
        (xm.share(CROSSING) <= 0.15, None),
        (xm.never(GRID.at((2, 2))), True),  # a wall
        (xm.visit(GRID.at((2, 2))), False),
        (xm.visit(GRID.at((4, 4))), True),  # all trajectories end there
        (xm.length() <= 20, True),  # none has more than 9
        (xm.length() >= 20, False),
        (xm.length() <= 8, None),
        (xm.count(CROSSING) <= 12, True),
        (xm.visit(CROSSING) >> xm.visit(GRID.at((4, 4))), True),
        (xm.visit(CROSSING) & xm.never(CROSSING), False),
        (xm.never(CROSSING) | xm.visit(GRID.at((0, 0))), None),
        (xm.always(xm.anytime), True),
        (xm.no_revisit(), True),  # the world has no cycles
    ],
)
def test_what_a_rule_says_of_everything(rule, answer):
    assert same_answer(rule, GRID) is answer
    assert bool(remark("r", rule, GRID)) is (answer is not None)


@pytest.mark.parametrize("n", [12, 60])
def test_rules_of_many_parts_are_left_alone(n):
    grid = xm.GridWorld(10, 10, start=(0, 0), goal=(9, 9), moves=("up", "right", "left"), horizon=18)
    assert same_answer(xm.at_least(1, *[xm.no_revisit(~xm.at(state)) for state in range(n)]), grid) is None


def test_an_answer_is_that_of_every_trajectory():
    rng = np.random.default_rng(0)
    told = {True: 0, False: 0, None: 0}
    for _ in range(strategies.cases(200)):
        world = strategies.random_world(rng)
        rule = strategies.random_formula(rng, world.n_states, world.n_actions)[1]
        answer = same_answer(rule, world)
        told[answer] += 1
        truth = {rule.accepts(xm.Trajectory(states, actions)) for states, actions, _ in enumerate_trajectories(world)}
        assert answer is None or truth <= {answer}
    assert min(told.values()) >= 5  # each of them was seen


def test_a_distribution_warns_with_the_likely_meaning():
    rules = [xm.visit(CROSSING), (xm.share(CROSSING) <= 15).named("few crossings")]
    with pytest.warns(RuleWarning, match=r"'few crossings'.*0\.15") as caught:
        xm.distribution(GRID, rules)
    assert [one.filename for one in caught] == [__file__]
    with pytest.warns(RuleWarning, match="wall"):
        xm.distribution(GRID, xm.never(GRID.at((2, 2))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xm.distribution(GRID, [xm.visit(CROSSING), xm.share(CROSSING) <= 0.15])


def test_a_fit_warns():
    demos = xm.distribution(GRID).sample(5, seed=0)
    with pytest.warns(RuleWarning, match=r"0\.15"):
        xm.XMEN(GRID, xm.share(CROSSING) <= 15, l2=1.0).fit(demos)


def test_functions_of_the_user_see_only_what_can_happen():
    def step(arrived, row):
        assert not arrived, "a trajectory ends where it arrives"
        return row[0]

    rule = xm.monitor(False, step, lambda arrived: True, [GRID.at((4, 4))])
    xm.distribution(GRID, rule).sample(1)
    assert same_answer(rule, GRID) is None
