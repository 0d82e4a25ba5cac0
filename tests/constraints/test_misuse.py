"""Bad input to events and constraints: an error of xmen's own that says what was given and what to do."""

# ruff: noqa: SIM300 - the order of the two sides is what is tested

from __future__ import annotations

import operator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import xmen as xm
from xmen.constraints.arithmetic import exact_fraction
from xmen.errors import ConstraintError, InfeasibleError, MisuseError, TrajectoryError

WORLD = xm.MDP(3, 2, [(s, a, (s + a) % 3, 1.0) for s in range(3) for a in range(2)], 0, horizon=4)
RULE, EVENT, NUMBER = xm.visit(xm.at(1)), xm.at(1), xm.count(xm.at(1))


@pytest.mark.parametrize("value", [RULE, EVENT, NUMBER, xm.share(EVENT), xm.longest_repeat()], ids=str)
def test_nothing_has_a_truth_value(value):
    with pytest.raises(MisuseError):
        bool(value)


def test_chained_comparisons_explain_themselves():
    with pytest.raises(MisuseError, match=r"\(count\(e\) >= 1\) & \(count\(e\) <= 3\)"):
        _ = 1 <= xm.count(EVENT) <= 3


PRECEDENCE = [
    lambda: xm.count(EVENT) == 1 | RULE,
    lambda: xm.count(EVENT) == 1 & EVENT,
    lambda: RULE | xm.count(EVENT) == 1,
    lambda: xm.count(EVENT) == np.int64(1) & RULE,
    lambda: xm.count(EVENT) >= np.int64(1) & EVENT,
    lambda: RULE & True,
    lambda: 1 & RULE,
    lambda: RULE >= 1,
    lambda: 1 < RULE,
]


@pytest.mark.parametrize("mistake", PRECEDENCE)
def test_precedence_is_explained(mistake):
    with pytest.raises(MisuseError, match=r"`\(count\(e\) == 1\) & x`"):
        mistake()


MISTAKES = [
    (lambda: EVENT >= 1, "count(at(1))"),
    (lambda: ~NUMBER, "compare it first"),
    (lambda: 1 / NUMBER, "multiply out"),
    (lambda: NUMBER // 2, "multiply out"),
    (lambda: NUMBER * 0.5, "whole numbers"),
    (lambda: NUMBER >= True, "whole numbers"),
    (lambda: NUMBER >= None, "whole numbers"),
    (lambda: NUMBER == RULE, "whole numbers"),
    (lambda: np.array([1, 2]) <= NUMBER, "whole numbers"),
    (lambda: float("nan") <= NUMBER, "whole numbers"),
    (lambda: NUMBER >= 10**30, "numbers up to"),
    (lambda: 10**5000 * NUMBER >= 1, "numbers up to"),
    (lambda: 2**40 * (2**40 * NUMBER) >= 1, "too large"),
    (lambda: xm.share(EVENT) + NUMBER >= 1, "by itself"),
    (lambda: -xm.longest_repeat() >= 1, "by itself"),
    (lambda: NUMBER >= xm.longest_repeat(), "by itself"),
    (lambda: xm.share(EVENT) >= True, "a number such as 0.5"),
    (lambda: xm.share(EVENT) >= NUMBER, "a number such as 0.5"),
    (lambda: xm.share(EVENT) >= float("nan"), "finite"),
    (lambda: xm.share(EVENT) >= 5e-324, "round it"),
    (lambda: xm.share(EVENT) >= 10**400, "numbers up to"),
    (lambda: xm.share(EVENT) >= Fraction(10**400, 3), "round it"),
    (lambda: xm.longest_repeat() <= NUMBER, "whole numbers"),
    (lambda: xm.total([True]), "whole numbers"),
    (lambda: xm.total([[[1]]]), "shape (1, 1, 1)"),
    (lambda: xm.total(["a"]), "whole numbers"),
    (lambda: xm.total([None]), "whole numbers"),
    (lambda: xm.total([2**63 - 1]), "takes weights from"),
    (lambda: xm.total(np.array([2**63], dtype=np.uint64)), "takes weights from"),
    (lambda: xm.doing(), "at least one action"),
    (lambda: xm.at(-1), "got -1"),
    (lambda: xm.at(True), "got True"),
    (lambda: xm.at(10**5000), "at most"),
    (lambda: xm.when(3, name="x"), "takes a function"),
    (lambda: xm.when(lambda s, a: True, name=""), "needs a name"),
    (lambda: xm.when(lambda s, a: True, name=3), "needs a name"),
    (lambda: xm.never(RULE), "takes an event"),
    (lambda: xm.always(None), "takes an event"),
    (lambda: xm.count(RULE), "takes an event"),
    (lambda: xm.share(3), "takes an event"),
    (lambda: xm.longest_run(3), "takes an event"),
    (lambda: xm.no_revisit(3), "takes an event"),
    (lambda: xm.before(EVENT, 3), "takes an event"),
    (lambda: xm.first(3, among=EVENT), "takes an event"),
    (lambda: xm.first(EVENT, among=3), "first(a, among=b)"),
    (lambda: xm.sequence(EVENT, 3), "takes an event"),
    (lambda: xm.sequence(*[EVENT] * 63), "at most 62 events; got 63"),
    (lambda: xm.response(EVENT, 3), "takes an event"),
    (lambda: xm.at_least(-1, RULE), "0 or more"),
    (lambda: xm.at_most(1, 3), "takes constraints"),
    (lambda: xm.usually(RULE, share=1.0), "above 0 and below 1; got 1.0"),
    (lambda: xm.usually(RULE, share=0), "above 0 and below 1; got 0"),
    (lambda: xm.usually(RULE, share="often"), "above 0 and below 1; got 'often'"),
    (lambda: xm.usually(RULE, weight=float("inf")), "finite number of nats; got inf"),
    (lambda: xm.usually(RULE, weight="much"), "finite number of nats; got 'much'"),
    (lambda: xm.usually(RULE, weight=1.0, share=0.5), "give one of them"),
    (lambda: RULE.named(3), "non-empty"),
]


@pytest.mark.parametrize(("mistake", "fragment"), MISTAKES)
def test_mistakes_are_named(mistake, fragment):
    with pytest.raises(ConstraintError) as caught:
        mistake()
    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("constraint", "fragment"),
    [
        (xm.visit(xm.at(3)), "state 3"),
        (xm.never(xm.at(0) & ~(xm.at(7) | xm.anytime)), "state 7"),
        (xm.count(xm.doing(2)) >= 1, "action 2"),
        (xm.share(xm.at(9)) >= 0.5, "state 9"),
        (xm.before(xm.at(0), xm.at(9)), "state 9"),
        (xm.sequence(xm.at(0), xm.at(9)), "state 9"),
        (xm.response(xm.at(0), xm.at(9)), "state 9"),
        (xm.longest_run(xm.at(9)) <= 1, "state 9"),
        (xm.no_revisit(xm.at(9)), "state 9"),
        (xm.ltlf("F a", a=xm.at(9)), "state 9"),
        (xm.monitor(0, lambda q, row: q, lambda q: True, [xm.at(9)]), "state 9"),
        (~xm.exactly(1, xm.visit(xm.at(0)), xm.visit(xm.at(9))).named("x"), "state 9"),
        (xm.total([1, 2]) <= 3, "(3,)"),
        (xm.total([[1], [2], [3]]) <= 3, "(3, 2)"),
    ],
    ids=str,
)
def test_what_the_world_does_not_have(constraint, fragment):
    with pytest.raises(ConstraintError) as caught:
        constraint.check_world(WORLD)
    assert fragment in str(caught.value)


def test_what_the_world_has():
    everything = xm.visit(xm.at(0, 2)) & (xm.total([1, 2, 3]) <= 3) & (xm.total([[1, 1]] * 3) <= 3)
    (
        everything & xm.never(xm.doing(0, 1)) & (xm.longest_repeat() <= 2) & xm.no_revisit() & (xm.length() >= 1)
    ).check_world(WORLD)


def test_trajectories_beyond_the_weights_and_beyond_arrays():
    with pytest.raises(TrajectoryError, match="state 5"):
        (xm.total([1, 2]) <= 3).accepts(xm.Trajectory([5], []))
    with pytest.raises(TrajectoryError, match="action 4"):
        (xm.total([[1], [2]]) <= 3).accepts(xm.Trajectory([0, 1], [4]))
    with pytest.raises(TrajectoryError, match=r"2\*\*63"):
        xm.visit(xm.at(1)).accepts(xm.Trajectory([10**30], []))


def test_unknown_states_are_no_error_without_a_world():
    assert xm.visit(xm.at(1)).accepts(xm.Trajectory([10**9, 1], [10**6]))


@pytest.mark.parametrize("compare", [operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne])
def test_numpy_numbers_are_numbers_on_either_side(compare):
    two = np.int64(2)
    assert compare(two, xm.count(EVENT)) == compare(2, xm.count(EVENT))
    assert compare(xm.count(EVENT), two) == compare(xm.count(EVENT), 2)
    assert compare(np.float64(0.5), xm.share(EVENT)) == compare(0.5, xm.share(EVENT))
    assert compare(two * xm.count(EVENT) + two, xm.length() - two) == compare(2 * xm.count(EVENT) + 2, xm.length() - 2)
    assert compare(two, xm.longest_repeat()) == compare(2, xm.longest_repeat())
    assert xm.at(two) == xm.at(2)
    assert xm.exactly(two, RULE, RULE) == xm.exactly(2, RULE, RULE)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, Fraction(1, 10)),
        (1 / 3, Fraction(1, 3)),
        (0.7, Fraction(7, 10)),
        (22 / 7, Fraction(22, 7)),
        (-0.25, Fraction(-1, 4)),
        (0, Fraction(0)),
        (2**60 + 1, Fraction(2**60 + 1)),
        (Fraction(3, 9), Fraction(1, 3)),
        (np.float64(0.15), Fraction(3, 20)),
    ],
)
def test_thresholds_are_exact_fractions(value, expected):
    assert exact_fraction(value, "here") == expected


def test_equal_constraints_are_equal_and_hash_alike():
    one = xm.exactly(1, xm.visit(xm.at(1)), (xm.count(xm.at(2)) >= 1).named("x")) & ~xm.never(xm.doing(0))
    two = xm.exactly(1, xm.visit(xm.at(1)), (xm.count(xm.at(2)) >= 1).named("x")) & ~xm.never(xm.doing(0))
    assert one == two
    assert hash(one) == hash(two)
    assert one != two.named("y")
    assert xm.visit(xm.at(1)) != xm.never(xm.at(1))
    assert (xm.share(xm.at(1)) >= 0.5) == (2 * xm.count(xm.at(1)) - xm.length() >= 0)


@pytest.mark.parametrize("value", [None, ([0, 1], [0]), "01"])
def test_only_trajectories_are_judged(value):
    with pytest.raises(TrajectoryError, match="Trajectory"):
        xm.visit(xm.at(1)).accepts(value)


def test_a_failing_function_of_the_user_is_named_with_its_arguments():
    positive = xm.when(lambda state, action: action > 0, name="positive")
    with pytest.raises(ConstraintError, match=r"'positive'.*state 1 and action None"):
        xm.visit(positive).accepts(xm.Trajectory([0, 1], [0]))


def test_shares_forgive_rounding():
    one_in_ten = xm.Trajectory([1] + [0] * 9, [0] * 9)
    assert (xm.share(xm.at(1)) <= 1 - 0.9).accepts(one_in_ten)
    assert (xm.share(xm.at(1)) >= np.float32(0.1)).accepts(one_in_ten)


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (xm.share(EVENT) >= 1.5, "a share lies between 0 and 1"),
        (xm.share(EVENT) > 1, "a share lies between 0 and 1"),
        (xm.share(EVENT) == 15, "a share lies between 0 and 1"),
        (xm.share(EVENT) <= -0.1, "a share lies between 0 and 1"),
        (xm.count(EVENT) <= -1, "count(at(1)) is at least 0"),
        (xm.length() < 1, "length() is at least 1"),
        (-xm.count(EVENT) > 0, "-count(at(1)) is at most 0"),
    ],
    ids=str,
)
def test_comparisons_that_can_never_hold_say_so(constraint, why):
    assert why in str(constraint.explain(xm.Trajectory([0, 1], [0])))
    with pytest.raises(InfeasibleError) as caught:
        xm.distribution(WORLD, constraint)
    assert why in str(caught.value)


@pytest.mark.parametrize("compare", [operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne])
def test_what_is_called_impossible_is_and_what_can_hold_is_not_called_so(compare):
    """Against all trajectories of up to four states, for every threshold around the ends."""
    walks = [xm.Trajectory(states, [0] * (n - 1)) for n in range(1, 5) for states in product((0, 1), repeat=n)]
    for form in (NUMBER, xm.length(), -NUMBER, NUMBER - xm.length(), 2 * xm.length() - NUMBER):
        for bound in range(-3, 4):
            rule = compare(form, bound)
            assert not rule.impossible() or not any(map(rule.accepts, walks)), rule
    for threshold in (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1, Fraction(3, 2), 2):
        rule = compare(xm.share(EVENT), threshold)
        assert bool(rule.impossible()) == (not any(map(rule.accepts, walks))), rule
