"""NP oracles: solvers behind one small protocol, and the list where all models can be listed."""

from xmen.oracles.formula import Bits, Formula, Parities
from xmen.oracles.listed import ListedOracle
from xmen.oracles.protocol import Answer, Oracle
from xmen.oracles.registry import ORACLE_NAMES, installed_oracles, make_oracle

__all__ = [
    "ORACLE_NAMES",
    "Answer",
    "Bits",
    "Formula",
    "ListedOracle",
    "Oracle",
    "Parities",
    "installed_oracles",
    "make_oracle",
]
