"""Models of the formula and valid trajectories correspond one to one: counted on random worlds and formulas."""

from __future__ import annotations

import numpy as np
import pycryptosat
import pytest

import xmen as xm
from reference import exact_distribution
from strategies import build, cases, random_formula, random_world
from xmen.constraints.arithmetic import LinearComparison
from xmen.constraints.repetition import NoRecentRevisit, NoRevisit
from xmen.encoding import trajectories as machines
from xmen.encoding.trajectories import COMPACT, Encoding


def all_models(formula, most):
    """Every model over *all* variables, so that an auxiliary variable left free would be counted twice."""
    solver = pycryptosat.Solver()
    for clause in formula.clause_list():
        if not clause:
            return []
        solver.add_clause(clause)
    solver.add_clause([formula.n_variables, -formula.n_variables])
    models = []
    while len(models) < most:
        satisfiable, model = solver.solve()
        if not satisfiable:
            return models
        models.append(model)
        solver.add_clause([-v if model[v] else v for v in range(1, formula.n_variables + 1)])
    raise AssertionError(f"more than {most} models")


def trajectories_of(encoding, formula, most):
    """All models of the formula, their hash bits, the trajectories that these stand for, and these as walks."""
    models, world = all_models(formula, most), encoding.world
    bits = np.array([[model[v] for v in formula.hash_variables] for model in models], dtype=bool)
    bits = bits.reshape(len(models), formula.n_hash)
    walks, found = encoding.decoder.decode(bits), []
    for start, begin, end in zip(walks.starts, walks.offsets[:-1], walks.offsets[1:], strict=True):
        path = walks.edges[begin:end]
        found.append(((int(start), *map(int, world.target[path])), tuple(map(int, world.action[path]))))
    return models, bits, found, walks


def check(world, description, constraint, timed):
    truth = exact_distribution(world, description, np.zeros((world.n_states, world.n_actions))).log_weights
    if len(truth) > 300:
        return 0
    for log2_count in (0.0, np.inf):  # parities over places where these tell trajectories apart, and over numbers
        encoding = Encoding(world, constraint, timed, log2_count)
        models, bits, found, walks = trajectories_of(encoding, encoding.formula, most=len(truth) + 1)
        assert len(found) == len(set(found)), "two models for one trajectory"
        assert set(found) == set(truth)
        if len(models):
            np.testing.assert_array_equal(encoding.decoder.encode(walks), bits)
    return len(models)


def acyclic_world(rng):
    """States 0 .. n-1 with edges that go up only, sometimes several actions or outcomes to the same state."""
    n, rows = int(rng.integers(3, 6)), []
    for s in range(n - 1):
        for a in range(int(rng.integers(1, 4))):
            targets = rng.choice(np.arange(s + 1, n), size=min(int(rng.integers(1, 3)), n - 1 - s), replace=False)
            p = rng.dirichlet(np.ones(len(targets)))
            rows += [(s, a, int(t), float(q)) for t, q in zip(targets, p / p.sum(), strict=True)]
    start = rng.dirichlet(np.ones(n)) * (rng.random(n) < 0.5)
    start = start / start.sum() if start.sum() else 0
    terminal = [n - 1, *(s for s in range(n - 1) if rng.random() < 0.15)]
    return xm.MDP(n, 3, rows, start=start, terminal=terminal)


@pytest.mark.parametrize(
    ("make", "timed", "n_cases"),
    [(random_world, None, 160), (acyclic_world, False, 60), (acyclic_world, True, 60)],
)
def test_models_are_valid_trajectories(make, timed, n_cases):
    counted = 0
    for seed in range(cases(n_cases)):
        rng = np.random.default_rng(seed)
        world = make(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        counted += check(world, description, constraint, timed) > 0
    assert counted > cases(n_cases) / 5


def test_compact_encodings_agree_with_their_machines(monkeypatch):
    """With listing switched off for them, all kinds in the table take their compact forms."""
    monkeypatch.setattr(machines, "COMPACT_ABOVE", 0)
    monkeypatch.setattr(machines, "MAX_ROWS", 0)
    tried = set()
    for seed in range(cases(150)):
        rng = np.random.default_rng(10_000 + seed)
        world = random_world(rng) if seed % 2 else acyclic_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=0)
        if type(constraint) in COMPACT:
            tried.add(type(constraint))
            check(world, description, constraint, timed=None)
    assert tried == set(COMPACT) == {NoRevisit, LinearComparison}


def test_rules_that_only_count_read_the_same_in_any_order(monkeypatch):
    """Both forms, over the places of an event and over the stations of the machine, have the valid trajectories."""
    direct, order = 0, machines.in_any_order
    for seed in range(cases(80)):
        rng = np.random.default_rng(30_000 + seed)
        world = random_world(rng) if seed % 2 else acyclic_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        found = []
        monkeypatch.setattr(
            machines, "in_any_order", lambda *call, found=found: found.append(order(*call)) or found[-1]
        )
        check(world, description, constraint, timed=None)
        if any(literal is not None for literal in found):
            direct += 1
            monkeypatch.setattr(machines, "in_any_order", lambda *call: None)
            check(world, description, constraint, timed=None)
    assert direct > cases(40)


SAME = {
    "places": lambda a, b: xm.count(a) + xm.count(b) <= 1,
    "events": lambda a, b: xm.count(a | b) <= 1,
    "visits": lambda a, b: xm.at_most(1, xm.visit(a), xm.visit(b)),
    "not both": lambda a, b: ~(xm.visit(a) & xm.visit(b)),
    "one never": lambda a, b: xm.never(a) | xm.never(b),
    "follows": lambda a, b: xm.visit(a) >> ~xm.visit(b),
    "temporal": lambda a, b: xm.ltlf("!(F a & F b)", a=a, b=b),
}


@pytest.mark.parametrize("spelling", SAME)
def test_a_forbidden_pair_is_one_clause_however_it_is_written(spelling):
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right"))
    without = Encoding(grid, None).formula
    formula = Encoding(grid, SAME[spelling](grid.at((1, 2)), grid.at((3, 3)))).formula
    assert formula.n_variables - without.n_variables <= 2
    assert formula.n_clauses - without.n_clauses <= 8
    if spelling in ("visits", "not both", "one never", "follows"):
        assert formula.n_variables == without.n_variables


@pytest.mark.parametrize("event", ["at", "doing", "both", "otherwise"])
def test_whether_and_how_often_take_no_machine(event, monkeypatch):
    """Also of events that depend on the move, and at the last position, where there is none."""
    monkeypatch.setattr(machines, "list_machine", None)
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    e = {
        "at": ("at", (1, 4, 8)),
        "doing": ("doing", (0,)),
        "both": ("both", ("doing", (0,)), ("at", (0, 1, 3))),
        "otherwise": ("otherwise", ("doing", (0,))),
    }[event]
    one = (1, ("count", e))
    leaves = [
        ("visit", e),
        ("never", e),
        ("always", e),
        *(("linear", (one,), op, k) for op in ("<=", "==", ">", "!=") for k in (0, 1, 2, 4)),
    ]
    for timed in (False, True):
        for leaf in leaves:
            check(grid, leaf, build(leaf), timed)


def test_a_weaker_rule_past_the_cap_is_not_encoded_as_the_stronger(monkeypatch):
    """Compact encodings belong to exact types: a kind of rule that resembles another keeps its own machine."""
    monkeypatch.setattr(machines, "COMPACT_ABOVE", 0)
    world = xm.GridWorld(3, 2, start=(0, 0), goal=None, horizon=5)
    rule = NoRecentRevisit(xm.anytime, window=2)
    truth = exact_distribution(world, None, np.zeros((world.n_states, world.n_actions))).log_weights
    wanted = {tau for tau in truth if rule.accepts(xm.Trajectory(*tau))}
    assert 0 < sum(xm.no_revisit().accepts(xm.Trajectory(*tau)) for tau in wanted) < len(wanted)
    encoding = Encoding(world, rule)
    _, _, found, _ = trajectories_of(encoding, encoding.formula, most=len(truth) + 1)
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_a_machine_too_large_to_list_without_a_compact_form_is_refused(monkeypatch):
    monkeypatch.setattr(machines, "MAX_LISTED", 5)
    world = xm.GridWorld(3, 2, start=(0, 0), goal=None, horizon=5)
    with pytest.raises(xm.ProductTooLargeError, match=r"'no_revisit\(\) among the last 2' .*5 machine states"):
        Encoding(world, NoRecentRevisit(xm.anytime, window=2))


def test_thresholds_on_integer_sums():
    for seed in range(cases(25)):
        rng = np.random.default_rng(seed)
        world = random_world(rng) if seed % 2 else acyclic_world(rng)
        encoding = Encoding(world, None)
        places = encoding.places
        n_paths = len(exact_distribution(world, None, np.zeros((world.n_states, world.n_actions))).log_weights)
        if not 0 < n_paths <= 200:
            continue
        edge_values = rng.integers(-5, 6, len(places.edge))
        start_values = rng.integers(-3, 4, len(places.starts))
        thresholds = [-4, 0, 1, 6]
        formula, literals = encoding.with_thresholds(edge_values, start_values, thresholds)
        by_edge = {}
        for value, p, e in zip(edge_values, places.source, places.edge, strict=True):
            by_edge[int(places.station[p]) if places.timed else -1, int(e)] = int(value)
        of_start = dict(zip(places.state[places.starts].tolist(), start_values.tolist(), strict=True))
        models, _, _, walks = trajectories_of(encoding, formula, most=10_000)
        for i, model in enumerate(models):
            path = walks.edges[walks.offsets[i] : walks.offsets[i + 1]].tolist()
            total = of_start[int(walks.starts[i])]
            total += sum(by_edge[t if places.timed else -1, e] for t, e in enumerate(path))
            truth = [model[abs(literal)] == (literal > 0) for literal in literals]
            assert truth == [total <= threshold for threshold in thresholds]
