"""What people try in their first hour works, or the message says what to write; and what notebooks show them.

What they are shown are well-formed tables in which names stay text.
"""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import xmen as xm

GRID = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6, slip=0.1)
LAVA = GRID.at((1, 1))
RULES = {"no lava": xm.never(LAVA), "in time": xm.length() <= 7}
DEMOS = xm.distribution(GRID, RULES, seed=0).sample(30)
FEATURES = np.random.default_rng(0).normal(size=(9, 4, 2))


def test_rules_may_be_given_by_name(tmp_path):
    listed = [rule.named(name) for name, rule in RULES.items()]
    one, other = (xm.XMEN(GRID, rules, features=FEATURES, l2=0.1).fit(DEMOS) for rules in (RULES, listed))
    np.testing.assert_array_equal(one.weights_, other.weights_)
    one.save(tmp_path / "model")
    assert xm.load(tmp_path / "model").score(DEMOS) == one.score(DEMOS)
    xm.check_demos(GRID, DEMOS, RULES)
    assert xm.plan(GRID, RULES, validity="best").validity == xm.plan(GRID, listed, validity="best").validity
    with pytest.raises(xm.InfeasibleError) as caught:
        xm.distribution(GRID, {**RULES, "into the lava": xm.visit(LAVA)})
    assert set(caught.value.conflict) == {"no lava", "into the lava"}
    with pytest.raises(xm.ConstraintError, match="'wrong'"):
        xm.distribution(GRID, {"wrong": LAVA})


def test_whole_numbers_may_be_floats():
    assert (xm.total(np.ones(9)) <= 7) == (xm.total([1] * 9) <= 7)
    with pytest.raises(xm.ConstraintError, match="fractions"):
        xm.total([0.5, 1.0])
    with pytest.raises(xm.ConstraintError, match="whole numbers"):
        xm.total([np.inf, 1.0])


def test_records_are_demonstrations():
    records = [{"states": tau.states, "actions": tau.actions, "who": "Ada"} for tau in DEMOS]
    found = xm.read_demos(records)
    assert list(found) == list(DEMOS)
    assert found.metadata[0] == {"who": "Ada"}
    with pytest.raises(xm.TrajectoryError, match="demonstration 1: "):
        xm.read_demos([records[0], {"states": 3}])


@pytest.mark.parametrize(
    ("make", "offered"),
    [
        (lambda: xm.distribution(GRID, None, np.zeros(9)), "np.tile(reward, (4, 1)).T"),
        (lambda: xm.XMEN(GRID, features=FEATURES[:, :, 0]).fit(DEMOS), "features[:, :, None]"),
        (lambda: xm.XMEN(GRID, features={"steps": FEATURES[:, :, 0]}).fit(DEMOS), "np.stack([...], axis=2)"),
        (lambda: xm.XMEN(GRID).fit([(DEMOS[0].states, DEMOS[0].actions)]), "xm.Trajectory(states, actions)"),
    ],
)
def test_near_misses_say_what_to_write(make, offered):
    with pytest.raises(xm.XmenError) as caught:
        make()
    assert offered in str(caught.value)


@pytest.mark.parametrize("learner", [xm.XMEN, xm.MaxEntIRL, xm.CausalXMEN])
def test_features_of_states_are_those_of_all_actions_there(learner, tmp_path):
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    of_states = np.random.default_rng(0).normal(size=(9, 3))
    of_both = np.repeat(of_states[:, None, :], 2, axis=1)
    demos = xm.distribution(grid, None, of_both @ [1.0, -0.5, 0.2], seed=0).sample(50)
    short, long = (learner(grid, features=one, l2=0.1, seed=0).fit(demos) for one in (of_states, of_both))
    assert np.array_equal(short.weights_, long.weights_)
    short.save(tmp_path / "model")
    assert np.array_equal(xm.load(tmp_path / "model").weights_, long.weights_)
    with pytest.raises(xm.RewardError, match="if of states"):
        learner(grid, features=of_states[:, :2]).fit(demos)


# --- in notebooks ---

SQUARE = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
MIDDLE = xm.visit(SQUARE.at((1, 1))).named("<script>alert('x')</script> & so on")


def cells(item: object) -> list[str]:
    """The texts of a table, which has to be well-formed and to hold no markup of others."""
    html = item._repr_html_()
    assert "<script" not in html
    return ["".join(element.itertext()) for element in ElementTree.fromstring(html).iter() if element.tag != "table"]


def test_a_trajectory_is_a_table_of_its_positions():
    assert "Trajectory of 2 actions" in cells(xm.Trajectory([0, 3, 4], [1, 0]))
    table = ElementTree.fromstring(xm.Trajectory([0, 3, 4], [1, 0])._repr_html_())
    rows = [[cell.text or "" for cell in row] for row in table.iter("tr")]
    assert rows == [["t", "state", "action"], ["0", "0", "1"], ["1", "3", "0"], ["2", "4", ""]]
    assert len(list(ElementTree.fromstring(xm.Trajectory([0] * 1000, [0] * 999)._repr_html_()).iter("tr"))) == 26


SIZES = {"exact": "7 nodes and 8 edges", "reject": "(7 nodes)", "xor": "parities over"}


@pytest.mark.parametrize("engine", SIZES)
def test_a_distribution_says_what_it_is(engine):
    d = xm.distribution(SQUARE, MIDDLE, engine=engine, seed=0)
    shown = " ".join(cells(d))
    assert "<script>alert('x')</script> & so on" in shown
    assert engine in shown
    assert SIZES[engine] in repr(d)
    assert f"within a factor {d.guarantee.delta:g}" in shown


def test_a_model_says_what_it_learned():
    features = np.zeros((9, 2, 1))
    features[:, 0, 0] = np.arange(9.0)
    model = xm.XMEN(SQUARE, [MIDDLE], features=features, l2=0.1)
    assert "XMEN, not fitted" in cells(model)
    model.fit(xm.distribution(SQUARE, MIDDLE).sample(20, seed=0))
    shown = " ".join(cells(model))
    assert "XMEN, fitted" in shown
    assert "converged" in shown
    assert np.array2string(model.weights_, precision=4) in shown


def test_all_plots_are_public():
    from xmen import plots

    names = {name for name in vars(plots) if name.startswith("plot_")}
    assert names == {name for name in xm.__all__ if name.startswith("plot_")}
    assert all(getattr(xm, name) is getattr(plots, name) for name in names)
