"""fit says where demonstrations start elsewhere than the joint model does, and only there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xmen as xm


def world() -> xm.MDP:
    """From state 0 three actions lead to the end, from state 1 one."""
    rows = [(0, 0, 2, 1.0), (0, 1, 2, 1.0), (0, 2, 2, 1.0), (1, 0, 2, 1.0)]
    return xm.MDP(3, 3, rows, start=[0.5, 0.5, 0.0], terminal=[2])


def features() -> np.ndarray:
    """One weight, of an action that only state 0 has."""
    out = np.zeros((3, 3, 1))
    out[0, 1, 0] = 1.0
    return out


def fit(demos: list[xm.Trajectory], **settings: object) -> xm.XMEN:
    return xm.XMEN(world(), features=features(), **settings).fit(demos)


def test_starts_in_other_shares_are_a_warning_that_names_the_way_out():
    """With 400 demonstrations half of which start in each state, where the joint model has about 3 to 1."""
    demos = xm.distribution(world(), None, None, given="start", seed=0).sample(400)
    with pytest.warns(xm.StartsWarning, match=r'start in state 0.*given="start"'):
        fit(demos)


@pytest.mark.parametrize("given", [None, "start"])
def test_no_word_where_the_shares_agree_or_the_start_is_given(given):
    demos = xm.distribution(world(), None, None, given=given, seed=1).sample(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(demos, given=given)
