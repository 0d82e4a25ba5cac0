"""NP oracles: solvers behind one small protocol, and the list where all models can be listed."""

from xmen.oracles.formula import Answer as Answer, Bits as Bits, Formula as Formula
from xmen.oracles.formula import Oracle as Oracle, Parities as Parities
from xmen.oracles.listed import ListedOracle as ListedOracle
from xmen.oracles.registry import ORACLE_NAMES as ORACLE_NAMES, installed_oracles as installed_oracles
from xmen.oracles.registry import make_oracle as make_oracle
