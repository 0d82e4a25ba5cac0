"""Formulas as mixed-integer programs, and what the MIP oracles share: the paper's way of asking an NP oracle.

A clause is a row: the literals add up to at least 1, with 1 - x for a negated one. A parity is a row
sum x - 2 k = rhs with a whole number k. (Cutting it into pieces with their convex hulls was measured on HiGHS: 1 to 3
times as long.) Values come back within 1e-6 of whole numbers, and no row has so many variables that they could add up
to 1/2, so rounding is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from xmen.errors import OracleError
from xmen.oracles.formula import Answer, Bits, Formula, Stopwatch
from xmen.oracles.gf2 import Reduced
from xmen.oracles.solver import SolverOracle

Floats: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class Program:
    """Find whole x with lower <= x <= upper, A x >= b in the first rows and A x = b in the last n_equal ones.

    Column v - 1 is variable v; the columns after the formula's variables belong to the parities.
    """

    matrix: scipy.sparse.csr_matrix
    rhs: Floats
    n_equal: int
    lower: Floats
    upper: Floats

    @property
    def senses(self) -> str:
        """One letter per row, as CPLEX and Gurobi write them: G for >= (`>` to Gurobi), E for =."""
        return "G" * (len(self.rhs) - self.n_equal) + "E" * self.n_equal


class Session(Protocol):
    """A solver with a program in it."""

    def run(self, watch: Stopwatch) -> Floats | None:
        """Values of the columns, None when there are none; raises OracleTimeoutError."""

    def cut(self, columns: Columns, values: Floats, rhs: float) -> None:
        """Add a row: values . x[columns] >= rhs."""


class MipOracle(SolverOracle):
    """An oracle by integer programming. Its cores are all assumptions: MIP solvers do not say which ones they used."""

    session: Callable[[Any, Program], Session]  # from the solver's module: a fresh solver, silent and on one thread

    def _solve(self, assumptions: list[int], watch: Stopwatch) -> Answer:
        program = build_program(self.formula)
        for literal in assumptions:
            program.lower[abs(literal) - 1] = max(program.lower[abs(literal) - 1], float(literal > 0))
            program.upper[abs(literal) - 1] = min(program.upper[abs(literal) - 1], float(literal > 0))
        # Assumptions that contradict each other directly are bounds that cross, which solvers call an error.
        values = (
            type(self).session(self._backend(), program).run(watch) if np.all(program.lower <= program.upper) else None
        )
        if values is None:
            return Answer(None, tuple(assumptions))
        return Answer(self._bits(values))

    def _models(self, parities: Reduced, watch: Stopwatch) -> Iterator[Bits]:
        session = type(self).session(self._backend(), build_program(self.formula, parities))
        free = parities.free
        columns = (np.array(self.formula.hash_variables, dtype=np.int64)[free] - 1).astype(np.int32)
        while (values := session.run(watch)) is not None:
            bits = self._bits(values)
            yield bits
            if not len(free):
                return
            signs = np.where(bits[free], -1.0, 1.0)
            session.cut(columns, signs, 1.0 - float(np.count_nonzero(bits[free])))

    def _bits(self, values: Floats) -> Bits:
        return values[np.array(self.formula.hash_variables, dtype=np.int64) - 1] > 0.5


@contextmanager
def reported(name: str, errors: type[Exception]) -> Iterator[None]:
    """A solver's own errors (no licence, or one for small programs only) as errors of the oracle."""
    try:
        yield
    except errors as error:
        raise OracleError(f"{name} failed: {error}") from error


def build_program(formula: Formula, parities: Reduced | None = None) -> Program:
    """The program of a formula under parities; its first rows are the clauses.

    >>> p = build_program(Formula(2, np.array([1, -2, 0], dtype=np.int32), (1, 2)))
    >>> p.matrix.toarray(), p.rhs
    (array([[ 1., -1.]]), array([0.]))
    """
    n, hashed = formula.n_variables, np.array(formula.hash_variables, dtype=np.int64)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    rhs: list[float] = []
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
        chosen = (hashed[parities.matrix[i]] - 1).tolist()
        columns += [*chosen, n + i]
        values += [1.0] * len(chosen) + [-2.0]
        rows += [len(rhs)] * (len(chosen) + 1)
        rhs.append(float(parities.rhs[i]))
        upper.append(float(len(chosen) // 2))
    matrix = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(len(rhs), n + n_equal), dtype=np.float64)
    return Program(matrix, np.array(rhs), n_equal, np.zeros(n + n_equal), np.array(upper))
