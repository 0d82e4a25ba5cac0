"""Names, what is installed, and what is said when something is not."""

from __future__ import annotations

import sys

import pytest

from oracles.formulas import formula_of
from xmen.errors import EngineError, MissingExtraError, OracleError
from xmen.oracles import ORACLE_NAMES, installed_oracles, make_oracle
from xmen.oracles.cryptominisat import CryptoMiniSatOracle
from xmen.oracles.registry import AUTO

PACKAGES = {"cadical": "pysat", "cpsat": "ortools", "highs": "highspy", "cplex": "cplex", "gurobi": "gurobipy"}


def test_an_unknown_name_is_told_all_names() -> None:
    with pytest.raises(EngineError) as caught:
        make_oracle("minisat", formula_of([[1]], 1))
    assert all(repr(name) in str(caught.value) for name in ORACLE_NAMES)


def test_the_list_of_installed_oracles_has_versions() -> None:
    installed = installed_oracles()
    assert set(installed) == set(ORACLE_NAMES) - {"auto"}
    assert installed["listed"] is True
    assert installed["cryptominisat"]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_missing_solver_names_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    with pytest.raises(
        MissingExtraError, match=rf'oracle="{name}" needs {PACKAGES[name]}.*"xmen-irl\[{name}\]"'
    ) as caught:
        make_oracle(name, formula_of([[1]], 1))
    assert caught.value.extra == name


def test_a_broken_solver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = CryptoMiniSatOracle(formula_of([[1]], 1))
    monkeypatch.setitem(sys.modules, "pycryptosat", None)
    with pytest.raises(OracleError, match="pycryptosat is installed but cannot be loaded"):
        oracle.solve()


def test_auto_is_one_that_is_installed() -> None:
    assert installed_oracles()[AUTO]
    oracle = make_oracle("auto", formula_of([[1]], 2))
    assert len(list(oracle.solutions())) == 2
