"""The budget of a product is memory, and deciding that something does not fit costs less than trying."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from strategies import cases, random_formula, random_world
from xmen.engines import diagnosis
from xmen.engines import reject as relaxation
from xmen.engines.exact import ExactDistribution
from xmen.engines.reject import relax
from xmen.machines.tables import CompiledConstraint
from xmen.product import graph as estimate
from xmen.product import graph as search
from xmen.product.graph import build_product, estimate_nodes


def counters(grid: xm.GridWorld, copies: int = 1) -> list[xm.Constraint]:
    """At most one visit of each cell, `copies` times over."""
    return [(xm.count(xm.at(s)) <= 1).named(f"cell {s}, {k}") for k in range(copies) for s in range(grid.n_states)]


@pytest.fixture
def grid() -> xm.GridWorld:
    return xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "left"), horizon=8)


def explored(world: xm.MDP, constraint: xm.Constraint | None) -> search.Product:
    ground = search.ground_of(world, search.ends_of(world))
    return search.explore(CompiledConstraint(constraint, world), 10**7, world.max_length, ground)


def estimated(world: xm.MDP, constraint: xm.Constraint | None, n_walkers: int) -> int:
    compiled, ground = CompiledConstraint(constraint, world), search.ground_of(world, search.ends_of(world))
    rows = search.first_rows(compiled, world.max_length, ground)
    return estimate_nodes(compiled, rows, world.max_length, n_walkers, ground)


def test_nodes_with_many_machines_cost_more(grid):
    rules = counters(grid, copies=5)
    n_nodes = explored(grid, relaxation.conjunction(rules)).n_nodes
    with pytest.raises(xm.ProductTooLargeError, match="80 machines") as caught:
        xm.distribution(grid, rules, engine="exact", max_nodes=n_nodes)
    assert f"{n_nodes * search.COLUMNS_PER_NODE // 81:,} nodes here" in str(caught.value)
    assert "68 constraints" in str(caught.value)
    wide = xm.distribution(grid, rules, engine="exact", max_nodes=n_nodes * 81 // search.COLUMNS_PER_NODE + 1)
    plain = xm.distribution(grid, counters(grid), engine="exact", max_nodes=2 * n_nodes)
    assert wide.log_partition() == pytest.approx(plain.log_partition(), abs=1e-12)


def test_frontiers_are_expanded_in_pieces(grid, monkeypatch):
    rule = xm.no_revisit() & (xm.count(xm.doing(0)) >= 3)
    whole = build_product(CompiledConstraint(rule, grid), 10**6)
    monkeypatch.setattr(search, "CHUNK_CELLS", 40)
    pieces = build_product(CompiledConstraint(rule, grid), 10**6)
    for name in ("state", "depth", "distance", "accepting", "indptr", "target", "edge", "starts", "layer_ends"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name), err_msg=name)


def test_many_constraints_are_relaxed_with_few_products_and_reject_as_one(grid, monkeypatch):
    rules = counters(grid, copies=20)
    built = []
    real = relaxation.multiply
    monkeypatch.setattr(relaxation, "multiply", lambda *args: built.append(1) or real(*args))
    relaxed = relax(grid, relaxation.conjunction(rules), 60)
    assert len(rules) == 320
    assert len(built) <= relaxation.MOST_TRIED + 1
    assert len(relaxed.multiplied) + len(relaxed.rejecting) == 320
    assert relaxed.rejecting
    d = xm.distribution(grid, rules, engine="reject", max_nodes=60, seed=0)
    assert "more (" in repr(d) or "more>" in repr(d)
    assert len(repr(d)) < 2000
    truth = xm.distribution(grid, xm.no_revisit(), engine="exact")
    log_z, std = d.log_partition(return_std=True)
    assert abs(log_z - truth.log_partition()) <= 5 * std + 1e-9
    assert all(len(set(tau.states)) == len(tau.states) for tau in d.sample(200))


def test_after_a_few_failures_larger_constraints_are_left_to_reject(grid, monkeypatch):
    failed = []
    real = relaxation.multiply

    def multiply(world, constraint, budget):
        failed.append(constraint)
        product = real(world, constraint, budget)
        failed.pop()
        return product

    monkeypatch.setattr(relaxation, "multiply", multiply)
    relaxed = relax(grid, relaxation.conjunction(counters(grid, copies=3)), 100)
    assert len(relaxed.rejecting) > relaxation.MOST_FAILURES
    assert len(failed) <= relaxation.MOST_FAILURES


def test_estimates_are_lower_bounds(monkeypatch):
    """On random worlds and formulas an estimate never passes the true number of nodes: listed, not estimated."""
    monkeypatch.setattr(estimate, "FEWEST_WALKERS", 50)
    tried = 0
    for seed in range(cases(60)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        _, constraint = random_formula(rng, world.n_states, world.n_actions, depth=2)
        found = explored(world, constraint)
        if not len(found.starts):
            continue
        shown = estimated(world, constraint, 5_000)
        assert shown <= found.n_nodes
        tried += shown > 0
    assert tried > cases(5)


@pytest.mark.parametrize("largest_table", [0, 10**9])
def test_estimates_show_what_is_large(largest_table, monkeypatch):
    """Self-avoiding walks on 6 x 6 cells: within a factor 20 of the number of nodes at the widest depth."""
    monkeypatch.setattr(estimate, "LARGEST_TABLE", largest_table)
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), horizon=16)
    found, shown = explored(grid, xm.no_revisit()), estimated(grid, xm.no_revisit(), 10**5)
    assert np.bincount(found.depth).max() / 20 < shown <= found.n_nodes


def test_growth_alone_ends_the_search(monkeypatch):
    grid = xm.GridWorld(7, 7, start=(0, 0), goal=(6, 6), horizon=24)
    monkeypatch.setattr(search, "ESTIMATE_AT", (1_000,))
    monkeypatch.setattr(estimate, "LARGEST_TABLE", 100)
    compiled = CompiledConstraint(xm.no_revisit(), grid)
    with pytest.raises(xm.ProductTooLargeError, match=r"max_nodes = 20,000 \(\d\d,\d{3} nodes"):
        build_product(compiled, 20_000)
    assert len(compiled.tables[0]) < 2_500  # machine states that were listed, of more than 10,000


def test_that_something_is_too_large_is_found_out_once(monkeypatch):
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=16)
    with pytest.raises(xm.ProductTooLargeError) as first:
        xm.distribution(grid, xm.no_revisit(), engine="exact", max_nodes=500)
    monkeypatch.setattr(diagnosis, "build_product", None)  # building again would be an error
    with pytest.raises(xm.ProductTooLargeError) as again:
        xm.distribution(grid, xm.no_revisit(), engine="exact", max_nodes=500)
    assert str(again.value) == str(first.value)
    with pytest.raises(xm.ProductTooLargeError, match="max_nodes = 400"):
        xm.distribution(grid, xm.no_revisit(), engine="exact", max_nodes=400)
    monkeypatch.undo()
    assert xm.distribution(grid, xm.no_revisit(), engine="exact", max_nodes=10**6).engine == "exact"


def test_rules_one_after_another_are_all_at_once(monkeypatch):
    """Whatever the world, the rules and their weights: fewer nodes, the same answers, in the order of the weights."""
    monkeypatch.setattr(search, "COLUMNS_PER_NODE", 3)  # a rule or two at a time
    rng, fewer = np.random.default_rng(0), 0
    for _ in range(cases(40)):
        world = random_world(rng)
        if rng.integers(2):
            moves = ("up", "right", "up-right")[: rng.integers(2, 4)]
            world = xm.GridWorld(4, 3, (0, 0), (3, 2), moves=moves, horizon=rng.choice([None, 5]))
        at = [xm.visit(xm.at(int(s))) for s in rng.integers(world.n_states, size=12)]
        rules = [~(a & b) for a, b in zip(at[:4], at[4:8], strict=True)] + [at[8] | at[9]]
        rules += [xm.usually(a, weight=float(rng.normal())) for a in at[10:]]
        compiled = CompiledConstraint(relaxation.conjunction(rules), world)
        whole, by_rules = build_product(compiled, 10**6), search.build_by_rules(compiled, 10**6)
        assert by_rules.feasible() == whole.feasible()
        assert by_rules.n_nodes <= whole.n_nodes
        assert np.all(np.diff(by_rules.depth) >= 0)
        fewer += by_rules.n_nodes < whole.n_nodes
        if whole.feasible():
            d = xm.distribution(world, rules, rng.normal(size=(world.n_states, world.n_actions)), engine="exact")
            other = ExactDistribution(by_rules, d.law, 0)
            assert other.log_partition() == pytest.approx(d.log_partition(), abs=1e-12)
            np.testing.assert_allclose(other.visits(), d.visits(), atol=1e-12)
    assert fewer > 5


def test_a_hundred_forbidden_pairs_are_exact():
    """8x8, against a recursion over paths. All at once, they pass the budget."""
    grid, rng = xm.GridWorld(8, 8, (0, 0), (7, 7), moves=("up", "right")), np.random.default_rng(0)
    pairs = [frozenset(rng.choice(np.arange(1, 63), 2, replace=False).tolist()) for _ in range(100)]

    def count(path: frozenset[int], x: int, y: int) -> int:
        path |= {8 * y + x}
        if x > 7 or y > 7 or any(pair <= path for pair in pairs):
            return 0
        return 1 if x == y == 7 else count(path, x + 1, y) + count(path, x, y + 1)

    rules = [~(xm.visit(xm.at(a)) & xm.visit(xm.at(b))) for a, b in map(sorted, pairs)]
    d = xm.distribution(grid, rules, engine="exact", max_nodes=5_000)
    assert round(np.exp(d.log_partition())) == count(frozenset(), 0, 0) > 0
    with pytest.raises(xm.ProductTooLargeError):
        build_product(CompiledConstraint(relaxation.conjunction(rules), grid), 5_000)
