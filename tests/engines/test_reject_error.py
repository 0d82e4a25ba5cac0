"""What rejection says about its own error when everything it drew was valid."""

from __future__ import annotations

import xmen as xm


def test_all_draws_accepted_is_no_certainty():
    """A rule that is broken once in millions: the estimate may miss it, and its error has to say so."""
    grid = xm.GridWorld(4, 4, (0, 0), (3, 3), moves=("up", "right", "down", "left"), horizon=14)
    rare = (xm.count(grid.at((1, 1))) <= 5).named("rarely broken")
    d = xm.distribution(grid, rare, None, engine="reject", max_nodes=1, seed=0)
    exact = xm.distribution(grid, rare, None)
    assert d.relaxation.rejecting == ("rarely broken",)
    estimate, error = d.log_partition(return_std=True)
    assert error > 0.0
    assert abs(estimate - exact.log_partition()) < 5 * error
    free = xm.distribution(grid, None, None, engine="reject", seed=0)
    assert free.log_partition(return_std=True)[1] == 0.0
