"""A small version of `benchmarks/rules_study.py`: the same tasks, fewer of them."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

from strategies import cases

pytestmark = pytest.mark.slow

judge = run_path(str(Path(__file__).parents[2] / "benchmarks" / "rules_tasks.py"))["judge"]


def test_hidden_rules_are_found():
    """With the 95 % that the full study asks for, 3 or more of 10 go wrong in 1 % of all such tests."""
    outcomes = [judge(seed, 1 + seed % 3) for seed in range(cases(10))]
    wrong = [one for one in outcomes if not one.right]
    assert len(wrong) <= 0.2 * len(outcomes), wrong
    assert sum(bool(one.found) for one in outcomes) > len(outcomes) / 2  # most hidden rules are worth finding


def test_no_rules_are_found_where_there_are_none():
    outcomes = [judge(seed, 0) for seed in range(cases(6))]
    assert sum(bool(one.found) for one in outcomes) <= 0.1 * len(outcomes)
