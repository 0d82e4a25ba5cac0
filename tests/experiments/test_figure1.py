"""Figure 1: its numbers against counting by hand, and the claim that the third rule needs memory."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

import xmen as xm
from xmen.experiments import reproduce
from xmen.experiments.figure1 import CLOSED, SHADE, SIZE, reward_of, strictest_cell_rule, swapped_tails

GRID = xm.GridWorld(SIZE, SIZE, start=(0, 0), goal=(SIZE - 1, SIZE - 1), moves=("up", "right", "up-right"))
HALF = xm.share(GRID.at(*SHADE)) >= 0.5


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return reproduce("figure1", tmp_path_factory.mktemp("figure1"), quick=True)


def count(forbidden=(), share=None):
    """Trajectories counted by recursion over (cell, visited, shaded), without the library."""

    @cache
    def ways(x, y, visited, shaded):
        if (x, y) in forbidden or max(x, y) >= SIZE:
            return 0
        visited, shaded = visited + 1, shaded + ((x, y) in SHADE)
        if (x, y) == (SIZE - 1, SIZE - 1):
            return int(share is None or Fraction(shaded, visited) >= share)
        if share is None:
            visited = shaded = 0
        return sum(ways(x + dx, y + dy, visited, shaded) for dx, dy in ((0, 1), (1, 0), (1, 1)))

    return ways(0, 0, 0, 0)


def test_table(record):
    (table,) = record.tables
    assert [row[1] for row in table.rows] == [count(), count(frozenset(CLOSED)), count(share=Fraction(1, 2))]
    keeps, rewards = [row[2] for row in table.rows], [row[3] for row in table.rows]
    assert keeps[0] == 1.0
    assert all(0 < keep < 0.1 for keep in keeps[1:])
    assert rewards[0] > rewards[1] > rewards[2]
    assert table.rows[2][5] == "8 of 16"


def test_most_likely_trajectories_keep_their_rules():
    reward = reward_of(GRID)
    free = xm.distribution(GRID, None, reward).mode()
    around = xm.distribution(GRID, xm.never(GRID.at(*CLOSED)), reward).mode()
    shaded = xm.distribution(GRID, HALF, reward).mode()
    assert len({free, around, shaded}) == 3
    assert not HALF.accepts(free)
    assert not HALF.accepts(around)
    assert HALF.accepts(shaded)


def test_forbidding_cells_is_not_enough():
    reward = reward_of(GRID)
    d = xm.distribution(GRID, HALF, reward)
    cells, n_left, share = strictest_cell_rule(d, reward)
    assert all(cells.log_prob(tau) > -float("inf") for tau in d.sample(200, seed=0))
    assert n_left > count(share=Fraction(1, 2))
    assert share < 0.1
    assert not HALF.accepts(cells.mode())


def test_exchanged_tails_break_the_rule():
    one, two, step, mixed = swapped_tails(HALF, xm.distribution(GRID, HALF, reward_of(GRID)), seed=0)
    assert one.states[step] == two.states[step]
    assert HALF.accepts(one)
    assert HALF.accepts(two)
    assert GRID.problem(mixed) is None
    assert not HALF.accepts(mixed)


def test_same_seed_same_files(record, tmp_path):
    again = reproduce("figure1", tmp_path, quick=True)
    assert [picture.file for picture in again.pictures] == ["figure1.png"]
    assert (again.tables, again.paragraphs, again.settings) == (record.tables, record.paragraphs, record.settings)
    other = reproduce("figure1", tmp_path / "other", quick=True)
    assert other.tables == again.tables
    assert (tmp_path / "figure1.png").read_bytes() == (tmp_path / "other" / "figure1.png").read_bytes()
