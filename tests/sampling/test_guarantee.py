"""The guarantees, tested exactly: all hashes of 4 to 6 bits with their probabilities, so nothing here is random.

What is enumerated is the random matrix and right-hand side; what happens in a cell is the samplers' own code. Here are
the enumeration itself, and the samplers that people call against it; PAWS and cells have modules of their own.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sampling.exact_hash import (
    BatchedRows,
    ListedRows,
    all_bits,
    output,
    row_spaces,
    subspace_counts,
    table_space,
)
from sampling.supports import SUPPORTS, WEIGHTS, cell_draws, chi_square_of, known, paws_draws, uniform
from xmen.oracles.formula import Bits, Parities
from xmen.sampling import CellPlan, Embedding, PawsPlan, Space, paws
from xmen.sampling import cells as cell_sampler


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


@pytest.mark.slow
def test_the_paws_sampler_has_the_enumerated_distribution() -> None:
    """20,000 draws. Power: rows off by 5 %, half of them up and half down, shift chi-square by 7 deviations."""
    bits = SUPPORTS["27 random rows"]
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, 5)
    space = Space(BatchedRows(bits))
    levels = plan.levels(0.0)
    embedding = Embedding(space, space.oracle, levels)
    rows, info = paws.sample_paws(embedding, plan, 2, 20_000, np.random.default_rng(0))
    chi_square, freedom = chi_square_of(rows, output(paws_draws(bits, plan.pivot), 2 + plan.extra, 5))
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)
    assert info.n_cells - info.n_failures == 20_000


@pytest.mark.slow
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
    space = Space(oracle)
    plan = CellPlan.solve(1.2, known(Space(BatchedRows(bits))), cell_size=6.0)
    _, info = cell_sampler.sample_cells(space, plan, 50, np.random.default_rng(0))
    assert len(set(oracle.matrices)) == len(oracle.matrices) == info.n_cells
    assert oracle.n_parities == {plan.m}
    oracle.matrices.clear()
    oracle.n_parities.clear()
    paws_plan = PawsPlan(1, 8, 3, 0.0, 0.01, 60)
    levels = paws_plan.levels(0.0)
    embedding = Embedding(space, oracle, levels)
    _, info = paws.sample_paws(embedding, paws_plan, 5, 50, np.random.default_rng(0))
    assert len(set(oracle.matrices)) == len(oracle.matrices) == info.n_cells
    assert oracle.n_parities == {5 + paws_plan.extra}
