"""Infeasible problems name a minimal set of the user's constraints; budgets name the one that explodes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import xmen as xm
from strategies import cases, random_formula, random_world


@pytest.fixture
def grid():
    return xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right"))


def feasible(world, constraints):
    try:
        xm.distribution(world, constraints, None)
    except xm.InfeasibleError:
        return False
    return True


def test_names_the_conflict_and_nothing_else(grid):
    rules = (
        xm.never(grid.at((2, 2))).named("not the middle")
        & xm.visit(grid.at((4, 0))).named("east corner")
        & (xm.longest_repeat() <= 5).named("no long runs")
        & xm.visit(grid.at((0, 4))).named("north corner")
    )
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, rules, None)
    assert error.value.conflict == ("east corner", "north corner")
    assert "'east corner', 'north corner'" in str(error.value)
    assert "middle" not in str(error.value)


def test_three_rules_of_which_any_two_can_hold(grid):
    """(3, 1), (1, 3) and (2, 2) exclude each other under up and right, so the first three rules clash."""
    a, b, c = (xm.visit(grid.at(cell)) for cell in ((3, 1), (1, 3), (2, 2)))
    clash = [(a | b).named("a or b"), (a >> c).named("a needs c"), (b >> c).named("b needs c")]
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, [*clash, (xm.longest_repeat() <= 4).named("no long runs")], None)
    assert error.value.conflict == ("a or b", "a needs c", "b needs c")


def test_named_conjunctions_are_opened_only_when_something_inside_is_named(grid):
    whole = (xm.visit(grid.at((4, 0))) & xm.visit(grid.at((0, 4)))).named("both corners")
    with pytest.raises(xm.InfeasibleError, match="even by itself") as error:
        xm.distribution(grid, whole & xm.never(grid.at((1, 1))).named("x"), None)
    assert error.value.conflict == ("both corners",)
    opened = (xm.visit(grid.at((4, 0))).named("east") & xm.visit(grid.at((0, 4)))).named("both")
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, opened, None)
    assert error.value.conflict == ("east", "both: visit(at(20))")


def test_conflicts_are_minimal_on_random_problems():
    """Every proper subset of a reported conflict is feasible, by asking again; the conflict itself is not."""
    found = 0
    for seed in range(cases(40)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        parts = [random_formula(rng, world.n_states, world.n_actions, depth=1)[1].named(f"rule {i}") for i in range(4)]
        if feasible(world, parts):
            continue
        with pytest.raises(xm.InfeasibleError) as error:
            xm.distribution(world, parts, None)
        conflict = error.value.conflict
        blamed = [part for part in parts if part.name in conflict]
        assert len(blamed) == len(conflict)
        assert not feasible(world, blamed)
        if blamed:
            found += 1
            assert all(feasible(world, list(smaller)) for smaller in combinations(blamed, len(blamed) - 1))
    assert found > cases(5)


def test_the_world_alone_can_be_infeasible():
    walled = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), walls=[(1, 0), (0, 1)], horizon=8)
    with pytest.raises(xm.InfeasibleError, match="no terminal state can be reached") as error:
        xm.distribution(walled, xm.visit(walled.at((0, 0))).named("home"), None)
    assert error.value.conflict == ()
    late = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=7)
    with pytest.raises(xm.InfeasibleError, match="8 actions away, but the horizon is 7"):
        xm.distribution(late, None, None)
    stuck = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, horizon=3)
    with pytest.raises(xm.InfeasibleError, match="exactly 3 actions"):
        xm.distribution(stuck, None, None)


def test_always_doing_can_never_hold(grid):
    rule = xm.always(grid.doing("up")).named("only up")
    with pytest.raises(xm.InfeasibleError, match="can never hold: at the last position there is no action"):
        xm.distribution(grid, rule, None)
    tau = xm.distribution(grid, None, None).mode()
    assert "last position" in str(rule.explain(tau))
    all_but_last = xm.ltlf("G(N(false) | e)", e=grid.doing("up", "right"))
    assert feasible(grid, all_but_last)


def test_budget_names_the_constraint_that_multiplies_the_most():
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), horizon=24)
    rules = [
        xm.visit(grid.at((3, 3))).named("middle"),
        xm.no_revisit().named("never twice"),
        (xm.longest_repeat() <= 3).named("no long runs"),
    ]
    with pytest.raises(xm.ProductTooLargeError) as error:
        xm.distribution(grid, rules, None, engine="exact", max_nodes=2000)
    message = str(error.value)
    assert "'never twice' multiplies it the most" in message
    assert "max_nodes = 2,000" in message
    assert "engine='reject'" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "magic"}, "'auto', 'exact', 'reject', 'xor'"),
        ({"engine": None}, "'auto', 'exact', 'reject', 'xor'"),
        ({"discount": 0.0}, "0 < discount <= 1"),
        ({"discount": 1.5}, "1.5"),
        ({"discount": float("nan")}, "nan"),
        ({"discount": "x"}, "'x'"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"max_nodes": 2.5}, "2.5"),
        ({"reward": np.zeros(25)}, r"shape \(25,\).*\(25, 2\)"),
        ({"reward": np.zeros((25, 3))}, r"\(25, 3\)"),
        ({"reward": np.full((25, 2), np.nan)}, "nan at \\(0, 0\\)"),
        ({"reward": np.full((25, 2), -np.inf)}, "never"),
        ({"reward": "high"}, "array of numbers"),
        ({"constraint": xm.visit(xm.at(25))}, "state 25.*0 .. 24"),
        ({"constraint": xm.never(xm.doing(2))}, "action 2.*0 .. 1"),
        ({"constraint": xm.total([1, 2, 3]) <= 5}, r"\(3,\).*\(25,\)"),
        ({"constraint": xm.at(3)}, "visit"),
        ({"constraint": "visit(at(3))"}, "takes constraints"),
        ({"constraint": [xm.visit(xm.at(3)), xm.at(2)]}, "takes constraints"),
        ({"constraint": xm.ltlf("F(a)", a=xm.at(99))}, "state 99"),
        ({"constraint": xm.no_revisit(xm.at(99))}, "state 99"),
        ({"constraint": xm.longest_run(xm.at(99)) <= 1}, "state 99"),
    ],
)
def test_bad_arguments(grid, arguments, words):
    given = {"constraint": None, "reward": None, **arguments}
    with pytest.raises(xm.XmenError, match=words):
        xm.distribution(grid, **given)


def test_bad_questions(grid):
    d = xm.distribution(grid, None, None)
    with pytest.raises(xm.XmenError, match="whole number"):
        d.sample(-1)
    with pytest.raises(xm.XmenError, match="whole number"):
        d.sample(1.5)
    with pytest.raises(xm.XmenError, match="Trajectory"):
        d.log_prob([0, 1])
    with pytest.raises(xm.XmenError, match="MDP or GridWorld"):
        xm.distribution("grid", None, None)
    with pytest.raises(xm.RewardError, match="shape"):
        xm.LinearReward(np.zeros((25, 2)), [1.0])
    assert d.sample(0) == []
    assert d.log_prob(xm.Trajectory([0, 99], [0])) == -np.inf


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_bad_seeds(grid, seed):
    with pytest.raises(xm.EngineError, match="seed"):
        xm.distribution(grid, None, None, seed=seed)
    with pytest.raises(xm.EngineError, match="seed"):
        xm.distribution(grid, None, None).sample(1, seed=seed)


def test_numpy_integers_are_integers(grid):
    assert len(xm.distribution(grid, None, None, max_nodes=np.int64(10_000)).sample(np.int64(3), seed=np.int64(1))) == 3


def test_long_constraints_do_not_flood_messages():
    grid = xm.GridWorld(30, 30, start=(0, 0), goal=(29, 29), horizon=100)
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, xm.total(list(range(900))) <= 10, None)
    assert len(str(error.value)) < 600


def test_a_start_that_is_the_goal_is_called_so():
    grid = xm.GridWorld(3, 3, start=(1, 1), goal=(1, 1), horizon=4)
    with pytest.raises(xm.InfeasibleError, match="Every start is a terminal state, so that all"):
        xm.distribution(grid, xm.visit(grid.at((2, 2))))
    elsewhere = xm.GridWorld(3, 3, start=(1, 1), goal=(0, 0), moves=("down", "left"))
    with pytest.raises(xm.InfeasibleError) as caught:
        xm.distribution(elsewhere, xm.visit(elsewhere.at((2, 2))))
    assert "terminal state" not in str(caught.value)
