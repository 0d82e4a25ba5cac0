"""Rules of thousands of parts, and rules inside rules: what engines take has a text, the rest is refused at once."""

from __future__ import annotations

import copy
import operator
import pickle
import sys
from functools import reduce

import pytest

import xmen as xm
from xmen.storage.codec import Decoder, Encoder

GRID = xm.GridWorld(3, 3, (0, 0), (2, 2), moves=("up", "right"))
TAU = xm.Trajectory([0, 3, 6, 7, 8], [0, 0, 1, 1])


def rules(n):
    return [(xm.count(xm.at(i % 9)) <= 1 + i // 9).named(f"rule {i}") for i in range(n)]


def everything(constraint):
    """All that is done with a constraint between a user's hands and the disk."""
    text = str(constraint)
    again = xm.parse_constraint(text)
    assert again == constraint
    assert str(again) == text
    assert hash(again) == hash(constraint)
    assert pickle.loads(pickle.dumps(constraint)) == copy.deepcopy(constraint) == constraint
    encoder = Encoder()
    assert Decoder(encoder.arrays).decode(encoder.encode(constraint, "constraint")) == constraint
    constraint.check_world(GRID)
    assert constraint.accepts(TAU) == again.accepts(TAU)


@pytest.mark.parametrize("join", [operator.and_, operator.or_])
@pytest.mark.parametrize("n", [800, 801, 1601])
def test_many_parts_side_by_side(join, n):
    parts = rules(n)
    kind = type(parts[0] & parts[1]) if join is operator.and_ else type(parts[0] | parts[1])
    everything(kind(tuple(parts)))


def test_three_thousand_rules():
    everything(reduce(operator.and_, rules(3000)))


def test_a_model_with_many_rules_is_saved(tmp_path):
    constraint = reduce(operator.and_, rules(150))
    demos = xm.distribution(GRID, constraint, None, seed=0).sample(5)
    xm.XMEN(GRID, constraint, l2=0.1).fit(demos).save(tmp_path / "m")
    assert xm.load(tmp_path / "m").constraint == constraint


def test_many_events_side_by_side():
    for event in (reduce(operator.or_, [xm.at(i % 9) for i in range(3000)]), ~reduce(operator.and_, [~xm.at(1)] * 500)):
        everything(xm.visit(event))


@pytest.mark.parametrize(
    "inside", [lambda a, b: a >> b, lambda a, b: ~(a & b), lambda a, b: xm.at_least(1, a, b), lambda a, b: (a & b) | b]
)
def test_parts_inside_one_another(inside):
    """101 implications in a row, and more, up to where they are refused."""
    constraint, n = rules(1)[0], 1
    refused = None
    while refused is None and n < 1000:
        n += 1
        try:
            deeper = inside(constraint, rules(n)[-1])
        except xm.ConstraintError as error:
            refused = str(error)
        else:
            constraint = deeper
    assert n > 75
    assert "inside one another" in refused
    everything(constraint)
    try:
        assert xm.distribution(GRID, constraint).log_partition() >= 0.0
    except xm.InfeasibleError:
        assert not constraint.accepts(TAU)


def test_events_inside_one_another_are_refused_where_they_have_no_text():
    event = xm.at(0)
    for i in range(30):
        event = ~(event & xm.at(i % 9))
    everything(xm.visit(event))
    with pytest.raises(xm.ConstraintError, match="in this event"):
        _ = event & xm.at(0)


def test_texts_do_not_depend_on_how_deep_the_caller_is():
    """As in a notebook, a server or a test runner, which have taken some of Python's thousand calls already."""
    constraint = reduce(operator.rshift, rules(101))

    def below(n):
        return everything(constraint) if n == 0 else below(n - 1)

    below(max(0, min(100, sys.getrecursionlimit() - 900)))
