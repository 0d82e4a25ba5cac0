"""Machines of the user's own."""

from __future__ import annotations

import pytest

from xmen import at, doing, monitor, visit
from xmen.constraints.constraint import Sure
from xmen.errors import ConstraintError
from xmen.worlds import Trajectory

WALK = Trajectory([0, 1, 2, 1], [0, 1, 0])


def never_twice(seen, row):
    if not row[0] or seen == "too often":
        return seen
    return "once" if seen == "never" else "too often"


def test_step_sees_every_position_and_a_row_of_bools():
    rows = []

    def step(state, row):
        rows.append(row)
        if len(rows) > 100:
            raise RuntimeError  # no more listing ahead: only the walk counts
        return state + 1

    constraint = monitor(0, step, lambda n: n == 4, [at(1), doing(0)])
    with pytest.raises(RuntimeError):
        constraint.accepts(WALK)
    rows.clear()
    assert constraint.accepts(WALK)
    assert rows == [(False, True), (True, False), (False, True), (True, False)]
    assert all(type(bit) is bool for row in rows for bit in row)


def test_a_lost_machine_is_noticed_at_once():
    twice = monitor("never", never_twice, lambda seen: seen != "too often", [at(1)])
    assert twice.explain(Trajectory([1, 1, 0, 0], [0, 0, 0])).position == 1
    assert (~twice).accepts(Trajectory([1, 1, 0, 0], [0, 0, 0]))


def test_states_that_nothing_can_tell_apart_are_merged():
    wasteful = monitor(0, lambda q, row: (q + 2) % 8 | row[0], lambda q: q & 1, [at(1)])
    assert wasteful.machine.step != wasteful.given_step
    reached, queue = set(), [wasteful.start()]
    while queue:
        state = queue.pop()
        if state not in reached:
            reached.add(state)
            queue += [wasteful.advance(state, row) for row in (0, 1)]
    assert reached <= {Sure.HOLDS, 0, 1, 2}
    assert wasteful.accepts(WALK)
    assert not wasteful.accepts(Trajectory([0, 2], [0]))


def test_counting_without_end_is_allowed():
    counter = monitor(0, lambda n, row: n + row[0], lambda n: n == 2, [at(1)])
    assert counter.machine.step == counter.given_step
    assert counter.accepts(WALK)
    assert counter.explain(Trajectory([0], [])).position == 0


def test_a_step_may_refuse_rows_that_never_occur():
    table = {("start", (True, False)): "a", ("start", (False, True)): "b", ("a", (False, True)): "b"}
    strict = monitor("start", lambda q, row: table[q, row], lambda q: q == "b", [at(1), at(2)])
    assert strict.accepts(Trajectory([1, 2], [0]))
    with pytest.raises(KeyError):
        strict.accepts(Trajectory([3], []))


def test_accepts_may_return_anything_true_or_false():
    assert monitor(0, lambda q, row: q, lambda q: "yes", []).accepts(WALK)
    assert not monitor(0, lambda q, row: q, lambda q: [], []).accepts(WALK)


def test_states_must_be_hashable_and_the_error_shows_which():
    listing = monitor((), lambda q, row: [*q, row[0]], lambda q: True, [at(1)])
    with pytest.raises(ConstraintError, match=r"step\(\(\), \(False,\)\) .*\[False\] \(list\)"):
        listing.accepts(WALK)
    with pytest.raises(ConstraintError, match=r"start is \[\] \(list\)"):
        monitor([], lambda q, row: q, lambda q: True, [at(1)])


NO_MONITORS = [
    ({"step": 3}, "step is a function"),
    ({"accepts": True}, "accepts is a function"),
    ({"events": at(1)}, "a list of events"),
    ({"events": 3}, "a list of events"),
    ({"events": [3]}, "takes an event"),
    ({"events": [visit(at(1))]}, "takes an event"),
    ({"events": "ab"}, "takes an event"),
    ({"events": [at(1)] * 63}, "62 events"),
]


@pytest.mark.parametrize(("change", "fragment"), NO_MONITORS, ids=lambda value: str(value)[:30])
def test_bad_arguments(change, fragment):
    good = {"start": 0, "step": lambda q, row: q, "accepts": lambda q: True, "events": [at(1)]}
    with pytest.raises(ConstraintError, match=fragment):
        monitor(**{**good, **change})


class Shy:
    def __repr__(self):
        raise RuntimeError("no")


def test_text_is_readable_and_never_fails():
    def accepts(state):
        return True

    assert str(monitor(0, never_twice, accepts, [at(1)])) == "monitor('never_twice', events=[at(1)])"
    assert str(monitor(0, lambda q, row: q, accepts, [])) == "monitor('from 0', events=[])"
    assert str(monitor(Shy(), lambda q, row: q, accepts, [])) == "monitor('from a Shy', events=[])"
    assert str(monitor(0, never_twice, accepts, []).named("mine")).endswith(".named('mine')")
    assert len(str(monitor("x" * 1000, lambda q, row: q, accepts, []))) < 100


def test_equality_is_that_of_the_parts():
    def accepts(state):
        return True

    one = monitor("never", never_twice, accepts, [at(1)])
    assert one == monitor("never", never_twice, accepts, (at(1),))
    assert hash(one) == hash(monitor("never", never_twice, accepts, (at(1),)))
    assert one != monitor("never", never_twice, accepts, [at(2)])
    assert one.named("a").accepts(WALK)
