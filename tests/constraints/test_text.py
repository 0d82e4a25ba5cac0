"""`parse_constraint` is the inverse of `str`, reads nothing else, and points at what it cannot read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

import xmen as xm
from reference import holds, positions
from strategies import cases, formulas, random_formula, random_trajectory
from xmen import at, count, doing, monitor, never, parse_constraint, share, total, visit, when
from xmen.constraints.text import SourceText
from xmen.errors import ConstraintError, ConstraintSyntaxError, MisuseError
from xmen.problem import Problem

# ---------------------------------------------------------------------------------------------- round trip


def test_random_constraints_come_back_equal():
    rng = np.random.default_rng(10)
    for _ in range(cases(1500)):
        description, constraint = random_formula(rng, 4, 3, depth=3, spellable=True)
        again = parse_constraint(str(constraint))
        assert again == constraint, str(constraint)
        assert hash(again) == hash(constraint)
        assert str(again) == str(constraint)
        trajectory = random_trajectory(rng, 4, 3)
        assert again.accepts(trajectory) == holds(description, positions(trajectory.states, trajectory.actions))


@settings(max_examples=cases(150), deadline=None)
@given(formulas(3, 2, spellable=True))
def test_round_trip_with_shrinking(pair):
    _, constraint = pair
    assert parse_constraint(str(constraint)) == constraint


SPELLINGS = [
    "visit(at(3))",
    "never(at(1) & ~doing(0, 1))",
    "always(~(at(1) | (at(2) & ~anytime)))",
    "count(at(3)) <= 2",
    "-count(at(3)) + 2*length() >= -4",
    "2*count(at(3)) - length() >= 0",
    "0*length() >= 1",
    "share(at(3)) >= 0.5",
    "share(at(3)) == 1/3",
    "share(at(3)) >= -1/3",
    "total([1, -2, 3]) <= 4",
    "total([[1, 2], [3, 4]]) > 5",
    "before(at(1), at(2))",
    "visit(at(1)) & before(at(1), at(2))",
    "sequence(at(1), at(2), doing(0))",
    "response(at(1), at(2), within=None)",
    "response(at(1), at(2), within=3)",
    "longest_run(at(1)) <= 3",
    "~(longest_run(at(1)) <= 3)",
    "longest_repeat() <= 3",
    "no_revisit()",
    "no_revisit(at(1, 2))",
    "exactly(1, visit(at(1)), count(at(2)) >= 1)",
    "at_least(1, visit(at(1)) & visit(at(2)))",
    "at_most(0, ~visit(at(1)))",
    "ltlf('F(a) & (!b U c)', a=at(3), b=at(4), c=at(5) | doing(1))",
    "ltlf('X true')",
    "(visit(at(1)) | never(at(2))) & ~visit(at(3))",
    "(visit(at(1)) & visit(at(2))).named('both')",
    "visit(at(1)).named('one') | (count(at(1)) >= 2).named('two')",
    "~visit(at(1)).named('inner')",
    "(~visit(at(1))).named('outer')",
    "~~visit(at(1))",
    "(~visit(at(1)) & (count(at(1)) >= 1)) | visit(at(2))",
]


REWRITTEN = [
    ("first(at(1), among=at(2))", "visit(at(1)) & before(at(1), at(2))"),
    ("visit(at(1)) >> visit(at(2))", "~visit(at(1)) | visit(at(2))"),
    ("2 >= count(at(1))", "count(at(1)) <= 2"),
    ("count(at(1)) + 1 >= 2*3 - length()", "count(at(1)) + length() >= 5"),
    ("longest_run(at(1)) > 2", "~(longest_run(at(1)) <= 2)"),
    ("share(at(1)) >= 2/4", "share(at(1)) >= 0.5"),
    ("share(at(1)) >= +0.5", "share(at(1)) >= 0.5"),
    ("  visit(at(1))\n  & visit(at(2))  # both\n", "visit(at(1)) & visit(at(2))"),
    ("visit(at(1)) \\\r\n & visit(at(2))", "visit(at(1)) & visit(at(2))"),
    ("no_revisit(e=at(1))", "no_revisit(at(1))"),
    ("response(at(1), at(2))", "response(at(1), at(2), within=None)"),
    ('visit(at(1)).named("#)(")', "visit(at(1)).named('#)(')"),
    ("visit(at(1)).named('''a\n(''')", "visit(at(1)).named('a\\n(')"),
    ("visit(at(0x10, 1_0))", "visit(at(16, 10))"),
]


@pytest.mark.parametrize(("text", "expected"), [(text, text) for text in SPELLINGS] + REWRITTEN)
def test_canonical_text_is_kept_and_other_spellings_are_understood(text, expected):
    assert str(parse_constraint(text)) == expected


def test_names_stand_for_events_and_constraints():
    even = when(lambda state, action: state % 2 == 0, name="even")
    own = monitor(0, lambda q, row: q, lambda q: True, [])
    names = {"shop": at(7), "even": even, "rule": never(at(1)), "mine": own}
    parsed = parse_constraint("visit(shop & even) & rule.named('r') & (count(~shop) >= 1) & mine", names)
    assert parsed == visit(at(7) & even) & never(at(1)).named("r") & (count(~at(7)) >= 1) & own


def test_long_conjunctions_are_no_deep_trees():
    text = " & ".join(f"visit(at({i}))" for i in range(800))
    assert str(parse_constraint(text)) == text


def test_thresholds_survive_exactly():
    between_floats = Fraction(10**17 + 1, 10**18 + 3)
    for value in (0.1, 1 / 3, 0.7, 1e-9, 0.123456789012, 2 / 7, 3, 1e6, between_floats):
        constraint = share(at(1)) >= value
        assert parse_constraint(str(constraint)) == constraint


def test_large_tables_survive():
    constraint = total(np.arange(20_000).reshape(5000, 4)) <= 7
    assert parse_constraint(str(constraint)) == constraint


# ---------------------------------------------------------------------------------------------- errors
# ^ stands before the spot at which the caret must point.

NAMES = {"home": at(0), "safe": never(at(1))}
ERRORS = [
    ("^", "empty"),
    ("^  # only a remark", "empty"),
    ("visit(at(3)) &^", "missing at the end"),
    ("visit^(at(3)", "`(` is never closed"),
    ("visit(at(3))^)", "`)` closes nothing"),
    ("visit(at(3))^) & (visit(at(1))", "`)` closes nothing"),
    ("^~usually(visit(at(3)))", "top"),
    ("visit(at(3^])", "another kind"),
    ("visit(at(3)).named(^'x)", "unterminated"),
    ("visit(at(3)) & ^& visit(at(2))", "invalid syntax"),
    ("^visit(at(3)) visit(at(2))", "comma"),
    ("^count(at(3)) = 1", "'==' instead of '='"),
    ("visit(at(3))^, visit(at(2))", "one value is expected"),
    ("visit(at(3))^,", "one value is expected"),
    ("^visti(at(3))", "did you mean `visit`?"),
    ("^visti(at(3))", "in names: home, safe"),
    ("^visti(at(3))", "built in: always, anytime, at, at_least"),
    ("never(at(1)) &\n  visit(^hom)", "did you mean `home`?"),
    ("visit(at(1)).named('größer') & ^x", "unknown name `x`"),
    ("^eval('1')", "unknown name `eval`"),
    ("^__import__('os')", "unknown name"),
    ("^visit", "`visit` is a function: write visit(event)"),
    ("^anytime()", "not a function"),
    ("^home()", "not a function"),
    ("visit(^anytime(1))", "not a function"),
    ("^when(3, 'x')", "names={'my_when'"),
    ("visit(^when('even'))", "no text form"),
    ("visit(home) & ^monitor('step', events=[home])", "no text form"),
    ("^monitor", "no text form"),
    ("^at(3)", "an event is true or false at one position"),
    ("^home & ~at(3)", "not a constraint"),
    ("^count(home)", "compare it, as in `count(at(0)) >= 1`"),
    ("^share(home)", "compare it"),
    ("^3", "this is 3, not a constraint"),
    ("^'visit(at(3))'", "not a constraint"),
    ("^None", "not a constraint"),
    ("^[1, 2]", "not a constraint"),
    ("^True", "not part of the constraint language"),
    ("1 <= count(home)^ <= 3", "write (a >= 1) & (a <= 3)"),
    ("1 == count(home)^ == count(at(1))", "cannot be chained"),
    ("count(home) == 1 ^| 2", "Put the comparison in brackets"),
    ("safe ^== safe", "cannot compare the constraint"),
    ("home ^>= 1", "count(at(0)) >= 1"),
    ("0 ^>= 0", "says nothing about a trajectory"),
    ("'a' ^== 'b'", "says nothing about a trajectory"),
    ("count(home)^ in 3", "compare with"),
    ("^safe and safe", "write & for `and`"),
    ("^not safe", "write ~ for `not`"),
    ("^-safe", "cannot apply - to the constraint"),
    ("^~count(home)", "cannot apply ~"),
    ("^~3", "cannot apply ~"),
    ("^+count(home) >= 1", "cannot apply +"),
    ("safe ^+ safe", "cannot apply +"),
    ("'ab' ^* 3", "cannot apply *"),
    ("[1] ^+ [2]", "cannot apply +"),
    ("share(home) >= 1^/0", "division by zero"),
    ("share(home) >= 1.0^/3", "fractions of whole numbers"),
    ("count(home)^ % 2 == 0", "Mod is not one of"),
    ("visit(at(10^**99999))", "Pow is not one of"),
    ("visit(at(^99999999999999999999))", "too large"),
    ("visit(at(^-1))", None),
    ("count(home) >= 4000000000000000000 ^* 4000000000000000000", "too large"),
    ("visit(at(^True))", "not part of"),
    ("^visit()", "missing a required argument: 'event'; write visit(event)"),
    ("^visit(home, home)", "too many positional arguments"),
    ("^visit(foo=home)", "write visit(event)"),
    ("^length(1) >= 1", "write length()"),
    ("^first(home)", "among"),
    ("total([1, ^home]) >= 1", "a list holds weights"),
    ("^ltlf()", "formula"),
    ("safe.named^(3)", "one text in quotes"),
    ("safe.named^()", "one text in quotes"),
    ("safe.named^('a', 'b')", "one text in quotes"),
    ("safe.named^(name='a')", "one text in quotes"),
    ("^home.named('a')", "belongs to constraints"),
    ("^count(home).named('a')", "belongs to constraints"),
    ("^safe.named", "only .named"),
    ("^safe.__class__", "only .named"),
    ("^safe.accepts(3)", "only .named"),
    ("^safe.named('x').__init__.__globals__", "only .named"),
    ("^safe[0]", "Subscript"),
    ("^(lambda: 1)", None),
    ("^lambda: safe", "Lambda"),
    ("^safe if safe else safe", "IfExp"),
    ("^{1: 2}", "Dict"),
    ("^f'{safe}'", "JoinedStr"),
    ("^1j", "not part of"),
    ("^...", "not part of"),
    ("visit(^*home)", "without *"),
    ("visit(^**home)", "without **"),
    ("^(visit)(home).x", "only .named"),
    ("^visit(home)(home)", "only the functions"),
    ("exactly(1, ^(safe for safe in safe))", "GeneratorExp"),
    ("exactly(1, ^(safe := safe))", None),
]

# Mistakes that Python's own operators and functions meet with the same answer.
IN_PYTHON_TOO = [
    ("count(home) == 1 ^& safe", "Put the comparison in brackets"),
    ("count(home) == 1 & count(at(1))^ == 2", "Put the comparison in brackets"),
    ("safe ^& count(home) >= 2", "Put the comparison in brackets"),
    ("safe ^>> count(home) >= 2", "Put the comparison in brackets"),
    ("1 ^>> safe", "Put the comparison in brackets"),
    ("count(home) ^& safe", "is a number, not a constraint"),
    ("1 ^>> home", "Wrap the event"),
    ("safe ^& home", "Wrap the event"),
    ("safe ^>> home", "Wrap the event"),
    ("home ^& safe", "Wrap the event"),
    ("home ^| safe", "Wrap the event"),
    ("home ^>> safe", "Wrap the event"),
    ("^exactly(1, home)", "Wrap the event"),
    ("count(home) ^* count(home) >= 1", "not linear"),
    ("2 ^* share(home) >= 1", "by itself"),
    ("count(home) ^+ share(home) >= 1", "by itself"),
    ("count(home) ^+ 0.5 >= 1", "whole numbers"),
    ("count(home) ^>= 1.5", "whole numbers"),
    ("count(home) ^>= 1/2", "whole numbers"),
    ("count(home) ^>= 'x'", "whole numbers"),
    ("count(home) ^/ 2 >= 1", "multiply out"),
    ("share(home) ^>= 1e999", "finite"),
    ("share(home) ^>= 1e-300", "round it"),
    ("share(home) ^>= 'x'", "a number such as 0.5"),
    ("longest_run(home) ^<= 1.5", "whole numbers"),
    ("visit(^at())", "at least one state"),
    ("visit(^at('x'))", "'x'"),
    ("visit(^at(1.5))", "1.5 (float)"),
    ("visit(^at([1, 2]))", "one by one"),
    ("^visit(safe)", "takes an event"),
    ("^visit(3)", "takes an event"),
    ("^response(home, home, within=-1)", "0 or more"),
    ("^response(home, home, within='x')", "whole number"),
    ("^exactly(1)", "at least one constraint"),
    ("^exactly(safe, safe)", "whole number"),
    ("^sequence()", "at least one event"),
    ("^total([1, 0.5]) >= 1", "Scale fractions"),
    ("^total([[1], [1, 2]]) >= 1", "differ in length"),
    ("^total([]) >= 1", "whole numbers"),
    ("^total(3) >= 1", "shape ()"),
    ("^ltlf(3)", "takes a text"),
    ("ltlf('F(^b)', a=home)", "unknown event `b`"),
    ("ltlf('a &^', a=home)", "the formula ends"),
    ("ltlf(^'a & \\'', a=home)", "means nothing"),
    ("^ltlf('F(a)', a=safe)", "takes an event"),
    ("^ltlf('F(a)', a=home, G=home)", "cannot name an event"),
    ("^safe.named('')", "non-empty"),
]


@pytest.mark.parametrize(("marked", "fragment"), IN_PYTHON_TOO, ids=lambda value: str(value)[:50])
def test_python_says_the_same(marked, fragment):
    with pytest.raises(ConstraintError) as caught:
        eval(marked.replace("^", "", 1), {name: getattr(xm, name) for name in xm.__all__} | NAMES)
    assert fragment in str(caught.value)
    if "in brackets" in fragment or "is a number" in fragment:
        assert isinstance(caught.value, MisuseError)


@pytest.mark.parametrize(("marked", "fragment"), ERRORS + IN_PYTHON_TOO, ids=lambda value: str(value)[:50])
def test_errors_point_at_the_spot(marked, fragment):
    spot = marked.index("^")
    text = marked.replace("^", "", 1)
    with pytest.raises(ConstraintSyntaxError) as caught:
        parse_constraint(text, NAMES)
    if fragment is None:
        return  # the words, and the exact spot, are Python's
    message, line, caret = str(caught.value).rsplit("\n", 2)
    assert fragment in message
    assert caught.value.text == text
    assert caught.value.offset == spot
    shown = text[: spot + 1].count("\n") if spot < len(text) else text.count("\n")
    assert line == "    " + text.split("\n")[shown]
    assert caret == "    " + " " * (spot - (text.rfind("\n", 0, spot) + 1)) + "^"


@pytest.mark.parametrize("text", [None, 3, b"visit(at(3))", visit(at(3))], ids=str)
def test_only_text_is_read(text):
    with pytest.raises(ConstraintSyntaxError, match="reads text"):
        parse_constraint(text)


@pytest.mark.parametrize(
    "text",
    [
        "~" * 5000 + "visit(at(1))",
        "(" * 5000 + "visit(at(1))" + ")" * 5000,
        "~" * 500 + "visit(at(1))",
        "~(safe & " * 190 + "visit(at(1))" + ")" * 190,
        "-" * 100_000 + "1",
        "visit(at(" + "9" * 5000 + "))",
        "visit(at(0x" + "f" * 5000 + "))",
        "visit(at(1))\0",
        "visit(at(1)) & \ud800",
        "total([" + "1, " * 10_000 + "x]) <= 3",
    ],
    ids=lambda text: f"{text[:12]}...".encode("ascii", "replace").decode(),
)
def test_hostile_text_gives_a_short_clear_error(text):
    with pytest.raises(ConstraintSyntaxError) as caught:
        parse_constraint(text, NAMES)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("names", "fragment"),
    [
        ({"visit": at(1)}, "taken"),
        ({"anytime": at(1)}, "taken"),
        ({"when": at(1)}, "taken"),
        ({"a b": at(1)}, "identifier"),
        ({"if": at(1)}, "identifier"),
        ({3: at(1)}, "identifier"),
        ({"a": 3}, "event or a constraint"),
        ({"a": count(at(1))}, "event or a constraint"),
        ([at(1)], "names maps"),
        (at(1), "names maps"),
    ],
    ids=str,
)
def test_names_are_checked(names, fragment):
    with pytest.raises(ConstraintError, match=fragment):
        parse_constraint("visit(at(1))", names)


def test_functions_have_no_text_form():
    for constraint in (
        visit(when(lambda s, a: True, name="mine")),
        never(at(1)) & monitor(0, lambda q, row: q, lambda q: True, [doing(1)]),
    ):
        with pytest.raises(ConstraintSyntaxError, match="has no text form"):
            parse_constraint(str(constraint))


# ---------------------------------------------------------------------------------------------- names as in Python


@pytest.mark.parametrize(
    "text",
    [
        "response(at(1), at(2), within=1, within=2)",
        "first(at(1), among=at(2), among=at(3))",
        "ltlf('a', a=at(1), a=at(2))",
        "ltlf('fi', fi=at(1), ﬁ=at(2))",
    ],
)
def test_a_keyword_may_be_given_once(text):
    with pytest.raises(xm.ConstraintSyntaxError, match="= is given twice") as raised:
        parse_constraint(text)
    assert text[raised.value.offset :].startswith(("within=2", "among=at(3)", "a=at(2)", "ﬁ=at(2)"))


def test_names_are_what_python_makes_of_them():
    """A ligature and a wide letter are letters like others in an identifier."""
    assert parse_constraint("never(ﬁre) & visit(\uff44oor)", {"ﬁre": xm.at(3), "door": xm.at(4)}) == (
        xm.never(xm.at(3)) & xm.visit(xm.at(4))
    )
    assert parse_constraint("never(fire)", {"ﬁre": xm.at(3)}) == xm.never(xm.at(3))
    assert xm.ltlf("F ﬁre", ﬁre=xm.at(3)).accepts(xm.Trajectory([0, 3], [0]))
    assert xm.ltlf("F ﬁre", **{"ﬁre": xm.at(3)}).accepts(xm.Trajectory([0, 3], [0]))
    grid, twice = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), horizon=4), {"fi": xm.at(1), "ﬁ": xm.at(2)}
    for named in (lambda: parse_constraint("never(fi)", twice), lambda: Problem(grid, events=twice)):
        with pytest.raises(xm.ConstraintError, match="the same to Python: 'fi'"):
            named()
    with pytest.raises(xm.ConstraintError, match="own never"):
        parse_constraint("never(at(1))", {"\uff4eever": xm.at(3)})


def test_a_text_of_many_states_is_read_back():
    """Where each node stands is counted once per line, not once per node: 90,000 states took 8 s."""
    wide = xm.never(xm.at(*range(90_000))).named("überall")
    assert parse_constraint(str(wide)) == wide
    source = SourceText("at(" + ", ".join(["ﬁ"] * 500) + ")")
    call = source.parse()
    starts = [source.start(argument) for argument in call.args]
    assert starts == [3 + 3 * i for i in range(500)]
    assert [source.end(argument) for argument in call.args] == [4 + 3 * i for i in range(500)]
    assert len(source._ends) == 1


@pytest.mark.parametrize(("wrong", "right"), [("=<", "<="), ("=>", ">=")])
def test_comparisons_the_wrong_way_round_are_put_right(wrong, right):
    with pytest.raises(xm.ConstraintSyntaxError) as caught:
        parse_constraint(f"count(at(1)) {wrong} 3")
    assert f"{right} instead of {wrong}" in str(caught.value)
    assert caught.value.offset == len("count(at(1)) ")
