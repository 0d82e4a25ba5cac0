"""What notebooks show of trajectories, distributions and models: well-formed tables in which names stay text."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import xmen as xm

GRID = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
RULE = xm.visit(GRID.at((1, 1))).named("<script>alert('x')</script> & so on")


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


@pytest.mark.parametrize("engine", ["exact", "reject", "xor"])
def test_a_distribution_says_what_it_is(engine):
    d = xm.distribution(GRID, RULE, engine=engine, seed=0)
    shown = " ".join(cells(d))
    assert "<script>alert('x')</script> & so on" in shown
    assert engine in shown
    assert f"within a factor {d.guarantee.delta:g}" in shown


def test_a_model_says_what_it_learned():
    features = np.zeros((9, 2, 1))
    features[:, 0, 0] = np.arange(9.0)
    model = xm.XMEN(GRID, [RULE], features=features, l2=0.1)
    assert "XMEN, not fitted" in cells(model)
    model.fit(xm.distribution(GRID, RULE).sample(20, seed=0))
    shown = " ".join(cells(model))
    assert "XMEN, fitted" in shown
    assert "converged" in shown
    assert np.array2string(model.weights_, precision=4) in shown


def test_all_plots_are_public():
    from xmen import plots

    names = {name for name in vars(plots) if name.startswith("plot_")}
    assert names == {name for name in xm.__all__ if name.startswith("plot_")}
    assert all(getattr(xm, name) is getattr(plots, name) for name in names)
