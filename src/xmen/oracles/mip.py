"""Mixed-integer programs as NP oracles, the paper's way: by HiGHS, CPLEX or Gurobi, each loaded when it is asked.

A clause is a row: the literals add up to at least 1, with 1 - x for a negated one. A parity is a row
sum x - 2 k = rhs with a whole number k. (Cutting it into pieces with their convex hulls was measured on HiGHS: 1 to 3
times as long.) Values come back within 1e-6 of whole numbers, and no row has so many variables that they could add up
to 1/2, so rounding is exact.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from xmen.errors import OracleError, foreign_errors
from xmen.oracles.formula import Answer, Bits, Formula, Stopwatch
from xmen.oracles.gf2 import Reduced
from xmen.oracles.solver import SolverOracle

Floats: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class Program:
    """Find whole x with lower <= x <= upper, A x >= b in the first rows and A x = b in the last n_equal ones."""

    matrix: scipy.sparse.csr_matrix  # column v - 1 is variable v; those after the formula's belong to the parities
    rhs: Floats
    n_equal: int
    lower: Floats
    upper: Floats

    @property
    def senses(self) -> str:
        """One letter per row, as CPLEX and Gurobi write them: G for >= (`>` to Gurobi), E for =."""
        return "G" * (len(self.rhs) - self.n_equal) + "E" * self.n_equal


class MipOracle(SolverOracle):
    """An oracle by integer programming. Its cores are all assumptions: MIP solvers do not say which ones they used."""

    def _load(self, program: Program) -> Any:
        """A fresh solver with the program in it, silent and on one thread."""
        raise NotImplementedError

    def _run(self, solver: Any, watch: Stopwatch) -> Floats | None:
        """Values of the columns, None when there are none; raises OracleTimeoutError."""
        raise NotImplementedError

    def _cut(self, solver: Any, columns: Columns, values: Floats, rhs: float) -> None:
        """Add a row: values . x[columns] >= rhs."""
        raise NotImplementedError

    def _solve(self, assumptions: list[int], watch: Stopwatch) -> Answer:
        program = build_program(self.formula)
        for literal in assumptions:
            program.lower[abs(literal) - 1] = max(program.lower[abs(literal) - 1], float(literal > 0))
            program.upper[abs(literal) - 1] = min(program.upper[abs(literal) - 1], float(literal > 0))
        # Assumptions that contradict each other directly are bounds that cross, which solvers call an error.
        bits = self._ask(self._load(program), [], watch) if np.all(program.lower <= program.upper) else None
        return Answer(None, tuple(assumptions)) if bits is None else Answer(bits)

    def _open(self, parities: Reduced | None) -> Any:
        return self._load(build_program(self.formula, parities))

    def _ask(self, solver: Any, assumptions: list[int], watch: Stopwatch) -> Bits | None:
        values = self._run(solver, watch)
        return None if values is None else values[self.formula.hashed - 1] > 0.5

    def _forbid(self, solver: Any, clause: list[int]) -> None:
        literals = np.array(clause)
        signs = np.sign(literals).astype(np.float64)
        self._cut(solver, (np.abs(literals) - 1).astype(np.int32), signs, 1.0 - float(np.count_nonzero(literals < 0)))


def build_program(formula: Formula, parities: Reduced | None = None) -> Program:
    """The program of a formula under parities; its first rows are the clauses.

    >>> p = build_program(Formula(2, np.array([1, -2, 0], dtype=np.int32), (1, 2)))
    >>> p.matrix.toarray(), p.rhs
    (array([[ 1., -1.]]), array([0.]))
    """
    n, rows, columns, values, rhs = formula.n_variables, list[int](), list[int](), list[float](), list[float]()
    for clause in map(set, formula.clause_list()):
        if any(-literal in clause for literal in clause):
            continue
        columns += [abs(literal) - 1 for literal in sorted(clause)]
        values += [1.0 if literal > 0 else -1.0 for literal in sorted(clause)]
        rows += [len(rhs)] * len(clause)
        rhs.append(1.0 - sum(literal < 0 for literal in clause))
    upper = [1.0] * n
    n_equal = 0 if parities is None else len(parities.rhs)
    for i in range(n_equal):
        assert parities is not None
        chosen = (formula.hashed[parities.matrix[i]] - 1).tolist()
        columns += [*chosen, n + i]
        values += [1.0] * len(chosen) + [-2.0]
        rows += [len(rhs)] * (len(chosen) + 1)
        rhs.append(float(parities.rhs[i]))
        upper.append(float(len(chosen) // 2))
    matrix = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(len(rhs), n + n_equal), dtype=np.float64)
    return Program(matrix, np.array(rhs), n_equal, np.zeros(n + n_equal), np.array(upper))


class HighsOracle(MipOracle):
    """A hundred to a thousand times as slow as SAT solvers on paths; here to compare with.

    `make_oracle` gives it a process of its own (`KillableOracle`), for two reasons. HiGHS looks at its clock between
    phases only: on 20x20 with 30 parities a limit of 3 s ends after 6.5 s. And a process that has loaded ortools, which
    brings a HiGHS of its own, cannot load highspy, nor the other way round.
    """

    name = "highs"
    module = "highspy"

    def _load(self, program: Program) -> Any:
        highspy = self._backend()
        solver, lp = highspy.Highs(), highspy.HighsLp()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        n_rows, n_columns = program.matrix.shape
        lp.num_row_, lp.num_col_ = n_rows, n_columns
        lp.col_cost_ = np.zeros(n_columns)
        lp.col_lower_, lp.col_upper_ = program.lower, program.upper
        lp.row_lower_ = program.rhs
        lp.row_upper_ = np.where(np.arange(n_rows) < n_rows - program.n_equal, highspy.kHighsInf, program.rhs)
        lp.integrality_ = [highspy.HighsVarType.kInteger] * n_columns
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = program.matrix.indptr.astype(np.int32)
        lp.a_matrix_.index_ = program.matrix.indices.astype(np.int32)
        lp.a_matrix_.value_ = program.matrix.data
        solver.passModel(lp)
        return solver

    def _run(self, solver: Any, watch: Stopwatch) -> Floats | None:
        if (left := watch.left) is not None:
            solver.setOptionValue("time_limit", left)
        solver.run()
        status, kinds = solver.getModelStatus(), self._backend().HighsModelStatus
        if status == kinds.kOptimal:
            return np.array(solver.getSolution().col_value, dtype=np.float64)
        if status == kinds.kInfeasible:
            return None
        if status == kinds.kTimeLimit:
            raise watch.expired()
        raise OracleError(f"highs stopped without an answer: {solver.modelStatusToString(status)}")

    def _cut(self, solver: Any, columns: Columns, values: Floats, rhs: float) -> None:
        solver.addRow(rhs, self._backend().kHighsInf, len(columns), columns, values)


class CplexOracle(MipOracle):
    """The solver the paper used. The free edition stops at 1000 variables or rows."""

    name = "cplex"
    module = "cplex"

    def _load(self, program: Program) -> Any:
        solver = self._backend().Cplex()
        for stream in (solver.set_log_stream, solver.set_results_stream, solver.set_warning_stream):
            stream(None)
        solver.parameters.threads.set(1)
        types = [solver.variables.type.integer] * len(program.lower)
        solver.variables.add(lb=program.lower.tolist(), ub=program.upper.tolist(), types=types)
        ends, columns, values = program.matrix.indptr, program.matrix.indices.tolist(), program.matrix.data.tolist()
        rows = [[columns[a:b], values[a:b]] for a, b in pairwise(ends.tolist())]
        solver.linear_constraints.add(lin_expr=rows, senses=program.senses, rhs=program.rhs.tolist())
        return solver

    def _run(self, solver: Any, watch: Stopwatch) -> Floats | None:
        if (left := watch.left) is not None:
            solver.parameters.timelimit.set(left)
        with foreign_errors("cplex failed", OracleError):  # no licence, or one for small programs only
            solver.solve()
        status, kinds = solver.solution.get_status(), solver.solution.status
        # Without an objective "infeasible or unbounded", which presolve may answer, can only be the former.
        if status in (kinds.MIP_infeasible, kinds.MIP_infeasible_or_unbounded):
            return None
        if solver.solution.is_primal_feasible():
            return np.array(solver.solution.get_values(), dtype=np.float64)
        if status == kinds.MIP_time_limit_infeasible:
            raise watch.expired()
        raise OracleError(f"cplex stopped without an answer: {solver.solution.get_status_string()}")

    def _cut(self, solver: Any, columns: Columns, values: Floats, rhs: float) -> None:
        solver.linear_constraints.add(lin_expr=[[columns.tolist(), values.tolist()]], senses="G", rhs=[rhs])


class GurobiOracle(MipOracle):
    """The fastest of the MIP solvers on paths. The free licence stops at 2000 variables or rows."""

    name = "gurobi"
    module = "gurobipy"

    def _load(self, program: Program) -> Any:
        gurobipy = self._backend()
        with foreign_errors("gurobi failed", OracleError):  # no licence, or one for small programs only
            environment = gurobipy.Env(params={"OutputFlag": 0})
        model = gurobipy.Model(env=environment)
        model.Params.Threads = 1
        x = model.addMVar(len(program.lower), lb=program.lower, ub=program.upper, vtype=gurobipy.GRB.INTEGER)
        senses = np.array(list(program.senses.replace("G", ">").replace("E", "=")))
        model.addMConstr(program.matrix, x, senses, program.rhs)
        return model, x

    def _run(self, solver: Any, watch: Stopwatch) -> Floats | None:
        (model, x), kinds = solver, self._backend().GRB
        if (left := watch.left) is not None:
            model.Params.TimeLimit = left
        with foreign_errors("gurobi failed", OracleError):
            model.optimize()
        # Without an objective "infeasible or unbounded", which presolve may answer, can only be the former.
        if model.Status in (kinds.INFEASIBLE, kinds.INF_OR_UNBD):
            return None
        if model.SolCount > 0:
            return np.array(x.X, dtype=np.float64)
        if model.Status == kinds.TIME_LIMIT:
            raise watch.expired()
        raise OracleError(f"gurobi stopped without an answer: status {model.Status}")

    def _cut(self, solver: Any, columns: Columns, values: Floats, rhs: float) -> None:
        model, x = solver
        model.addConstr(values @ x[columns] >= rhs)
