"""The guarantee of hash cells by enumerating all hashes, and how broken cells break it."""

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
from sampling.supports import FIRST, SUPPORTS, WEIGHTS, cell_draws, known, project
from xmen.oracles.formula import Bits, Parities
from xmen.sampling import CellPlan, Embedding, Levels, Space
from xmen.sampling import cells as cell_sampler
from xmen.sampling.cells import sum_cell
from xmen.sampling.space import read_cell


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
    plan = CellPlan.solve(1.25, known(residual), cell_size=math.exp(known(residual).log_upper - residual.log_max) / 8)
    assert known(residual).log_upper == pytest.approx(known(space).log_upper)
    found = project(output(cell_draws(residual, plan.cap), 3, 6))
    assert worst_factor(found, true) <= plan.delta


def broken_space() -> tuple[Space, dict[tuple[bool, ...], float], CellPlan]:
    space, true = table_space(SUPPORTS["subspace and a point"], np.zeros(17))
    return space, true, CellPlan.solve(1.25, known(space), cell_size=17 / 4)


def test_truncated_cells_break_the_bound() -> None:
    space, true, plan = broken_space()

    def truncated(parities: Parities) -> tuple[Bits, np.ndarray]:
        rows = read_cell(space.oracle, parities, 4)
        return rows, np.full(len(rows), 1.0 / plan.cap)

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
