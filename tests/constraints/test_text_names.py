"""Names and keywords in rule texts, as Python reads them; positions in texts with more than ASCII."""

from __future__ import annotations

import pytest

import xmen as xm
from xmen.constraints.text import SourceText
from xmen.problem import Problem


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
        xm.parse_constraint(text)
    assert text[raised.value.offset :].startswith(("within=2", "among=at(3)", "a=at(2)", "ﬁ=at(2)"))


def test_names_are_what_python_makes_of_them():
    """A ligature and a wide letter are letters like others in an identifier."""
    assert xm.parse_constraint("never(ﬁre) & visit(\uff44oor)", {"ﬁre": xm.at(3), "door": xm.at(4)}) == (
        xm.never(xm.at(3)) & xm.visit(xm.at(4))
    )
    assert xm.parse_constraint("never(fire)", {"ﬁre": xm.at(3)}) == xm.never(xm.at(3))
    assert xm.ltlf("F ﬁre", ﬁre=xm.at(3)).accepts(xm.Trajectory([0, 3], [0]))
    assert xm.ltlf("F ﬁre", **{"ﬁre": xm.at(3)}).accepts(xm.Trajectory([0, 3], [0]))
    with pytest.raises(xm.ConstraintError, match="the same to Python: 'fi'"):
        xm.parse_constraint("never(fi)", {"fi": xm.at(3), "ﬁ": xm.at(4)})
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), horizon=4)
    with pytest.raises(xm.ConstraintError, match="the same to Python: 'fi'"):
        Problem(grid, events={"fi": xm.at(1), "ﬁ": xm.at(2)})
    with pytest.raises(xm.ConstraintError, match="taken by xmen's own never"):
        xm.parse_constraint("never(at(1))", {"\uff4eever": xm.at(3)})


def test_a_text_of_many_states_is_read_back():
    """Where each node stands is counted once per line, not once per node: 90,000 states took 8 s."""
    wide = xm.never(xm.at(*range(90_000))).named("überall")
    assert xm.parse_constraint(str(wide)) == wide
    source = SourceText("at(" + ", ".join(["ﬁ"] * 500) + ")")
    call = source.parse()
    starts = [source.start(argument) for argument in call.args]
    assert starts == [3 + 3 * i for i in range(500)]
    assert [source.end(argument) for argument in call.args] == [4 + 3 * i for i in range(500)]
    assert len(source._ends) == 1


@pytest.mark.parametrize(("wrong", "right"), [("=<", "<="), ("=>", ">=")])
def test_comparisons_the_wrong_way_round_are_put_right(wrong, right):
    with pytest.raises(xm.ConstraintSyntaxError) as caught:
        xm.parse_constraint(f"count(at(1)) {wrong} 3")
    assert str(caught.value) == f"write {right} instead of {wrong}\n    count(at(1)) {wrong} 3\n                 ^"
