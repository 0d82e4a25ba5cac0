"""Copies as one number: how many there are, the clauses that make them, and the same draws as by levels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sampling.exact_hash import BatchedRows, LinearWeight, all_bits, numbered
from sampling.test_embedding import models
from xmen.errors import EngineError
from xmen.oracles.formula import Formula
from xmen.sampling import Embedding, NumberedLevels, PawsPlan, Space, WeightDepth, embed_numbers, estimate
from xmen.sampling.embedding import log_ratio


@pytest.mark.parametrize("b", [1, 3, 6])
@pytest.mark.parametrize("span", [0.0, 0.1, 3.0, 60.0])
def test_weight_per_copy_is_constant_up_to_the_ratio(b: int, span: float) -> None:
    """Also where numbers have more bits than a float: a span of 60 nats."""
    log_weights = 1.5 - np.concatenate([[0.0, span], span * np.random.default_rng(0).random(500)])
    levels = NumberedLevels.covering(1.5, 1.5 - span, log_ratio(b))
    copies = levels.log_copies(levels.depth(log_weights))
    density = log_weights - copies
    assert np.ptp(density) <= max(log_ratio(b), 0.0) + 1e-9
    assert density.max() <= 1.5 - levels.n_bits * math.log(2.0) + levels.slack + 1e-9
    assert min(levels.copies) >= 1
    assert levels.copies[0] == 2**levels.n_bits
    assert levels.n_bits <= span / math.log(2.0) + b + 5
    for row, v in zip(levels.last, levels.copies, strict=True):
        assert int("".join("01"[bit] for bit in row.tolist()) or "0", 2) == v - 1


def test_plans_keep_their_promise_with_numbers() -> None:
    for span in (0.05, 1.0, 7.0):
        plan = PawsPlan.solve(1.1, 0.01, log_span=span, n_hash=30)
        levels = plan.embedding_levels(0.0)
        assert isinstance(levels, NumberedLevels)
        log_weights = -np.linspace(0.0, span, 2000)
        density = log_weights - levels.log_copies(levels.depth(log_weights))
        assert np.exp(np.ptp(density)) / plan.uniformity <= plan.delta + 1e-9
    published = PawsPlan.paper(pivot=32, extra=2, bits_per_level=3, failure=0.01, log_span=2.0, n_hash=30)
    assert published.embedding_levels(0.0) == published.levels(0.0)


def test_embedded_clauses_have_the_numbers_as_models() -> None:
    """Variables 1 2 3 are hashed, 4 = 1 and 2 is 'below the first threshold', -3 and 4 'below the second' by 5."""
    clauses = [[1, 2, 3], [-4, 1], [-4, 2], [4, -1, -2], [-5, 4], [-5, -3], [5, -4, 3]]
    formula = Formula(5, np.array([x for c in clauses for x in (*c, 0)], dtype=np.int32), (3, 1, 2))
    rows = sorted(models(formula))
    depth = np.array([int(x1 and x2) + int(x1 and x2 and not x3) for x3, x1, x2 in rows])
    for step in (0.2, 0.5, 1.0):
        levels = NumberedLevels(0.0, step, 2, 4)
        embedded = embed_numbers(formula, [4, 5], levels)
        assert embedded.hash_variables == (3, 1, 2, 6, 7, 8, 9)
        expected = numbered(np.array(rows), depth, levels)
        assert models(embedded) == set(map(tuple, expected.tolist()))
    with pytest.raises(EngineError, match="2 levels need as many literals, not 1"):
        embed_numbers(formula, [4], levels)


def test_residual_weights_add_up() -> None:
    bits = all_bits(5)
    weight = LinearWeight(np.array([0.9, -0.4, 0.7, 0.2, -1.1]))
    values = weight(bits)
    levels = NumberedLevels.covering(float(values.max()), float(values.min()), math.log(1.3))
    oracle = BatchedRows(numbered(bits, levels.depth(values), levels))
    space = Space(BatchedRows(bits), weight, levels.log_max)
    residual = Embedding(space, oracle, levels, WeightDepth(levels, weight)).residual()
    found = estimate(residual, 0, 2, np.random.default_rng(0))
    assert found.log_partition == pytest.approx(np.logaddexp.reduce(values))


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(EngineError, match="log_min <= log_max"):
        NumberedLevels.covering(0.0, 1.0, 0.1)
    with pytest.raises(EngineError, match="log_ratio > 0"):
        NumberedLevels.covering(0.0, -1.0, 0.0)
