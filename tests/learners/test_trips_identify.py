"""Weights that trips cannot tell, on networks: named as elsewhere, and nothing is said where all is told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xmen as xm


def ring():
    """Six places on a ring with steps of one and of two, both ways."""
    rows = [(s, a, (s + step) % 6, 1.0) for s in range(6) for a, step in enumerate((1, 2, -1, -2))]
    return xm.Network(6, 4, rows)


def trips(network, reward, n=30):
    rng = np.random.default_rng(0)
    pairs = [(0, 3), (1, 4), (2, 0), (5, 1)]
    return [tau for pair in pairs for tau in xm.distribution(network.task(*pair), None, reward, seed=rng).sample(n)]


def features_of(*columns):
    return np.stack(columns, axis=2)


ONES = np.ones((6, 4))
LONG = np.tile([0.0, 1.0, 0.0, 1.0], (6, 1))  # steps of two
POTENTIAL = np.array([[(s + step) % 6 - s for step in (1, 2, -1, -2)] for s in range(6)], dtype=float)


@pytest.mark.parametrize("rule", [None, xm.no_revisit()])
def test_a_potential_is_the_same_on_all_trips_of_a_pair(rule):
    """The number of the place that is entered less that of the place before sums to goal less start."""
    network = ring()
    demos = [tau for tau in trips(network, -1.6 * ONES) if len(set(tau.states)) == len(tau.states)]
    with pytest.warns(xm.IdentifiabilityWarning, match=r"feature 2 is the same on every valid trajectory"):
        xm.XMEN(network, rule, features=features_of(ONES, LONG, POTENTIAL), seed=0).fit(demos)


def test_what_is_never_done_has_no_finite_weight():
    network = ring()
    demos = [tau for tau in trips(network, -1.6 * ONES - 8.0 * LONG) if not {1, 3} & set(tau.actions)]
    with pytest.warns(xm.UnboundedWarning, match="feature 1"):
        xm.XMEN(network, features=features_of(ONES, LONG), max_iter=200, tol=1e-3).fit(demos)


@pytest.mark.parametrize("settings", [{"l2": 1e-3}, {"fixed": {2: 0.0}}])
def test_a_penalty_or_a_fixed_weight_decides(settings):
    network = ring()
    demos = trips(network, -1.6 * ONES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xm.XMEN(network, features=features_of(ONES, LONG, POTENTIAL), **settings).fit(demos)


def test_nothing_is_said_of_features_that_trips_tell_apart():
    network = ring()
    rng = np.random.default_rng(3)
    features = features_of(ONES, LONG, rng.normal(size=(6, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xm.XMEN(network, features=features).fit(trips(network, -1.6 * ONES))
