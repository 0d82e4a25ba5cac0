"""Gurobi through gurobipy, when the user has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.errors import OracleError
from xmen.oracles.formula import Stopwatch
from xmen.oracles.mip import Columns, Floats, MipOracle, Program, reported


class _Gurobi:
    def __init__(self, gurobipy: Any, program: Program) -> None:
        self._kinds, self._errors = gurobipy.GRB, gurobipy.GurobiError
        with reported("gurobi", self._errors):
            environment = gurobipy.Env(params={"OutputFlag": 0})
        self._model = model = gurobipy.Model(env=environment)
        model.Params.Threads = 1
        self._x = model.addMVar(len(program.lower), lb=program.lower, ub=program.upper, vtype=gurobipy.GRB.INTEGER)
        senses = np.array(list(program.senses.replace("G", ">").replace("E", "=")))
        model.addMConstr(program.matrix, self._x, senses, program.rhs)

    def run(self, watch: Stopwatch) -> Floats | None:
        if (left := watch.left) is not None:
            self._model.Params.TimeLimit = left
        with reported("gurobi", self._errors):
            self._model.optimize()
        status = self._model.Status
        # Without an objective "infeasible or unbounded", which presolve may answer, can only be the former.
        if status in (self._kinds.INFEASIBLE, self._kinds.INF_OR_UNBD):
            return None
        if self._model.SolCount > 0:
            return np.array(self._x.X, dtype=np.float64)
        if status == self._kinds.TIME_LIMIT:
            raise watch.expired()
        raise OracleError(f"gurobi stopped without an answer: status {status}")

    def cut(self, columns: Columns, values: Floats, rhs: float) -> None:
        self._model.addConstr(values @ self._x[columns] >= rhs)


class GurobiOracle(MipOracle):
    """The fastest of the MIP solvers on paths. The free licence stops at 2000 variables or rows."""

    name = "gurobi"
    module = "gurobipy"
    session = _Gurobi
