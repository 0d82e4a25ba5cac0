"""The example of a feature that depends on the trip: known weights come back, and sizes are those of listed trips."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import xmen as xm

EXAMPLE = Path(__file__).parent.parent / "examples" / "link_size.py"


@pytest.mark.system
def test_link_sizes(capsys):
    names = runpy.run_path(str(EXAMPLE))
    model, taste = names["model"], names["taste"]
    assert np.all(np.abs(model.weights_ - taste) < 4 * model.standard_errors_)
    assert names["test"].p_value < 1e-6
    assert "link size" in capsys.readouterr().out
    # A size is an expected number of uses: by listing the likeliest trips of the pair.
    network, (start, goal) = names["network"], names["pairs"][0]
    reward = (names["base"] @ [-1.0, -4.0]).reshape(network.n_states, network.n_actions)
    d = xm.distribution(network.task(start, goal), None, reward)
    listed = d.best(400)
    shares = np.exp([d.log_prob(tau) for tau in listed])
    uses = sum(p * np.bincount(tau.states, minlength=network.n_states) for p, tau in zip(shares, listed, strict=True))
    np.testing.assert_allclose(names["sizes"][0], uses, atol=0.05)
    assert shares.sum() > 0.99
    # Copies are not connected: every trip of a pair stays in its own.
    world, n = names["world"], network.n_states
    assert np.all(world.source // n == world.target // n)
    assert {tau.states[0] // n for tau in names["demos"][: names["N_TRIPS"]]} == {0}
