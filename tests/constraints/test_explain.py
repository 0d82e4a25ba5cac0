"""`explain`: which part fails, and the first position from which no continuation could have saved it."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from reference import holds, positions
from strategies import FormulaRules, NumpyChoices, build, cases, random_trajectory
from xmen import always, at, at_least, doing, exactly, ltlf, never, visit
from xmen.worlds import Trajectory

# The states 0 .. 3 stand for all four rows of two events, so that every row of (A, B) can occur.
A, B = ("at", (1, 3)), ("at", (2, 3))
WALK = Trajectory([0, 1, 2, 3], [0, 1, 0])


def first_lost(description, trajectory, alphabet, n_more):
    """The first position after which no word of up to n_more letters, the empty one included, is accepted."""
    walk = positions(trajectory.states, trajectory.actions)
    words = [w for n in range(n_more + 1) for w in itertools.product(alphabet, repeat=n)]
    for t in range(len(walk) - 1):
        if not any(holds(description, [*walk[: t + 1], *word]) for word in words):
            return t
    return len(walk) - 1


def check(description, rng, alphabet, n_more, n_trajectories, longest=5):
    constraint, n_early = build(description), 0
    for _ in range(n_trajectories):
        trajectory = random_trajectory(rng, 4, 2, longest)
        violation = constraint.explain(trajectory)
        if violation is not None:
            expected = first_lost(description, trajectory, alphabet, n_more)
            assert violation.position == expected, (description, trajectory)
            n_early += expected < len(trajectory)
    return n_early


LETTERS = [(state, 0) for state in range(4)]
OPS = ("<=", "<", ">=", ">", "==", "!=")
COMPARISONS = [
    *(("linear", ((1, ("count", A)),), op, k) for op in OPS for k in (-1, 0, 2)),
    *(("linear", ((-1, ("count", A)),), op, -k) for op in OPS for k in (-1, 0, 2)),
    *(("linear", ((1, ("length",)),), op, k) for op in OPS for k in (0, 1, 3)),
    *(("linear", ((1, ("total", (0, 1, 2, 1))),), op, 3) for op in OPS),
    *(("linear", ((2, ("count", A)), (-2, ("count", A))), op, 0) for op in OPS),
    *(("linear", ((1, ("count", A)), (-1, ("count", B))), op, 0) for op in OPS),
    *(("share", A, op, Fraction(k, 2)) for op in OPS for k in (0, 1, 2)),
    *(("longest_run", A, op, k) for op in ("<=", "<") for k in (-1, 0, 1, 2)),
]
OTHERS = [
    *((word, A) for word in ("visit", "never", "always", "no_revisit")),
    ("before", A, B),
    ("sequence", A, B),
    ("sequence", A, A, B),
    *(("response", A, B, k) for k in (None, 0, 1, 2)),
]


@pytest.mark.parametrize("description", COMPARISONS + OTHERS, ids=str)
def test_position_is_the_first_without_a_way_out(description):
    check(description, np.random.default_rng(5), LETTERS, n_more=5, n_trajectories=cases(12), longest=4)


@pytest.mark.parametrize("k", [-1, 0, 1, 2])
def test_position_for_repeated_actions(k):
    letters = [(0, 0), (0, 1)]
    check(("longest_repeat", "<=", k), np.random.default_rng(6), letters, n_more=3, n_trajectories=cases(20))


def test_position_for_totals_by_action():
    letters = [(state, action) for state in (0, 1) for action in (0, 1)]
    description = ("linear", ((1, ("total", ((0, 1), (2, 0), (1, 1), (0, 3)))),), "<=", 4)
    assert check(description, np.random.default_rng(7), letters, n_more=2, n_trajectories=cases(60)) > 5


def test_position_for_temporal_formulas():
    rng = np.random.default_rng(8)
    n_early = 0
    for _ in range(cases(80)):
        temporal = FormulaRules(NumpyChoices(rng), 4, 2).temporal("ab", 3)
        n_early += check(("ltlf", temporal, {"a": A, "b": B}), rng, LETTERS, 4, n_trajectories=4, longest=4)
    assert n_early > 30


def test_position_for_monitors():
    rng = np.random.default_rng(9)
    n_early = 0
    for _ in range(cases(80)):
        table = rng.integers(0, 4, size=(4, 4)).tolist()
        accepting = frozenset(np.flatnonzero(rng.random(4) < 0.3).tolist())
        description = ("monitor", table, 0, accepting, [A, B])
        n_early += check(description, rng, LETTERS, n_more=4, n_trajectories=4)
    assert n_early > 20


def test_a_violation_shows_name_position_and_part():
    rule = never(at(2)).named("no lava")
    violation = rule.explain(WALK)
    assert (violation.name, violation.position, violation.constraint) == ("no lava", 2, rule)
    assert str(violation) == "'no lava' fails, and is sure to fail from position 2 on"


LATE, EARLY = never(at(3)).named("late"), never(at(1)).named("early")
OUTER = (never(at(1)) & never(at(2)).named("inner")).named("outer")
NESTED = (visit(at(0)) & OUTER).named("outermost")
EITHER = never(at(1)).named("one") | never(at(2)).named("two")
VISITS, NEVERS = ([word(at(s)) for s in (1, 2, 3)] for word in (visit, never))
BLAMED = {
    "its text, without a name": (never(at(2)), "never(at(2))", 2),
    "the part that was lost first": (LATE & EARLY, "early", 1),
    "not what is lost at the end": (LATE & visit(at(9)).named("goal"), "late", 3),
    "the first of two that were lost at once": (EARLY & never(at(1)).named("same"), "early", 1),
    "a named conjunction for its unnamed part": (OUTER, "outer", 1),
    "the innermost name": (NESTED, "outer", 1),
    "a disjunction as a whole, with its last part": (EITHER, str(EITHER), 2),
    "a disjunction by its name": (EITHER.named("either"), "either", 2),
    "a negation when its part is sure to hold": ((~visit(at(1)).named("x")).named("not x"), "not x", 1),
    "an implication at the end": ((visit(at(1)) >> visit(at(9))).named("then"), "then", 3),
    "too many": (exactly(1, *VISITS).named("one"), "one", 2),
    "too few left": (at_least(2, *NEVERS).named("two"), "two", 2),
}


@pytest.mark.parametrize("case", BLAMED)
def test_what_is_blamed_and_from_where(case):
    rule, name, position = BLAMED[case]
    assert rule.explain(WALK)[:2] == (name, position)


def test_a_named_conjunction_answers_for_its_unnamed_parts_only():
    assert OUTER.explain(Trajectory([0, 2], [0]))[:2] == ("inner", 1)
    assert (NESTED & visit(at(0))).explain(Trajectory([1, 1], [0]))[:2] == ("outer", 0)


def test_what_can_never_hold_says_so():
    assert "can never hold" in str(always(doing(0)).explain(WALK))
    assert "G(N(false) | e)" in str(always(doing(0, 1)).explain(WALK))
    moving = ltlf("G(N(false) | e)", e=doing(0, 1))
    assert moving.accepts(WALK)
    assert not moving.accepts(Trajectory([0, 1, 2], [0, 2]))
    assert "4 of only 1" in str(exactly(4, visit(at(1))).explain(WALK))


TWO = [(word, k, ("visit", A), ("visit", B)) for word in ("exactly", "at_least", "at_most") for k in range(4)]


def test_what_can_hold_does_not_say_so():
    """Of comparisons and numbers of rules, those that no trajectory keeps say so, and no others."""
    words = [[*w, (s, None)] for n in range(4) for w in itertools.product(LETTERS, repeat=n) for s in range(4)]
    for description in COMPARISONS + TWO:
        if description[0] != "longest_run" and "!=" not in description:
            can_hold = any(holds(description, word) for word in words)
            assert bool(build(description).impossible()) != can_hold, description
