"""CPLEX through its own Python package (cplex), when the user has it: the paper's oracle."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from xmen.errors import OracleError
from xmen.oracles.formula import Stopwatch
from xmen.oracles.mip import Columns, Floats, MipOracle, Program, reported


class _Cplex:
    def __init__(self, cplex: Any, program: Program) -> None:
        self._errors = cplex.exceptions.CplexError
        self._solver = solver = cplex.Cplex()
        for stream in (solver.set_log_stream, solver.set_results_stream, solver.set_warning_stream):
            stream(None)
        solver.parameters.threads.set(1)
        types = [solver.variables.type.integer] * len(program.lower)
        solver.variables.add(lb=program.lower.tolist(), ub=program.upper.tolist(), types=types)
        ends, columns, values = program.matrix.indptr, program.matrix.indices.tolist(), program.matrix.data.tolist()
        rows = [[columns[a:b], values[a:b]] for a, b in pairwise(ends.tolist())]
        solver.linear_constraints.add(lin_expr=rows, senses=program.senses, rhs=program.rhs.tolist())

    def run(self, watch: Stopwatch) -> Floats | None:
        if (left := watch.left) is not None:
            self._solver.parameters.timelimit.set(left)
        with reported("cplex", self._errors):
            self._solver.solve()
        status, kinds = self._solver.solution.get_status(), self._solver.solution.status
        # Without an objective "infeasible or unbounded", which presolve may answer, can only be the former.
        if status in (kinds.MIP_infeasible, kinds.MIP_infeasible_or_unbounded):
            return None
        if self._solver.solution.is_primal_feasible():
            return np.array(self._solver.solution.get_values(), dtype=np.float64)
        if status == kinds.MIP_time_limit_infeasible:
            raise watch.expired()
        raise OracleError(f"cplex stopped without an answer: {self._solver.solution.get_status_string()}")

    def cut(self, columns: Columns, values: Floats, rhs: float) -> None:
        row = [columns.tolist(), values.tolist()]
        self._solver.linear_constraints.add(lin_expr=[row], senses="G", rhs=[rhs])


class CplexOracle(MipOracle):
    """The solver the paper used. The free edition stops at 1000 variables or rows."""

    name = "cplex"
    module = "cplex"
    session = _Cplex
