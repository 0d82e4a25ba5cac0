"""CP-SAT through ortools: parities are a constraint of the model."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from xmen.errors import OracleError
from xmen.oracles.formula import Answer, Bits, Stopwatch
from xmen.oracles.gf2 import Indices, Reduced
from xmen.oracles.solver import SolverOracle

# Solutions come in batches, so that a caller who stops early has not paid for all. Within a batch CP-SAT enumerates by
# itself (20 to 200 times as fast as solving again after each solution); a new batch starts anew, with the old solutions
# forbidden, hence the growth.
FIRST_BATCH = 32
BATCH_GROWTH = 4


class CpSatOracle(SolverOracle):
    """Between the SAT solvers and the MIP solvers in speed; a second opinion with another algorithm."""

    name = "cpsat"
    module = "ortools.sat.python.cp_model"

    def _solve(self, assumptions: list[int], watch: Stopwatch) -> Answer:
        cp_model = self._backend()
        model = self._model(cp_model)
        model.proto.assumptions.extend(_references(np.unique(np.array(assumptions, dtype=np.int64))))
        solver = _solver(cp_model, watch)
        # With presolve, one core in thirty names negated assumptions, and too few of them.
        solver.parameters.cp_model_presolve = not assumptions
        if _found(cp_model, solver.solve(model), watch):
            values = np.array(solver.response_proto.solution, dtype=np.bool_)
            return Answer(values[self.formula.hashed - 1])
        core = solver.response_proto.sufficient_assumptions_for_infeasibility
        literals = tuple(index + 1 if index >= 0 else index for index in core)
        return Answer(None, literals if set(literals) <= set(assumptions) else tuple(assumptions))

    def _models(self, parities: Reduced, watch: Stopwatch) -> Iterator[Bits]:
        cp_model = self._backend()
        model, batch, hashed = self._model(cp_model), FIRST_BATCH, self.formula.hashed - 1
        true = len(model.proto.variables)
        model.proto.variables.add().domain.extend([1, 1])
        for row, odd in zip(parities.matrix, parities.rhs, strict=True):
            # The constraint asks for an odd number of true literals.
            model.proto.constraints.add().bool_xor.literals.extend(hashed[row].tolist() + ([] if odd else [true]))
        free = parities.free
        while True:
            rows, complete = _enumerate(cp_model, model, hashed, batch, watch)
            yield from rows
            if complete or not len(free):
                return
            for row in rows:
                chosen = hashed[free]
                model.proto.constraints.add().bool_or.literals.extend(np.where(row[free], -chosen - 1, chosen).tolist())
            batch *= BATCH_GROWTH

    def _model(self, cp_model: Any) -> Any:
        model = cp_model.CpModel()
        # Written into the protocol buffer: through Python's expressions loading takes longer than solving.
        for _ in range(self.formula.n_variables):
            model.proto.variables.add().domain.extend([0, 1])
        for clause in self.formula.clause_list():
            model.proto.constraints.add().bool_or.literals.extend(_references(np.array(clause, dtype=np.int64)))
        return model


def _references(literals: Indices) -> list[int]:
    """Literals as CP-SAT counts them: variables from 0, and the negation of i is -i - 1."""
    return np.where(literals > 0, literals - 1, literals).tolist()  # type: ignore[no-any-return]


def _solver(cp_model: Any, watch: Stopwatch) -> Any:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_probing_level = 0  # costs more than it saves on cells, a third of the time
    if (left := watch.left) is not None:
        solver.parameters.max_time_in_seconds = left
    return solver


def _found(cp_model: Any, status: Any, watch: Stopwatch) -> bool:
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return True
    if status == cp_model.INFEASIBLE:
        return False
    watch.check()
    if watch.limit is not None and status == cp_model.UNKNOWN:
        raise watch.expired()
    raise OracleError(f"cpsat stopped without an answer: status {status}")


def _enumerate(cp_model: Any, model: Any, hashed: Indices, limit: int, watch: Stopwatch) -> tuple[list[Bits], bool]:
    """Up to `limit` solutions, and whether they are all."""

    class Collector(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rows: list[Bits] = []

        def on_solution_callback(self) -> None:
            if len(self.rows) < limit:
                self.rows.append(np.array(self.response_proto.solution, dtype=np.bool_)[hashed])
            if len(self.rows) == limit:
                self.stop_search()

    collector, solver = Collector(), _solver(cp_model, watch)
    solver.parameters.enumerate_all_solutions = True
    status = solver.solve(model, collector)
    if len(collector.rows) == limit:
        return collector.rows, False
    # Where solutions were found, but the search did not end, it is not known whether they are all.
    _found(cp_model, cp_model.UNKNOWN if status == cp_model.FEASIBLE else status, watch)
    return collector.rows, True
