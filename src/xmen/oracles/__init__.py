"""NP oracles: solvers behind one small protocol, and the list where all models can be listed."""

from xmen.oracles.formula import Bits as Bits, Formula as Formula, Parities as Parities
from xmen.oracles.listed import ListedOracle as ListedOracle
from xmen.oracles.formula import Answer as Answer, Oracle as Oracle
from xmen.oracles.registry import (
    ORACLE_NAMES as ORACLE_NAMES,
    installed_oracles as installed_oracles,
    make_oracle as make_oracle,
)
