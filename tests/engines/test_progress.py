"""Long sampling says how far it is, and says within its time limit that it is hopeless."""

from __future__ import annotations

import itertools

import pytest

import xmen as xm
from cli.commands import run, write_problem
from xmen.cli import _output
from xmen.encoding.trajectories import Encoding
from xmen.engines import choose, reject
from xmen.progress import listening, tell


@pytest.fixture
def grid() -> xm.GridWorld:
    return xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=14)


def counters(grid: xm.GridWorld) -> list[xm.Constraint]:
    return [xm.count(xm.at(s)) <= 1 for s in range(grid.n_states)]


@pytest.mark.parametrize(
    ("settings", "n", "facts"),
    [
        ({"engine": "reject", "max_nodes": 50}, 20, ("rejection: ", " of 2,000 ")),
        ({"engine": "xor", "oracle": "listed", "cell_size": 4}, 5, (" of 5 ",)),
    ],
)
def test_sampling_says_how_far_it_is(grid, settings, n, facts):
    lines: list[str] = []
    with listening(lines.append):
        xm.distribution(grid, xm.no_revisit(), seed=0, **settings).sample(n)
    assert any(all(fact in line for fact in facts) for line in lines)
    tell("nobody listens any more")
    assert lines[-1] != "nobody listens any more"


def test_hopeless_rejection_ends_within_its_time_limit(grid, monkeypatch):
    """A clock that runs a second per look: a large batch is left in the middle, not at its end."""
    clock = itertools.count()
    monkeypatch.setattr(reject.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(reject, "FIRST_DRAWS", 10)
    impossible = xm.monitor(0, lambda state, row: state + 1, lambda state: state > 99, (xm.anytime,)).named(
        "nothing at all"
    )
    d = xm.distribution(grid, impossible, engine="reject", max_nodes=20, time_limit=20.0, seed=0)
    with pytest.raises(xm.EngineError, match=r"hopeless .*time_limit = 20 ") as caught:
        d.sample(1)
    n_drawn = int(str(caught.value).split("none of ")[1].split(" ")[0])
    assert 10 < n_drawn <= 210
    assert n_drawn not in (10 * (2**k - 1) for k in range(10))  # where batches end


def test_the_command_line_shows_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_problem(tmp_path)
    monkeypatch.setattr(_output, "PLAIN_EVERY", 0.0)
    result = run("sample p.toml -n 3 --engine reject")
    assert result.exit_code == 0
    assert "sampling 3 trajectories: rejection: " in result.stderr


def test_many_counters_are_few_clauses(grid):
    """A counter of one cell writes what happens in that cell, not what happens in all others."""
    alone, all_of_them = (Encoding(grid, rule).formula for rule in (None, xm.no_revisit() & counters(grid)[0]))
    one = len(Encoding(grid, counters(grid)[5]).formula.clauses) - len(alone.clauses)
    several = counters(grid)[5] & counters(grid)[6] & counters(grid)[9] & counters(grid)[10]
    assert len(Encoding(grid, several).formula.clauses) - len(alone.clauses) < 5 * one
    assert one < len(alone.clauses) / 30
    assert len(all_of_them.clauses) > len(alone.clauses)


def test_auto_says_that_no_engine_answers(monkeypatch):
    grid = xm.GridWorld(12, 12, start=(0, 0), goal=(11, 11), horizon=80)
    monkeypatch.setenv("XMEN_READINGS", "100000")
    with pytest.raises(xm.ProductTooLargeError) as caught:
        xm.distribution(grid, counters(grid), max_nodes=3_000, seed=0)
    facts = ("Exact: ", "max_nodes = 3,000", "Reject: ", "Xor: ", "144 machines", "XMEN_READINGS=")
    assert all(fact in str(caught.value) for fact in facts)


def test_auto_takes_slow_rejection_where_nothing_else_fits(monkeypatch):
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=14)
    monkeypatch.setenv("XMEN_READINGS", "10")
    monkeypatch.setattr(choose, "LEAST_ACCEPTANCE", 0.9)
    d = xm.distribution(grid, counters(grid), max_nodes=60, oracle="cryptominisat", seed=0)
    assert d.engine == "reject"
    assert "Xor: " in d.reason
    assert "16 machines" in d.reason
    assert all(len(set(tau.states)) == len(tau.states) for tau in d.sample(20))
