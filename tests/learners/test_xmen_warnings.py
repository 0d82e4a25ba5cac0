"""What demonstrations cannot tell XMEN, in worlds and in networks: named, and nothing is said where all is told.

Every warning is an error in tests: a fit without `pytest.warns` here says nothing.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task, small_task
from strategies import cases
from xmen.errors import ConvergenceWarning, IdentifiabilityWarning, LearningWarning, StartsWarning, UnboundedWarning
from xmen.learners.xmen import XMEN
from xmen.methods.demonstrations import gather
from xmen.methods.identify import unbounded, unidentified
from xmen.rewards.linear import DenseFeatures, StateFeatures

GRID = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
MIDDLE = GRID.at((1, 1))


def features_of(*columns):
    return np.stack(columns, axis=2)


def in_cells(*cells):
    """The feature of leaving one of these cells."""
    column = np.zeros((GRID.n_states, GRID.n_actions))
    column[[GRID.state(cell) for cell in cells]] = 1.0
    return column


STEPS, UPS = np.ones((9, 2)), np.array([[1.0, 0.0]] * 9)  # every path has 4 steps, 2 of them up


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ([STEPS, UPS, in_cells((1, 1)), in_cells((2, 1))], "feature 0 and feature 1"),
        ([in_cells((0, 2)), in_cells((1, 1)), in_cells((2, 0))], r"1 \* feature 0 \+1 \* feature 1 \+1 \* feature 2"),
    ],
)
def test_what_is_the_same_on_every_path_is_named(columns, named):
    """Features that are constant one by one, and those of a diagonal, which every path crosses exactly once."""
    features, demos = features_of(*columns), xm.distribution(GRID, seed=0).sample(50)
    with pytest.warns(IdentifiabilityWarning, match=named):
        model = XMEN(GRID, None, features).fit(demos)
    if len(columns) == 4:
        np.testing.assert_allclose(model.weights_[:2], 0.0, atol=1e-9)
    XMEN(GRID, None, features, l2=0.1).fit(demos)  # the penalty decides: nothing to warn about


@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
@pytest.mark.parametrize("method", ["cells", "paper"])
@pytest.mark.parametrize("max_nodes", [None, 30])
def test_every_method_names_what_cannot_be_known(method, oracle, max_nodes):
    """Also where the product is larger than the budget, as long as it is small."""
    rule, features = (xm.longest_repeat() <= 1) | xm.visit(MIDDLE), features_of(STEPS, in_cells((1, 1)))
    up, right = GRID.moves.index("up"), GRID.moves.index("right")
    demos = [xm.Trajectory([0, 1, 4, 5, 8], [right, up, right, up])] * 2  # through the middle, as all that are valid
    free = [xm.Trajectory([0, 1, 2, 5, 8], [right, right, up, up])]
    settings = dict(method=method, oracle=oracle, max_iter=2, seed=0, max_nodes=max_nodes)
    with pytest.warns(LearningWarning) as told:
        XMEN(GRID, rule, features, **settings).fit(demos)
    assert "feature 0 and feature 1" in _only(told, IdentifiabilityWarning)
    with pytest.warns(LearningWarning) as told:
        XMEN(GRID, None, features, **settings).fit(free)
    assert "feature 1: " in _only(told, UnboundedWarning)
    assert "ended where" in _only(told, UnboundedWarning)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        XMEN(GRID, None, features, l2=0.1, **settings).fit(free)
    assert [warning.category for warning in told] == ([ConvergenceWarning] if method == "paper" else [])


def _only(told, category):
    (message,) = [str(warning.message) for warning in told if warning.category is category]
    return message


def test_what_is_too_large_to_look_at_goes_unsaid(monkeypatch):
    monkeypatch.setattr("xmen.methods.identify.MOST_NODES_ASKED", 10)
    grid, rule, features, demos = grid_task(4)
    constant = np.ones((*features.shape[:2], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        XMEN(grid, rule, constant, method="cells", max_nodes=30, max_iter=2, seed=0).fit(demos)


def test_identifiability_agrees_with_enumeration():
    """The number of combinations is that of the null space of the listed features."""
    found = 0
    for seed in range(cases(60)):
        task = small_task(seed, least_valid=2)
        rng = np.random.default_rng(seed)
        task.features = rng.integers(0, 2, size=(task.world.n_states, task.world.n_actions, 5)).astype(float)
        rows = task.rows(task.valid)
        rank = np.linalg.matrix_rank(rows - rows[0], tol=1e-9)
        base = xm.distribution(task.world, task.constraint, None, discount=task.discount, engine="exact")
        basis = unidentified(base, DenseFeatures(task.features))
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
    features[:, 0, 1] = 1.0
    rule = (xm.longest_repeat() >= 19) | xm.visit(xm.at(0) & xm.doing(1))
    demos = xm.distribution(chain, rule, None, seed=0).sample(200)
    with warnings.catch_warnings():
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


def test_what_nobody_visited_needs_no_search():
    """One way along two edges of 64 states has the most of its own and the least of all others, but for the ends."""
    grid = xm.GridWorld(8, 8, start=(0, 0), goal=(7, 7), moves=("up", "right"))
    right, up = grid.moves.index("right"), grid.moves.index("up")
    ways = [grid.state((x, 0)) for x in range(8)] + [grid.state((7, y)) for y in range(1, 8)]
    demos = gather(grid, None, [xm.Trajectory(ways, [right] * 7 + [up] * 7)])
    assert unbounded(xm.distribution(grid), StateFeatures(grid), demos) == list(range(1, 63))


def test_separable_demonstrations_approach_their_limit():
    """One demonstration: the likelihood rises to 1, and the weights stay finite."""
    task = small_task(11)
    features = np.eye(task.world.n_states * task.world.n_actions).reshape(task.world.n_states, task.world.n_actions, -1)
    with pytest.warns((UnboundedWarning, IdentifiabilityWarning)):
        model = XMEN(task.world, task.constraint, features).fit(task.demos[:1])
    assert np.isfinite(model.weights_).all()


@pytest.mark.parametrize(
    ("shown", "given", "said"), [("start", None, True), (None, None, False), ("start", "start", False)]
)
def test_starts_in_other_shares_are_a_warning_that_names_the_way_out(shown, given, said):
    """From state 0 three actions lead to the end, from state 1 one; half of 400 demonstrations start in each, where
    the joint model has about 3 to 1. The weight is of an action that only state 0 has."""
    rows = [(0, 0, 2, 1.0), (0, 1, 2, 1.0), (0, 2, 2, 1.0), (1, 0, 2, 1.0)]
    world, features = xm.MDP(3, 3, rows, start=[0.5, 0.5, 0.0], terminal=[2]), np.zeros((3, 3, 1))
    features[0, 1, 0] = 1.0
    demos = xm.distribution(world, None, None, given=shown, seed=0 if said else 1).sample(400)
    model = XMEN(world, features=features, given=given)
    if said:
        with pytest.warns(StartsWarning, match=r'state 0.*given="start"'):
            model.fit(demos)
    else:
        model.fit(demos)


# ---- Trips through a network: six places on a ring with steps of one and of two, both ways

RING = xm.Network(6, 4, [(s, a, (s + step) % 6, 1.0) for s in range(6) for a, step in enumerate((1, 2, -1, -2))])
ONES = np.ones((6, 4))
LONG = np.tile([0.0, 1.0, 0.0, 1.0], (6, 1))  # steps of two
POTENTIAL = np.array([[(s + step) % 6 - s for step in (1, 2, -1, -2)] for s in range(6)], dtype=float)
OTHER = np.random.default_rng(3).normal(size=(6, 4))


def trips(reward, n=30):
    rng = np.random.default_rng(0)
    pairs = [(0, 3), (1, 4), (2, 0), (5, 1)]
    return [tau for pair in pairs for tau in xm.distribution(RING.task(*pair), None, reward, seed=rng).sample(n)]


@pytest.mark.parametrize("rule", [None, xm.no_revisit()])
def test_a_potential_is_the_same_on_all_trips_of_a_pair(rule):
    """The number of the place that is entered less that of the place before sums to goal less start."""
    demos = [tau for tau in trips(-1.6 * ONES) if len(set(tau.states)) == len(tau.states)]
    with pytest.warns(IdentifiabilityWarning, match="feature 2 is the same"):
        XMEN(RING, rule, features=features_of(ONES, LONG, POTENTIAL), seed=0).fit(demos)


def test_what_is_never_done_has_no_finite_weight():
    demos = [tau for tau in trips(-1.6 * ONES - 8.0 * LONG) if not {1, 3} & set(tau.actions)]
    with pytest.warns(UnboundedWarning, match="feature 1"):
        XMEN(RING, features=features_of(ONES, LONG), max_iter=200, tol=1e-3).fit(demos)


@pytest.mark.parametrize(
    ("column", "settings"), [(POTENTIAL, {"l2": 1e-3}), (POTENTIAL, {"fixed": {2: 0.0}}), (OTHER, {})]
)
def test_nothing_is_said_where_trips_a_penalty_or_a_fixed_weight_decide(column, settings):
    XMEN(RING, features=features_of(ONES, LONG, column), **settings).fit(trips(-1.6 * ONES))
