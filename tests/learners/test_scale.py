"""The scale of features: weights go with it, down to where their squares are no numbers any more."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import xmen as xm

GRID = xm.GridWorld(4, 4, (0, 0), (3, 3), moves=("up", "right", "up-right"))
FEATURES = np.zeros((16, 3, 2))
FEATURES[:, 2, 0] = 1.0
FEATURES[5, :, 1] = 1.0
DEMOS = xm.distribution(GRID, None, FEATURES @ [0.8, -1.0], seed=0).sample(50)


def learner(kind: type, features: object) -> xm.XMEN:
    return kind(GRID, features=features) if kind is xm.MaxEntIRL else kind(GRID, None, features=features)


@pytest.mark.parametrize("kind", [xm.XMEN, xm.MaxEntIRL, xm.CausalXMEN])
@pytest.mark.parametrize("scale", [1e-12, 1e-100, 1e9])
def test_weights_go_with_the_scale(kind, scale):
    """Without a warning: small features are not at the end of what is possible."""
    plain, scaled = (learner(kind, FEATURES * by).fit(DEMOS) for by in (1.0, scale))
    assert scaled.converged_
    np.testing.assert_allclose(scaled.weights_ * scale, plain.weights_, rtol=1e-4)


@pytest.mark.parametrize("kind", [xm.XMEN, xm.MaxEntIRL, xm.CausalXMEN])
@pytest.mark.parametrize("scale", [1e-300, 5e-324])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_nearly_nothing_are_refused(kind, scale, sparse):
    features = FEATURES * [1.0, scale]
    given = csr_matrix(features.reshape(-1, 2)) if sparse else features
    with pytest.raises(xm.RewardError, match=r"feature 1 is at most .* too small to be learned from"):
        learner(kind, given).fit(DEMOS)
