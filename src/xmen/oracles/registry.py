"""Oracles by name."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass

from xmen.errors import EngineError
from xmen.oracles.formula import Formula, Oracle
from xmen.oracles.killable import KillableOracle


@dataclass(frozen=True)
class _Entry:
    module: str
    class_name: str
    distribution: str | None  # None: nothing to install
    apart: bool = False  # in a process of its own


_ORACLES = {
    "listed": _Entry("listed", "ListedOracle", None),
    "cryptominisat": _Entry("cryptominisat", "CryptoMiniSatOracle", "pycryptosat", apart=True),
    "cadical": _Entry("cadical", "CadicalOracle", "python-sat"),
    "cpsat": _Entry("cpsat", "CpSatOracle", "ortools"),
    "highs": _Entry("mip", "HighsOracle", "highspy", apart=True),
    "cplex": _Entry("mip", "CplexOracle", "cplex"),
    "gurobi": _Entry("mip", "GurobiOracle", "gurobipy"),
}
ORACLE_NAMES = ("auto", *_ORACLES)
# However many parities questions have. A crossing was looked for (benchmarks/oracles.py, cells of 64 solutions) and not
# found: CaDiCaL takes 0.7 to 2 times as long without parities, 1.1 to 2.8 times with 4, 2 to 6 times with 8, 3 to 15
# times with 12, and does not end within 10 s on 20x20 with 16.
AUTO = "cryptominisat"


def installed_oracles() -> dict[str, bool | str]:
    """Every oracle by name: the version of its solver, True where none is needed, False where it is not installed."""
    found: dict[str, bool | str] = dict.fromkeys(_ORACLES, True)
    for name, entry in _ORACLES.items():
        if entry.distribution is not None:
            try:
                found[name] = importlib.metadata.version(entry.distribution)
            except importlib.metadata.PackageNotFoundError:
                found[name] = False
    return found


def make_oracle(name: str, formula: Formula, time_limit: float | None = None) -> Oracle:
    """The oracle of that name for the formula; time_limit: seconds for one `solve`, or for one whole enumeration."""
    name = AUTO if name == "auto" else name
    if name not in _ORACLES:
        raise EngineError(f"there is no oracle {name!r}: choose one of {', '.join(map(repr, ORACLE_NAMES))}")
    entry = _ORACLES[name]
    made = getattr(importlib.import_module(f"xmen.oracles.{entry.module}"), entry.class_name)
    if name == "listed":
        return made.from_formula(formula, time_limit=time_limit)  # type: ignore[no-any-return]
    oracle = made(formula, time_limit=time_limit)
    return KillableOracle(oracle) if entry.apart else oracle
