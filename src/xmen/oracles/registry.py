"""Oracles by name."""

import importlib
import importlib.metadata

from xmen.options import require_choice
from xmen.oracles.formula import Formula, Oracle
from xmen.oracles.killable import KillableOracle

# By name: the module and the class, and the distribution to install (None: nothing). Solvers have processes of their
# own (`killable`): they come back late, keep Ctrl-C for themselves, or end in errors of their own where it arrives.
_ORACLES = {
    "listed": ("listed", "ListedOracle", None),
    "cryptominisat": ("cryptominisat", "CryptoMiniSatOracle", "pycryptosat"),
    "cadical": ("cadical", "CadicalOracle", "python-sat"),
    "cpsat": ("cpsat", "CpSatOracle", "ortools"),
    "highs": ("mip", "HighsOracle", "highspy"),
    "cplex": ("mip", "CplexOracle", "cplex"),
    "gurobi": ("mip", "GurobiOracle", "gurobipy"),
}
ORACLE_NAMES = ("auto", *_ORACLES)
# However many parities questions have. A crossing was looked for (benchmarks/oracles.py, cells of 64 solutions) and not
# found: CaDiCaL takes 0.7 to 2 times as long without parities, 1.1 to 2.8 times with 4, 2 to 6 times with 8, 3 to 15
# times with 12, and does not end within 10 s on 20x20 with 16.
AUTO = "cryptominisat"


def installed_oracles() -> dict[str, bool | str]:
    """Every oracle by name: the version of the package that brings it, True where none does, False if not installed."""
    found: dict[str, bool | str] = dict.fromkeys(_ORACLES, True)
    for name, (_, _, distribution) in _ORACLES.items():
        if distribution is not None:
            try:
                found[name] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                found[name] = False
    return found


def make_oracle(name: str, formula: Formula, time_limit: float | None = None) -> Oracle:
    """The oracle of that name for the formula; time_limit: seconds for one `solve`, or for one whole enumeration."""
    name = AUTO if name == "auto" else name
    require_choice("oracle", name, ORACLE_NAMES)
    module, class_name, _ = _ORACLES[name]
    made = getattr(importlib.import_module(f"xmen.oracles.{module}"), class_name)
    if name == "listed":
        return made.from_formula(formula, time_limit=time_limit)  # type: ignore[no-any-return]
    return KillableOracle(made(formula, time_limit=time_limit))
