"""PAWS: parameters from guarantees, refusals, the level search, and end-to-end draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sampling.exact_hash import BatchedRows, LinearWeight, ListedRows
from xmen.errors import EngineError, InfeasibleError
from xmen.oracles import ListedOracle
from xmen.sampling import (
    Embedding,
    Levels,
    PawsPlan,
    Space,
    find_level,
    sample_paws,
)
from xmen.sampling.paws import fewest_repeats, largest_mean, uniformity
from xmen.sampling.space import cantelli, wrong_majority

RNG = np.random.default_rng(20130611)
BITS = np.unique(RNG.random((1000, 20)) < 0.5, axis=0)


def uniform_embedding(bits: np.ndarray, oracle_type: type = BatchedRows) -> Embedding:
    space = Space(oracle_type(bits))
    levels = Levels(0.0, 1, 0)
    return Embedding(space, space.oracle, levels)


# The bound.


def test_the_published_constants() -> None:
    for pivot, extra in ((32, 2), (8, 3), (64, 1)):
        g = math.log2((pivot + 2 * math.sqrt(pivot + 1) + 2) / pivot)
        bracket = 1 - 1 / pivot - 2 ** (g - extra)
        assert uniformity(pivot, extra, faithful=True) == pytest.approx(1 - 2 ** (g - extra) / (pivot * bracket**2))
    assert 1 / uniformity(32, 2, faithful=True) == pytest.approx(1.03, abs=0.001)


@pytest.mark.parametrize("pivot", [2, 8, 32, 500])
def test_the_largest_mean_is_where_a_quarter_of_the_cells_may_look_small(pivot: int) -> None:
    published, sharp = largest_mean(pivot, faithful=True), largest_mean(pivot, faithful=False)
    assert published / (published - pivot) ** 2 == pytest.approx(0.25)  # Chebyshev on |C| < P
    assert cantelli(sharp, sharp - pivot + 1) == pytest.approx(0.25)  # Cantelli on |C| <= P - 1
    assert sharp < published


@pytest.mark.parametrize("pivot", [8, 32, 500])
def test_success_is_that_of_the_smallest_mean_of_which_a_quarter_of_the_cells_may_look_large(pivot: int) -> None:
    plan = PawsPlan(1, pivot, 3, 0.0, 0.1, 20)
    smallest = plan.success / plan.uniformity * (pivot - 1) * 2.0**4
    assert cantelli(smallest, pivot - smallest) == pytest.approx(0.25)


@pytest.mark.parametrize("pivot", [4, 16, 64, 256])
@pytest.mark.parametrize("extra", [1, 2, 3, 5])
def test_the_sharp_bound_is_never_worse(pivot: int, extra: int) -> None:
    assert uniformity(pivot, extra, faithful=False) >= uniformity(pivot, extra, faithful=True)


@pytest.mark.parametrize("failure", [0.1, 0.01, 1e-6])
@pytest.mark.parametrize("pivot", [2, 8, 100])
def test_repeats_are_the_fewest_that_hold(pivot: int, failure: float) -> None:
    def any_bad_level(n: int) -> float:
        means = [2.0**j * largest_mean(pivot, faithful=False) for j in range(40)]
        return sum(wrong_majority(cantelli(mean, mean - pivot + 1), n) for mean in means)

    n = fewest_repeats(pivot, failure)
    assert n % 2 == 1
    assert any_bad_level(n) <= failure < any_bad_level(n - 2)


def test_the_published_number_of_repeats_is_enough() -> None:
    plan = PawsPlan(1, 32, 2, 0.0, 0.01, 60, faithful=True)
    assert plan.n_repeats == math.ceil(24 * math.log(61 / 0.01)) | 1
    assert 61 * wrong_majority(0.25, plan.n_repeats) <= plan.failure


# Plans.


@pytest.mark.parametrize("faithful", [True, False])
@pytest.mark.parametrize("rounding", [0.0, 0.01])
@pytest.mark.parametrize("log_span", [0.0, 0.05, 2.0, 10.0])
@pytest.mark.parametrize("delta", [1.1, 1.19, 2.5])
def test_plans_guarantee_what_was_asked(delta: float, log_span: float, rounding: float, faithful: bool) -> None:
    plan = PawsPlan.solve(delta, 0.01, log_span=log_span, n_hash=50, rounding=rounding, faithful=faithful)
    r = 2**plan.bits_per_level / (2**plan.bits_per_level - 1)
    rho = math.exp(log_span) if plan.n_levels == 0 else r * math.exp(2 * rounding)
    assert plan.delta == pytest.approx(rho / uniformity(plan.pivot, plan.extra, faithful))
    assert plan.delta <= delta
    levels = plan.levels(3.0)
    assert levels.n_levels == plan.n_levels
    assert levels.log_max - (levels.n_levels + 1) * levels.log_ratio < 3.0 - log_span


def test_given_settings_are_kept() -> None:
    plan = PawsPlan.solve(1.5, 0.01, log_span=4.0, n_hash=50, bits_per_level=3, pivot=40)
    assert (plan.bits_per_level, plan.pivot) == (3, 40)
    assert plan.delta <= 1.5
    assert PawsPlan.solve(3.0, 0.01, log_span=4.0, n_hash=50, pivot=32, extra=2).extra == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"delta": 1.0}, "delta = 1"),
        ({"delta": 0.9}, "delta = 0.9"),
        ({"delta": math.nan}, "delta = nan"),
        # One bit per level cannot do better than 2.
        ({"delta": 2.0, "log_span": 3.0, "bits_per_level": 1}, "1 bit .*delta = 2,.*at least 2 bits"),
        ({"delta": 1.1, "log_span": 3.0, "rounding": 0.06}, "round"),
        ({"delta": 1.1, "log_span": 0.0, "pivot": 4, "extra": 3}, r"pivot = 4, extra = 3 .*delta = 1\.1.*larger pivot"),
    ],
)
def test_what_no_parameters_guarantee_is_refused(asked: dict[str, float], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        PawsPlan.solve(**{"failure": 0.01, "log_span": 1.0, "n_hash": 20, **asked})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"pivot": 1}, "PAWS needs"),
        ({"extra": -1}, "PAWS needs"),
        ({"bits_per_level": 0}, "PAWS needs"),
        ({"log_span": -1.0}, "PAWS needs"),
        # The paper's setting is void.
        ({"extra": 1, "faithful": True}, "pivot 8 and 1 extra .*void.* are 2"),
    ],
)
def test_settings_that_mean_nothing_are_refused(bad: dict[str, float], words: str) -> None:
    good = {"bits_per_level": 1, "pivot": 8, "extra": 3, "log_span": 0.0, "failure": 0.1, "n_hash": 5}
    with pytest.raises(EngineError, match=words):
        PawsPlan(**{**good, **bad})  # type: ignore[arg-type]


# The level search.


@pytest.mark.parametrize("faithful", [True, False])
@pytest.mark.parametrize("start", [0, 4, 6, 12, 40])
def test_the_level_is_found_from_any_start(start: int, faithful: bool) -> None:
    """1,000 rows and a pivot of 16: the median of cells of 62 is above, of 7.8 below; 15.6 may go either way."""
    plan = PawsPlan.solve(1.3, 0.01, log_span=0.0, n_hash=20, pivot=16, faithful=faithful)
    k, info = find_level(uniform_embedding(BITS), plan, np.random.default_rng(1), start=start)
    assert k in (6, 7)
    assert info.n_points <= info.n_cells * plan.pivot
    assert info.n_cells <= (abs(k - min(start, 20)) + 2 if faithful else 8) * plan.n_repeats


def test_the_median_decides() -> None:
    """With a pivot of 27 one cell in five of k = 5 (mean 31) is smaller, but not the median; k = 6 (mean 16) passes."""
    plan = PawsPlan(1, 27, 2, 0.0, 0.01, 20)
    found = [find_level(uniform_embedding(BITS), plan, np.random.default_rng(s), start=5)[0] for s in range(20)]
    assert found == [6] * 20


def test_a_bad_level_is_almost_never_found() -> None:
    """Over 300 searches with failure = 0.1, k <= 5 (mu = 31 > 22) would be found fewer than 30 times; it never is."""
    plan = PawsPlan(1, 16, 3, 0.0, 0.1, 20)
    assert len(BITS) / 2**5 > largest_mean(16, faithful=False)
    levels = [find_level(uniform_embedding(BITS), plan, np.random.default_rng(s), start=6)[0] for s in range(300)]
    assert sum(k <= 5 for k in levels) < 30


def test_an_oracle_that_ignores_parities_is_noticed() -> None:
    class Deaf(ListedRows):
        def solutions(self, parities=None):  # type: ignore[no-untyped-def]
            return super().solutions(None)

    with pytest.raises(EngineError, match="ignores parities"):
        find_level(uniform_embedding(BITS[:40], Deaf), PawsPlan(1, 8, 3, 0.0, 0.1, 20), np.random.default_rng(0))


# Samples.


def test_a_handful_of_models_is_drawn_from_their_list() -> None:
    plan = PawsPlan(1, 8, 3, 0.0, 0.01, 20)
    embedding = uniform_embedding(BITS[:5])
    assert find_level(embedding, plan, np.random.default_rng(0))[0] == 0
    rows, info = sample_paws(embedding, plan, 0, 400, np.random.default_rng(0))
    assert {tuple(row) for row in rows} == {tuple(row) for row in BITS[:5]}
    assert info.n_points == 5
    empty = uniform_embedding(np.zeros((0, 4), dtype=np.bool_))
    with pytest.raises(InfeasibleError, match="no model"):
        sample_paws(empty, plan, find_level(empty, plan, np.random.default_rng(0))[0], 1, np.random.default_rng(0))


def test_weighted_samples_have_nearly_the_true_expectations() -> None:
    """From level search to samples. The bound is 2.2; errors within a bucket average out, so means are much closer."""
    rng, n = np.random.default_rng(3), 60
    bits = np.unique(rng.random((60, 8)) < 0.5, axis=0)
    weight = LinearWeight(rng.normal(size=8) * 0.5)
    log_weights = weight(bits)
    span = float(log_weights.max() - log_weights.min())
    plan = PawsPlan.solve(2.2, 0.01, log_span=span, n_hash=8)
    assert plan.n_levels >= 4
    levels = plan.levels(float(log_weights.max()))
    space = Space(BatchedRows(bits), weight, levels.log_max)
    depth = levels.depth(log_weights)
    oracle = ListedOracle(bits).with_levels((depth - 1, levels.n_levels, levels.bits_per_level))
    embedding = Embedding(space, oracle, levels)
    k, _ = find_level(embedding, plan, np.random.default_rng(0))
    samples, info = sample_paws(embedding, plan, k, n, np.random.default_rng(1))
    assert samples.shape == (n, 8)
    true = np.exp(log_weights - np.logaddexp.reduce(log_weights)) @ bits
    assert np.all(samples.mean(axis=0) <= plan.delta * true + 4 * 0.5 / math.sqrt(n))
    assert np.all(samples.mean(axis=0) >= true / plan.delta - 4 * 0.5 / math.sqrt(n))
    assert np.abs(samples.mean(axis=0) - true).max() < 0.25
    # The stated success rate is a lower bound.
    assert n / info.n_cells >= plan.success


def test_a_level_of_another_space_ends_in_an_error() -> None:
    with pytest.raises(EngineError, match="find_level"):
        sample_paws(uniform_embedding(BITS[:20]), PawsPlan(1, 8, 3, 0.0, 0.1, 20), 15, 1, np.random.default_rng(0))
