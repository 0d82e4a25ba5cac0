"""Listing agrees with enumeration."""

from __future__ import annotations

import numpy as np

import xmen as xm
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.machines.tables import release
from xmen.product.best import list_walks


def test_lists_every_valid_trajectory_once():
    listed = 0
    for seed in range(cases(60)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=2)
        truth = exact_distribution(world, description, np.zeros((world.n_states, world.n_actions))).log_weights
        if not truth:
            continue
        product = xm.distribution(world, constraint, None).product
        walks = list_walks(product, most=len(truth))
        found = [(tau.states, tau.actions) for tau in release(walks, product.compiled)]
        assert len(found) == len(truth)
        assert set(found) == set(truth)
        assert list_walks(product, most=len(truth) - 1) is None
        listed += 1
    assert listed > cases(20)
