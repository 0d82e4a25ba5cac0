"""The guarantee of PAWS by enumerating all hashes, and how a broken PAWS breaks it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sampling.exact_hash import (
    BatchedRows,
    all_bits,
    copies,
    hashes_of,
    output,
    row_spaces,
    table_space,
    worst_factor,
)
from sampling.supports import SUPPORTS, WEIGHTS, cell_draws, paws_draws, project, uniform
from xmen.oracles.formula import Bits, Parities
from xmen.sampling import Embedding, Levels, PawsPlan
from xmen.sampling.paws import largest_mean
from xmen.sampling.space import read_cell, wrong_majority


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


@pytest.mark.parametrize("rounding", [0.0, 0.125])
@pytest.mark.parametrize("weights", ["within a factor 2", "exponential", "one heavy"])
def test_thinned_copies_have_exact_weights(weights: str, rounding: float) -> None:
    """One threshold and weights over a factor 3: neither the factor 2 between copies nor rounding counts in delta.

    Without thinning the same cells break that bound.
    """
    bits = all_bits(4)[3:]
    log_weights = np.asarray(WEIGHTS[weights](len(bits)))
    log_weights *= math.log(3.0) / (log_weights.max() - log_weights.min())
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
    first = max(1, math.ceil(math.log2(size / largest_mean(plan.pivot, plan.faithful))))
    for k in range(first, first + 2):
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


def test_paws_with_truncated_cells_breaks_the_bound() -> None:
    bits = SUPPORTS["subspace and a point"]
    oracle, plan = BatchedRows(bits), PawsPlan(1, 8, 3, 0.0, 0.01, 5, faithful=True)

    def truncated(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows = read_cell(oracle, parities, 2)
        return rows, np.full(len(rows), 1.0 / (plan.pivot - 1.0))

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
