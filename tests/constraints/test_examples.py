"""Hand-worked examples of every primitive."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from xmen import (
    always,
    anytime,
    at,
    at_least,
    at_most,
    before,
    count,
    doing,
    exactly,
    first,
    length,
    longest_repeat,
    longest_run,
    ltlf,
    monitor,
    never,
    no_revisit,
    response,
    sequence,
    share,
    total,
    visit,
    when,
)
from xmen.worlds import Trajectory

WALK = Trajectory([0, 1, 1, 2, 4], [0, 0, 0, 1])
#       position    0  1  2  3  4
ALONE = Trajectory([1], [])

EXAMPLES = [
    (visit(at(4)), True),
    (visit(at(3)), False),
    (visit(at(3, 2)), True),
    (visit(at(1) & doing(0)), True),
    (visit(at(4) & doing(1)), False),  # no action is taken in the last state
    (visit(at(4) & ~doing(0, 1)), True),
    (never(at(3)), True),
    (never(doing(1)), False),
    (always(at(0, 1, 2, 4)), True),
    (always(at(0, 1, 2)), False),
    (always(anytime), True),
    (never(~anytime), True),
    (always(when(lambda s, a: (a is None) == (s == 4), name="last")), True),
    (count(at(1)) == 2, True),
    (count(at(1)) != 2, False),
    (2 * count(at(1)) >= length(), False),
    (3 * count(at(1)) > length(), True),
    (length() == 5, True),
    (5 <= length(), True),  # noqa: SIM300 - the number on the left is the point
    (length() - count(at(1)) - 3 == 0, True),
    (count(at(1)) - count(at(1)) >= 0, True),
    (count(at(1)) - count(at(1)) > 0, False),
    (share(at(1)) == 0.4, True),
    (share(at(1)) >= 0.4, True),
    (share(at(1)) > Fraction(2, 5), False),
    (share(at(0, 1)) <= 0.6, True),  # 3/5, although 0.6 as a float is a little less than 3/5
    (share(anytime) >= 1, True),
    (total([5, 1, 10, 0, 100]) == 117, True),
    (total([[5, 0], [1, 0], [0, 10], [0, 0], [7, 7]]) == 17, True),
    (total(np.array([1, -1, 0, 0, 2])) <= 1, True),
    (before(at(1), at(2)), True),
    (before(at(2), at(1)), False),
    (before(at(1), at(1)), True),
    (before(at(3), at(9)), True),
    (before(at(3), at(2)), False),
    (first(at(1), among=at(2, 4)), True),
    (first(at(2), among=at(1, 4)), False),
    (first(at(3), among=at(9)), False),
    (sequence(at(1), at(2), at(4)), True),
    (sequence(at(1), at(1)), True),
    (sequence(at(1), at(1), at(1)), False),
    (sequence(at(2), at(1)), False),
    (response(at(1), at(2), within=2), True),
    (response(at(1), at(2), within=1), False),  # the one at position 1 waits until 3
    (response(at(1), at(1), within=0), True),
    (response(at(0), at(4), within=None), True),
    (response(at(0), at(4), within=4), True),
    (response(at(0), at(4), within=3), False),
    (response(at(4), at(0)), False),
    (longest_run(at(1)) == 2, True),
    (longest_run(at(1)) <= 1, False),
    (longest_run(doing(0)) >= 3, True),
    (longest_run(at(3)) == 0, True),
    (longest_run(anytime) < 5, False),
    (longest_repeat() == 3, True),
    (longest_repeat() > 3, False),
    (3 >= longest_repeat(), True),  # noqa: SIM300
    (no_revisit(), False),
    (no_revisit(at(0, 2, 4)), True),
    (no_revisit(~at(1)), True),
    (exactly(2, visit(at(1)), visit(at(2)), visit(at(3))), True),
    (at_least(3, visit(at(1)), visit(at(2)), visit(at(3))), False),
    (at_most(2, visit(at(1)), visit(at(2)), visit(at(3))), True),
    (exactly(2, visit(at(1)), visit(at(1))), True),
    (visit(at(3)) >> visit(at(9)), True),
    (visit(at(1)) >> visit(at(9)), False),
    (visit(at(1)) & ~visit(at(3)), True),
    (visit(at(3)) | visit(at(9)), False),
    (ltlf("F(a) & (!b U c)", a=at(4), b=at(4), c=at(2)), True),
    (ltlf("G(a -> X b)", a=at(2), b=at(4)), True),
    (ltlf("F(a & X true)", a=at(4)), False),
    (ltlf("F(a & N false)", a=at(4)), True),
    (ltlf("b R !a", a=at(2), b=at(1)), True),
    (ltlf("X X X X N false"), True),
    (monitor(0, lambda q, row: q + row[0], lambda q: q == 2, [at(1)]), True),
    (monitor("", lambda q, row: "x" if row[1] else q, lambda q: q == "x", (at(1), doing(1))), True),
]


@pytest.mark.parametrize(("constraint", "expected"), EXAMPLES, ids=lambda value: str(value)[:60])
def test_worked_by_hand(constraint, expected):
    assert constraint.accepts(WALK) is expected


ON_A_SINGLE_STATE = [
    (visit(at(1)), True),
    (visit(doing(0)), False),
    (always(~doing(0)), True),
    (length() == 1, True),
    (longest_repeat() == 0, True),
    (longest_run(at(1)) == 1, True),
    (no_revisit(), True),
    (total([[1], [2]]) == 0, True),
    (total([1, 2]) == 2, True),
    (ltlf("X true"), False),
    (ltlf("N false"), True),
    (ltlf("G a & F a", a=at(1)), True),
    (sequence(at(1), at(1)), False),
    (response(at(1), at(0), within=3), False),
]


@pytest.mark.parametrize(("constraint", "expected"), ON_A_SINGLE_STATE, ids=lambda value: str(value)[:60])
def test_a_trajectory_without_actions(constraint, expected):
    assert constraint.accepts(ALONE) is expected


def test_the_paper_s_rules_on_one_grid_path():
    """The triangle (2) before the squares (3, 4), exactly one square, at least half of the way in an area."""
    rules = (
        first(at(2), among=at(3, 4)).named("triangle first")
        & exactly(1, visit(at(3)), visit(at(4))).named("one square")
        & (share(at(1, 2, 3)) >= 0.5).named("area")
        & (longest_repeat() <= 3).named("no long runs")
    )
    assert rules.accepts(Trajectory([0, 1, 2, 3], [0, 0, 0]))
    assert rules.explain(Trajectory([0, 1, 3, 2], [0, 0, 0])).name == "triangle first"
    assert rules.explain(Trajectory([0, 2, 3, 4], [0, 0, 0]))[:2] == ("one square", 3)
    assert rules.explain(Trajectory([0, 2, 3, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1]))[:2] == ("area", 6)
    assert rules.explain(Trajectory([0, 1, 2, 3, 1], [0, 0, 0, 0]))[:2] == ("no long runs", 3)
