"""CryptoMiniSat through pycryptosat: parities are native, kept in a matrix under Gauss-Jordan elimination."""

from typing import Any

import numpy as np

from xmen.oracles.formula import Bits, Stopwatch
from xmen.oracles.gf2 import Reduced
from xmen.oracles.solver import SolverOracle

# Measured on paths in grids (benchmarks/oracles.py) against the solver's own defaults: 9x9 with 12 parities takes 1.5
# ms to the first solution instead of 27. Local search costs 25 ms before it, lucky phases up to half of each later one;
# branching by activity saves 20 to 40 % from 12 parities on. And no matrix is dropped for its size, whether the
# parities are few (8 parities: 40 % of the time saved) or their variables many.
OPTIONS = {"sls": "0", "lucky": "0", "branchstr": "vsids", "minmatrixrows": "1"}
OPTIONS |= {"maxmatrixrows": "1000000", "maxmatrixcols": "1000000"}
# A query runs in slices of this many conflicts. Between slices the wall clock is read (the solver's own limit counts
# the processor time of the whole process); what was learned is kept. Starting afresh helps, too:
# three solutions of 20x20 under 32 parities take 1.7 s in slices of 3000 conflicts, 4.2 s in one go.
CONFLICTS_PER_SLICE = 2000


class CryptoMiniSatOracle(SolverOracle):
    """The default oracle.

    `make_oracle` gives it a process of its own (`KillableOracle`): while it searches, its handler of signals takes the
    place of Python's, and most of the Ctrl-C that arrive then are lost.

    Models are enumerated by blocking clauses over those hash variables that the parities leave free. One solver serves
    one cell: it does not slow down over thousands of models (0.06 to 0.09 ms each on 9x9), and rebuilding it on the
    way doubles the time, because what it learned is lost.
    """

    name = "cryptominisat"
    module = "pycryptosat"

    def _open(self, parities: Reduced | None) -> Any:
        solver, n = self._backend().Solver(threads=1, options=OPTIONS), self.formula.n_variables
        if n:
            # The solver knows no variable that no clause has; this clause says nothing but makes them all known.
            solver.add_clause([n, -n])
        solver.add_clauses(self.formula.clauses)
        if parities is not None:
            for row, odd in zip(parities.matrix, parities.rhs, strict=True):
                solver.add_xor_clause(self.formula.hashed[row].tolist(), bool(odd))
        return solver

    def _ask(self, solver: Any, assumptions: list[int], watch: Stopwatch) -> Bits | None:
        found = None
        while found is None:
            left = watch.left
            limits = {"confl_limit": CONFLICTS_PER_SLICE} | ({} if left is None else {"time_limit": left})
            found, model = solver.solve(assumptions, **limits)
        return np.array([model[v] for v in self.formula.hash_variables], dtype=np.bool_) if found else None

    def _core(self, solver: Any, assumptions: list[int]) -> tuple[int, ...]:
        # The conflict is a clause: it negates the assumptions to blame.
        return tuple(-literal for literal in solver.get_conflict())
