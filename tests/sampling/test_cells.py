"""The cell estimator: jackknife, error bars, empty cells, extreme weights; and the bounds on Z."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import t as student_t

from sampling.exact_hash import BatchedRows, LinearWeight, ListedRows, table_space
from xmen.errors import EngineError, InfeasibleError
from xmen.oracles.formula import Bits, Parities
from xmen.sampling import (
    CellEstimate,
    CellPlan,
    Info,
    PartitionBound,
    Space,
    bound_partition,
    choose_parities,
    estimate,
    sample_cells,
)
from xmen.sampling.cells import CellSum, best_grouping, combine, interval_of_mean, read_sums, sum_cell
from xmen.sampling.space import canonical, read_cell

RNG = np.random.default_rng(20221006)
BITS = np.unique(RNG.random((1500, 24)) < 0.5, axis=0)
WEIGHT = LinearWeight(RNG.normal(size=24) * 0.3)
LOG_WEIGHTS = WEIGHT(BITS)
SPACE = Space(BatchedRows(BITS), WEIGHT, float(LOG_WEIGHTS.max()))
LOG_Z = float(np.logaddexp.reduce(LOG_WEIGHTS))
MEANS = np.exp(LOG_WEIGHTS - LOG_Z) @ BITS[:, :6]


TINY = Space(BatchedRows(BITS[:2]), WEIGHT, SPACE.log_max)


def bound_of(log_z: float, points: float = 1.0) -> PartitionBound:
    return PartitionBound(log_z, log_z, log_z, 0.0, 0.001, 10, points, Info())


def first_bits(rows: Bits) -> np.ndarray:
    return rows[:, :6].astype(np.float64)


def some_sums(n: int, d: int, scale: float = 1.0) -> list[CellSum]:
    rng = np.random.default_rng(n)
    return [CellSum(float(rng.normal() * scale), rng.normal(size=d), Info(1, 3, 4)) for _ in range(n)]


def test_the_jackknife_is_the_textbook_one() -> None:
    sums, m, n = some_sums(9, 2), 5, 9
    totals = np.exp([one.log_total for one in sums])
    values = np.array([one.mean for one in sums]) * totals[:, np.newaxis]
    keep = [[j for j in range(n) if j != i] for i in range(n)]

    def check(whole: float, without: list[float], found: tuple[float, float, float]) -> None:
        middle = sum(without) / n
        bias = (n - 1) * (middle - whole)
        std = math.sqrt((n - 1) / n * sum((t - middle) ** 2 for t in without))
        assert found == pytest.approx((whole - bias, std, bias), rel=1e-9)

    learned = combine(sums, m)
    check(
        math.log(totals.mean()) + m * math.log(2),
        [math.log(totals[k].mean()) + m * math.log(2) for k in keep],
        (learned.log_partition, learned.log_partition_std, learned.log_partition_bias),
    )
    for c in range(2):
        check(
            float(values[:, c].sum() / totals.sum()),
            [float(values[k, c].sum() / totals[k].sum()) for k in keep],
            (learned.expectation[c], learned.expectation_std[c], learned.expectation_bias[c]),
        )
    assert learned.info == Info(9, 27, 36)


def test_weights_of_any_size_neither_overflow_nor_vanish() -> None:
    plain = combine(some_sums(12, 3), 4)
    shifted = combine([one._replace(log_total=one.log_total - 5000.0) for one in some_sums(12, 3)], 4)
    assert shifted.log_partition == pytest.approx(plain.log_partition - 5000.0)
    assert shifted.log_partition_std == pytest.approx(plain.log_partition_std)
    np.testing.assert_allclose(shifted.expectation, plain.expectation)


def test_one_dominant_cell_does_not_cancel() -> None:
    """Without the heavy cell the others still give their own estimate; a difference of sums would give noise."""
    sums = some_sums(6, 1)
    sums[3] = sums[3]._replace(log_total=60.0)
    learned = combine(sums, 2)
    others = combine([one for i, one in enumerate(sums) if i != 3], 2)
    raw = others.expectation + others.expectation_bias
    heavy = sums[3].mean
    # Leave-one-out values: the heavy cell's mean five times, the others' ratio once.
    np.testing.assert_allclose(learned.expectation_bias, 5 * ((5 * heavy + raw) / 6 - heavy), rtol=1e-9)


@pytest.mark.slow
def test_error_bars_are_calibrated() -> None:
    """Seeds 0 to 199, not chosen. Power: bars too short by a factor 0.75 would cover 86 %, too long by 1.5, 99.7 %."""
    covered = np.zeros(7)
    for seed in range(200):
        learned = estimate(SPACE, 5, 40, np.random.default_rng(seed), first_bits)
        half = student_t.ppf(0.975, 39)
        covered[:6] += np.abs(learned.expectation - MEANS) <= half * learned.expectation_std
        covered[6] += abs(learned.log_partition - LOG_Z) <= half * learned.log_partition_std
    assert np.all((covered / 200 >= 0.90) & (covered / 200 <= 0.99)), covered


@pytest.mark.slow
def test_the_bias_of_a_logarithm_is_taken_out() -> None:
    """The mean error of log Z over 2,000 estimates is within 3 standard errors of 0; without the correction it is not.

    The plain log of a mean of 6 cells of relative variance v = 0.29 is biased by -v / 12; the jackknife leaves O(v^2).
    """
    corrected, plain = np.empty(2000), np.empty(2000)
    for seed in range(2000):
        learned = estimate(SPACE, 8, 6, np.random.default_rng(seed))
        corrected[seed] = learned.log_partition - LOG_Z
        plain[seed] = corrected[seed] + learned.log_partition_bias
    assert abs(corrected.mean()) < 3 * corrected.std() / math.sqrt(2000)
    assert plain.mean() == pytest.approx(-0.29 / 12, abs=3 * plain.std() / math.sqrt(2000))
    assert plain.mean() < -4 * plain.std() / math.sqrt(2000)


def test_empty_cells_count() -> None:
    """With half of the cells empty the estimates are still right: dropping them would double Z."""
    learned = estimate(SPACE, 11, 4000, np.random.default_rng(0))
    assert 0.3 < np.mean([cell.log_total == -math.inf for cell in read_sums(SPACE, 11, 4000, RNG)]) < 0.7
    assert abs(learned.log_partition - LOG_Z) < 3 * learned.log_partition_std < 0.3


def test_one_cell_that_is_not_empty_has_no_error_bar() -> None:
    sums = [CellSum(-math.inf, np.zeros(2), Info())] * 4 + [CellSum(1.0, np.ones(2), Info())]
    learned = combine(sums, 3)
    assert learned.log_partition == pytest.approx(1.0 - math.log(5) + 3 * math.log(2))
    assert learned.log_partition_std == math.inf
    assert np.all(np.isinf(learned.expectation_std))


def test_without_parities_the_estimate_is_exact() -> None:
    learned = estimate(SPACE, 0, 10, np.random.default_rng(0), first_bits)
    assert isinstance(learned, CellEstimate)
    assert learned.log_partition == pytest.approx(LOG_Z)
    np.testing.assert_allclose(learned.expectation, MEANS)
    assert learned.log_partition_std == 0.0
    assert not learned.expectation_std.any()
    assert learned.info.n_points == len(BITS)


def test_the_order_of_solutions_and_the_kind_of_oracle_do_not_matter() -> None:
    shuffled = BITS[np.random.default_rng(0).permutation(len(BITS))]
    answers = []
    for oracle in (BatchedRows(BITS), ListedRows(BITS), ListedRows(shuffled)):
        space = Space(oracle, WEIGHT, SPACE.log_max)
        learned = estimate(space, 5, 10, np.random.default_rng(1), first_bits)
        bound = bound_partition(space, 5, 0.01, np.random.default_rng(2))
        rows, _ = sample_cells(space, CellPlan.solve(1.2, bound, cell_size=4.0), 30, np.random.default_rng(3))
        answers.append((learned.log_partition, learned.expectation.tolist(), rows.tolist()))
    assert answers[0] == answers[1] == answers[2]


def test_canonical_order_is_that_of_binary_numbers() -> None:
    rows = np.random.default_rng(0).random((50, 70)) < 0.5
    numbers = [int("".join(str(int(x)) for x in row), 2) for row in canonical(rows)]
    assert numbers == sorted(numbers)
    assert {tuple(row) for row in canonical(rows)} == {tuple(row) for row in rows}


def test_reading_stops_at_the_limit() -> None:
    everything = Parities.dense(0, 24, np.random.default_rng(0))
    for oracle in (BatchedRows(BITS), ListedRows(BITS)):
        assert len(read_cell(oracle, everything, 7)) == 7
        assert len(read_cell(oracle, everything)) == len(BITS)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda rng: estimate(SPACE, 23, 5, rng), "5 cells of m = 23 .*fewer"),  # all empty
        (lambda rng: estimate(Space(SPACE.oracle, WEIGHT, SPACE.log_max - 0.1), 0, 2, rng), "upper bound"),
        (lambda rng: sum_cell(SPACE, Parities.dense(3, 24, rng), lambda rows: np.zeros(len(rows))), r"\(k, d\)"),
        (lambda rng: estimate(SPACE, -1, 5, rng), "at least 2 cells"),
        (lambda rng: estimate(SPACE, 3, 1, rng), "at least 2 cells"),
        *(
            (lambda rng, d=delta: CellPlan.solve(d, bound_of(10.0)), "promised")
            for delta in (1, 0.5, -1, math.nan, math.inf)
        ),
        *(
            (lambda rng, f=failure: bound_partition(SPACE, 3, f, rng), "between 0 and 1")
            for failure in (0, 1, -0.1, math.nan)
        ),
        (
            lambda rng: sample_cells(TINY, CellPlan.solve(1.2, bound_of(30.0), cell_size=8.0), 1, rng),
            "plan does not fit",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(ask: Callable[[np.random.Generator], object], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        ask(np.random.default_rng(0))


# Choosing m, and bounds on Z.


@pytest.mark.parametrize("start", [0, 3, 7, 20])
@pytest.mark.parametrize("cell_size", [2.0, 16.0])
def test_parities_are_chosen_for_the_cell_size(start: int, cell_size: float) -> None:
    wanted = math.log2(math.exp(LOG_Z - SPACE.log_max) / cell_size)
    found = [choose_parities(SPACE, cell_size, np.random.default_rng(seed), start=start)[0] for seed in range(8)]
    assert np.all(np.abs(np.array(found) - wanted) <= 1.6)


def test_a_space_smaller_than_a_cell_needs_no_parities() -> None:
    assert choose_parities(SPACE, 1e6, np.random.default_rng(0), start=9)[0] == 0


def test_weights_too_unequal_for_plain_cells_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = LinearWeight(np.array([30.0, *np.zeros(23)]))
    bits = BITS[~BITS[:, 0]]
    heavy = np.zeros((1, 24), dtype=np.bool_)
    heavy[0, 0] = True
    space = Space(BatchedRows(np.vstack([bits, heavy])), weight, 30.0)
    monkeypatch.setattr("xmen.sampling.cells.MAX_POINTS", 300)
    with pytest.raises(EngineError, match="too unequal"):
        choose_parities(space, 4.0, np.random.default_rng(0))


@pytest.mark.parametrize("m", [4, 8, 11])
def test_bounds_on_z_hold_as_often_as_stated(m: int) -> None:
    """300 seeds with failure = 0.1 a side: more than 30 + 3 sd = 46 failures would be a bound that does not hold."""
    missed = np.zeros(2)
    for seed in range(300):
        bound = bound_partition(SPACE, m, 0.1, np.random.default_rng(seed), cell_size=30.0, precision=0.3)
        missed += bound.log_lower > LOG_Z, bound.log_upper < LOG_Z
        assert bound.log_lower <= bound.log_estimate <= bound.log_upper
    assert np.all(missed <= 46)


@pytest.mark.parametrize("failure", [0.1, 0.01, 0.001])
def test_groups_are_as_many_as_the_failure_needs(failure: float) -> None:
    n, s = best_grouping(failure)
    low = 1.0 / (1.0 + s * s)
    majority = sum(math.comb(n, i) * low**i * (1.0 - low) ** (n - i) for i in range((n + 1) // 2, n + 1))
    assert majority == pytest.approx(failure)


def test_bounds_are_solved_from_the_worst_case() -> None:
    """The bound is where the median would be s deviations off: u^2 -+ a u = M."""
    n_groups, deviation = best_grouping(0.01)
    low, high = interval_of_mean(np.full(3 * n_groups, 7.0), n_groups, deviation)
    a = deviation / math.sqrt(3)
    assert high - a * math.sqrt(high) == pytest.approx(7.0)
    assert low + a * math.sqrt(low) == pytest.approx(7.0)


def test_bounds_have_the_precision_asked_for() -> None:
    uniform = Space(BatchedRows(BITS))
    bound = bound_partition(uniform, 5, 0.001, np.random.default_rng(0), cell_size=len(BITS) / 32, precision=0.1)
    assert bound.log_upper - math.log(len(BITS)) == pytest.approx(0.1, abs=0.03)
    assert bound.points_per_weight == pytest.approx(1.0)


def test_all_empty_cells_still_bound_z_from_above() -> None:
    bound = bound_partition(SPACE, 23, 0.01, np.random.default_rng(0))
    assert bound.log_estimate == bound.log_lower == -math.inf
    assert bound.log_upper > LOG_Z
    with pytest.raises(EngineError, match="fewer parities"):
        CellPlan.solve(1.2, bound)


def test_without_parities_z_is_known() -> None:
    bound = bound_partition(SPACE, 0, 0.01, np.random.default_rng(0))
    assert bound.log_lower == bound.log_upper == pytest.approx(LOG_Z)
    empty = Space(BatchedRows(np.zeros((0, 4), dtype=np.bool_)))
    with pytest.raises(InfeasibleError, match="no model"):
        bound_partition(empty, 0, 0.01, np.random.default_rng(0))


# The sampler's plan.


def test_the_numbers_of_the_design() -> None:
    """mu / w_max = 96 and cap = 1.3 mu: eta = 0.12 by Chebyshev, 0.11 by Cantelli; accepted 77 % of the time."""
    eta = 96.0 / (96.0 + (1.3 * 96.0 - 97.0) ** 2)
    assert eta == pytest.approx(0.1105, abs=1e-4)
    plan = CellPlan.solve(1.0 / (1.0 - eta), bound_of(math.log(96.0) + 20 * math.log(2.0)), cell_size=96.0)
    assert (plan.m, plan.eta) == (20, pytest.approx(eta))
    assert plan.cap == pytest.approx(1.3 * 96.0, rel=1e-5)
    assert plan.acceptance == pytest.approx(1 / 1.3, rel=1e-5)


@pytest.mark.parametrize("overhead", [1.0, 100.0, 10_000.0])
def test_the_plan_is_the_cheapest(overhead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmen.sampling.cells.CELL_OVERHEAD", overhead)
    bound = bound_of(25.0, points=1.4)
    best = CellPlan.solve(1.19, bound)
    assert best.delta == pytest.approx(1.19)
    for m in range(best.m - 3, best.m + 4):
        other = CellPlan.solve(1.19, bound, cell_size=math.exp(25.0) / 2**m)
        assert other.m == m
        assert other.cost >= best.cost


def test_a_small_space_is_drawn_from_its_list() -> None:
    bits = BITS[:40]
    space, true = table_space(bits, LOG_WEIGHTS[:40])
    plan = CellPlan.solve(1.5, bound_partition(space, 0, 0.01, np.random.default_rng(0)), cell_size=1000.0)
    assert (plan.m, plan.delta) == (0, 1.0)
    rows, info = sample_cells(space, plan, 5000, np.random.default_rng(0))
    assert info.n_points == 40
    mean = sum(chance * np.array(row) for row, chance in true.items())
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=4 * 0.5 / math.sqrt(5000))
