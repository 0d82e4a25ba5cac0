"""The guarantees, tested exactly: all hashes of 4 to 6 bits with their probabilities, so nothing here is random.

What is enumerated is the random matrix and right-hand side; what happens in a cell is the samplers' own code.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sampling.exact_hash import (
    BatchedRows,
    Draws,
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
from xmen.oracles.formula import Bits, Parities
from xmen.sampling import (
    CellPlan,
    Embedding,
    Info,
    Levels,
    PartitionBound,
    PawsPlan,
    Space,
    UniformWeight,
    WeightDepth,
    cell_sampler,
    paws,
)
from xmen.sampling.bounds import wrong_majority
from xmen.sampling.cells import sum_cell
from xmen.sampling.paws_plan import largest_mean
from xmen.sampling.space import read_cell

CUBE = all_bits(5)
RANDOM = np.random.default_rng(20220801)
SUPPORTS: dict[str, Bits] = {
    "cube of 4 bits": all_bits(4),
    "cube of 5 bits": CUBE,
    # Cells cut a subspace into halves and quarters and treat the point outside like chance: the hardest mixture.
    "subspace and a point": np.array([*CUBE[:16], CUBE[31]]),
    "two subspaces": np.array([*CUBE[:8], *CUBE[20:24], *CUBE[24:28]]),
    "20 random rows": CUBE[np.sort(RANDOM.choice(32, 20, replace=False))],
    "27 random rows": CUBE[np.sort(RANDOM.choice(32, 27, replace=False))],
}
WEIGHTS = {
    "equal": lambda n: np.zeros(n),
    "within a factor 2": lambda n: -math.log(2) * np.random.default_rng(n).random(n),
    "exponential": lambda n: -np.random.default_rng(n).exponential(1.0, n),
    "geometric": lambda n: -0.3 * np.arange(n),
    "one heavy": lambda n: np.where(np.arange(n) == n // 2, 0.0, -2.0),
}


def known(space: Space) -> PartitionBound:
    """Z itself as its own bound."""
    log_z = float(np.logaddexp.reduce(space.log_weights(space.oracle.bits)))  # type: ignore[attr-defined]
    return PartitionBound(log_z, log_z, log_z, space.log_max, 0.001, 1, 1.0, Info())


def uniform(bits: Bits) -> dict[tuple[bool, ...], float]:
    return {tuple(row): 1.0 / len(bits) for row in bits.tolist()}


def project(found: dict[tuple[bool, ...], float]) -> dict[tuple[bool, ...], float]:
    """The probabilities of models of 4 bits from those of their copies."""
    models: dict[tuple[bool, ...], float] = {}
    for row, chance in found.items():
        models[row[:4]] = models.get(row[:4], 0.0) + chance
    return models


def paws_draws(bits: Bits, pivot: int) -> Draws:
    oracle = BatchedRows(bits)
    return lambda parities: paws.possible_draws(oracle, parities, pivot)[:2]


def cell_draws(space: Space, cap: float) -> Draws:
    return lambda parities: cell_sampler.possible_draws(space, parities, cap)[:2]


# The enumeration itself.


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
    assert paws.keep_probabilities(7, 8).tolist() == [1 / 7] * 7
    assert paws.keep_probabilities(3, 8).tolist() == [1 / 7] * 3
    assert paws.keep_probabilities(8, 8).tolist() == [0.0] * 8
    assert cell_sampler.keep_probabilities(np.array([1.0, 0.5]), 1.5).tolist() == [1 / 1.5, 0.5 / 1.5]
    assert cell_sampler.keep_probabilities(np.array([1.0, 0.6]), 1.5).tolist() == [0.0, 0.0]


# PAWS.


def good_levels(n_points: int, plan: PawsPlan) -> list[int]:
    """All k that the proof calls good, up to 3 beyond the first; the sampler draws no parities for k = 0."""
    first = max(1, math.ceil(math.log2(n_points / largest_mean(plan.pivot, plan.faithful))))
    return list(range(first, first + 3))


@pytest.mark.parametrize("faithful", [True, False], ids=["published", "sharp"])
@pytest.mark.parametrize("name", SUPPORTS)
def test_paws_is_uniform_up_to_its_bound(name: str, faithful: bool) -> None:
    bits = SUPPORTS[name]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, bits.shape[1], faithful=faithful)
    for k in good_levels(len(bits), plan):
        found = output(paws_draws(bits, plan.pivot), k + plan.extra, bits.shape[1])
        assert worst_factor(found, uniform(bits)) <= 1.0 / plan.uniformity <= plan.delta


@pytest.mark.parametrize(("b", "n_levels"), [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("weights", ["within a factor 2", "exponential", "one heavy"])
def test_paws_with_weights_is_within_delta(weights: str, b: int, n_levels: int) -> None:
    bits = all_bits(4)[3:]
    log_weights = np.asarray(WEIGHTS[weights](len(bits)))
    ratio = -math.log1p(-(2.0**-b))
    log_weights *= 0.999 * (n_levels + 1) * ratio / (log_weights.max() - log_weights.min())
    _, true = table_space(bits, log_weights)
    span = float(log_weights.max() - log_weights.min())
    plan = PawsPlan(b, 8, 3, span, 0.01, 4)
    assert plan.n_levels == n_levels
    levels = plan.levels(float(log_weights.max()))
    embedded = copies(bits, levels.depth(log_weights), n_levels, b)
    n = 4 + b * n_levels
    for k in good_levels(len(embedded), plan)[:1]:
        found = output(paws_draws(embedded, plan.pivot), k + plan.extra, n)
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


def test_paws_is_exact_on_weights_that_are_thresholds() -> None:
    """Weights w_max r^-j have copies in proportion: the factor r is not lost, and only the uniformity counts."""
    bits = all_bits(4)
    levels, plan = Levels(0.0, 1, 2), PawsPlan(1, 8, 3, 2 * math.log(2), 0.01, 4)
    log_weights = -levels.log_ratio * (np.arange(16) % 3)
    _, true = table_space(bits, log_weights)
    embedded = copies(bits, levels.depth(log_weights), 2, 1)
    found = project(output(paws_draws(embedded, 8), good_levels(len(embedded), plan)[0] + plan.extra, 6))
    assert worst_factor(found, true) <= 1.0 / plan.uniformity < 1.06


@pytest.mark.parametrize("faithful", [True, False], ids=["published", "sharp"])
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


# PAWS, broken.


def test_paws_with_truncated_cells_breaks_the_bound() -> None:
    bits = SUPPORTS["subspace and a point"]
    oracle, plan = BatchedRows(bits), PawsPlan(1, 8, 3, 0.0, 0.01, 5, faithful=True)

    def truncated(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows = read_cell(oracle, parities, 2)
        return rows, paws.keep_probabilities(len(rows), plan.pivot)

    assert worst_factor(output(truncated, 1 + plan.extra, 5), uniform(bits)) > 1.2 > plan.delta


def test_paws_without_thinning_breaks_the_bound() -> None:
    """Cells are three-wise independent, so thinning matters from the third moment on: P = 16 resolves it, P = 8 not."""
    bits = SUPPORTS["subspace and a point"]
    plan = PawsPlan(1, 16, 4, 0.0, 0.01, 5, faithful=True)
    assert len(bits) <= largest_mean(plan.pivot, faithful=True)  # k = 0 is a good level here
    thinned = paws_draws(bits, plan.pivot)

    def unthinned(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows, kept = thinned(parities)
        return rows, kept / kept.sum() if kept.any() else kept

    assert worst_factor(output(thinned, plan.extra, 5), uniform(bits)) <= plan.delta < 1.01
    assert worst_factor(output(unthinned, plan.extra, 5), uniform(bits)) > 1.03


@pytest.mark.parametrize("density", [0.1, 0.2])
def test_paws_with_sparse_parities_breaks_the_bound(density: float) -> None:
    bits = SUPPORTS["subspace and a point"]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, 5, faithful=True)
    found = output(paws_draws(bits, plan.pivot), 1 + plan.extra, 5, density)
    assert worst_factor(found, uniform(bits)) > 1.1 > plan.delta


def test_paws_with_one_matrix_for_all_samples_breaks_the_bound() -> None:
    """A row whose cell overflows is never produced, however many right-hand sides are drawn."""
    bits = SUPPORTS["27 random rows"]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, 5, faithful=True)
    m = 1 + plan.extra
    draws, true = paws_draws(bits, plan.pivot), uniform(bits)
    broken = sum(
        chance
        for basis, chance in row_spaces(m, 5).items()
        if worst_factor(output(draws, m, 5, only=basis), true) > plan.delta
    )
    assert broken > 0.001


# Cells.


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", SUPPORTS)
def test_cells_are_within_delta(name: str, weights: str) -> None:
    bits = SUPPORTS[name]
    space, true = table_space(bits, np.asarray(WEIGHTS[weights](len(bits))))
    for m in (1, 2, 3):
        for delta in (1.05, 1.25):
            plan = CellPlan.solve(
                delta, known(space), cell_size=math.exp(known(space).log_upper - space.log_max) / 2**m
            )
            assert plan.m == m
            assert plan.delta == pytest.approx(delta)
            found = output(cell_draws(space, plan.cap), m, space.n_hash)
            assert worst_factor(found, true) <= delta


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("name", SUPPORTS)
def test_cells_overflow_as_rarely_as_stated(name: str, m: int) -> None:
    """eta bounds P[W > cap | x in C] for each x, not only what is left of it in ratios; and not by much on the cube."""
    bits = SUPPORTS[name]
    space, _ = table_space(bits, np.asarray(WEIGHTS["within a factor 2"](len(bits))))
    plan = CellPlan.solve(1.25, known(space), cell_size=math.exp(known(space).log_upper - space.log_max) / 2**m)
    overflow = dict.fromkeys(map(tuple, bits.tolist()), 0.0)
    for basis, probability in row_spaces(m, space.n_hash).items():
        for parities in hashes_of(basis, m, space.n_hash):
            _, kept, _ = cell_sampler.possible_draws(space, parities, plan.cap)
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
    residual = Embedding(space, BatchedRows(rows), levels, WeightDepth(levels, space.log_weight)).residual()
    plan = CellPlan.solve(1.25, known(residual), cell_size=math.exp(known(residual).log_upper - residual.log_max) / 8)
    assert known(residual).log_upper == pytest.approx(known(space).log_upper)
    found = project(output(cell_draws(residual, plan.cap), 3, 6))
    assert worst_factor(found, true) <= plan.delta


# Cells, broken.


def broken_space() -> tuple[Space, dict[tuple[bool, ...], float], CellPlan]:
    space, true = table_space(SUPPORTS["subspace and a point"], np.zeros(17))
    return space, true, CellPlan.solve(1.25, known(space), cell_size=17 / 4)


def test_truncated_cells_break_the_bound() -> None:
    space, true, plan = broken_space()

    def truncated(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows = read_cell(space.oracle, parities, 4)
        return rows, cell_sampler.keep_probabilities(np.ones(len(rows)), plan.cap)

    assert worst_factor(output(truncated, plan.m, 5), true) > 1.5 > plan.delta


def test_cells_without_thinning_break_the_bound() -> None:
    bits = SUPPORTS["20 random rows"]
    space, true = table_space(bits, np.asarray(WEIGHTS["exponential"](20)))
    plan = CellPlan.solve(1.25, known(space), cell_size=math.exp(known(space).log_upper - space.log_max) / 8)
    thinned = cell_draws(space, plan.cap)

    def unthinned(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows, kept = thinned(parities)
        return rows, kept / kept.sum() if kept.any() else kept

    assert worst_factor(output(thinned, 3, 5), true) < 1.02
    assert worst_factor(output(unthinned, 3, 5), true) > 1.5 > plan.delta


@pytest.mark.parametrize("density", [0.1, 0.2])
def test_cells_of_sparse_parities_break_the_bound(density: float) -> None:
    space, true, plan = broken_space()
    found = output(cell_draws(space, plan.cap), plan.m, 5, density)
    assert worst_factor(found, true) > 1.28 > plan.delta


def test_cells_of_one_matrix_for_all_samples_break_the_bound() -> None:
    space, true, plan = broken_space()
    draws = cell_draws(space, plan.cap)
    broken = sum(
        chance
        for basis, chance in row_spaces(plan.m, 5).items()
        if worst_factor(output(draws, plan.m, 5, only=basis), true) > plan.delta
    )
    assert broken > 0.05


# The estimator.


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("name", SUPPORTS)
def test_cell_sums_are_unbiased_with_the_stated_variance(name: str, m: int) -> None:
    bits = SUPPORTS[name]
    space, _ = table_space(bits, np.asarray(WEIGHTS["exponential"](len(bits))))
    n = space.n_hash
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
    weighted = np.exp(space.log_weights(bits))[:, np.newaxis] * function(bits)
    np.testing.assert_allclose(mean, weighted.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(square - mean**2, (2.0**m - 1.0) * (weighted**2).sum(axis=0), rtol=1e-9)


# From the enumeration to the samplers that people call.


def chi_square_of(rows: Bits, expected: dict[tuple[bool, ...], float]) -> tuple[float, int]:
    counts = dict.fromkeys(expected, 0)
    for row in map(tuple, rows.tolist()):
        counts[row] += 1
    chi_square = sum((counts[r] - len(rows) * p) ** 2 / (len(rows) * p) for r, p in expected.items())
    return chi_square, len(expected) - 1


def test_the_paws_sampler_has_the_enumerated_distribution() -> None:
    """20,000 draws. Power: rows off by 5 %, half of them up and half down, shift chi-square by 7 deviations."""
    bits = SUPPORTS["27 random rows"]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, 5)
    space = Space(BatchedRows(bits), UniformWeight(), 0.0)
    levels = plan.levels(0.0)
    embedding = Embedding(space, space.oracle, levels, WeightDepth(levels, UniformWeight()))
    rows, info = paws.sample_paws(embedding, plan, 2, 20_000, np.random.default_rng(0))
    chi_square, freedom = chi_square_of(rows, output(paws_draws(bits, plan.pivot), 2 + plan.extra, 5))
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)
    assert info.n_cells - info.n_failures == 20_000


def test_the_cell_sampler_has_the_enumerated_distribution() -> None:
    bits = SUPPORTS["20 random rows"]
    space, _ = table_space(bits, np.asarray(WEIGHTS["exponential"](20)))
    plan = CellPlan.solve(1.25, known(space), cell_size=math.exp(known(space).log_upper - space.log_max) / 4)
    rows, info = cell_sampler.sample_cells(space, plan, 20_000, np.random.default_rng(0))
    found = output(cell_draws(space, plan.cap), 2, 5)
    chi_square, freedom = chi_square_of(rows, found)
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)
    # The weights enter: equal ones would be far off.
    assert chi_square_of(rows, uniform(bits))[0] > 1000
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


def test_every_attempt_has_a_fresh_dense_matrix_of_the_planned_size() -> None:
    """300 random bits per matrix: the same one twice would be no accident."""
    bits = np.random.default_rng(5).random((200, 60)) < 0.5
    oracle = RecordingRows(bits)
    space = Space(oracle, UniformWeight(), 0.0)
    plan = CellPlan.solve(1.2, known(Space(BatchedRows(bits), UniformWeight(), 0.0)), cell_size=6.0)
    _, info = cell_sampler.sample_cells(space, plan, 50, np.random.default_rng(0))
    assert len(set(oracle.matrices)) == len(oracle.matrices) == info.n_cells
    assert oracle.n_parities == {plan.m}
    oracle.matrices.clear()
    oracle.n_parities.clear()
    paws_plan = PawsPlan(1, 8, 3, 0.0, 0.01, 60)
    levels = paws_plan.levels(0.0)
    embedding = Embedding(space, oracle, levels, WeightDepth(levels, UniformWeight()))
    _, info = paws.sample_paws(embedding, paws_plan, 5, 50, np.random.default_rng(0))
    assert len(set(oracle.matrices)) == len(oracle.matrices) == info.n_cells
    assert oracle.n_parities == {5 + paws_plan.extra}
