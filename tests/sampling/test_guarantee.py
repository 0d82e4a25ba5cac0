"""The guarantees, tested exactly: all hashes of 4 to 6 bits with their probabilities, so nothing here is random.

What is enumerated is the random matrix and right-hand side; what happens in a cell is the samplers' own code. Here are
the enumeration itself, hash cells, PAWS, how both break when something in them is broken, and what people call.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sampling.exact_hash import (
    BatchedRows,
    ListedRows,
    all_bits,
    copies,
    hashes_of,
    output,
    row_spaces,
    subspace_counts,
    table_space,
    worst_factor,
)
from sampling.supports import (
    FIRST,
    SUPPORTS,
    WEIGHTS,
    Sampler,
    cell_draws,
    chi_square_of,
    known,
    paws_draws,
    plan_of,
    project,
    uniform,
    weighted,
)
from xmen.oracles.formula import Bits, Parities
from xmen.sampling import CellPlan, Embedding, Levels, PawsPlan, Space, paws
from xmen.sampling import cells as cell_sampler
from xmen.sampling.cells import sum_cell
from xmen.sampling.paws import largest_mean
from xmen.sampling.space import read_cell, wrong_majority

supports = pytest.mark.parametrize("name", SUPPORTS)
published_or_sharp = pytest.mark.parametrize("faithful", [True, False], ids=["published", "sharp"])


def test_all_subspaces_are_listed() -> None:
    assert subspace_counts(4) == {0: 1, 1: 15, 2: 35, 3: 15, 4: 1}
    assert len(row_spaces(5, 5)) == 374


@pytest.mark.parametrize(("m", "n"), [(1, 4), (3, 4), (4, 5), (6, 4)])
def test_row_spaces_have_their_multiplicities(m: int, n: int) -> None:
    for basis, probability in row_spaces(m, n).items():
        matrices = math.prod(2**m - 2**i for i in range(len(basis)))  # m x d of full rank d, times the basis
        assert probability == pytest.approx(matrices / 2 ** (m * n), rel=1e-12)


def test_the_samplers_matrices_are_uniform() -> None:
    """2 x 3 systems have 256 values. Power: bits set with probability 0.49 shift chi-square by 7 deviations."""
    rng = np.random.default_rng(0)
    codes = np.zeros(256)
    n_draws = 50_000
    for _ in range(n_draws):
        one = Parities.dense(2, 3, rng)
        codes[int("".join(str(int(x)) for x in [*one.matrix.ravel(), *one.rhs]), 2)] += 1
    chi_square = float(((codes - n_draws / 256) ** 2 / (n_draws / 256)).sum())
    assert abs(chi_square - 255) < 4 * math.sqrt(2 * 255)


def test_the_rules_inside_a_cell() -> None:
    def kept(weights: list[float], cap: float) -> list[float]:
        space, _ = table_space(all_bits(3)[: len(weights)], np.log(weights))
        return cell_draws(space, cap)(Parities.dense(0, 3, np.random.default_rng(0)))[1].tolist()

    assert kept([1.0] * 7, 7.0) == [1 / 7] * 7
    assert kept([1.0] * 3, 7.0) == [1 / 7] * 3
    assert kept([1.0] * 8, 7.0) == [0.0] * 8
    assert kept([1.0, 0.5], 1.5) == pytest.approx([1 / 1.5, 0.5 / 1.5])
    assert kept([1.0, 0.6], 1.5) == [0.0, 0.0]


# Hash cells.


@pytest.mark.parametrize("weights", WEIGHTS)
@supports
def test_cells_are_within_delta(name: str, weights: str) -> None:
    space, true = weighted(name, weights)
    for m in (1, 2, 3):
        for delta in (1.05, 1.25):
            plan = plan_of(space, m, delta)
            assert plan.m == m
            assert plan.delta == pytest.approx(delta)
            assert worst_factor(output(cell_draws(space, plan.cap), m, space.n_hash), true) <= delta


@pytest.mark.parametrize("m", [1, 2, 3])
@supports
def test_cells_overflow_as_rarely_as_stated(name: str, m: int) -> None:
    """eta bounds P[W > cap | x in C] for each x, not only what is left of it in ratios; and not by much on the cube."""
    space, true = weighted(name, "within a factor 2")
    plan = plan_of(space, m)
    overflow = dict.fromkeys(true, 0.0)
    for basis, probability in row_spaces(m, space.n_hash).items():
        for parities in hashes_of(basis, m, space.n_hash):
            _, kept, _ = cell_sampler.possible_draws(space, parities, plan.cap, FIRST)
            for row in read_cell(space.oracle, parities).tolist():
                overflow[tuple(row)] += probability * (not kept.any())
    assert max(overflow.values()) <= plan.eta == pytest.approx(0.2)
    if name == "cube of 5 bits" and m == 2:
        assert max(overflow.values()) > 0.4 * plan.eta


@pytest.mark.parametrize("weights", ["exponential", "geometric", "one heavy"])
def test_cells_of_residual_weights_are_within_delta(weights: str) -> None:
    bits = all_bits(4)[2:]
    log_weights = np.asarray(WEIGHTS[weights](len(bits)))
    space, true = table_space(bits, log_weights)
    levels = Levels(space.log_max, 1, 2)  # the geometric weights go far below the last threshold
    rows = copies(bits, levels.depth(log_weights), 2, 1)
    residual = Embedding(space, BatchedRows(rows), levels).residual()
    plan = plan_of(residual, 3)
    assert known(residual).log_upper == pytest.approx(known(space).log_upper)
    found = project(output(cell_draws(residual, plan.cap), 3, 6))
    assert worst_factor(found, true) <= plan.delta


@pytest.mark.parametrize("m", [1, 2, 4])
@supports
def test_cell_sums_are_unbiased_with_the_stated_variance(name: str, m: int) -> None:
    space, _ = weighted(name, "exponential")
    bits, n = SUPPORTS[name], space.n_hash
    values = np.random.default_rng(1).normal(size=2**n)

    def function(rows: Bits) -> np.ndarray:
        index = rows @ (2 ** np.arange(n)[::-1])
        return np.stack([np.ones(len(rows)), values[index]], axis=1)

    mean, square = np.zeros(2), np.zeros(2)
    for basis, probability in row_spaces(m, n).items():
        for parities in hashes_of(basis, m, n):
            one = sum_cell(space, parities, function)
            if one.log_total > -math.inf:
                estimate = 2.0**m * math.exp(one.log_total) * one.mean
                mean += probability * 2.0**-m * estimate
                square += probability * 2.0**-m * estimate**2
    summands = np.exp(space.log_weights(bits))[:, np.newaxis] * function(bits)
    np.testing.assert_allclose(mean, summands.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(square - mean**2, (2.0**m - 1.0) * (summands**2).sum(axis=0), rtol=1e-9)


# PAWS.


def good_levels(size: float, plan: PawsPlan) -> list[int]:
    """All k that the proof calls good, up to 3 beyond the first; the sampler draws no parities for k = 0."""
    first = max(1, math.ceil(math.log2(size / largest_mean(plan.pivot, plan.faithful))))
    return list(range(first, first + 3))


def spread(weights: str, log_span: float) -> tuple[Bits, np.ndarray]:
    """13 rows of 4 bits, and log-weights stretched to this span."""
    bits = all_bits(4)[3:]
    log_weights = np.asarray(WEIGHTS[weights](len(bits)))
    return bits, log_weights * log_span / (log_weights.max() - log_weights.min())


@published_or_sharp
@supports
def test_paws_is_uniform_up_to_its_bound(name: str, faithful: bool) -> None:
    bits = SUPPORTS[name]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, bits.shape[1], faithful=faithful)
    for k in good_levels(len(bits), plan):
        found = output(paws_draws(bits, plan.pivot), k + plan.extra, bits.shape[1])
        assert worst_factor(found, uniform(bits)) <= 1.0 / plan.uniformity <= plan.delta


@pytest.mark.parametrize(("b", "n_levels"), [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("weights", ["within a factor 2", "exponential", "one heavy"])
def test_paws_with_weights_is_within_delta(weights: str, b: int, n_levels: int) -> None:
    bits, log_weights = spread(weights, -0.999 * (n_levels + 1) * math.log1p(-(2.0**-b)))
    _, true = table_space(bits, log_weights)
    plan = PawsPlan(b, 8, 3, float(log_weights.max() - log_weights.min()), 0.01, 4)
    assert plan.n_levels == n_levels
    levels = plan.levels(float(log_weights.max()))
    embedded = copies(bits, levels.depth(log_weights), n_levels, b)
    k = good_levels(len(embedded), plan)[0]
    found = output(paws_draws(embedded, plan.pivot), k + plan.extra, 4 + b * n_levels)
    assert worst_factor(found, uniform(embedded)) <= 1.0 / plan.uniformity
    assert worst_factor(project(found), true) <= plan.delta


def test_paws_with_rounded_weights_is_within_delta() -> None:
    """The oracle tests weights rounded to multiples of 0.25: up to 0.125 nats off, which count twice."""
    bits = all_bits(4)[3:]
    log_weights = np.linspace(-1.3, 0.0, len(bits))
    _, true = table_space(bits, log_weights)
    plan = PawsPlan(1, 8, 3, 1.3, 0.01, 4, rounding=0.125)
    assert plan.delta == pytest.approx(2.0 * math.exp(0.25) / plan.uniformity)
    depth = plan.levels(0.0).depth(np.round(log_weights * 4) / 4)
    assert depth.tolist() != plan.levels(0.0).depth(log_weights).tolist()
    embedded = copies(bits, depth, plan.n_levels, 1)
    for k in good_levels(len(embedded), plan):
        found = output(paws_draws(embedded, plan.pivot), k + plan.extra, 4 + plan.n_levels)
        assert worst_factor(project(found), true) <= plan.delta


@pytest.mark.parametrize("rounding", [0.0, 0.125])
@pytest.mark.parametrize("weights", ["within a factor 2", "exponential", "one heavy"])
def test_thinned_copies_have_exact_weights(weights: str, rounding: float) -> None:
    """One threshold and weights over a factor 3: neither the factor 2 between copies nor rounding counts in delta.

    Without thinning the same cells break that bound.
    """
    bits, log_weights = spread(weights, math.log(3.0))
    space, true = table_space(bits, log_weights)
    span = float(log_weights.max() - log_weights.min())
    plan = PawsPlan(1, 8, 3, span, 0.01, 4, rounding=rounding, thinned=True)
    assert plan.delta == 1.0 / plan.uniformity < 1.1
    levels = plan.levels(float(log_weights.max()))
    tested = np.round(log_weights / (2 * rounding)) * 2 * rounding if rounding else log_weights
    embedded = copies(bits, levels.depth(tested), plan.n_levels, 1)
    depth = TableDepth(bits, levels.depth(tested))
    residual = Embedding(space, BatchedRows(embedded), levels, depth, rounding).residual()
    size = float(np.exp(residual.log_weights(embedded) - residual.log_max).sum())
    first, second, _ = good_levels(size, plan)
    for k in (first, second):
        thinned = output(cell_draws(residual, plan.pivot - 1.0), k + plan.extra, 4 + plan.n_levels)
        assert worst_factor(project(thinned), true) <= plan.delta
    plain = output(paws_draws(embedded, plan.pivot), first + plan.extra, 4 + plan.n_levels)
    assert worst_factor(project(plain), true) > plan.delta


class TableDepth:
    """The depth of each of these rows."""

    def __init__(self, bits: Bits, depth: np.ndarray) -> None:
        self.table = dict(zip(map(tuple, bits.tolist()), depth.tolist(), strict=True))

    def __call__(self, rows: Bits) -> np.ndarray:
        return np.array([self.table[tuple(row)] for row in rows.tolist()], dtype=np.int64)


def test_paws_is_exact_on_weights_that_are_thresholds() -> None:
    """Weights w_max r^-j have copies in proportion: the factor r is not lost, and only the uniformity counts."""
    bits = all_bits(4)
    levels, plan = Levels(0.0, 1, 2), PawsPlan(1, 8, 3, 2 * math.log(2), 0.01, 4)
    log_weights = -levels.log_ratio * (np.arange(16) % 3)
    _, true = table_space(bits, log_weights)
    embedded = copies(bits, levels.depth(log_weights), 2, 1)
    found = project(output(paws_draws(embedded, 8), good_levels(len(embedded), plan)[0] + plan.extra, 6))
    assert worst_factor(found, true) <= 1.0 / plan.uniformity < 1.06


@published_or_sharp
@pytest.mark.parametrize("name", ["cube of 5 bits", "27 random rows", "subspace and a point"])
def test_bad_levels_pass_as_rarely_as_stated(name: str, faithful: bool) -> None:
    """P[fewer than P points] of one cell is known exactly, so the failure of the median of T cells is too."""
    bits = SUPPORTS[name]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, bits.shape[1], faithful=faithful)
    oracle, n = BatchedRows(bits), bits.shape[1]
    total, n_bad = 0.0, 0
    for k in range(n + 1):
        if len(bits) / 2**k < largest_mean(plan.pivot, faithful):
            break
        nonempty = small = 0.0
        for basis, probability in row_spaces(k, n).items():
            for parities in hashes_of(basis, k, n):
                nonempty += probability * 2.0**-k
                small += probability * 2.0**-k * (len(read_cell(oracle, parities, plan.pivot)) < plan.pivot)
        vote = small + 1.0 - nonempty  # contradictory parities make an empty cell
        assert vote <= 0.25
        total += wrong_majority(vote, plan.n_repeats)
        n_bad += 1
    assert n_bad >= 1
    assert total <= plan.failure


# What is broken breaks the bound, by a factor that is written here.

BROKEN_CELLS = Sampler.of_cells("subspace and a point", "equal", 2)
BROKEN_PAWS = Sampler.of_paws("subspace and a point", 1)
both = ["cells", "PAWS"]


@pytest.mark.parametrize(("sampler", "rows", "factor"), [(BROKEN_CELLS, 4, 1.5), (BROKEN_PAWS, 2, 1.2)], ids=both)
def test_truncated_cells_break_the_bound(sampler: Sampler, rows: int, factor: float) -> None:
    def truncated(parities: Parities) -> tuple[Bits, np.ndarray]:
        read = read_cell(sampler.space.oracle, parities, rows)
        return read, np.full(len(read), 1.0 / sampler.cap)

    assert sampler.worst(truncated) > factor > sampler.delta


@pytest.mark.parametrize(
    ("sampler", "thinned", "factor"),
    [
        (Sampler.of_cells("20 random rows", "exponential", 3), 1.02, 1.5),
        # Cells are three-wise independent, so thinning matters from the third moment on: P = 16 resolves it, P = 8 not.
        (Sampler.of_paws("subspace and a point", 0, pivot=16, extra=4), 1.01, 1.03),
    ],
    ids=both,
)
def test_cells_without_thinning_break_the_bound(sampler: Sampler, thinned: float, factor: float) -> None:
    def unthinned(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows, kept = cell_draws(sampler.space, sampler.cap)(parities)
        return rows, kept / kept.sum() if kept.any() else kept

    assert sampler.worst() < min(thinned, sampler.delta)
    assert sampler.worst(unthinned) > factor > sampler.delta


@pytest.mark.parametrize("density", [0.1, 0.2])
@pytest.mark.parametrize(("sampler", "factor"), [(BROKEN_CELLS, 1.28), (BROKEN_PAWS, 1.1)], ids=both)
def test_cells_of_sparse_parities_break_the_bound(sampler: Sampler, factor: float, density: float) -> None:
    assert sampler.worst(density=density) > factor > sampler.delta


@pytest.mark.parametrize(
    ("sampler", "share"), [(BROKEN_CELLS, 0.05), (Sampler.of_paws("27 random rows", 1), 0.001)], ids=both
)
def test_cells_of_one_matrix_for_all_samples_break_the_bound(sampler: Sampler, share: float) -> None:
    """A row whose cell overflows is never produced, however many right-hand sides are drawn."""
    matrices = row_spaces(sampler.m, 5).items()
    assert sum(chance for basis, chance in matrices if sampler.worst(only=basis) > sampler.delta) > share


# What people call.


def unembedded(space: Space, plan: PawsPlan) -> Embedding:
    """Equal weights take no copies."""
    return Embedding(space, space.oracle, plan.levels(0.0))


@pytest.mark.slow
def test_the_paws_sampler_has_the_enumerated_distribution() -> None:
    """20,000 draws. Power: rows off by 5 %, half of them up and half down, shift chi-square by 7 deviations."""
    bits = SUPPORTS["27 random rows"]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, 5)
    embedding = unembedded(Space(BatchedRows(bits)), plan)
    rows, info = paws.sample_paws(embedding, plan, 2, 20_000, np.random.default_rng(0))
    chi_square, freedom = chi_square_of(rows, output(paws_draws(bits, plan.pivot), 2 + plan.extra, 5))
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)
    assert info.n_cells - info.n_failures == 20_000


@pytest.mark.slow
def test_the_cell_sampler_has_the_enumerated_distribution() -> None:
    space, _ = weighted("20 random rows", "exponential")
    plan = plan_of(space, 2)
    rows, info = cell_sampler.sample_cells(space, plan, 20_000, np.random.default_rng(0))
    found = output(cell_draws(space, plan.cap), 2, 5)
    chi_square, freedom = chi_square_of(rows, found)
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)
    # The weights enter: equal ones would be far off.
    assert chi_square_of(rows, uniform(SUPPORTS["20 random rows"]))[0] > 1000
    assert (info.n_cells - info.n_failures) / info.n_cells == pytest.approx(plan.acceptance, rel=0.1)


class RecordingRows(ListedRows):
    """Remembers the matrices it was asked about."""

    def __init__(self, bits: Bits) -> None:
        super().__init__(bits)
        self.matrices: list[bytes] = []
        self.n_parities: set[int] = set()

    def solutions(self, parities: Parities | None = None):  # type: ignore[no-untyped-def]
        if parities is not None:
            self.n_parities.add(parities.m)
            self.matrices.append(np.column_stack([parities.matrix, parities.rhs]).tobytes())
            density = parities.matrix.mean()
            assert 0.25 < density < 0.75
        return super().solutions(parities)


@pytest.mark.parametrize("sampler", both)
def test_every_attempt_has_a_fresh_dense_matrix_of_the_planned_size(sampler: str) -> None:
    """300 random bits per matrix: the same one twice would be no accident."""
    bits, rng = np.random.default_rng(5).random((200, 60)) < 0.5, np.random.default_rng(0)
    oracle = RecordingRows(bits)
    if sampler == "cells":
        plan = CellPlan.solve(1.2, known(Space(BatchedRows(bits))), cell_size=6.0)
        m, (_, info) = plan.m, cell_sampler.sample_cells(Space(oracle), plan, 50, rng)
    else:
        paws_plan = PawsPlan(1, 8, 3, 0.0, 0.01, 60)
        m = 5 + paws_plan.extra
        _, info = paws.sample_paws(unembedded(Space(oracle), paws_plan), paws_plan, 5, 50, rng)
    assert len(set(oracle.matrices)) == len(oracle.matrices) == info.n_cells
    assert oracle.n_parities == {m}
