"""The listed oracle against brute force, its copies against lists with every copy written out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

from oracles.formulas import as_set, formula_of
from sampling.exact_hash import copies
from strategies import cases
from xmen.errors import OracleError, OracleTimeoutError
from xmen.oracles import Bits, ListedOracle, Parities, make_oracle


def random_rows(rng: np.random.Generator, n_models: int, width: int) -> Bits:
    return np.unique(rng.integers(0, 2, (n_models, width)).astype(bool), axis=0)


@pytest.mark.parametrize("n_models", [1, 63, 64, 65, 5000])
@pytest.mark.parametrize("width", [13, 64, 130])
def test_cells_hold_what_the_parities_say(n_models: int, width: int) -> None:
    rng = np.random.default_rng(n_models + width)
    bits = random_rows(rng, n_models, width)
    oracle = ListedOracle(bits)
    for m in (0, 1, 3, 7, 9, 20):
        parities = Parities.dense(m, width, rng)
        # The origin of this cell is a row, so that it is not empty.
        parities = Parities(parities.matrix, (parities.matrix & bits[0]).sum(axis=1) % 2 == 1)
        expected = bits[parities.hold(bits)]
        assert len(expected) > 0
        assert np.array_equal(oracle.cell(parities), expected)
        assert np.array_equal(list(oracle.solutions(parities)), expected)
        assert np.array_equal(oracle.members(parities), np.flatnonzero(parities.hold(bits)))
        assert np.array_equal(oracle.cell(parities, 2), expected[:2])


def test_copies_are_those_written_out() -> None:
    n_solutions = 0
    for seed in range(cases(60)):
        rng = np.random.default_rng(seed)
        bits = random_rows(rng, int(rng.integers(1, 9)), int(rng.integers(1, 6)))
        n_levels, b = [(0, 1), (1, 1), (4, 1), (7, 1), (2, 2), (3, 2), (2, 3), (1, 6)][seed % 8]
        buckets = rng.integers(-1, n_levels, len(bits))
        oracle = ListedOracle(bits).with_levels((buckets, n_levels, b))
        truth = copies(bits, buckets + 1, n_levels, b)
        assert oracle.formula.n_hash == truth.shape[1]
        assert oracle.formula.n_variables == truth.shape[1]
        for m in (0, 1, 3, n_levels * b, n_levels * b + 2):
            parities = Parities.dense(m, truth.shape[1], rng)
            found, expected = list(oracle.solutions(parities)), truth[parities.hold(truth)]
            assert len(found) == len(expected)
            assert as_set(found) == as_set(expected)
            assert as_set(oracle.cell(parities)) == as_set(expected)
            n_solutions += len(found)
    assert n_solutions > 1000


def test_copies_of_many_levels_are_read_lazily() -> None:
    # 2^240 copies: only a search that stops early comes back at all.
    rng = np.random.default_rng(0)
    bits = random_rows(rng, 50, 20)
    oracle = ListedOracle(bits).with_levels((rng.integers(-1, 60, len(bits)), 60, 4))
    parities = Parities.dense(30, 260, rng)
    rows = np.array(list(islice(oracle.solutions(parities), 500)))
    assert len(as_set(rows)) == 500
    assert parities.hold(rows).all()
    assert as_set(rows[:, :20]) <= as_set(bits)
    assert len(oracle.cell(parities, 70)) == 70


def test_a_search_for_copies_stops_at_its_time_limit() -> None:
    # About 2^43 copies.
    bits = np.zeros((1, 1), dtype=bool)
    oracle = ListedOracle(bits, time_limit=0.3).with_levels((np.array([39]), 40, 2))
    rng = np.random.default_rng(0)
    parities = Parities.dense(20, 81, rng)
    with pytest.raises(OracleTimeoutError, match=r"listed .*0\.3 s"):
        list(oracle.solutions(parities))


def test_assumptions_reach_the_extra_bits_and_cores_are_minimal() -> None:
    bits = np.array([[True, False], [True, True]])
    oracle = ListedOracle(bits).with_levels((np.array([0, -1]), 1, 2))
    assert oracle.solve([-2, -3]).bits.tolist() == [True, False, False, True]
    answer = oracle.solve([1, -2, -3, -4])
    assert answer.bits is None
    assert answer.core == (-2, -3, -4)
    assert oracle.solve([2, -3, -4]).bits is not None


def test_a_formula_names_the_variables() -> None:
    formula = formula_of([], 9, (7, 3))
    oracle = ListedOracle(np.array([[True, False]]), formula=formula)
    assert oracle.solve([7, -3]).bits is not None
    assert oracle.solve([3]).core == (3,)
    with pytest.raises(OracleError, match="5 is none"):
        oracle.solve([5])
    copies = oracle.with_levels((np.array([0]), 1, 2))
    assert copies.formula.hash_variables == (7, 3, 10, 11)
    assert len(list(copies.solutions())) == 3
    assert len(list(oracle.solutions())) == 1


def test_listing_a_formula_stops_where_it_is_told() -> None:
    formula = formula_of([[1, 2]], 5)
    assert ListedOracle.from_formula(formula, limit=24).n_models == 24
    with pytest.raises(OracleError, match="more than 23 models"):
        ListedOracle.from_formula(formula, limit=23)
    assert make_oracle("listed", formula).name == "listed"


def test_copies_travel() -> None:
    oracle = ListedOracle(np.eye(3, dtype=bool)).with_levels((np.array([0, 1, -1]), 2, 1))
    again = pickle.loads(pickle.dumps(oracle))
    assert as_set(again.solutions()) == as_set(oracle.solutions())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ListedOracle(np.zeros(3, dtype=bool)), "1-dimensional bool"),
        (lambda: ListedOracle(np.zeros((3, 2), dtype=np.int64)), "2-dimensional int64"),
        (lambda: ListedOracle(np.zeros((2, 3), dtype=bool)), "twice"),
        (lambda: ListedOracle(np.eye(3, dtype=bool), formula=formula_of([], 2)), "3 bits .* 2 hash variables"),
        (lambda: ListedOracle(np.eye(3, dtype=bool)).with_levels((np.array([0, 1]), 2, 1)), "3 models"),
        (lambda: ListedOracle(np.eye(3, dtype=bool)).with_levels((np.array([0, 1, 2]), 2, 1)), "from 0 to 2 .*0 to 1"),
        (lambda: ListedOracle(np.eye(1, dtype=bool)).with_levels((np.array([0]), 2, 0)), "0 bits"),
    ],
)
def test_bad_lists_are_refused(make: Callable[[], ListedOracle], words: str) -> None:
    with pytest.raises(OracleError, match=words):
        make()
