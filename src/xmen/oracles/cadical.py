"""CaDiCaL through python-sat: the fast plain SAT solver, with parities written out as clauses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from xmen.oracles.formula import Answer, Bits, Stopwatch
from xmen.oracles.gf2 import Reduced, parity_clauses
from xmen.oracles.solver import SolverOracle

# Measured: 3.0.0 takes 1.5 to 2.4 times as long on paths in grids.
SOLVER = "Cadical195"
# python-sat cannot interrupt CaDiCaL (its `interrupt` is not implemented), but it passes on conflict budgets, and what
# was learned is kept from one slice to the next. 500 conflicts take 5 to 60 ms; a call overruns its time limit by one
# slice at most.
CONFLICTS_PER_SLICE = 500


class CadicalOracle(SolverOracle):
    """For formulas that are hard in themselves, under few parities."""

    name = "cadical"
    module = "pysat.solvers"

    def _solve(self, assumptions: list[int], watch: Stopwatch) -> Answer:
        with closing(self._loaded([])) as solver:
            model = solver.ask(assumptions, watch)
            if model is None:
                return Answer(None, solver.core())
            return Answer(np.array([model[v - 1] > 0 for v in self.formula.hash_variables], dtype=np.bool_))

    def _models(self, parities: Reduced, watch: Stopwatch) -> Iterator[Bits]:
        hashed = np.array(self.formula.hash_variables, dtype=np.int64)
        variables, free = hashed.tolist(), hashed[parities.free].tolist()
        with closing(self._loaded(parity_clauses(parities, hashed, self.formula.n_variables))) as solver:
            while (model := solver.ask([], watch)) is not None:
                yield np.array([model[v - 1] > 0 for v in variables], dtype=np.bool_)
                if not free:
                    return
                solver.add([-model[v - 1] for v in free])

    def _loaded(self, further: list[list[int]]) -> _Solver:
        n = self.formula.n_variables
        # Models end with the last variable that some clause has; this clause says nothing but has the last one.
        known = [[n, -n]] if n else []
        return _Solver(self._backend(), known + self.formula.clause_list() + further)


class _Solver:
    """One CaDiCaL, closed by hand because its memory is not Python's."""

    def __init__(self, pysat: Any, clauses: list[list[int]]) -> None:
        self._cadical = getattr(pysat, SOLVER)()
        self.add, self.close = self._cadical.add_clause, self._cadical.delete
        for clause in clauses:
            self.add(clause)

    def ask(self, assumptions: list[int], watch: Stopwatch) -> Sequence[int] | None:
        found = None
        while found is None:
            _ = watch.left
            self._cadical.conf_budget(CONFLICTS_PER_SLICE)
            found = self._cadical.solve_limited(assumptions)
        return self._cadical.get_model() if found else None

    def core(self) -> tuple[int, ...]:
        return tuple(self._cadical.get_core() or ())
