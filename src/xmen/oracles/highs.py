"""HiGHS through highspy: an open MIP solver, what comes closest to the paper's oracle without a licence."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.errors import OracleError
from xmen.oracles.formula import Stopwatch
from xmen.oracles.mip import Columns, Floats, MipOracle, Program


class _Highs:
    def __init__(self, highspy: Any, program: Program) -> None:
        self._highspy = highspy
        self._solver = solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        lp = highspy.HighsLp()
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

    def run(self, watch: Stopwatch) -> Floats | None:
        if (left := watch.left) is not None:
            self._solver.setOptionValue("time_limit", left)
        self._solver.run()
        status, kinds = self._solver.getModelStatus(), self._highspy.HighsModelStatus
        if status == kinds.kOptimal:
            return np.array(self._solver.getSolution().col_value, dtype=np.float64)
        if status == kinds.kInfeasible:
            return None
        if status == kinds.kTimeLimit:
            raise watch.expired()
        raise OracleError(f"highs stopped without an answer: {self._solver.modelStatusToString(status)}")

    def cut(self, columns: Columns, values: Floats, rhs: float) -> None:
        self._solver.addRow(rhs, self._highspy.kHighsInf, len(columns), columns, values)


class HighsOracle(MipOracle):
    """A hundred to a thousand times as slow as SAT solvers on paths; here to compare with.

    `make_oracle` gives it a process of its own (`KillableOracle`), for two reasons. HiGHS looks at its clock between
    phases only: on 20x20 with 30 parities a limit of 3 s ends after 6.5 s. And a process that has loaded ortools, which
    brings a HiGHS of its own, cannot load highspy, nor the other way round.
    """

    name = "highs"
    module = "highspy"
    session = _Highs
