"""Figure 1: its numbers against counting by hand, and the claim that the third rule needs memory."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

import xmen as xm
from xmen.experiments import figure1, reproduce
from xmen.experiments.figure1 import (
    CELLS,
    CLOSED,
    DEMONSTRATION,
    FREE,
    GRID,
    HEIGHT,
    HORIZON,
    MIDDLE,
    REWARD,
    RULES,
    SHADE,
    SHADED,
    WIDTH,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return reproduce("figure1", tmp_path_factory.mktemp("figure1"), quick=True)


def count(forbidden=(), share=None):
    """Trajectories counted by recursion over (cell, moves left, visited, shaded), without the library."""

    @cache
    def ahead(x, y, left, visited, shaded):
        if (x, y) in forbidden or not (0 <= x < WIDTH and 0 <= y < HEIGHT):
            return 0
        visited, shaded = visited + 1, shaded + ((x, y) in SHADE)
        if (x, y) == (MIDDLE, HEIGHT - 1):
            return int(share is None or Fraction(shaded, visited) >= share)
        if left == 0:
            return 0
        return sum(ahead(x + dx, y + dy, left - 1, visited, shaded) for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0)))

    return ahead(MIDDLE, 0, HORIZON, 0, 0)


def modes():
    return {name: xm.distribution(GRID, rule, REWARD).mode() for name, rule in RULES.items()}


def test_table(record):
    (table,) = record.tables
    closed = frozenset(CLOSED)
    assert [row[1] for row in table.rows] == [count(), count(closed), count(closed, Fraction(1, 2))]
    keeps, right, rewards = ([row[column] for row in table.rows] for column in (2, 3, 4))
    assert keeps[0] == 1.0
    assert keeps[0] > keeps[1] > keeps[2] > 0
    assert rewards[0] > rewards[1] > rewards[2]
    assert right[1] == pytest.approx(0.5, abs=1e-12)  # the map is a mirror image of itself
    assert right[2] == pytest.approx(1.0, abs=1e-12)
    assert [row[6] for row in table.rows] == ["0 of 9", "5 of 13", "7 of 13"]


def test_the_best_trajectories_are_those_of_the_papers_panels():
    cells = {name: [GRID.cell(state) for state in mode.states] for name, mode in modes().items()}
    assert cells[FREE] == [(MIDDLE, y) for y in range(HEIGHT)]
    first, second, third = xm.distribution(GRID, RULES[CELLS], REWARD).best(3)
    d = xm.distribution(GRID, RULES[CELLS], REWARD)
    assert d.log_prob(first) == pytest.approx(d.log_prob(second), abs=1e-9)
    assert d.log_prob(third) < d.log_prob(second) - 1e-3
    mirrored = [(2 * MIDDLE - x, y) for x, y in (GRID.cell(state) for state in first.states)]
    assert mirrored == [GRID.cell(state) for state in second.states]
    assert cells[SHADED] == DEMONSTRATION


def test_forbidding_cells_is_not_enough():
    d = xm.distribution(GRID, RULES[SHADED], REWARD)
    cells, n_left, share = figure1.strictest_cell_rule(d)
    assert all(cells.log_prob(tau) > -float("inf") for tau in d.sample(200, seed=0))
    assert n_left > count(frozenset(CLOSED), Fraction(1, 2))
    assert share < 0.5
    assert not RULES[SHADED].accepts(cells.mode())


def test_exchanged_tails_break_the_rule():
    rule = RULES[SHADED]
    one, two, step, mixed = figure1.swapped_tails(xm.distribution(GRID, rule, REWARD), seed=0)
    assert one.states[step] == two.states[step]
    assert rule.accepts(one)
    assert rule.accepts(two)
    assert GRID.problem(mixed) is None
    assert not rule.accepts(mixed)


@pytest.mark.system
def test_same_seed_same_files(record, tmp_path):
    again = reproduce("figure1", tmp_path, quick=True)
    assert [picture.file for picture in again.pictures] == ["figure1.png"]
    assert (again.tables, again.paragraphs, again.settings) == (record.tables, record.paragraphs, record.settings)
    other = reproduce("figure1", tmp_path / "other", quick=True)
    assert other.tables == again.tables
    assert (tmp_path / "figure1.png").read_bytes() == (tmp_path / "other" / "figure1.png").read_bytes()
