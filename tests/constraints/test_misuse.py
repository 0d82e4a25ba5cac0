"""Bad input to events and constraints: an error of xmen's own that says what was given and what to do."""

# ruff: noqa: SIM300 - the order of the two sides is what is tested

from __future__ import annotations

import operator
from fractions import Fraction
from itertools import product

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
from xmen.constraints.arithmetic import exact_fraction
from xmen.engines.choose import distribution
from xmen.errors import ConstraintError, InfeasibleError, MisuseError, TrajectoryError, XmenError
from xmen.worlds import MDP, Trajectory

WORLD = MDP(3, 2, [(s, a, (s + a) % 3, 1.0) for s in range(3) for a in range(2)], 0, horizon=4)
RULE, EVENT, NUMBER = visit(at(1)), at(1), count(at(1))


@pytest.mark.parametrize("value", [RULE, EVENT, NUMBER, share(EVENT), longest_repeat()], ids=str)
def test_nothing_has_a_truth_value(value):
    with pytest.raises(MisuseError):
        bool(value)
    with pytest.raises(MisuseError):
        _ = value and value
    with pytest.raises(MisuseError):
        _ = not value
    with pytest.raises(TypeError):
        assert value


def test_chained_comparisons_explain_themselves():
    with pytest.raises(MisuseError, match=r"\(count\(e\) >= 1\) & \(count\(e\) <= 3\)"):
        _ = 1 <= count(EVENT) <= 3


PRECEDENCE = [
    lambda: count(EVENT) == 1 & RULE,
    lambda: count(EVENT) == 1 | RULE,
    lambda: count(EVENT) == 1 & EVENT,
    lambda: count(EVENT) == 1 & count(at(2)) == 2,
    lambda: RULE & count(EVENT) == 1,
    lambda: RULE | count(EVENT) == 1,
    lambda: RULE >> count(EVENT) == 1,
    lambda: count(EVENT) & RULE,
    lambda: count(EVENT) == np.int64(1) & RULE,
    lambda: count(EVENT) >= np.int64(1) & EVENT,
    lambda: RULE & True,
    lambda: 1 & RULE,
    lambda: 1 >> RULE,
    lambda: RULE >= 1,
    lambda: 1 < RULE,
]


@pytest.mark.parametrize("mistake", PRECEDENCE)
def test_precedence_is_explained(mistake):
    with pytest.raises(MisuseError, match=r"`\(count\(e\) == 1\) & x`"):
        mistake()


WRAP = [
    lambda: RULE & EVENT,
    lambda: EVENT & RULE,
    lambda: EVENT | RULE,
    lambda: EVENT >> RULE,
    lambda: RULE >> EVENT,
    lambda: exactly(1, EVENT),
]


@pytest.mark.parametrize("mistake", WRAP)
def test_events_are_no_constraints(mistake):
    with pytest.raises(ConstraintError, match=r"Wrap the event first: visit\(event\)"):
        mistake()


MISTAKES = [
    (lambda: EVENT >= 1, "count(at(1))"),
    (lambda: ~NUMBER, "compare it first"),
    (lambda: NUMBER * NUMBER, "not linear"),
    (lambda: NUMBER / 2, "multiply out"),
    (lambda: 1 / NUMBER, "multiply out"),
    (lambda: NUMBER // 2, "multiply out"),
    (lambda: NUMBER + 0.5, "whole numbers"),
    (lambda: NUMBER * 0.5, "whole numbers"),
    (lambda: NUMBER >= 0.5, "whole numbers"),
    (lambda: NUMBER >= True, "whole numbers"),
    (lambda: NUMBER >= "3", "whole numbers"),
    (lambda: NUMBER >= None, "whole numbers"),
    (lambda: NUMBER == RULE, "whole numbers"),
    (lambda: np.array([1, 2]) <= NUMBER, "whole numbers"),
    (lambda: float("nan") <= NUMBER, "whole numbers"),
    (lambda: NUMBER >= 10**30, "numbers up to"),
    (lambda: 10**5000 * NUMBER >= 1, "numbers up to"),
    (lambda: 2**40 * (2**40 * NUMBER) >= 1, "too large"),
    (lambda: NUMBER + share(EVENT) >= 1, "by itself"),
    (lambda: share(EVENT) + NUMBER >= 1, "by itself"),
    (lambda: 2 * share(EVENT) >= 1, "by itself"),
    (lambda: -longest_repeat() >= 1, "by itself"),
    (lambda: NUMBER >= longest_repeat(), "by itself"),
    (lambda: share(EVENT) >= "half", "a number such as 0.5"),
    (lambda: share(EVENT) >= True, "a number such as 0.5"),
    (lambda: share(EVENT) >= NUMBER, "a number such as 0.5"),
    (lambda: share(EVENT) >= float("nan"), "finite"),
    (lambda: share(EVENT) >= np.inf, "finite"),
    (lambda: share(EVENT) >= 5e-324, "round it"),
    (lambda: share(EVENT) >= 10**400, "numbers up to"),
    (lambda: share(EVENT) >= Fraction(10**400, 3), "round it"),
    (lambda: longest_run(EVENT) <= 1.5, "whole numbers"),
    (lambda: longest_repeat() <= NUMBER, "whole numbers"),
    (lambda: total([0.5]), "Scale fractions up"),
    (lambda: total([True]), "whole numbers"),
    (lambda: total([]), "whole numbers"),
    (lambda: total(3), "shape ()"),
    (lambda: total([[[1]]]), "shape (1, 1, 1)"),
    (lambda: total([[1], [1, 2]]), "differ in length"),
    (lambda: total(["a"]), "whole numbers"),
    (lambda: total([None]), "whole numbers"),
    (lambda: total([2**63 - 1]), "takes weights from"),
    (lambda: total(np.array([2**63], dtype=np.uint64)), "takes weights from"),
    (lambda: at(), "at least one state"),
    (lambda: doing(), "at least one action"),
    (lambda: at(-1), "0 or more; got -1"),
    (lambda: at(1.0), "whole number, 0 or more; got 1.0 (float)"),
    (lambda: at(True), "whole number, 0 or more; got True"),
    (lambda: at("1"), "whole number, 0 or more; got '1'"),
    (lambda: at([1, 2]), "one by one"),
    (lambda: at(10**5000), "at most"),
    (lambda: when(3, name="x"), "takes a function"),
    (lambda: when(lambda s, a: True, name=""), "needs a name"),
    (lambda: when(lambda s, a: True, name=3), "needs a name"),
    (lambda: visit(3), "takes an event"),
    (lambda: never(RULE), "takes an event"),
    (lambda: always(None), "takes an event"),
    (lambda: count(RULE), "takes an event"),
    (lambda: share(3), "takes an event"),
    (lambda: longest_run(3), "takes an event"),
    (lambda: no_revisit(3), "takes an event"),
    (lambda: before(EVENT, 3), "takes an event"),
    (lambda: first(3, among=EVENT), "takes an event"),
    (lambda: first(EVENT, among=3), "first(a, among=b)"),
    (lambda: sequence(), "at least one event"),
    (lambda: sequence(EVENT, 3), "takes an event"),
    (lambda: sequence(*[EVENT] * 63), "at most 62 events; got 63"),
    (lambda: response(EVENT, 3), "takes an event"),
    (lambda: response(EVENT, EVENT, within=-1), "0 or more"),
    (lambda: response(EVENT, EVENT, within=1.5), "whole number"),
    (lambda: exactly(1), "at least one constraint"),
    (lambda: exactly(RULE, RULE), "whole number"),
    (lambda: at_least(-1, RULE), "0 or more"),
    (lambda: at_most(1, 3), "takes constraints"),
    (lambda: RULE.named(""), "non-empty"),
    (lambda: RULE.named(3), "non-empty"),
]


@pytest.mark.parametrize(("mistake", "fragment"), MISTAKES)
def test_mistakes_are_named(mistake, fragment):
    with pytest.raises(ConstraintError) as caught:
        mistake()
    assert fragment in str(caught.value)
    assert isinstance(caught.value, XmenError)


@pytest.mark.parametrize(
    ("constraint", "fragment"),
    [
        (visit(at(3)), "mentions state 3, but the world has only the states 0 .. 2"),
        (never(at(0) & ~(at(7) | anytime)), "mentions state 7"),
        (count(doing(2)) >= 1, "mentions action 2, but the world has only the actions 0 .. 1"),
        (share(at(9)) >= 0.5, "state 9"),
        (before(at(0), at(9)), "state 9"),
        (sequence(at(0), at(9)), "state 9"),
        (response(at(0), at(9)), "state 9"),
        (longest_run(at(9)) <= 1, "state 9"),
        (no_revisit(at(9)), "state 9"),
        (ltlf("F a", a=at(9)), "state 9"),
        (monitor(0, lambda q, row: q, lambda q: True, [at(9)]), "state 9"),
        (~exactly(1, visit(at(0)), visit(at(9))).named("x"), "state 9"),
        (total([1, 2]) <= 3, "shape (2,), but the world needs (3,)"),
        (total([[1], [2], [3]]) <= 3, "shape (3, 1), but the world needs (3,) for states or (3, 2)"),
    ],
    ids=str,
)
def test_what_the_world_does_not_have(constraint, fragment):
    with pytest.raises(ConstraintError) as caught:
        constraint.check_world(WORLD)
    assert fragment in str(caught.value)


def test_what_the_world_has():
    everything = visit(at(0, 2)) & (total([1, 2, 3]) <= 3) & (total([[1, 1]] * 3) <= 3) & never(doing(0, 1))
    (everything & (longest_repeat() <= 2) & no_revisit() & (length() >= 1)).check_world(WORLD)


def test_trajectories_beyond_the_weights_and_beyond_arrays():
    with pytest.raises(TrajectoryError, match=r"weights for 2 states .* visits state 5"):
        (total([1, 2]) <= 3).accepts(Trajectory([5], []))
    with pytest.raises(TrajectoryError, match=r"weights for 1 actions .* takes action 4"):
        (total([[1], [2]]) <= 3).accepts(Trajectory([0, 1], [4]))
    with pytest.raises(TrajectoryError, match=r"2\*\*63"):
        visit(at(1)).accepts(Trajectory([10**30], []))


def test_unknown_states_are_no_error_without_a_world():
    assert visit(at(1)).accepts(Trajectory([10**9, 1], [10**6]))


@pytest.mark.parametrize("compare", [operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne])
def test_numpy_numbers_are_numbers_on_either_side(compare):
    two = np.int64(2)
    assert compare(two, count(EVENT)) == compare(2, count(EVENT))
    assert compare(count(EVENT), two) == compare(count(EVENT), 2)
    assert compare(np.float64(0.5), share(EVENT)) == compare(0.5, share(EVENT))
    assert compare(two * count(EVENT) + two, length() - two) == compare(2 * count(EVENT) + 2, length() - 2)
    assert compare(two, longest_repeat()) == compare(2, longest_repeat())
    assert at(two) == at(2)
    assert exactly(two, RULE, RULE) == exactly(2, RULE, RULE)


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
    one = exactly(1, visit(at(1)), (count(at(2)) >= 1).named("x")) & ~never(doing(0))
    two = exactly(1, visit(at(1)), (count(at(2)) >= 1).named("x")) & ~never(doing(0))
    assert one == two
    assert hash(one) == hash(two)
    assert one != two.named("y")
    assert visit(at(1)) != never(at(1))
    assert (share(at(1)) >= 0.5) == (2 * count(at(1)) - length() >= 0)


@pytest.mark.parametrize("value", [None, ([0, 1], [0]), "01"])
def test_only_trajectories_are_judged(value):
    with pytest.raises(TrajectoryError, match="Trajectory"):
        visit(at(1)).accepts(value)


def test_a_failing_function_of_the_user_is_named_with_its_arguments():
    positive = when(lambda state, action: action > 0, name="positive")
    with pytest.raises(ConstraintError, match=r"when\('positive'\).*state 1 and action None.*last position"):
        visit(positive).accepts(Trajectory([0, 1], [0]))


def test_shares_forgive_rounding():
    one_in_ten = Trajectory([1] + [0] * 9, [0] * 9)
    assert (share(at(1)) <= 1 - 0.9).accepts(one_in_ten)
    assert (share(at(1)) >= np.float32(0.1)).accepts(one_in_ten)


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (share(EVENT) >= 1.5, "a share lies between 0 and 1"),
        (share(EVENT) > 1, "a share lies between 0 and 1"),
        (share(EVENT) == 15, "a share lies between 0 and 1"),
        (share(EVENT) <= -0.1, "a share lies between 0 and 1"),
        (count(EVENT) <= -1, "count(at(1)) is at least 0"),
        (length() < 1, "length() is at least 1"),
        (-count(EVENT) > 0, "-count(at(1)) is at most 0"),
    ],
    ids=str,
)
def test_comparisons_that_can_never_hold_say_so(constraint, why):
    assert why in str(constraint.explain(Trajectory([0, 1], [0])))
    with pytest.raises(InfeasibleError) as caught:
        distribution(WORLD, constraint)
    assert why in str(caught.value)


@pytest.mark.parametrize("compare", [operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne])
def test_what_is_called_impossible_is_and_what_can_hold_is_not_called_so(compare):
    """Against all trajectories of up to four states, for every threshold around the ends."""
    walks = [Trajectory(states, [0] * (n - 1)) for n in range(1, 5) for states in product((0, 1), repeat=n)]
    for form in (count(EVENT), length(), -count(EVENT), count(EVENT) - length(), 2 * length() - count(EVENT)):
        for bound in range(-3, 4):
            rule = compare(form, bound)
            assert not rule.impossible() or not any(map(rule.accepts, walks)), rule
    for threshold in (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1, Fraction(3, 2), 2):
        rule = compare(share(EVENT), threshold)
        assert bool(rule.impossible()) == (not any(map(rule.accepts, walks))), rule
