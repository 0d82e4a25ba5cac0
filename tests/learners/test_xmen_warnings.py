"""What demonstrations cannot tell XMEN, named: constant features, optima at infinity, iterations that ran out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task, small_task
from strategies import cases
from xmen.errors import (
    ConvergenceWarning,
    IdentifiabilityWarning,
    LearningWarning,
    UnboundedWarning,
)
from xmen.learners.xmen import XMEN
from xmen.rewards.linear import DenseFeatures


def test_constant_features_are_named():
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    features = np.zeros((16, 2, 4))
    features[:, :, 0] = 1.0  # every path has 6 steps
    features[:, 0, 1] = 1.0  # 3 of them up
    features[grid.state((1, 1)), :, 2] = 1.0
    features[grid.state((2, 2)), :, 3] = 1.0
    demos = xm.distribution(grid, None, None, seed=0).sample(30)
    with pytest.warns(IdentifiabilityWarning, match="feature 0 and feature 1"):
        model = XMEN(grid, None, features).fit(demos)
    np.testing.assert_allclose(model.weights_[:2], 0.0, atol=1e-9)
    XMEN(grid, None, features, l2=0.1).fit(demos)  # the penalty decides: nothing to warn about


@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
@pytest.mark.parametrize("method", ["cells", "paper"])
@pytest.mark.parametrize("max_nodes", [None, 30])
def test_every_method_names_what_cannot_be_known(method, oracle, max_nodes):
    """Also where the product is larger than the budget, as long as it is small."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    rule = (xm.longest_repeat() <= 1) | xm.visit(grid.at((1, 1)))
    features = np.zeros((9, 2, 2))
    features[:, :, 0] = 1.0  # every path has 4 steps
    features[grid.state((1, 1)), :, 1] = 1.0
    up, right = grid.moves.index("up"), grid.moves.index("right")
    demos = [xm.Trajectory([0, 1, 4, 5, 8], [right, up, right, up])] * 2  # through the middle, as all that are valid
    free = [xm.Trajectory([0, 1, 2, 5, 8], [right, right, up, up])]
    settings = dict(method=method, oracle=oracle, max_iter=2, seed=0, max_nodes=max_nodes)
    with pytest.warns(LearningWarning) as told:
        XMEN(grid, rule, features, **settings).fit(demos)
    assert "feature 0 and feature 1" in _only(told, IdentifiabilityWarning)
    with pytest.warns(LearningWarning) as told:
        XMEN(grid, None, features, **settings).fit(free)
    assert "feature 1: " in _only(told, UnboundedWarning)
    assert "ended where its steps did" in _only(told, UnboundedWarning)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        XMEN(grid, None, features, l2=0.1, **settings).fit(free)
    assert [warning.category for warning in told] == ([ConvergenceWarning] if method == "paper" else [])


def _only(told, category):
    (message,) = [str(warning.message) for warning in told if warning.category is category]
    return message


def test_what_is_too_large_to_look_at_goes_unsaid(monkeypatch):
    monkeypatch.setattr("xmen.methods.identify.MOST_NODES", 10)
    grid, rule, features, demos = grid_task(4)
    constant = np.ones((*features.shape[:2], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", IdentifiabilityWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        XMEN(grid, rule, constant, method="cells", max_nodes=30, max_iter=2, seed=0).fit(demos)


def test_combinations_are_named():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    features = np.zeros((9, 2, 3))
    # Every path crosses the middle diagonal exactly once.
    for k, cell in enumerate([(0, 2), (1, 1), (2, 0)]):
        features[grid.state(cell), :, k] = 1.0
    demos = xm.distribution(grid, None, None, seed=0).sample(50)
    with pytest.warns(IdentifiabilityWarning, match=r"1 \* feature 0 \+1 \* feature 1 \+1 \* feature 2"):
        XMEN(grid, None, features).fit(demos)


def test_identifiability_agrees_with_enumeration():
    """The number of combinations is that of the null space of the listed features."""
    from xmen.methods.identify import unidentified

    found = 0
    for seed in range(cases(60)):
        task = small_task(seed, least_valid=2)
        rng = np.random.default_rng(seed)
        features = rng.integers(0, 2, size=(task.world.n_states, task.world.n_actions, 5)).astype(float)
        task.features = features
        rows = task.rows(task.valid)
        rank = np.linalg.matrix_rank(rows - rows[0], tol=1e-9)
        base = xm.distribution(task.world, task.constraint, None, discount=task.discount, engine="exact")
        basis = unidentified(base, DenseFeatures(features))
        assert len(basis) == 5 - rank, seed
        np.testing.assert_allclose((rows - rows[0]) @ basis.T, 0.0, atol=1e-7)
        found += len(basis) > 0
    assert found > 10


def test_unseen_rarities_do_not_pass_for_constants():
    """A feature that one trajectory in a million has is identified, though no sample shows it."""
    rows = [(s, a, s + 1, 1.0) for s in range(20) for a in (0, 1)]
    chain = xm.MDP(21, 2, rows, start=0, terminal=[20])
    features = np.zeros((21, 2, 2))
    features[0, 0, 0] = 1.0
    always_left = np.zeros((21, 2))
    always_left[:, 0] = 1.0
    features[:, :, 1] = always_left
    rule = (xm.longest_repeat() >= 19) | xm.visit(xm.at(0) & xm.doing(1))
    demos = xm.distribution(chain, rule, None, seed=0).sample(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IdentifiabilityWarning)
        warnings.simplefilter("ignore", UnboundedWarning)
        XMEN(chain, rule, features).fit(demos)


def test_infinite_optima_are_announced():
    grid, rule, _, demos = grid_task(5, n_demos=3)
    with pytest.warns(UnboundedWarning, match="l2 > 0"):
        model = XMEN(grid, rule).fit(demos)
    assert model.converged_
    assert np.isfinite(model.weights_).all()
    never_seen = set(range(grid.n_states)) - {s for tau in demos for s in tau.states}
    assert min(model.weights_[list(never_seen)]) < -5
    XMEN(grid, rule, l2=0.1).fit(demos)


def test_separable_demonstrations_approach_their_limit():
    """One demonstration: the likelihood rises to 1, and the weights stay finite."""
    task = small_task(11)
    features = np.eye(task.world.n_states * task.world.n_actions).reshape(task.world.n_states, task.world.n_actions, -1)
    with pytest.warns((UnboundedWarning, IdentifiabilityWarning)):
        model = XMEN(task.world, task.constraint, features).fit(task.demos[:1])
    assert np.isfinite(model.weights_).all()


def test_max_iter_is_announced():
    grid, rule, features, demos = grid_task(5)
    with pytest.warns(ConvergenceWarning, match="max_iter = 2"):
        model = XMEN(grid, rule, features, max_iter=2).fit(demos)
    assert not model.converged_
    assert model.n_iter_ == 2
