"""One contract for every installed oracle, against brute force on small formulas; and what is installed."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
import sys
import tomllib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from oracles.formulas import (
    all_models,
    as_set,
    formula_of,
    hard_formula,
    hash_rows,
    permutations,
    random_formula,
    random_parities,
)
from strategies import cases
from xmen.errors import EngineError, MissingExtraError, OracleError, OracleTimeoutError
from xmen.oracles import ORACLE_NAMES, Formula, Oracle, Parities, installed_oracles, make_oracle
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.registry import _ORACLES, AUTO

INSTALLED = [name for name, version in installed_oracles().items() if version]
SOLVERS = [name for name in INSTALLED if name != "listed"]
MIP = ("highs", "cplex", "gurobi")
oracles = pytest.mark.parametrize("name", INSTALLED)
solvers = pytest.mark.parametrize("name", SOLVERS)


def seeds(name: str) -> range:
    # MIP solvers take their time.
    return range(cases(4 if name in MIP else 40))


@oracles
def test_solutions_are_all_models_in_the_cell_each_once(name: str) -> None:
    n_nonempty = 0
    for seed in seeds(name):
        rng = np.random.default_rng(seed)
        formula = random_formula(rng)
        oracle = make_oracle(name, formula)
        rows = hash_rows(formula, all_models(formula))
        assert as_set(oracle.solutions()) == as_set(rows)
        for _ in range(3):
            parities = random_parities(rng, formula.n_hash)
            expected = rows[parities.hold(rows)]
            found = list(oracle.solutions(parities))
            assert len(found) == len(expected)
            assert as_set(found) == as_set(expected)
            assert all(row.dtype == np.bool_ and row.shape == (formula.n_hash,) for row in found)
            n_nonempty += len(expected) > 0
    assert n_nonempty > len(seeds(name)) / 2


@oracles
def test_solve_finds_a_model_or_a_core_that_is_contradictory(name: str) -> None:
    n_models = n_cores = 0
    for seed in seeds(name):
        rng = np.random.default_rng(1000 + seed)
        formula = random_formula(rng)
        oracle, models = make_oracle(name, formula), all_models(formula)
        variables = np.array(formula.hash_variables) if name == "listed" else np.arange(1, formula.n_variables + 1)
        for size in (0, 2, 4, len(variables) + 1):
            # With replacement: assumptions may repeat and contradict each other.
            assumptions = (rng.choice(variables, size) * rng.choice([-1, 1], size)).tolist()
            answer = oracle.solve(assumptions)
            if answer.bits is not None:
                n_models += 1
                allowed = models[_satisfy(models, assumptions)]
                assert tuple(answer.bits.tolist()) in as_set(hash_rows(formula, allowed))
            else:
                n_cores += 1
                assert set(answer.core) <= set(assumptions)
                assert not _satisfy(models, answer.core).any()
    assert min(n_models, n_cores) > len(seeds(name)) / 2


def _satisfy(models: np.ndarray, literals: object) -> np.ndarray:
    good = np.ones(len(models), dtype=bool)
    for literal in literals:  # type: ignore[attr-defined]
        good &= models[:, abs(literal) - 1] == (literal > 0)
    return good


@oracles
def test_edge_cases(name: str) -> None:
    # An empty clause; no clause at all; no hash variable; one hash variable that two parities fix both ways.
    absurd = make_oracle(name, formula_of([[1], []], 2))
    assert list(absurd.solutions()) == []
    assert absurd.solve([]) == (None, ())
    assert len(list(make_oracle(name, formula_of([], 3)).solutions())) == 8
    nothing = list(make_oracle(name, formula_of([[1], [-2]], 2, ())).solutions())
    assert len(nothing) == 1
    assert nothing[0].shape == (0,)
    one = make_oracle(name, formula_of([[1, -1]], 1))
    both = Parities(np.ones((2, 1), dtype=bool), np.array([True, False]))
    assert list(one.solutions(both)) == []
    assert [row.tolist() for row in one.solutions(Parities(both.matrix[:1], both.rhs[:1]))] == [[True]]


@oracles
def test_callers_may_stop_early_and_come_back(name: str) -> None:
    formula = formula_of([[1, 2, 3]], 7)
    oracle = make_oracle(name, formula)
    first = list(islice(oracle.solutions(), 3))
    assert len(as_set(first)) == 3
    one, other = oracle.solutions(), oracle.solutions(Parities.dense(4, 7, np.random.default_rng(0)))
    next(one)
    next(other, None)
    rest = [next(one) for _ in range(5)]
    assert len(as_set(rest)) == 5
    # What was left half-read does not show in later answers.
    rows, parities = hash_rows(formula, all_models(formula)), Parities.dense(3, 7, np.random.default_rng(1))
    assert as_set(oracle.solutions(parities)) == as_set(rows[parities.hold(rows)])
    assert as_set(oracle.solutions()) == as_set(rows)


@oracles
def test_answers_depend_on_the_question_alone(name: str) -> None:
    formula = random_formula(np.random.default_rng(5))
    used, fresh = make_oracle(name, formula), make_oracle(name, formula)
    parities = Parities.dense(2, formula.n_hash, np.random.default_rng(2))
    list(used.solutions(parities))
    used.solve([formula.hash_variables[0]])
    assert np.array_equal(list(used.solutions(parities)), list(fresh.solutions(parities)))


@oracles
def test_queries_are_counted_alike(name: str) -> None:
    formula = formula_of([[1, 2, 3]], 3)
    oracle = make_oracle(name, formula)
    assert oracle.n_queries == 0
    oracle.solve([-1])
    assert oracle.n_queries == 1
    list(oracle.solutions())
    assert oracle.n_queries == 1 + 7 + 1
    list(islice(oracle.solutions(), 2))
    assert oracle.n_queries == 9 + 2


@oracles
@pytest.mark.parametrize("time_limit", [None, 60.0])
def test_oracles_travel(name: str, time_limit: float | None) -> None:
    formula = random_formula(np.random.default_rng(7))
    oracle = make_oracle(name, formula, time_limit=time_limit)
    expected = as_set(oracle.solutions())
    for other in (pickle.loads(pickle.dumps(oracle)), copy.copy(oracle), copy.deepcopy(oracle)):
        assert isinstance(other.formula, Formula)
        assert (other.name, other.time_limit) == (name, time_limit)
        assert as_set(other.solutions()) == expected


@oracles
def test_bad_questions_are_refused(name: str) -> None:
    oracle = make_oracle(name, formula_of([[1, 2]], 3))
    wide = Parities.dense(2, 5, np.random.default_rng(0))
    short = Parities(np.zeros((2, 3), dtype=bool), np.zeros(1, dtype=bool))
    for parities, words in ((wide, "5 variables, .* 3 hash variables"), (short, "2 parities with 1 ")):
        with pytest.raises(OracleError, match=words):
            oracle.solutions(parities)
    for literal in (0, 4, -4):
        with pytest.raises(OracleError, match=f"assumption {literal} .*1 to 3"):
            oracle.solve([literal])


@oracles
def test_bad_settings_are_refused(name: str) -> None:
    with pytest.raises(EngineError, match="time_limit"):
        make_oracle(name, formula_of([[1]], 1), time_limit=0)
    for formula, words in (
        (formula_of([[1, 3]], 2), "variable 3, .* 2 variables"),
        (Formula(2, np.array([1, 2], dtype=np.int32), (1, 2)), "not closed"),
        (formula_of([[1, 2]], 2, (1, 1)), "twice"),
    ):
        with pytest.raises(OracleError, match=words):
            make_oracle(name, formula)


# Each of these questions would take hours: that they end at all is the limit's doing.


CELL = Parities.dense(40, 256, np.random.default_rng(0))  # of 2^44 permutations
ENDLESS: dict[str, tuple[Callable[[], Formula], Callable[[Oracle], object]]] = {
    "a model": (hard_formula, lambda oracle: oracle.solve()),
    "the first of all": (hard_formula, lambda oracle: next(oracle.solutions(), None)),
    "hard parities": (lambda: permutations(16), lambda oracle: list(oracle.solutions(CELL))),
    "all of very many": (lambda: formula_of([[1, 2]], 60), lambda oracle: sum(1 for _ in oracle.solutions())),
}


@pytest.mark.system
@pytest.mark.parametrize("question", ENDLESS)
@solvers
def test_time_limits_hold(name: str, question: str) -> None:
    formula, ask = ENDLESS[question]
    oracle = make_oracle(name, formula(), time_limit=0.3)
    with pytest.raises(OracleError, match=f"{name} .*time limit|size") as caught:
        ask(oracle)
    if "size" in str(caught.value):
        pytest.skip(f"a licence for small programs only: {caught.value}")
    assert isinstance(caught.value, OracleTimeoutError)


@solvers
def test_the_callers_own_time_does_not_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that moves only where the caller moves it."""
    now = [0.0]
    monkeypatch.setattr("xmen.oracles.formula.time", SimpleNamespace(perf_counter=lambda: now[0]))
    oracle = make_oracle(name, formula_of([[1, 2]], 4), time_limit=60.0)
    found = []
    for bits in oracle.solutions():
        found.append(bits)
        now[0] += 100.0
    assert len(found) == 12


# Names, what is installed, and what is said when something is not.

PACKAGES = {
    name: getattr(importlib.import_module(f"xmen.oracles.{module}"), made).module.partition(".")[0]
    for name, (module, made, distribution) in _ORACLES.items()
    if distribution is not None
}


def test_a_solver_that_is_installed_by_itself_has_an_extra_of_its_name() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {distribution: name for name, (_, _, distribution) in _ORACLES.items() if distribution is not None}
    core = {re.split(r"[ <>=~!\[]", one)[0] for one in project["dependencies"]}
    assert {name for distribution, name in wanted.items() if distribution not in core} <= set(
        project["optional-dependencies"]
    )


def test_an_unknown_name_is_told_all_names() -> None:
    with pytest.raises(EngineError) as caught:
        make_oracle("delphi", formula_of([[1]], 1))
    assert all(repr(name) in str(caught.value) for name in ORACLE_NAMES)


def test_the_list_of_installed_oracles_has_versions() -> None:
    installed = installed_oracles()
    assert set(installed) == set(ORACLE_NAMES) - {"auto"}
    assert installed["listed"] is True
    assert installed["cryptominisat"]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_solver_names_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    with pytest.raises(MissingExtraError, match=f'oracle="{name}"') as caught:
        make_oracle(name, formula_of([[1]], 1))
    assert (caught.value.name, caught.value.extra) == (PACKAGES[name], name)


def test_a_broken_solver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = CryptoMiniSatOracle(formula_of([[1]], 1))
    monkeypatch.setitem(sys.modules, "pycryptosat", None)
    with pytest.raises(OracleError, match="pycryptosat"):
        oracle.solve()


def test_auto_is_one_that_is_installed() -> None:
    assert installed_oracles()[AUTO]
    oracle = make_oracle("auto", formula_of([[1]], 2))
    assert len(list(oracle.solutions())) == 2
