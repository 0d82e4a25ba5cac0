"""CaDiCaL through python-sat: the fast plain SAT solver, with parities written out as clauses."""

from typing import Any

import numpy as np

from xmen.oracles.formula import Bits, Stopwatch
from xmen.oracles.gf2 import Reduced, parity_clauses
from xmen.oracles.solver import SolverOracle

# python-sat cannot interrupt CaDiCaL (its `interrupt` is not implemented), but it passes on conflict budgets, and what
# was learned is kept from one slice to the next. 500 conflicts take 5 to 60 ms; a call overruns its time limit by one
# slice at most.
CONFLICTS_PER_SLICE = 500


class CadicalOracle(SolverOracle):
    """For formulas that are hard in themselves, under few parities."""

    name = "cadical"
    module = "pysat.solvers"
    solver = "Cadical195"  # measured: 3.0.0 takes 1.5 to 2.4 times as long on paths in grids

    def _open(self, parities: Reduced | None) -> Any:
        n, solver = self.formula.n_variables, getattr(self._backend(), self.solver)()
        # A tautology about the last variable, so that models cover all variables, also those that no clause has.
        clauses = ([[n, -n]] if n else []) + self.formula.clause_list()
        for clause in clauses + ([] if parities is None else parity_clauses(parities, self.formula.hashed, n)):
            solver.add_clause(clause)
        return solver

    def _ask(self, solver: Any, assumptions: list[int], watch: Stopwatch) -> Bits | None:
        found = None
        while found is None:
            watch.check()
            solver.conf_budget(CONFLICTS_PER_SLICE)
            found = solver.solve_limited(assumptions)
        if not found:
            return None
        model = solver.get_model()
        return np.array([model[v - 1] > 0 for v in self.formula.hash_variables], dtype=np.bool_)

    def _core(self, solver: Any, assumptions: list[int]) -> tuple[int, ...]:
        return tuple(solver.get_core() or ())
