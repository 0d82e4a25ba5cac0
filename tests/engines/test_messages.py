"""What errors say about rules that cannot hold and demonstrations that break them.

The shortest horizon is compared with a search over listed trajectories, longer and longer ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import report, run
from problem.files import grid_problem
from reference import enumerate_trajectories, holds, positions
from strategies import random_formula, random_world
from xmen.constraints.arithmetic import LinearComparison
from xmen.engines.diagnosis import reachable_bound, why_never
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import shortest_valid


def grid(horizon: int, **more: object) -> xm.GridWorld:
    return xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=horizon, **more)


def infeasible(world: xm.MDP, rule: object) -> str:
    with pytest.raises(xm.InfeasibleError) as caught:
        xm.distribution(world, rule)
    return str(caught.value)


def test_a_horizon_that_is_too_short_names_the_shortest_under_the_rules():
    world = grid(8)
    rule = xm.visit(world.at((0, 3))).named("up") & xm.visit(world.at((3, 0))).named("right")
    said = infeasible(world, rule)
    assert "horizon from 8 to 12" in said
    assert xm.distribution(grid(12), rule).log_partition() > -np.inf
    assert "11 to 12" in infeasible(grid(11), rule)
    never = rule & (xm.length() <= 5).named("short")
    assert "horizon" not in infeasible(world, never)  # no horizon would do


@pytest.mark.parametrize("seed", range(25))
def test_a_bound_that_is_too_tight_names_the_nearest_that_will_do(seed):
    """Against the list of all trajectories: totals of states or of moves, counts and lengths, all four inequalities."""
    rng = np.random.default_rng([seed, 12])
    world = random_world(rng)
    description, other = random_formula(rng, world.n_states, world.n_actions, 1, False)
    sizes = [(world.n_states,), (world.n_states, world.n_actions)]
    table = rng.integers(-2, 6, size=sizes[seed % 2])
    form = xm.total(table) + 2 * xm.length() - xm.count(xm.at(0))
    valid = [xm.Trajectory(s, a) for s, a, _ in enumerate_trajectories(world) if holds(description, positions(s, a))]
    sums = [_total(table, tau) + 2 * len(tau.states) - tau.states.count(0) for tau in valid]
    for op, best, beyond in (("<=", min, -1), ("<", min, 0), (">=", max, 1), (">", max, 0)):
        tight = LinearComparison(form.terms, op, (best(sums) if sums else 0) + beyond)
        found = reachable_bound(world, tight, other)
        if not sums or not world.has_terminal or world.terminal[world.start > 0].any():
            assert found is None
            continue
        assert found == best(sums) + {"<": 1, ">": -1}.get(op, 0)
        said = infeasible(world, [tight.named("tight"), other])
        assert f"from {tight.bound} to {found}" in said
        xm.distribution(world, [LinearComparison(form.terms, op, found), other])


def _total(table, tau):
    if table.ndim == 1:
        return sum(int(table[s]) for s in tau.states)
    return sum(int(table[s, a]) for s, a in zip(tau.states, tau.actions, strict=False))


@pytest.mark.parametrize("seed", range(25))
def test_the_shortest_valid_trajectory_is_the_one_a_list_finds(seed):
    rng = np.random.default_rng([seed, 11])
    rows = [(s, a, int(rng.integers(4)), 1.0) for s in range(3) for a in range(2)]
    rows = [(s, a, t, p) for s, a, t, p in rows if t != s or rng.random() < 0.5]
    terminal = [3] if rng.random() < 0.7 else []
    description, rule = random_formula(rng, 4, 2, 2, False)
    found = None
    for horizon in range(7):
        world = xm.MDP(4, 2, rows, start=0, terminal=terminal, horizon=horizon)
        if any(holds(description, positions(s, a)) for s, a, _ in enumerate_trajectories(world)):
            found = horizon
            break
    shortest = shortest_valid(CompiledConstraint(rule, world))
    assert shortest > 6 if found is None else shortest == found


def test_rules_are_shown_in_the_words_of_the_world():
    world = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), moves=("up", "right"))
    many = infeasible(world, xm.never(world.at(*[(x, y) for x in range(6) for y in range(6) if 4 <= x + y <= 6])))
    assert "(2, 2), ... 16 in all" in many
    graph = pytest.importorskip("networkx").DiGraph([("home", "bank"), ("bank", "shop"), ("home", "shop")])
    assert "visit(at(bank))" in infeasible(
        xm.MDP.from_networkx(graph, "home", "shop"), [xm.visit(xm.at(1)), xm.length() <= 2]
    )


WALLED = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"), walls=[(1, 1)])
ISLAND = xm.GridWorld(5, 5, start=(2, 2), goal=(4, 4), moves=("up", "right"))
ROUNDABOUT = xm.GridWorld(5, 1, start=(1, 0), goal=(2, 0), moves=("left", "right"), horizon=2)
TABLE = xm.MDP(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0)], start=0, terminal=[2])


@pytest.mark.parametrize(
    ("world", "event", "facts"),
    [
        (WALLED, WALLED.at((1, 1)), ["cell (1, 1)", "wall"]),
        (WALLED, WALLED.at((2, 2)), []),
        (WALLED, WALLED.at((3, 3)) & WALLED.doing("up"), [" "]),
        (ISLAND, ISLAND.at((0, 0)), ["no trajectory", "cell (0, 0)"]),
        (ISLAND, ISLAND.at((0, 0), (3, 3)), []),
        (grid(6), grid(6).at((3, 0)), []),
        (ROUNDABOUT, ROUNDABOUT.at((0, 0)), ["cell (0, 0)", "3 actions or more", "horizon is 2"]),
        (TABLE, xm.doing(1), ["action 1"]),
    ],
)
def test_an_event_that_can_never_happen_is_called_so(world, event, facts):
    said = why_never(event, world)
    assert bool(said) == bool(facts)
    assert all(fact in said for fact in facts)
    if facts:
        assert said in infeasible(world, xm.visit(event))


@pytest.mark.parametrize("seed", range(30))
def test_an_event_never_happens_exactly_where_the_list_never_has_it(seed):
    rng = np.random.default_rng([seed, 12])
    rows = [(s, a, int(rng.integers(6)), 1.0) for s in range(5) for a in range(2) if rng.random() < 0.6]
    world = xm.MDP(6, 2, rows, start=0, terminal=[5], horizon=int(rng.integers(1, 5)))
    listed = [positions(s, a) for s, a, _ in enumerate_trajectories(world)]
    for state in range(6):
        passed = {moment for walk in listed for moment in walk if moment[0] == state}
        assert (why_never(xm.at(state), world) == "") == bool(passed)
        assert (why_never(xm.at(state) & xm.doing(1), world) == "") == ((state, 1) in passed)


# --- demonstrations -----------------------------------------------------------------------------------------------

WORLD = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
GOOD = xm.Trajectory([0, 1, 2, 5, 8], [1, 1, 0, 0])
MIDDLE = xm.Trajectory([0, 1, 4, 5, 8], [1, 0, 1, 0])
OTHER = xm.Trajectory([0, 3, 4, 5, 8], [0, 1, 1, 0])
SHORT = xm.Trajectory([0, 1], [1])
RULE = xm.never(WORLD.at((1, 1)))


@pytest.mark.parametrize("check", ["check_demos", "fit"])
def test_all_bad_demonstrations_are_in_one_error_by_reasons(check):
    demos = [GOOD, MIDDLE, SHORT, OTHER, GOOD, SHORT]
    with pytest.raises(xm.InvalidDemonstrationError) as caught:
        xm.check_demos(WORLD, demos, RULE) if check == "check_demos" else xm.XMEN(WORLD, RULE).fit(demos)
    said = str(caught.value)
    assert (caught.value.index, caught.value.position, caught.value.constraint) == (1, 2, "never(at(4))")
    _, together, broken, impossible = said.splitlines()
    assert "4 of 6" in together
    assert all(fact in broken for fact in ("1, 3:", "'never(at((1, 1)))'", "position 2"))
    assert all(fact in impossible for fact in ("2, 5:", "cell (1, 0)", "cell (2, 2)", "position 1"))


def test_one_bad_demonstration_needs_no_list_and_thousands_are_not_all_looked_at():
    with pytest.raises(xm.InvalidDemonstrationError) as caught:
        xm.check_demos(WORLD, [GOOD, MIDDLE], RULE)
    assert "\n" not in str(caught.value)
    with pytest.raises(xm.InvalidDemonstrationError) as caught:
        xm.XMEN(WORLD, RULE).fit([GOOD, *[MIDDLE] * 3000])
    assert "200 or more of 3001" in str(caught.value)
    assert "12 and 188 more:" in str(caught.value)


PROBLEM = (
    grid_problem(3, "up", "right", walls=[[0, 2]])
    + """
[events]
bridge = { cells = [[1, 1], [2, 1]] }
tower = { cells = [[0, 2]] }

[[constraints]]
name = "over the bridge"
rule = "visit(bridge)"
"""
)


@pytest.fixture
def problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text(PROBLEM)
    xm.write_demos([GOOD, MIDDLE, SHORT, SHORT], "demos.csv")
    return tmp_path


def test_the_command_line_speaks_of_events_by_their_names(problem):
    clash = run("sample p.toml --also '~visit(bridge) | visit(tower)'")
    assert clash.exit_code == 1
    said = " ".join(clash.output.split())
    assert "`tower`" in said
    assert "cell (0, 2) is a wall" in said
    assert "at(" not in said
    notes = report("check p.toml", code=1)["notes"]
    assert any("'tower'" in note and "cell (0, 2)" in note for note in notes)
    refused = run("fit p.toml --out m")
    assert refused.exit_code == 1
    assert "2, 3: " in " ".join(refused.output.split())
