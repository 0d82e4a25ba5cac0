"""Infeasible problems name a minimal set of the user's constraints; budgets name the one that explodes."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import xmen as xm
from strategies import cases, random_formula, random_world
from xmen.engines import diagnosis
from xmen.engines.diagnosis import smallest_conflict
from xmen.progress import listening


@pytest.fixture
def grid():
    return xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right"))


def feasible(world, constraints):
    try:
        xm.distribution(world, constraints, None)
    except xm.InfeasibleError:
        return False
    return True


def test_three_rules_of_which_any_two_can_hold(grid):
    """(3, 1), (1, 3) and (2, 2) exclude each other under up and right, so the first three rules clash."""
    a, b, c = (xm.visit(grid.at(cell)) for cell in ((3, 1), (1, 3), (2, 2)))
    clash = [(a | b).named("a or b"), (a >> c).named("a needs c"), (b >> c).named("b needs c")]
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, [*clash, (xm.longest_repeat() <= 4).named("no long runs")], None)
    assert error.value.conflict == ("a or b", "a needs c", "b needs c")


def test_named_conjunctions_are_opened_only_when_something_inside_is_named(grid):
    whole = (xm.visit(grid.at((4, 0))) & xm.visit(grid.at((0, 4)))).named("both corners")
    with pytest.raises(xm.InfeasibleError, match="by itself") as error:
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
    late = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=7)
    stuck = xm.MDP(2, 1, [(0, 0, 1, 1.0)], start=0, horizon=3)
    for world, words in ((walled, "terminal"), (late, "8 actions.* 7"), (stuck, "3 actions")):
        for rule in (None, xm.visit(xm.at(0)).named("home")):
            with pytest.raises(xm.InfeasibleError, match=words) as error:
                xm.distribution(world, rule, None)
            assert error.value.conflict == ()


def test_always_doing_can_never_hold(grid):
    rule = xm.always(grid.doing("up")).named("only up")
    with pytest.raises(xm.InfeasibleError, match="last position"):
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
    said = str(error.value)
    assert all(fact in said for fact in ("'never twice' multiplies", "max_nodes = 2,000", "engine='reject'"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "magic"}, "'auto', 'exact', 'reject', 'xor'"),
        ({"engine": None}, "'auto', 'exact', 'reject', 'xor'"),
        ({"given": "goal"}, "given"),
        ({"seed": -1}, "seed"),
        ({"engine": "xor", "delta": 1.0}, "delta"),
        ({"engine": "xor", "delta": 0.5}, "delta"),
        ({"engine": "xor", "failure": 0.0}, "failure"),
        ({"engine": "xor", "failure": 1.0}, "failure"),
        ({"engine": "xor", "cell_size": 0}, "cell_size"),
        ({"engine": "xor", "cell_size": "big"}, "cell_size"),
        ({"engine": "xor", "oracle": "delphi"}, "listed.*cryptominisat.*cadical"),
        ({"discount": 0.0}, "discount"),
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


def test_worlds_and_rewards_of_the_wrong_kind_are_refused():
    with pytest.raises(xm.XmenError, match="GridWorld"):
        xm.distribution("grid", None, None)
    with pytest.raises(xm.RewardError, match="shape"):
        xm.LinearReward(np.zeros((25, 2)), [1.0])
    with pytest.raises(xm.RewardError, match=r"np\.repeat"):
        xm.LinearReward(np.zeros((25, 2)), [1.0, 2.0])


def test_long_constraints_do_not_flood_messages():
    grid = xm.GridWorld(30, 30, start=(0, 0), goal=(29, 29), horizon=100)
    with pytest.raises(xm.InfeasibleError) as error:
        xm.distribution(grid, xm.total(list(range(900))) <= 10, None)
    assert len(str(error.value)) < 600


def test_a_start_that_is_the_goal_is_called_so():
    grid = xm.GridWorld(3, 3, start=(1, 1), goal=(1, 1), horizon=4)
    elsewhere = xm.GridWorld(3, 3, start=(1, 1), goal=(0, 0), moves=("down", "left"))
    for world, called in ((grid, True), (elsewhere, False)):
        with pytest.raises(xm.InfeasibleError) as caught:
            xm.distribution(world, xm.visit(world.at((2, 2))))
        assert ("terminal state" in str(caught.value)) == called


# --- the search for a smallest conflict: by halving, with few questions, and with words on the way


def test_what_is_found_by_halving_is_minimal():
    """Random conflicts among up to 40 rules: what is found conflicts, and without any one of it does not."""
    rng = np.random.default_rng(0)
    for _ in range(cases(200)):
        n = int(rng.integers(1, 40))
        sizes = rng.integers(1, min(n, 5) + 1, size=int(rng.integers(1, 4)))
        cores = [set(rng.choice(n, size=size, replace=False).tolist()) for size in sizes]

        def can_hold(kept: list[int], cores: list[set[int]] = cores) -> bool:
            return not any(core <= set(kept) for core in cores)

        kept, minimal = smallest_conflict(list(range(n)), can_hold)
        assert minimal
        assert kept == sorted(kept)
        assert not can_hold(kept)
        assert all(can_hold([i for i in kept if i != left_out]) for left_out in kept)


def test_questions_grow_with_the_logarithm():
    for n in (160, 3_500):
        asked = []

        def can_hold(kept: list[int], asked: list[int] = asked, n: int = n) -> bool:
            asked.append(len(kept))
            return not {3, n - 3} <= set(kept)

        assert smallest_conflict(list(range(n)), can_hold) == ([3, n - 3], True)
        assert len(asked) <= 4 * math.log2(n)


@pytest.mark.parametrize("error", [xm.ProductTooLargeError, xm.OracleTimeoutError])
def test_what_cannot_be_told_leaves_a_conflict(error):
    def can_hold(kept: list[int]) -> bool:
        if len(kept) > 10:
            raise error("too large")
        return not {1, 30} <= set(kept)

    kept, minimal = smallest_conflict(list(range(40)), can_hold)
    assert not minimal
    assert {1, 30} <= set(kept)


def test_160_rules_that_contradict_each_other(monkeypatch):
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    rules = [(xm.count(xm.at(s % 16)) <= 1 + s // 16).named(f"cell {s}") for s in range(158)]
    rules += [xm.visit(xm.at(5)).named("go"), xm.never(xm.at(5)).named("stay away")]
    products, lines = [], []
    real = diagnosis.multiply
    monkeypatch.setattr(diagnosis, "multiply", lambda *given, **how: products.append(1) or real(*given, **how))
    with listening(lines.append), pytest.raises(xm.InfeasibleError) as caught:
        xm.distribution(grid, rules, engine="exact")
    assert caught.value.conflict == ("go", "stay away")
    assert len(products) <= 4 * math.log2(160)
    assert {"160?", "1,", "80"} <= set(lines[0].split())
    assert len(lines) == len(products) - 2  # the whole, and the world alone
