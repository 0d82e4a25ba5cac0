"""The samplers on real oracles: a solver and a list of the same models give the same results from the same seeds."""

from __future__ import annotations

from dataclasses import dataclass

import joblib
import numpy as np
import pytest

from oracles.formulas import formula_of
from xmen.oracles import Bits, ListedOracle, Oracle, make_oracle
from xmen.sampling import (
    CellPlan,
    Embedding,
    Levels,
    PawsPlan,
    Space,
    UnfinishedError,
    bound_partition,
    choose_parities,
    embed,
    estimate,
    find_level,
    sample_cells,
    sample_paws,
)

N = 11


@dataclass(frozen=True)
class StepWeight:
    """log w = -0.75 (x_0 + x_0 x_1) - 0.01 (number of ones): two literals can test the two thresholds of r = 2."""

    def __call__(self, rows: Bits) -> np.ndarray:
        x = rows[:, :N].astype(np.float64)
        return -0.75 * x[:, 0] - 0.75 * x[:, 0] * x[:, 1] - 0.01 * x.sum(axis=1)


WEIGHT, LOG_MAX = StepWeight(), 0.0
LEVELS = Levels(LOG_MAX, 1, 2)
# Variable 12 is x_0 x_1; clauses over the rest leave some 700 of 2,048 rows.
RANDOM = np.random.default_rng(1)
CLAUSES = [[-12, 1], [-12, 2], [12, -1, -2]] + [
    [
        int(v) * int(s)
        for v, s in zip(RANDOM.choice(np.arange(1, N + 1), 3, False), RANDOM.choice([-1, 1], 3), strict=True)
    ]
    for _ in range(8)
]
FORMULA = formula_of(CLAUSES, 12, tuple(range(1, N + 1)))
BELOW = [1, 12]


@pytest.fixture(scope="module", params=["listed", "cryptominisat"])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return make_oracle(request.param, FORMULA)


@pytest.fixture(scope="module")
def bits() -> Bits:
    return np.array(list(make_oracle("listed", FORMULA).solutions()))


def copies_of(oracle: Oracle, bits: Bits) -> Oracle:
    if oracle.name == "listed":
        return ListedOracle(bits).with_levels((LEVELS.buckets(WEIGHT(bits)), LEVELS.n_levels, LEVELS.bits_per_level))
    return make_oracle("cryptominisat", embed(FORMULA, BELOW, LEVELS.bits_per_level))


def ones(rows: Bits) -> np.ndarray:
    return rows[:, :N].astype(np.float64)


def everything(oracle: Oracle, copies: Oracle) -> list[object]:
    """Estimates, cell samples plain and with copies, and PAWS."""
    rng = np.random.default_rng(5)
    space = Space(oracle, WEIGHT, LOG_MAX)
    embedding = Embedding(space, copies, LEVELS)
    results: list[object] = []
    for one in (space, embedding.residual()):
        m, _ = choose_parities(one, 10.0, rng)
        learned = estimate(one, m, 10, rng, ones)
        bound = bound_partition(one, m, 0.05, rng, cell_size=10.0, precision=0.5)
        rows, _ = sample_cells(one, CellPlan.solve(1.3, bound, cell_size=10.0), 10, rng)
        results += [m, learned.log_partition, learned.expectation.tolist(), bound.log_upper, rows.tolist()]
    plan = PawsPlan.solve(
        2.5, 0.1, log_span=-float(WEIGHT(np.ones((1, N), dtype=np.bool_))[0]), n_hash=N, bits_per_level=1
    )
    assert plan.n_levels == LEVELS.n_levels
    k, _ = find_level(embedding, plan, rng)
    rows, _ = sample_paws(embedding, plan, k, 10, rng)
    return [*results, k, rows.tolist()]


def test_a_list_and_a_solver_agree(bits: Bits) -> None:
    assert 500 < len(bits) < 1000
    listed, solver = (make_oracle(name, FORMULA) for name in ("listed", "cryptominisat"))
    assert everything(listed, copies_of(listed, bits)) == everything(solver, copies_of(solver, bits))


def test_estimates_are_right(oracle: Oracle, bits: Bits) -> None:
    log_weights = WEIGHT(bits)
    log_z = float(np.logaddexp.reduce(log_weights))
    true = np.exp(log_weights - log_z) @ bits
    space = Space(oracle, WEIGHT, LOG_MAX)
    embedding = Embedding(space, copies_of(oracle, bits), LEVELS)
    for one in (space, embedding.residual()):
        learned = estimate(one, 4, 40, np.random.default_rng(0), ones)
        assert abs(learned.log_partition - log_z) < 4 * learned.log_partition_std < 0.2
        assert np.all(np.abs(learned.expectation - true) < 4 * learned.expectation_std)
        assert learned.info.n_queries >= learned.info.n_cells


@pytest.mark.system
def test_processes_agree_on_a_solver() -> None:
    space = Space(make_oracle("cryptominisat", FORMULA), WEIGHT, LOG_MAX)
    found = []
    for n_jobs in (1, 2):
        with joblib.parallel_config(n_jobs=n_jobs):
            found.append(estimate(space, 4, 8, np.random.default_rng(0), ones))
    alone, together = found
    assert alone.log_partition == together.log_partition
    assert alone.expectation.tolist() == together.expectation.tolist()
    assert alone.info == together.info


@pytest.mark.system
def test_a_hopeless_time_limit_ends_in_an_error() -> None:
    space = Space(make_oracle("cryptominisat", FORMULA, time_limit=1e-6), WEIGHT, LOG_MAX)
    with pytest.raises(UnfinishedError, match=r"0 of 2 .* 2 met .* 4 times.*8e-06 s"):
        estimate(space, 3, 2, np.random.default_rng(0))
