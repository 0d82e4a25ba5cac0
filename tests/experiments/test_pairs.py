"""Forbidden pairs: the search that counts against every engine's world and against paths listed by hand."""

from itertools import combinations

import numpy as np
import pytest

from xmen import distribution
from xmen.experiments import pairs, reproduce
from xmen.experiments.pairs import PairsTask


@pytest.mark.parametrize("seed", range(3))
def test_counted_paths_are_those_that_avoid_every_pair(seed):
    """By hand: each path is the set of times at which it moves up; the exact engine has the same number."""
    task = PairsTask(5, 40, seed)
    cells = [np.cumsum([0, *(5 if t in ups else 1 for t in range(8))]).tolist() for ups in combinations(range(8), 4)]
    kept = [path for path in cells if not any(a in path and b in path for a, b in task.pairs)]
    assert 0 < len(kept) < len(cells)
    assert task.count() == len(kept)
    assert np.exp(distribution(task.world, task.rules, None, engine="exact").log_partition()) == pytest.approx(
        len(kept)
    )


def test_too_many_paths_are_not_counted(monkeypatch):
    monkeypatch.setattr(pairs, "STEPS", 20)
    assert PairsTask(5, 40, 0).count() is None


@pytest.mark.system
def test_engines_agree_and_all_ways_learn(tmp_path):
    record = reproduce("pairs", tmp_path, quick=True)
    engines, learned = record.tables
    found = {row[2]: row for row in engines.rows}
    truth = found["counted"][3][0]
    for engine in ("exact", "reject", "xor"):
        value, error = found[engine][3]
        assert abs(value - truth) <= 4 * error + 1e-9
    gaps = {row[0]: row[2] for row in learned.rows}
    assert gaps["X-MEN cells, CryptoMiniSat"] < 0.05
