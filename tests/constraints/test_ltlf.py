"""Temporal formulas: the grammar, the machine's states, and errors with a caret."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from reference import holds, positions
from strategies import EVENT_NAMES, FormulaRules, NumpyChoices, cases, random_trajectory, spell
from xmen import anytime, at, ltlf, visit
from xmen.constraints.constraint import Sure
from xmen.constraints.ltlf import FormulaReader, Progression
from xmen.constraints.monitor import settle
from xmen.errors import ConstraintError, ConstraintSyntaxError
from xmen.worlds import Trajectory

EVENTS = {name: at(i) for i, name in enumerate("abcde")}


def tree(formula):
    """The tree as nested tuples, as `reference` writes it."""
    if formula.operator == "name":
        return formula.name
    return (formula.operator, *map(tree, formula.parts))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("true", ("true",)),
        ("!a & b", ("&", ("!", "a"), "b")),
        ("!a U b", ("U", ("!", "a"), "b")),
        ("X a U b", ("U", ("X", "a"), "b")),
        ("a U b U c", ("U", "a", ("U", "b", "c"))),
        ("a U b R c", ("U", "a", ("R", "b", "c"))),
        ("(a U b) R c", ("R", ("U", "a", "b"), "c")),
        ("a U b & c", ("&", ("U", "a", "b"), "c")),
        ("a & b U c", ("&", "a", ("U", "b", "c"))),
        ("a | b & c", ("|", "a", ("&", "b", "c"))),
        ("a & b | c", ("|", ("&", "a", "b"), "c")),
        ("a & b & c", ("&", "a", "b", "c")),
        ("a && (b && c)", ("&", "a", "b", "c")),
        ("a || b || c", ("|", "a", "b", "c")),
        ("a -> b -> c", ("->", "a", ("->", "b", "c"))),
        ("a | b -> c", ("->", ("|", "a", "b"), "c")),
        ("a -> b <-> c -> d", ("<->", ("->", "a", "b"), ("->", "c", "d"))),
        ("a <-> b <-> c", ("<->", ("<->", "a", "b"), "c")),
        ("G F a", ("G", ("F", "a"))),
        ("G(a->X!b)", ("G", ("->", "a", ("X", ("!", "b"))))),
        ("!!a", ("!", ("!", "a"))),
        ("F(a)U(b)", ("U", ("F", "a"), "b")),
        ("  a\n\t& b ", ("&", "a", "b")),
    ],
)
def test_precedence(text, expected):
    assert tree(FormulaReader(text, EVENTS).read()) == expected


def test_random_formulas_are_spelled_and_read_back():
    rng = np.random.default_rng(11)
    for _ in range(cases(300)):
        temporal = FormulaRules(NumpyChoices(rng), 3, 2).temporal(EVENT_NAMES, 4)
        constraint = ltlf(spell(temporal), **EVENTS)
        events = {name: ("at", (i,)) for i, name in enumerate("abc")}
        for _ in range(5):
            walk = random_trajectory(rng, 4, 2)
            expected = holds(("ltlf", temporal, events), positions(walk.states, walk.actions))
            assert constraint.accepts(walk) == expected


def words(rng, n_rows, n):
    return [rng.integers(0, n_rows, size=rng.integers(1, 8)).tolist() for _ in range(n)]


def run(machine, word):
    """(answer, position at which it was sure or None)"""
    state = machine.start
    for position, row in enumerate(word):
        if isinstance(state, Sure):
            return state is Sure.HOLDS, position - 1
        state = machine.step(state, row)
    if isinstance(state, Sure):
        return state is Sure.HOLDS, len(word) - 1
    return machine.accepting(state), len(word)


def test_machines_too_large_to_list_answer_the_same_but_later():
    rng = np.random.default_rng(12)
    n_earlier = 0
    for _ in range(cases(300)):
        temporal = FormulaRules(NumpyChoices(rng), 3, 2).temporal(EVENT_NAMES, 4)
        plain = Progression(FormulaReader(spell(temporal), EVENTS).read(), EVENT_NAMES).machine
        listed = settle(plain, 3)
        assert listed is not plain
        assert settle(plain, 3, max_steps=0) is plain
        for word in words(rng, 8, 10):
            answer, sure = run(plain, word)
            listed_answer, listed_sure = run(listed, word)
            assert listed_answer == answer
            assert listed_sure <= sure
            n_earlier += listed_sure < sure
    assert n_earlier > 50


def test_plain_states_keep_only_the_smallest_alternatives():
    rng = np.random.default_rng(13)
    n_choices = 0
    for _ in range(cases(200)):
        temporal = FormulaRules(NumpyChoices(rng), 3, 2).temporal(EVENT_NAMES, 4)
        plain = Progression(FormulaReader(spell(temporal), EVENTS).read(), EVENT_NAMES).machine
        for _, clauses in open_states(plain, 8):
            assert not any(one < other for one in clauses for other in clauses)
            n_choices += len(clauses) > 1
    assert n_choices > 50
    plain = Progression(FormulaReader("G(F a | F b) & G F c", EVENTS).read(), EVENT_NAMES).machine
    assert len(open_states(plain, 8)) <= 12


def open_states(machine, n_rows):
    """The states that can be reached in which nothing is decided."""
    found, queue = set(), [machine.start]
    while queue:
        state = queue.pop()
        if state not in found and not isinstance(state, Sure):
            found.add(state)
            queue += [machine.step(state, row) for row in range(n_rows)]
    return found


@pytest.mark.parametrize(
    ("text", "n_open"),
    [
        ("F a", 1),
        ("G a", 1),
        ("!a U b", 1),
        ("a R b", 1),
        ("G F a", 2),
        ("F G a", 2),
        ("G(a -> F b)", 2),
        ("F a & F b & F c", 7),
        ("F(a & X F(b & X F c))", 3),
        ("X X a", 3),
        ("G(a -> X b)", 2),
        ("G(a -> N b)", 2),
        ("(F a) | (G !a)", 0),  # always true, which no single obligation shows
        ("(X true) & (N false)", 0),
        ("true", 0),
        ("F(a & !a)", 0),
        ("X(a & !a)", 0),
        ("(a U b) & G !b", 0),
    ],
)
def test_machines_are_as_small_as_they_can_be(text, n_open):
    constraint = ltlf(text, **EVENTS)
    assert len(open_states(constraint.machine, 2 ** len(constraint.events))) == n_open


def test_tautologies_and_contradictions_are_sure_from_the_start():
    assert ltlf("F a | G !a", a=at(1)).start() is Sure.HOLDS
    assert ltlf("F a & G !a", a=at(1)).start() is Sure.FAILS
    assert ltlf("(F a & G !a)", a=at(1)).explain(Trajectory([0, 1], [0])).position == 0


def test_ten_goals_in_any_order_are_too_many_to_list_and_still_right():
    names = [f"g{i}" for i in range(10)]
    constraint = ltlf(" & ".join(f"F {name}" for name in names), **{n: at(i) for i, n in enumerate(names)})
    order = [3, 1, 9, 0, 2, 8, 7, 4, 6, 5]
    assert constraint.accepts(Trajectory(order, [0] * 9))
    assert not constraint.accepts(Trajectory(order[:-1], [0] * 8))


def test_too_many_alternatives_are_refused_with_a_way_out():
    names = [f"{x}{i}" for i in range(14) for x in "pq"]
    wide = " & ".join(f"(F p{i} | F q{i})" for i in range(14))
    constraint = ltlf(wide, **{name: at(i) for i, name in enumerate(names)})
    with pytest.raises(ConstraintError, match=r"ltlf\(\.\.\.\) & ltlf\(\.\.\.\)"):
        constraint.accepts(Trajectory([99], []))


def test_long_chains_of_equivalences_stay_small():
    names = [f"p{i}" for i in range(40)]
    constraint = ltlf(" <-> ".join(names), **{name: at(i) for i, name in enumerate(names)})
    assert not constraint.accepts(Trajectory([0], []))  # one true, 39 false: an odd number differs
    assert constraint.accepts(Trajectory([99], []))


def test_equality_text_and_pickle():
    one = ltlf("F(a) & (!b U c)", a=at(3), b=at(4), c=at(5))
    same = ltlf("F a & !b U c", c=at(5), b=at(4), a=at(3))
    assert one == same
    assert hash(one) == hash(same)
    assert one != ltlf("F(a) & (!b U c)", a=at(3), b=at(4), c=at(6))
    assert one != ltlf("F(a) | (!b U c)", a=at(3), b=at(4), c=at(5))
    assert one.named("x") != one
    assert str(one) == "ltlf('F(a) & (!b U c)', a=at(3), b=at(4), c=at(5))"
    walk = Trajectory([3, 5], [0])
    assert one.accepts(walk)
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert again.accepts(walk)


def test_events_that_the_formula_does_not_mention_are_left_out():
    assert ltlf("F a", a=at(1), b=at(2)) == ltlf("F a", a=at(1))


def test_rows_follow_the_alphabet():
    constraint = ltlf("b & !a", b=at(1), a=at(2))
    assert constraint.symbols(np.array([1, 2]), np.array([0, 0])).tolist() == [2, 1]


SYNTAX = [
    ("^", "the formula ends"),
    ("a &^", "the formula ends"),
    ("a & ^& b", "found `&`"),
    ("F^", "the formula ends"),
    ("F(a^ b)", "expected an operator or `)`"),
    ("^(a", "never closed"),
    ("a^)", "closes nothing"),
    ("^)", "found `)`"),
    ("()", None),
    ("a ^b", "must stand before `b`"),
    ("a ^!b", "must stand before `!`"),
    ("a U ^U b", "found `U`"),
    ("^U a", "found `U`"),
    ("a & ^foo", "unknown event `foo` (known events: a, b, c, d, e)"),
    ("^GF a", "write operators apart: `G F`"),
    ("^True", "did you mean `true`?"),
    ("a & ^~b", "negation is written !"),
    ("a ^=> b", "write -> for"),
    ("a ^- b", "write -> for"),
    ("a ^< b", "<->"),
    ("a & ^1", "true and false"),
    ("a ^@ b", "means nothing"),
    ("a &\n  (b | ^?)", "means nothing"),
]


@pytest.mark.parametrize(("marked", "fragment"), SYNTAX, ids=str)
def test_syntax_errors_have_a_caret_at_the_spot(marked, fragment):
    text = marked.replace("^", "")
    with pytest.raises(ConstraintSyntaxError) as caught:
        ltlf(text, **EVENTS)
    if fragment is None:
        return
    message, line, caret = str(caught.value).rsplit("\n", 2)
    assert fragment in message
    offset = marked.index("^")
    if marked == "F(a^ b)":
        offset += 1  # the token that was not expected, not the blank before it
    assert (caught.value.text, caught.value.offset) == (text, offset)
    assert line.strip() in text
    assert caret.endswith("^")


def test_close_names_are_suggested():
    for text, events, offered in (("F(triangel)", {"triangle": at(1)}, "`triangle`"), ("F(a)", {}, "none")):
        with pytest.raises(ConstraintSyntaxError, match=offered):
            ltlf(text, **events)


NO_FORMULA = [
    *(("true", {name: at(1)}, "cannot name") for name in ("X", "N", "U", "R", "F", "G", "true", "false")),
    *(("true", {name: at(1)}, "cannot name") for name in ("a b", "if", "1a", "")),
    *((formula, {"a": at(1)}, "takes a text") for formula in (None, 3, b"F a", visit(at(1)))),
    *(("F a", {"a": event}, "a=event") for event in (3, visit(at(1)), None)),
    (" | ".join(f"p{i}" for i in range(63)), {f"p{i}": at(i) for i in range(63)}, "62 events; got 63"),
]


@pytest.mark.parametrize(("formula", "events", "words"), NO_FORMULA, ids=lambda value: str(value)[:30])
def test_what_is_no_formula_or_no_event(formula, events, words):
    with pytest.raises(ConstraintError, match=words):
        ltlf(formula, **events)


def test_an_event_may_be_called_formula():
    assert ltlf("F formula", formula=at(1)).accepts(Trajectory([1], []))


@pytest.mark.parametrize("text", ["(" * 3000 + "a" + ")" * 3000, "!" * 3000 + "a", "a U " * 3000 + "a"])
def test_very_deep_formulas_are_refused(text):
    with pytest.raises(ConstraintSyntaxError, match="nested") as caught:
        ltlf(text, a=at(1))
    assert len(str(caught.value)) < 400


def test_deep_but_honest_formulas_work():
    assert ltlf("X " * 90 + "a", a=at(1)).accepts(Trajectory([0] * 90 + [1], [0] * 90))
    deep = "a & (b | (" * 24 + "a" + "))" * 24
    assert ltlf(deep, a=at(1), b=at(1)).accepts(Trajectory([1], []))
    assert ltlf(" & ".join(["a"] * 2000), a=anytime).accepts(Trajectory([1], []))


def test_62_events_are_not_too_many():
    names = {f"p{i}": at(i) for i in range(62)}
    assert ltlf(" & ".join(f"!{n}" for n in names), **names).accepts(Trajectory([62], []))
