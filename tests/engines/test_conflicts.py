"""The search for a smallest conflict: by halving, with few questions, and with words on the way."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xmen as xm
from strategies import cases
from xmen.engines import diagnosis
from xmen.engines.diagnosis import smallest_conflict
from xmen.progress import listening


def test_conflicts_are_minimal():
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
    assert lines[0] == "rules contradict each other: which of 160? Question 1, about 80"
    assert len(lines) == len(products) - 2  # the whole, and the world alone
