"""P(rule) under a distribution, where it is not summed exactly; the exact engine is asked in test_exact."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm


@pytest.mark.parametrize("engine", ["reject", "xor"])
@pytest.mark.parametrize("given", [None, "start"])
def test_engines_that_sample_say_how_sure_they_are(engine, given):
    """2,000 draws; a bias of 0.06 would be five standard errors."""
    grid = xm.GridWorld(5, 5, start=[(0, 0), (1, 0)], goal=(4, 4), moves=("up", "right"))
    rule, other = xm.longest_repeat() <= 3, xm.visit(grid.at((2, 2)))
    exact = xm.distribution(grid, rule, engine="exact", given=given).probability(other)
    d = xm.distribution(grid, rule, engine=engine, given=given, seed=1)
    share, std = d.probability(other, return_std=True, n=2000, seed=0)
    assert 0.005 < std < 0.0115
    assert abs(share - exact) < 4 * std
    assert d.probability(other, n=2000, seed=0) == share


def test_misuse():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    with pytest.raises(xm.EngineError, match="constraint"):
        xm.distribution(grid, None).probability(None)
    with pytest.raises(xm.ConstraintError, match="state 9"):
        xm.distribution(grid, None).probability(xm.visit(xm.at(9)))
    with pytest.raises(xm.EngineError, match="probability"):
        xm.distribution(grid, None, engine="reject").probability(xm.visit(xm.at(4)), n=0)


def test_a_rule_that_does_not_fit_is_answered_by_draws_with_their_error(monkeypatch):
    """2,000 draws; the truth, by the same question with room, has to lie within four standard errors."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=10)
    truth = xm.distribution(grid, None).probability(xm.no_revisit())
    d = xm.distribution(grid, None, engine="exact")
    monkeypatch.setattr("xmen.engines.exact.DEFAULT_MAX_NODES", 20)
    monkeypatch.setattr(type(d), "mass", lambda self, machine: None)
    share, error = d.probability(xm.no_revisit(), return_std=True, n=2000, seed=0)
    assert error == pytest.approx(np.sqrt(share * (1 - share) / 2000), rel=0.2)  # 4 of 2,000
    assert 0.0 < abs(share - truth) < 4 * error
    assert d.probability(xm.no_revisit(), n=2000, seed=0) == share
    ring = xm.Network(4, 2, [(s, a, (s + 1 + 2 * a) % 4, 1.0) for s in range(4) for a in range(2)])
    endless = xm.distribution(ring.task(0, 2), None, np.full((4, 2), -1.0))
    share, error = endless.probability(xm.share(xm.at(1)) <= 0.4, return_std=True, seed=0)
    assert 0.0 < share < 1.0
    assert error > 0.0


def test_none_of_many_draws_is_not_none_at_all():
    """One trajectory in 252 passes the corner (0, 5): none of 20 draws does, and that is not exact."""
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), moves=("up", "right"))
    corner = xm.visit(grid.at((0, 5)))
    truth = xm.distribution(grid, None).probability(corner)
    assert truth == pytest.approx(1 / 252)
    share, error = xm.distribution(grid, None, engine="reject").probability(corner, return_std=True, n=20, seed=0)
    assert share == 0.0
    assert truth < error < 0.1
